//! What all entities have in common towards the host.

use std::sync::Arc;

use cadre_cluster::{
    address::Address,
    feed::{NewEvent, Term},
    host::Moment,
};

use crate::{
    exec::Engine,
    fact::{Fact, Ids, StoredEvent, Trace, id::Id},
};

/// The configuration of every kind of entity.
#[derive(Clone)]
pub struct Host {
    /// The boundaries of the execution loop.
    pub engine: Arc<Engine>,
}

impl Host {
    /// With these boundaries.
    pub fn new(engine: Arc<Engine>) -> Self {
        Self { engine }
    }

    /// A fact as an event of the session's feed.
    pub(crate) fn event(fact: &Fact, trace: Option<&Trace>, sequence: u64, moment: &Moment<'_>) -> NewEvent {
        let stream = stream(moment.address);
        let event = StoredEvent { stream, sequence, trace: trace.cloned(), fact: fact.clone() };
        NewEvent { terms: terms(&fact.ids), body: event.encode() }
    }
}

/// What an entity is called in the envelope of its facts.
pub fn stream(address: &Address) -> String {
    format!("{}:{}", address.kind(), address.id())
}

/// Where filtered reads look for an id. The thread and the turn of a subagent share the rest of its id, so one entry
/// serves for all of them; a reader still compares the ids.
pub fn index_term<I: Id>(id: &I) -> Term {
    Term { index: "id".into(), term: id.suffix().to_owned() }
}

fn terms(ids: &Ids) -> Vec<Term> {
    let mut terms: Vec<Term> = Vec::with_capacity(2);
    // The thread of a subagent that was given its id by a caller shares nothing with it.
    let thread = ids.subagent().and(ids.thread()).map(index_term);
    let found =
        [ids.turn().map(index_term), ids.task().map(index_term), ids.subagent().map(index_term), thread];
    for term in found.into_iter().flatten() {
        if !terms.contains(&term) {
            terms.push(term);
        }
    }
    terms
}
