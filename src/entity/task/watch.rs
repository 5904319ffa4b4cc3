//! Who waits for a task. The first of them are remembered in its state; of the others, which may be very many, it only
//! knows that there are some, and looks their edges up when it has ended.

use cadre_cluster::{
    host::{EffectError, EffectPolicy, EffectResult, Repeat},
    keys,
    store::{KeyRange, RangeRead, Store, key_after},
};

use super::decide::Step;
use crate::{
    entity::{Message, kind, records},
    exec::{Effect, Outcome},
    fact::id::TaskId,
};

/// The name of the effect that looks for the others.
pub(super) const EFFECT: &str = "watchers";
/// How many are remembered in the state.
const REMEMBERED_MAX: usize = 128;
/// What one of them takes in a state: an id that a caller made may be as long as this.
const BYTES_MAX: usize = 136;
/// How many are told in one step.
const PAGE: usize = 500;
/// Reading a page takes milliseconds; a store that is away is waited for with further attempts.
const DEADLINE_MS: u64 = 30_000;

impl Step<'_> {
    /// Somebody waits for this task.
    pub(super) fn watched(&mut self, task: TaskId) {
        if self.work.status.is_terminal() {
            self.tell_watcher(&task);
        }
        if self.work.watchers.contains(&task) {
            return;
        }
        if self.work.watchers.len() < REMEMBERED_MAX && self.draft.take_spare(BYTES_MAX) {
            self.work.watchers.insert(task);
        } else {
            self.work.has_more_watchers = true;
        }
    }

    /// The task has ended: whoever waits for it may go on, or not.
    pub(super) fn tell_watchers(&mut self) {
        for task in self.work.watchers.clone() {
            self.tell_watcher(&task);
        }
        if self.work.has_more_watchers {
            self.look_for_watchers(None);
        }
    }

    fn look_for_watchers(&mut self, after: Option<TaskId>) {
        let effect = Effect::Watchers { task: self.work.id.clone(), after };
        let policy = EffectPolicy {
            deadline_ms: DEADLINE_MS,
            repeat: Repeat::Safe,
            attempts_max: u32::MAX,
            ..EffectPolicy::default()
        };
        self.draft.start_effect(EFFECT, effect, policy);
    }

    /// Some of the others were found.
    pub(super) fn found_watchers(&mut self, result: EffectResult<Outcome>) {
        // A task that was started once more tells them all when it ends again.
        if !self.work.status.is_terminal() {
            return;
        }
        let EffectResult::Done(Outcome::Watchers { tasks, more }) = result else {
            return self.look_for_watchers(None);
        };
        for task in
            tasks.iter().filter(|task| !self.work.watchers.contains(*task)).cloned().collect::<Vec<_>>()
        {
            self.tell_watcher(&task);
        }
        if let Some(last) = tasks.last().filter(|_| more) {
            self.look_for_watchers(Some(last.clone()));
        }
    }

    fn tell_watcher(&mut self, task: &TaskId) {
        let to = self.draft.peer(kind::TASK, task.as_str());
        let ended = Message::DependencyEnded { task: self.work.id.clone(), status: self.work.status };
        self.draft.send(to, ended);
    }
}

/// A page of the tasks that wait for one.
pub(super) async fn find(
    store: &Store,
    tenant: &str,
    task: &TaskId,
    after: Option<&TaskId>,
) -> Result<Outcome, EffectError> {
    let start = keys::data(tenant, &[]).len();
    let mut range = KeyRange::prefix(keys::data(tenant, &records::edges(task)).to_vec());
    if let Some(after) = after {
        range.begin = key_after(&keys::data(tenant, &records::edge(task, after)));
    }
    let page = store.begin().snapshot_range(&RangeRead::new(range).limit(PAGE)).await;
    let page = page.map_err(|error| EffectError::transient(error.to_string()))?;
    let id = |key: &[u8]| TaskId::parse(&records::last_id(&key[start..])?).ok();
    let tasks = page.pairs.iter().filter_map(|pair| id(&pair.key)).collect();
    Ok(Outcome::Watchers { tasks, more: page.more })
}
