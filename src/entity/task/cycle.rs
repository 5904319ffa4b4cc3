//! Whether tasks would wait for each other in a circle.
//!
//! Edges are records that say which task blocks which, and a task that has parts waits for each of them. A task that is
//! linked by command is refused before it waits. One that is created may be waited for already, by tasks of scripts that
//! name what comes later, so a task that waits for others looks once it is there: of those who close a circle together,
//! whoever looks last sees all of it.

use std::collections::BTreeSet;

use cadre_cluster::{
    host::{EffectError, EffectPolicy, EffectResult, Repeat},
    keys,
    store::{KeyRange, RangeRead, ReadError, Store, Transaction, key_after},
};

use super::{Finish, Named, decide::Step};
use crate::{
    entity::records,
    exec::{Effect, Outcome},
    fact::{Failure, id::TaskId, status::TaskStatus},
};

/// The name of the effect that looks for one.
pub(super) const EFFECT: &str = "cycle";
/// How far a search goes.
const GRAPH_MAX: usize = 10_000;
/// Each read takes milliseconds; a store that is away is waited for with further attempts.
const DEADLINE_MS: u64 = 60_000;

/// Why nobody can say.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// Try again.
    #[error("cannot read the edges of tasks")]
    Read(#[from] ReadError),
    /// Too much depends on this.
    #[error("the graph has over {GRAPH_MAX} tasks")]
    TooLarge,
}

/// Whether `goal` waits for `start`, directly or by way of others. `parent` is the one that `start` is to be a part of when
/// it is not there yet.
pub async fn blocks(
    tx: &mut Transaction,
    tenant: &str,
    (start, parent): (&TaskId, Option<&TaskId>),
    goal: &TaskId,
) -> Result<bool, SearchError> {
    if parent == Some(goal) {
        return Ok(true);
    }
    let data = keys::data(tenant, &[]).len();
    let mut seen = BTreeSet::new();
    let mut open: Vec<TaskId> = parent.into_iter().chain([start]).cloned().collect();
    while let Some(task) = open.pop() {
        if !seen.insert(task.clone()) {
            continue;
        }
        if seen.len() > GRAPH_MAX {
            return Err(SearchError::TooLarge);
        }
        if let Some(whole) = part_of(tx, tenant, &task).await? {
            if whole == *goal {
                return Ok(true);
            }
            open.push(whole);
        }
        let mut range = KeyRange::prefix(keys::data(tenant, &records::edges(&task)).to_vec());
        // A page may be shorter than was asked for: an edge that is overlooked closes a circle.
        loop {
            let page = tx.range(&RangeRead::new(range.clone()).limit(1_000)).await?;
            let ids = page.pairs.iter().filter_map(|pair| records::last_id(&pair.key[data..]));
            for blocked in ids.filter_map(|id| TaskId::parse(&id).ok()) {
                if blocked == *goal {
                    return Ok(true);
                }
                open.push(blocked);
            }
            match page.pairs.last() {
                Some(last) if page.more && open.len() <= GRAPH_MAX => range.begin = key_after(&last.key),
                _ => break,
            }
        }
    }
    Ok(false)
}

/// The task that waits for this one because this one is a part of it.
async fn part_of(tx: &mut Transaction, tenant: &str, task: &TaskId) -> Result<Option<TaskId>, ReadError> {
    let parent = tx.get(&keys::data(tenant, &records::any_task(task))).await?;
    Ok(parent.and_then(|parent| TaskId::parse(std::str::from_utf8(&parent).ok()?).ok()))
}

impl Step<'_> {
    /// Has somebody look whether the task waits for itself.
    pub(super) fn look_for_cycle(&mut self) {
        let policy = EffectPolicy {
            deadline_ms: DEADLINE_MS,
            repeat: Repeat::Safe,
            attempts_max: u32::MAX,
            ..EffectPolicy::default()
        };
        self.draft.start_effect(EFFECT, Effect::Cycle { task: self.work.id.clone() }, policy);
    }

    /// Somebody has looked. A task that waits for itself would wait for ever.
    pub(super) fn looked_for_cycle(&mut self, result: EffectResult<Outcome>) {
        if self.work.status != TaskStatus::Blocked
            || !matches!(result, EffectResult::Done(Outcome::Cycle { found: true }))
        {
            return;
        }
        let message = format!("waits for itself: {}", self.why_blocked());
        self.finish(Finish {
            status: TaskStatus::Failed,
            error: Some(Failure::new("cycle", message)),
            reason: None,
            by: Some("runtime".into()),
            result: Named(None),
            alone: false,
        });
    }
}

/// Looks whether a task waits for itself.
pub(super) async fn find(store: &Store, tenant: &str, task: &TaskId) -> Result<Outcome, EffectError> {
    match blocks(&mut store.begin(), tenant, (task, None), task).await {
        Ok(found) => Ok(Outcome::Cycle { found }),
        Err(SearchError::Read(error)) => Err(EffectError::transient(error.to_string())),
        // More than may be looked at waits for this task. Commands refuse to add to such a graph.
        Err(SearchError::TooLarge) => Ok(Outcome::Cycle { found: false }),
    }
}
