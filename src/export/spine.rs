//! Every id that occurs: what a pack is joined by.

use std::collections::{BTreeMap, HashSet};

use serde::{Serialize, Serializer, ser::SerializeMap};
use xxhash_rust::xxh3::xxh3_64;

use crate::fact::{Event, id::SessionId};

/// How many ids of a kind are named; beyond it they are counted.
const NAMED_MAX: usize = 1_000;

/// The ids of the facts of a pack, by kind.
#[derive(Debug, Clone, Default)]
pub struct Spine {
    session: Option<SessionId>,
    kinds: BTreeMap<&'static str, Ids>,
}

#[derive(Debug, Clone, Default)]
struct Ids {
    /// Hashes, because there may be a million ids: two of the same hash would be counted as one.
    known: HashSet<u64>,
    named: Vec<Box<str>>,
}

impl Ids {
    fn see(&mut self, id: &str) {
        if self.known.insert(xxh3_64(id.as_bytes())) && self.named.len() < NAMED_MAX {
            self.named.push(id.into());
        }
    }
}

impl Spine {
    /// Takes in the ids of a fact.
    pub fn take(&mut self, event: &Event) {
        let ids = &event.fact.ids;
        self.session.get_or_insert_with(|| event.session.clone());
        self.see("threads", ids.thread());
        self.see("turns", ids.turn());
        for task in [ids.task(), ids.parent_task(), ids.root_task()] {
            self.see("tasks", task);
        }
        self.see("runs", ids.run());
        self.see("attempts", ids.attempt());
        self.see("steps", ids.step());
        self.see("toolCalls", ids.call());
        self.see("actions", ids.action());
        self.see("subagents", ids.subagent());
        self.see("jobs", ids.job());
        self.see("jobItems", ids.item());
        self.see("modelRequests", ids.request());
        self.see("processes", ids.process());
        self.see("channels", ids.channel());
        self.see("artifacts", ids.artifact());
        self.see("evidence", ids.evidence());
        self.see("outputs", ids.output());
        self.see("traces", event.trace.as_ref().map(|trace| &trace.trace_id));
    }

    fn see(&mut self, kind: &'static str, id: Option<&impl AsRef<str>>) {
        if let Some(id) = id {
            self.kinds.entry(kind).or_default().see(id.as_ref());
        }
    }

    /// How many ids of a kind there are.
    pub fn count(&self, kind: &str) -> usize {
        self.kinds.get(kind).map_or(0, |ids| ids.known.len())
    }

    /// The ids of a kind, as many as are named.
    pub fn named(&self, kind: &str) -> &[Box<str>] {
        self.kinds.get(kind).map_or(&[], |ids| &ids.named)
    }
}

impl Serialize for Spine {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Entry<'a> {
            count: usize,
            ids: &'a [Box<str>],
        }
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("sessionId", &self.session)?;
        for (kind, ids) in &self.kinds {
            map.serialize_entry(kind, &Entry { count: ids.known.len(), ids: &ids.named })?;
        }
        map.end()
    }
}
