//! What the next step takes: inputs that wait, a page of the inbox, and no command that was answered before.

use std::{collections::BTreeSet, sync::Arc};

use futures::future::try_join_all;

use super::Live;
use crate::{
    host::{Entity, core::Core, record::AnswerRecord, wire::Response, work::Work},
    keys,
    store::{KeyRange, RangeRead, ReadError, key_after},
};

impl<E: Entity> Live<E> {
    /// Loads the entity if need be, and takes what waits: commands that were not answered before, messages,
    /// timers, effect results.
    pub(super) async fn gather(&mut self) -> Result<Vec<Work>, ReadError> {
        if self.in_flight.is_some() || self.waiting.is_empty() && !self.rung && self.core.is_some() {
            return Ok(Vec::new());
        }
        if self.core.is_none() {
            self.load().await?;
        }
        let limit = self.inputs_max;
        // However many commands wait, a page of messages waits among them.
        let has_message = || self.waiting.iter().any(|work| matches!(work, Work::Message { .. }));
        if self.rung && (self.waiting.len() < limit || !has_message()) {
            self.read_inbox(limit).await?;
        }
        let mut works = Vec::new();
        let mut keys = BTreeSet::new();
        let mut later = Vec::new();
        while works.len() < limit
            && let Some(work) = self.waiting.pop_front()
        {
            match &work {
                // The second of two equal keys waits for the answer to the first.
                Work::Command { request, .. }
                    if request.key.as_ref().is_some_and(|key| !keys.insert(key.clone())) =>
                {
                    later.push(work);
                }
                _ => works.push(work),
            }
        }
        self.put_back(later);
        self.answer_known(works).await
    }

    async fn load(&mut self) -> Result<(), ReadError> {
        let tx = self.args.shared.store.begin();
        let stored = tx.snapshot_get(&keys::state(&self.args.address)).await?;
        let core = Core::load(stored.as_deref()).map_err(|error| ReadError::Failed(Arc::new(error)))?;
        self.core = Some(core);
        Ok(())
    }

    async fn read_inbox(&mut self, limit: usize) -> Result<(), ReadError> {
        self.rung = false;
        let prefix = keys::inbox(self.args.shard, &self.args.address);
        let mut range = KeyRange::prefix(prefix);
        if let Some(after) = &self.inbox_after {
            range.begin = key_after(after);
        }
        let tx = self.args.shared.store.begin();
        let read = RangeRead::new(range).limit(limit).target_bytes(256 * 1024);
        let page = match tx.snapshot_range(&read).await {
            Ok(page) => page,
            Err(error) => {
                self.rung = true;
                return Err(error);
            }
        };
        self.rung = page.more;
        for pair in page.pairs {
            self.inbox_after = Some(pair.key.clone());
            self.waiting.push_back(Work::Message { key: pair.key, record: pair.value });
        }
        Ok(())
    }

    /// Answers the commands whose answer is recorded, and returns the others.
    async fn answer_known(&mut self, works: Vec<Work>) -> Result<Vec<Work>, ReadError> {
        let key_of = |work: &Work| match work {
            Work::Command { request, .. } => request.key.clone(),
            _ => None,
        };
        if !works.iter().any(|work| key_of(work).is_some()) {
            return Ok(works);
        }
        let tx = self.args.shared.store.begin();
        let known = try_join_all(works.iter().map(|work| {
            let key = key_of(work).map(|key| keys::idempotency(&self.args.address, &key));
            let tx = &tx;
            async move {
                match key {
                    Some(key) => tx.snapshot_get(&key).await,
                    None => Ok(None),
                }
            }
        }))
        .await;
        let known = match known {
            Ok(known) => known,
            Err(error) => {
                self.put_back(works);
                return Err(error);
            }
        };
        let mut unknown = Vec::with_capacity(works.len());
        for (mut work, record) in works.into_iter().zip(known) {
            // What has expired counts until it is removed: only then can the key be recorded anew.
            let record = record.map(|bytes| AnswerRecord::decode(&bytes)).transpose();
            match (record, &work) {
                // A newer version's, perhaps: whoever can read it will answer. That there is one says that it was done.
                (Err(error), _) => {
                    tracing::error!(address = %self.args.address, %error, "recorded answer is unreadable");
                    work.answer(Response::OutcomeUnknown);
                }
                (Ok(Some(record)), Work::Command { request, .. }) => {
                    let same = record.fingerprint == xxhash_rust::xxh3::xxh3_128(&request.body);
                    work.answer(if same {
                        let AnswerRecord { refused, body, cursor, .. } = record;
                        Response::Answered { refused, body, cursor }
                    } else {
                        Response::KeyReused
                    });
                }
                _ => unknown.push(work),
            }
        }
        Ok(unknown)
    }
}
