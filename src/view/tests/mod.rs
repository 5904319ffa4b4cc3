//! Tests of views as a whole; those of one part are beside it.

mod histories;
mod jobs;
mod properties;
mod random;
mod rollbacks;
mod served;
mod tasks;

use cadre_cluster::clock::Timestamp;

use crate::fact::{
    Class, Fact, Ids,
    id::*,
    scope::{Slot, ThreadScope, ToolScope, TurnScope},
};

/// An id.
fn id<I: Id>(text: &str) -> I {
    I::parse(text).unwrap()
}

fn thread(name: &str) -> ThreadScope {
    ThreadScope { thread: id(name) }
}

/// A turn of the thread `t1`.
fn turn(name: &str) -> TurnScope {
    TurnScope { thread: id("t1"), turn: id(name) }
}

fn call(turn: &str, call: &str) -> ToolScope {
    ToolScope { thread: id("t1"), turn: id(turn), step: id("s1"), call: id(call) }
}

/// Facts, a second apart.
#[derive(Default)]
struct Story {
    facts: Vec<Fact>,
}

impl Story {
    fn then<C: Class>(mut self, scope: C::Scope, payload: C) -> Self {
        let at = Timestamp(1_778_493_600_000 + 1000 * self.facts.len() as u64);
        self.facts.push(Fact::new(at, scope, payload));
        self
    }

    /// The last fact is also about this.
    fn with<I: Slot>(mut self, name: &str) -> Self {
        let fact = self.facts.pop().unwrap();
        self.facts.push(fact.with(id::<I>(name)));
        self
    }

    /// All facts are within these surroundings.
    fn within(mut self, around: &Ids) -> Self {
        self.facts = self.facts.into_iter().map(|fact| fact.within(around)).collect();
        self
    }
}
