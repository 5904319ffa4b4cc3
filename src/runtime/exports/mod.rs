//! The commands that take something out: evidence, replays, reviews.

mod moment;
mod record;
mod span;

use cadre_cluster::feed::Cursor;
use tokio::sync::SemaphorePermit;

pub(super) use self::record::as_command;
use super::{Request, Runtime, failure::of_blob};
use crate::{
    blob::BlobError,
    control::{
        Code, Error,
        args::{ExportEvidence, ExportReplay, ExportReview},
        result::{Answer, Exported},
    },
    export::{
        About, Checks, Closing, Evidence, Full, KnownGap, Pack, References, Replay, Review, Scope, Sealed,
        Selection, evidence, replay, review,
    },
    fact::{
        Event, Ref,
        id::{BlobRef, EvidenceId, SessionId},
        payload::EvidenceChanged,
        time::Time,
    },
};

/// Exports at once: each may hold 100 MB of text.
pub(super) const AT_ONCE_MAX: usize = 2;

/// What is exported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Evidence,
    Replay,
    Review,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::Evidence => "evidence",
            Self::Replay => "replay",
            Self::Review => "review",
        }
    }

    fn format(self) -> &'static str {
        match self {
            Self::Evidence => evidence::FORMAT,
            Self::Replay => replay::FORMAT,
            Self::Review => review::FORMAT,
        }
    }
}

impl Runtime {
    pub(super) async fn export_evidence(
        &self,
        request: &Request<'_>,
        args: ExportEvidence,
    ) -> Result<Answer<Exported>, Error> {
        let ExportEvidence { session_id, thread_id, turn_id, task_id } = args;
        let scope = Scope { thread_id, turn_id, task_id };
        self.export(request, Kind::Evidence, session_id, scope).await
    }

    pub(super) async fn export_replay(
        &self,
        request: &Request<'_>,
        args: ExportReplay,
    ) -> Result<Answer<Exported>, Error> {
        let ExportReplay { session_id, thread_id, turn_id, task_id } = args;
        let scope = Scope { thread_id, turn_id, task_id };
        self.export(request, Kind::Replay, session_id, scope).await
    }

    pub(super) async fn export_review(
        &self,
        request: &Request<'_>,
        args: ExportReview,
    ) -> Result<Answer<Exported>, Error> {
        let ExportReview { session_id, thread_id, turn_id, task_id } = args;
        let scope = Scope { thread_id, turn_id, task_id };
        self.export(request, Kind::Review, session_id, scope).await
    }

    async fn export(
        &self,
        request: &Request<'_>,
        kind: Kind,
        session: SessionId,
        scope: Scope,
    ) -> Result<Answer<Exported>, Error> {
        self.session(&self.store.begin(), request, &session).await?;
        let _permit = self.export_permit(request).await?;
        let mut ids = request.ids();
        let (blob, evidence): (BlobRef, EvidenceId) = (ids.next(), ids.next());
        let made = self.pack(request, kind, &session, scope.clone(), &evidence);
        let (meta, sealed) = self.keep(request, &blob, &session, made).await?;
        let reference = Ref::from(blob);
        let changed = EvidenceChanged {
            status: Some("exported".into()),
            kind: Some(kind.word().into()),
            pack_ref: (kind == Kind::Evidence).then(|| reference.clone()),
            replay_ref: (kind == Kind::Replay).then(|| reference.clone()),
            review_ref: (kind == Kind::Review).then(|| reference.clone()),
            trajectory_ref: None,
            verification_outcomes: sealed.verification,
            hash: Some(format!("sha256:{}", meta.hash)),
            notes: Vec::new(),
            scope: object(&sealed.scope),
        };
        let cursor = self
            .record_evidence(request, &session, &sealed.scope, (&evidence, meta.created), changed)
            .await?;
        let result = Exported {
            reference,
            kind: kind.word().into(),
            evidence_id: Some(evidence),
            session_id: Some(session),
            trial_id: None,
            media_type: Some(meta.media_type),
            size_bytes: Some(meta.size_bytes),
            hash: Some(format!("sha256:{}", meta.hash)),
            missing: sealed.missing,
        };
        Ok(Answer { result, cursor })
    }

    /// Waits until another export may begin.
    pub(super) async fn export_permit(&self, request: &Request<'_>) -> Result<SemaphorePermit<'_>, Error> {
        let permit = tokio::time::timeout(request.left(), self.exports.acquire()).await;
        let busy = || Error::rate_limited(1_000, format!("{AT_ONCE_MAX} exports run already"));
        permit.ok().and_then(Result::ok).ok_or_else(busy)
    }

    /// Makes a pack of everything up to now.
    async fn pack(
        &self,
        request: &Request<'_>,
        kind: Kind,
        session: &SessionId,
        scope: Scope,
        evidence: &EvidenceId,
    ) -> Result<(Vec<u8>, Sealed), Error> {
        let mut selection = Selection::new(scope.clone());
        if let Some(first) = self.first_of(request, session, &scope).await? {
            selection.begins_with(&first);
        }
        let (cursor, models) = match kind {
            Kind::Replay => {
                let (cursor, models) = self.moment(request, session, &selection).await?;
                (cursor, Some(models))
            }
            Kind::Evidence | Kind::Review => (self.end_of_feed(request, session).await?, None),
        };
        let about = About {
            format: kind.format().into(),
            schema_version: self.publisher().schema_version.clone(),
            runtime_id: self.publisher().runtime_id.clone(),
            evidence_id: evidence.clone(),
            session_id: session.clone(),
            exported_at: Time(self.clock.now()),
            cursor,
        };
        let mut pack: Box<dyn Pack> = match (kind, models) {
            (Kind::Evidence, _) => Box::new(Evidence::new(about)),
            (Kind::Review, _) => Box::new(Review::new(about)),
            (Kind::Replay, models) => {
                let models = models.unwrap_or_default();
                Box::new(Replay::new(&about, self.publisher().clone(), models).map_err(full)?)
            }
        };
        let (mut checks, mut references) = (Checks::default(), References::default());
        let trimmed = self
            .each_event(request, session, Cursor::START, cursor, |event, trimmed| {
                checks.see(event, trimmed);
                if selection.takes(event) {
                    checks.take(event);
                    references.take(event);
                    pack.take(event).map_err(full)?;
                }
                Ok(())
            })
            .await?;
        if let Some((what, field, id)) = selection.unknown() {
            return Err(Error::not_found(what, id).with("field", field));
        }
        let mut gaps = Vec::new();
        if let Some(to) = trimmed {
            let reason = format!("what happened up to {to} is no longer kept");
            gaps.push(KnownGap::unavailable("history", reason));
        }
        let open = checks.open_turns();
        if open > 0 && kind != Kind::Replay {
            let reason = format!("{open} turns go on: this is how they stood at {cursor}");
            gaps.push(KnownGap::stale("outcomes", reason));
        }
        if references.omitted() > 0 {
            let reason = format!("{} references were not looked up", references.omitted());
            gaps.push(KnownGap::unknown("missing", reason));
        }
        let missing = self.missing(request, references.named()).await?;
        let verification = checks.outcomes(trimmed.is_some());
        let closing = Closing { selection, verification, gaps, missing };
        let sealed = Sealed::from(&closing);
        Ok((pack.finish(closing).map_err(full)?, sealed))
    }

    /// The fact with which the thread or the turn of a scope begins, when there is one.
    async fn first_of(
        &self,
        request: &Request<'_>,
        session: &SessionId,
        scope: &Scope,
    ) -> Result<Option<Event>, Error> {
        match (&scope.thread_id, &scope.turn_id) {
            (Some(thread), _) => self.events_of(request, session, thread).await,
            (None, Some(turn)) => self.first_event_of(request, session, turn).await,
            (None, None) => Ok(None),
        }
    }

    /// Which blobs are referred to and not there any more.
    async fn missing(&self, request: &Request<'_>, references: &[BlobRef]) -> Result<Vec<String>, Error> {
        let mut missing = Vec::new();
        for blob in references {
            match self.blobs.meta(&request.caller.tenant, blob).await {
                Ok(_) => {}
                Err(BlobError::NotFound { .. } | BlobError::Expired { .. }) => missing.push(blob.to_string()),
                Err(error) => return Err(of_blob(error)),
            }
        }
        Ok(missing)
    }
}

/// A pack that is too large.
pub(super) fn full(full: Full) -> Error {
    Error::new(Code::PayloadTooLarge, full.to_string()).with("limit", full.limit as u64)
}

fn object(scope: &Scope) -> crate::fact::payload::Object {
    match serde_json::to_value(scope) {
        Ok(serde_json::Value::Object(object)) => object,
        _ => Default::default(),
    }
}
