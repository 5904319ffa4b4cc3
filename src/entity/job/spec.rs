//! What a job shall be.

use serde::{Deserialize, Serialize};

use crate::{
    control::args::{CreateJob, Schedule},
    entity::{Lineage, Named, Parent},
    exec::Budget,
    fact::{Part, RetryPolicy, id::SessionId},
};

/// How many items run at once unless somebody says otherwise.
pub const CONCURRENCY_DEFAULT: u32 = 8;
/// The most that may.
pub const CONCURRENCY_MAX: u32 = 1_000;

/// What a job is created with. Its items are records, written before it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Create {
    /// The session it belongs to.
    pub session: SessionId,
    /// Who started it, and is told how it ends.
    pub parent: Option<Parent>,
    /// Where it comes from.
    pub lineage: Lineage,
    /// How far it is from a session's own turn.
    pub depth: u32,
    /// A hash of the whole request, items included, to recognise the same one.
    pub fingerprint: u128,
    /// How many items there are.
    pub items: u32,
    /// The rest.
    pub spec: Named<Box<Spec>>,
}

/// What a parent asks for, in a [`crate::entity::Start`] that says the rest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NewJob {
    /// A hash of the whole request, items included, to recognise the same one.
    pub fingerprint: u128,
    /// How many items there are.
    pub items: u32,
    /// The rest.
    pub spec: Named<Box<Spec>>,
}

/// What holds for all items of a job.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Spec {
    /// What to do with each item.
    pub instruction: String,
    /// Who does it.
    pub agent: String,
    /// How many items at once; [`CONCURRENCY_DEFAULT`] when absent.
    pub concurrency: Option<u32>,
    /// How an item is tried again. Absent: one attempt.
    pub retry_policy: Option<RetryPolicy>,
    /// How long one run of the job may take.
    pub max_runtime_ms: Option<u64>,
    /// When it runs. Absent: now, once.
    pub schedule: Option<Schedule>,
    /// What one attempt at an item may use up.
    pub budget: Option<Budget>,
}

impl Spec {
    /// What a caller has asked for. `agent` runs it when the caller has named none.
    pub fn of(args: &CreateJob, agent: &str) -> Self {
        Self {
            instruction: args.instruction.clone(),
            agent: args.agent.clone().unwrap_or_else(|| agent.to_owned()),
            concurrency: args.concurrency,
            retry_policy: args.retry_policy,
            max_runtime_ms: args.max_runtime_ms,
            schedule: args.schedule.clone(),
            budget: args.budget.map(Budget::from),
        }
    }

    /// How many items run at once.
    pub fn concurrency(&self) -> usize {
        self.concurrency.unwrap_or(CONCURRENCY_DEFAULT).clamp(1, CONCURRENCY_MAX) as usize
    }

    /// What an item's agent is given: the item, then what to do with it. In this order, because the scripted agent takes
    /// the first text as its script.
    pub fn input(&self, mut item: Vec<Part>) -> Vec<Part> {
        item.push(Part::text(self.instruction.as_str()));
        item
    }
}
