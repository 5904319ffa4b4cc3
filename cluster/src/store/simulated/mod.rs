//! The simulated store: in memory, shared by all nodes of a simulation, and as unkind as a real one may be.
//!
//! It keeps every promise of the interface and no more. Versions jump, several commits may share one, pages
//! may be short, a transaction that minds no read never grows old, and a commit that is under way goes on
//! without the node that sent it: whether that node dies, sleeps or stops waiting, it is applied or not, now
//! or later, as drawn ([`Faults`]). Given one seed, one thread and virtual time, everything happens the same
//! way again.
//!
//! Not simulated: a store that loses or changes what it has confirmed.

mod faults;
mod history;
mod session;
#[cfg(test)]
mod tests;

pub use faults::{Faults, Outage};

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{Notify, oneshot, watch},
    time::{Instant, sleep},
};

use self::{
    faults::{CommitPlan, Fate, ReadPlan, Weather},
    history::{History, Snapshot},
    session::SimDriver,
};
use super::{Commit, CommitError, KeyRange, KeyValue, ReadError, Stamp, Store, Version};
use crate::sim::{Dice, Lifeline};

type Observer = Arc<dyn Fn(Stamp, &str, &Commit) + Send + Sync>;

/// The store that all nodes of a simulation share. Clones are the same store.
#[derive(Clone)]
pub struct SimStore(Arc<Shared>);

struct Shared {
    dice: Dice,
    history: Mutex<History>,
    weather: Mutex<Weather>,
    /// Wakes in the order of waiting, which a `watch` with many waiters does not.
    weather_changed: Notify,
    observers: Mutex<Vec<Observer>>,
    under_way: watch::Sender<usize>,
}

impl SimStore {
    /// How often a commit joins the version of the one before it, when nobody has read at that yet.
    const SHARED_VERSION: f64 = 0.3;
    /// FoundationDB counts about a million versions per second.
    const VERSION_JUMP_MAX: u64 = 50_000;

    /// An empty store without faults.
    pub fn new(dice: Dice) -> Self {
        let first = Version(dice.between(1..=Self::VERSION_JUMP_MAX));
        Self(Arc::new(Shared {
            dice,
            history: Mutex::new(History::new(first)),
            weather: Mutex::new(Weather { everywhere: Faults::none(), at_node: BTreeMap::new() }),
            weather_changed: Notify::new(),
            observers: Mutex::default(),
            under_way: watch::Sender::new(0),
        }))
    }

    /// The store as the node at the end of `lifeline` reaches it.
    pub fn connect(&self, lifeline: Lifeline) -> Store {
        Store::new(SimDriver { store: self.clone(), lifeline })
    }

    /// From now on every node meets these faults, except those that have [their own](Self::set_faults_at).
    pub fn set_faults(&self, faults: Faults) {
        self.weather().everywhere = faults;
        self.0.weather_changed.notify_waiters();
    }

    /// From now on one node meets faults of its own, or with `None` the common ones again. An outage at one
    /// node is a partition between it and the store.
    pub fn set_faults_at(&self, node: &str, faults: Option<Faults>) {
        match faults {
            Some(faults) => self.weather().at_node.insert(node.to_owned(), faults),
            None => self.weather().at_node.remove(node),
        };
        self.0.weather_changed.notify_waiters();
    }

    /// Calls `observer` with every commit right after it took effect: its stamp, the node that sent it, and
    /// what it was. On one thread the calls come in commit order, and [`Self::scan`] in one shows what that
    /// commit left behind.
    pub fn on_commit(&self, observer: impl Fn(Stamp, &str, &Commit) + Send + Sync + 'static) {
        self.observers().push(Arc::new(observer));
    }

    /// Everything in a range at the latest version, past all faults: for checkers, not for nodes.
    pub fn scan(&self, range: &KeyRange) -> Vec<KeyValue> {
        self.history().scan(range)
    }

    /// How many commits were sent and are not yet decided, including those whose senders gave up on them.
    pub fn under_way(&self) -> usize {
        *self.0.under_way.borrow()
    }

    /// Waits until no commit is under way: what is stored then changes only by new ones.
    pub async fn settled(&self) {
        // The sender lives as long as `self`.
        let _ = self.0.under_way.subscribe().wait_for(|count| *count == 0).await;
    }

    fn history(&self) -> MutexGuard<'_, History> {
        self.0.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn weather(&self) -> MutexGuard<'_, Weather> {
        self.0.weather.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn observers(&self) -> MutexGuard<'_, Vec<Observer>> {
        self.0.observers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number from one up to, not including, `end`.
    fn draw_below(&self, end: usize) -> usize {
        self.0.dice.between(1..=end as u64 - 1) as usize
    }

    /// What a read of `node` goes through before it is answered.
    async fn read(&self, node: &str) -> Result<ReadPlan, ReadError> {
        let refused = |_| ReadError::Unavailable { reason: "outage".to_owned() };
        self.reach(node).await.map_err(refused)?;
        let plan = self.weather().at(node).draw_read(&self.0.dice);
        pause(plan.latency).await;
        self.reach(node).await.map_err(refused)?;
        if plan.unavailable {
            return Err(ReadError::Unavailable { reason: "fault drawn".to_owned() });
        }
        Ok(plan)
    }

    /// Sends a commit on its way and waits for the answer. Who stops waiting does not stop the commit.
    async fn submit(
        &self,
        node: &str,
        read_at: Option<Snapshot>,
        commit: Commit,
    ) -> Result<Stamp, CommitError> {
        self.reach(node).await.map_err(|Refused| unavailable("outage"))?;
        let read_at =
            read_at.or_else(|| (!commit.reads.is_empty()).then(|| self.history().snapshot(Instant::now())));
        let plan = self.weather().at(node).draw_commit(&self.0.dice);
        let (answer, answered) = oneshot::channel();
        let sent = Sent { store: self.clone(), node: node.to_owned(), read_at, commit };
        self.0.under_way.send_modify(|count| *count += 1);
        tokio::spawn(sent.travel(plan, answer));
        answered.await.unwrap_or(Err(CommitError::OutcomeUnknown))
    }

    /// Waits while the store hangs for `node`.
    async fn reach(&self, node: &str) -> Result<(), Refused> {
        loop {
            let changed = self.0.weather_changed.notified();
            match self.weather().at(node).outage {
                None => return Ok(()),
                Some(Outage::Refusing) => return Err(Refused),
                Some(Outage::Hanging) => {}
            }
            changed.await;
        }
    }
}

impl fmt::Debug for SimStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimStore").field("under_way", &self.under_way()).finish_non_exhaustive()
    }
}

/// The store is in an outage that refuses.
struct Refused;

fn unavailable(reason: &str) -> CommitError {
    CommitError::Unavailable { reason: reason.to_owned() }
}

/// A commit on its way.
struct Sent {
    store: SimStore,
    node: String,
    read_at: Option<Snapshot>,
    commit: Commit,
}

impl Sent {
    async fn travel(self, plan: CommitPlan, answer: oneshot::Sender<Result<Stamp, CommitError>>) {
        pause(plan.there).await;
        let result = match plan.fate {
            Fate::Unavailable => Err(unavailable("fault drawn")),
            Fate::Conflict => Err(CommitError::Conflict),
            Fate::UnknownLost => Err(CommitError::OutcomeUnknown),
            Fate::UnknownDone => self.arrive().await.and(Err(CommitError::OutcomeUnknown)),
            Fate::Plain => self.arrive().await,
            Fate::UnknownLate { by } => {
                pause(plan.back).await;
                // The sender may have stopped waiting, which changes nothing here.
                let _ = answer.send(Err(CommitError::OutcomeUnknown));
                pause(by).await;
                let _ = self.arrive().await;
                return;
            }
        };
        pause(plan.back).await;
        let cut_off = self.store.reach(&self.node).await.is_err();
        let result = if cut_off { result.and(Err(CommitError::OutcomeUnknown)) } else { result };
        let _ = answer.send(result);
    }

    /// Takes effect, unless an outage swallows it or it conflicts.
    async fn arrive(&self) -> Result<Stamp, CommitError> {
        let store = &self.store;
        if store.reach(&self.node).await.is_err() && store.0.dice.chance(0.5) {
            return Err(CommitError::OutcomeUnknown);
        }
        let jump = if store.0.dice.chance(SimStore::SHARED_VERSION) {
            0
        } else {
            store.0.dice.between(1..=SimStore::VERSION_JUMP_MAX)
        };
        let stamp = store.history().commit(self.read_at, Instant::now(), jump, &self.commit)?;
        let observers = store.observers().clone();
        for observe in observers {
            observe(stamp, &self.node, &self.commit);
        }
        Ok(stamp)
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        self.store.0.under_way.send_modify(|count| *count -= 1);
    }
}

async fn pause(latency: Duration) {
    // Even a sleep of no time would wait for the timer's next tick.
    if !latency.is_zero() {
        sleep(latency).await;
    }
}
