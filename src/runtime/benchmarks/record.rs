//! What is remembered of trials, and telling their sessions of it exactly once.
//!
//! A record is written first, then its facts are told, then the record says that they were. Whoever finds a record
//! whose facts were not told tells them: they are made from the record alone, and the session knows them by a key, so
//! that two who do so at once tell them once.

use cadre_cluster::{
    codec,
    feed::Cursor,
    keys,
    store::{Attempt, Transaction},
};

use super::{ended, started};
use crate::{
    control::Error,
    entity::{Session, kind, records},
    export::{Trial, TrialComparison, TrialResult},
    fact::{
        Fact,
        id::{SessionId, TrialId},
    },
    runtime::{
        Request, Runtime,
        exports::as_command,
        failure::{of_call, undecodable, unreadable},
        key::own_key,
    },
};

/// Whose record it is that was found or made.
pub(super) enum Reserved {
    /// The same request's.
    Mine(Trial),
    /// Another's.
    Other(Trial),
}

impl Runtime {
    /// A trial, if there is one.
    pub(super) async fn trial(&self, request: &Request<'_>, id: &TrialId) -> Result<Option<Trial>, Error> {
        read(&self.store.begin(), request, id).await
    }

    /// A trial that exists.
    pub(super) async fn known_trial(
        &self,
        request: &Request<'_>,
        id: &TrialId,
        field: &str,
    ) -> Result<Trial, Error> {
        let trial = self.trial(request, id).await?;
        trial.ok_or_else(|| Error::not_found("trial", id).with("field", field))
    }

    /// Makes the record of a trial, unless there is one.
    pub(super) async fn reserve_trial(&self, request: &Request<'_>, trial: Trial) -> Result<Reserved, Error> {
        let id = trial.id.clone();
        let fingerprint = trial.fingerprint;
        let kept = self.change(request, &id, |known| known.is_none().then(|| trial.clone())).await?;
        Ok(if kept.fingerprint == fingerprint { Reserved::Mine(kept) } else { Reserved::Other(kept) })
    }

    /// Ends a trial, unless it has ended.
    pub(super) async fn reserve_result(
        &self,
        request: &Request<'_>,
        id: &TrialId,
        result: TrialResult,
    ) -> Result<Trial, Error> {
        let end = |known: Option<Trial>| {
            let known = known.filter(|known| known.result.is_none())?;
            Some(Trial { result: Some(result.clone()), ..known })
        };
        self.change(request, id, end).await
    }

    /// Has a trial remember what the last comparison that named it came to.
    pub(super) async fn remember_comparison(
        &self,
        request: &Request<'_>,
        id: &TrialId,
        comparison: &TrialComparison,
    ) -> Result<(), Error> {
        let with = |known: Option<Trial>| {
            let known = known.filter(|known| known.comparison.as_ref() != Some(comparison))?;
            Some(Trial { comparison: Some(comparison.clone()), ..known })
        };
        self.change(request, id, with).await.map(drop)
    }

    /// Tells the session that a trial began. Says where its facts begin.
    pub(super) async fn tell_started(
        &self,
        request: &Request<'_>,
        trial: Trial,
    ) -> Result<(Trial, Cursor), Error> {
        if let Some((_, cursor)) = trial.told {
            return Ok((trial, cursor));
        }
        let (_, work) = self.session(&self.store.begin(), request, &trial.session).await?;
        let thread = work.threads.first().map(|thread| thread.id.clone());
        let thread = thread.ok_or_else(|| Error::not_found("session", &trial.session))?;
        let facts = started(&trial, thread.clone());
        let cursor = self.tell_once(request, &trial.session, facts, &key(&trial.id, "started")).await?;
        let told = |known: Option<Trial>| {
            let known = known.filter(|known| known.told.is_none())?;
            Some(Trial { told: Some((thread.clone(), cursor)), ..known })
        };
        Ok((self.change(request, &trial.id, told).await?, cursor))
    }

    /// Tells the session how a trial ended.
    pub(super) async fn tell_result(
        &self,
        request: &Request<'_>,
        trial: Trial,
    ) -> Result<(Trial, Option<Cursor>), Error> {
        let Some(result) = &trial.result else { return Ok((trial, None)) };
        if let Some(cursor) = result.told {
            return Ok((trial, Some(cursor)));
        }
        let facts = ended(&trial, result);
        let cursor = self.tell_once(request, &trial.session, facts, &key(&trial.id, "ended")).await?;
        let told = |known: Option<Trial>| {
            let mut known = known?;
            let result = known.result.as_mut().filter(|result| result.told.is_none())?;
            result.told = Some(cursor);
            Some(known)
        };
        Ok((self.change(request, &trial.id, told).await?, Some(cursor)))
    }

    /// Adds facts to a session under a key of their own.
    async fn tell_once(
        &self,
        request: &Request<'_>,
        session: &SessionId,
        facts: Vec<Fact>,
        key: &str,
    ) -> Result<Cursor, Error> {
        let address = request.address(kind::SESSION, session.as_str());
        let command = as_command(&address, facts);
        let called = self.client.call::<Session>(&address, &command, Some(key), request.left()).await;
        match called {
            Ok(called) => match called.cursor {
                Some(cursor) => Ok(cursor),
                None => self.end_of_feed(request, session).await,
            },
            Err(error) => Err(of_call(error)),
        }
    }

    /// Changes a record; `None` leaves it as it is. Says what it is then.
    async fn change(
        &self,
        request: &Request<'_>,
        id: &TrialId,
        change: impl Fn(Option<Trial>) -> Option<Trial>,
    ) -> Result<Trial, Error> {
        let mut attempt = Attempt::idempotent();
        loop {
            let mut tx = self.store.begin();
            let path = keys::data(&request.caller.tenant, &records::trial(id));
            let known = tx.get(&path).await.map_err(unreadable)?;
            let known: Option<Trial> =
                known.map(|known| codec::decode(&known)).transpose().map_err(undecodable)?;
            let Some(changed) = change(known.clone()) else {
                return known.ok_or_else(|| Error::not_found("trial", id));
            };
            tx.set(path, codec::encode(&changed));
            match tx.commit().await {
                Ok(_) => return Ok(changed),
                Err(error) => attempt.again(error).await.map_err(unreadable)?,
            }
        }
    }
}

async fn read(tx: &Transaction, request: &Request<'_>, id: &TrialId) -> Result<Option<Trial>, Error> {
    let path = keys::data(&request.caller.tenant, &records::trial(id));
    let stored = tx.snapshot_get(&path).await.map_err(unreadable)?;
    stored.map(|stored| codec::decode(&stored)).transpose().map_err(undecodable)
}

fn key(trial: &TrialId, what: &str) -> String {
    own_key(format_args!("benchmark.{what}.{trial}"))
}
