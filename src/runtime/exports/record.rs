//! Keeping a pack, and telling the session of it.
//!
//! An export that is asked for again under its key must not become a second one, though the facts have gone on since.
//! Its blob has the same name, so when that is there it is the answer, and the fact about it, made from what the blob
//! says of itself, is the same one: the session knows it by the key. Of two tries that pack at once the one that has
//! written its pack first counts, for both of them.

use bytes::Bytes;
use cadre_cluster::{clock::Timestamp, feed::Cursor};

use crate::{
    blob::{BlobError, BlobMeta, NewBlob},
    control::Error,
    entity::{Session, kind, session::Command, stream},
    export::{Scope, Sealed},
    fact::{
        Fact, Ids, StoredEvent,
        id::{BlobRef, EvidenceId, SessionId},
        payload::EvidenceChanged,
        scope::EvidenceScope,
    },
    runtime::{
        Request, Runtime,
        failure::{damaged, of_blob},
    },
};

impl Runtime {
    /// Writes a pack, unless it was written before under the same key.
    pub(in crate::runtime) async fn keep(
        &self,
        request: &Request<'_>,
        blob: &BlobRef,
        session: &SessionId,
        make: impl Future<Output = Result<(Vec<u8>, Sealed), Error>>,
    ) -> Result<(BlobMeta, Sealed), Error> {
        if let Some((content, meta)) = self.kept(request, blob).await? {
            let sealed = serde_json::from_slice(&content).map_err(damaged)?;
            return Ok((meta, sealed));
        }
        let (content, sealed) = make.await?;
        match self.write_first(request, blob, session, content).await? {
            (None, meta) => Ok((meta, sealed)),
            (Some(first), meta) => Ok((meta, serde_json::from_slice(&first).map_err(damaged)?)),
        }
    }

    /// Writes JSON of a session, unless another try under the same key was quicker: then what that has written, which
    /// is what counts.
    pub(in crate::runtime) async fn write_first(
        &self,
        request: &Request<'_>,
        blob: &BlobRef,
        session: &SessionId,
        content: Vec<u8>,
    ) -> Result<(Option<Bytes>, BlobMeta), Error> {
        match self.write_json(request, blob, session, content).await {
            Ok(meta) => Ok((None, meta)),
            Err(BlobError::Exists { .. }) => match self.kept(request, blob).await? {
                Some((first, meta)) => Ok((Some(first), meta)),
                None => {
                    Err(Error::unavailable("the same is being written under this key already, try again"))
                }
            },
            Err(error) => Err(of_blob(error)),
        }
    }

    /// What was written before under the same key.
    pub(in crate::runtime) async fn kept(
        &self,
        request: &Request<'_>,
        blob: &BlobRef,
    ) -> Result<Option<(Bytes, BlobMeta)>, Error> {
        if request.key.is_none() {
            return Ok(None);
        }
        match self.blobs.read_all(&request.caller.tenant, blob).await {
            Ok(kept) => Ok(Some(kept)),
            Err(BlobError::NotFound { .. } | BlobError::Expired { .. }) => Ok(None),
            Err(error) => Err(of_blob(error)),
        }
    }

    async fn write_json(
        &self,
        request: &Request<'_>,
        blob: &BlobRef,
        session: &SessionId,
        content: Vec<u8>,
    ) -> Result<BlobMeta, BlobError> {
        let new = NewBlob {
            blob: blob.clone(),
            media_type: "application/json".into(),
            session: Some(session.clone()),
            content: content.into(),
        };
        self.blobs.write(&request.caller.tenant, new).await
    }

    /// Tells the session that evidence was exported.
    pub(in crate::runtime) async fn record_evidence(
        &self,
        request: &Request<'_>,
        session: &SessionId,
        scope: &Scope,
        (evidence, at): (&EvidenceId, Timestamp),
        changed: EvidenceChanged,
    ) -> Result<Option<Cursor>, Error> {
        let mut around = Ids::default();
        if let Some(thread) = &scope.thread_id {
            around = around.with(thread.clone());
        }
        if let Some(turn) = &scope.turn_id {
            around = around.with(turn.clone());
        }
        if let Some(task) = &scope.task_id {
            around = around.with(task.clone());
        }
        let scope = EvidenceScope { evidence: evidence.clone() };
        let fact = Fact::new(at, scope, changed).within(&around);
        self.record(request, session, vec![fact]).await
    }

    /// Adds facts to a session, once for each key.
    pub(in crate::runtime) async fn record(
        &self,
        request: &Request<'_>,
        session: &SessionId,
        facts: Vec<Fact>,
    ) -> Result<Option<Cursor>, Error> {
        let address = request.address(kind::SESSION, session.as_str());
        let command = as_command(&address, facts);
        Ok(self.ask::<Session>(request, &address, &command).await?.cursor)
    }
}

/// Facts as a session takes them. It gives them their places itself.
pub(in crate::runtime) fn as_command(address: &cadre_cluster::address::Address, facts: Vec<Fact>) -> Command {
    let stream = stream(address);
    let stored = facts
        .into_iter()
        .map(|fact| StoredEvent { stream: stream.clone(), sequence: 0, trace: None, fact }.encode());
    Command::Record(stored.collect())
}
