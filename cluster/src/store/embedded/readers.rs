//! Who reads at which version.
//!
//! Everybody who begins between two publications reads the same version of the same view, so they share one
//! [`Cohort`]. A cohort that nobody is in any more needs nothing kept; one that was superseded longer ago
//! than a transaction may live is expired, which frees what it held.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
    time::Duration,
};

use tokio::time::Instant;

use super::view::View;
use crate::store::TRANSACTION_AGE_MAX;

/// The readers of one version.
#[derive(Debug)]
pub(super) struct Cohort {
    pub(super) version: u64,
    view: RwLock<Option<Arc<View>>>,
}

impl Cohort {
    fn new(version: u64, view: Arc<View>) -> Arc<Self> {
        Arc::new(Self { version, view: RwLock::new(Some(view)) })
    }

    /// Reads from the cohort's view; `None` when it expired.
    pub(super) fn read<T>(&self, read: impl FnOnce(&View) -> T) -> Option<T> {
        let view = self.view.read().unwrap_or_else(PoisonError::into_inner);
        view.as_deref().map(read)
    }

    fn expire(&self) {
        self.view.write().unwrap_or_else(PoisonError::into_inner).take();
    }
}

/// The visible version, its view, and the cohorts before it.
#[derive(Debug)]
pub(super) struct Readers {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    current: Arc<Cohort>,
    view: Arc<View>,
    /// Superseded cohorts that may still have readers, oldest first, and since when.
    earlier: VecDeque<(Instant, Arc<Cohort>)>,
}

/// Sessions measure their own age and give up first.
const EXPIRY: Duration = TRANSACTION_AGE_MAX.saturating_add(Duration::from_secs(1));

impl Readers {
    pub(super) fn new(version: u64, view: View) -> Self {
        let view = Arc::new(view);
        let current = Cohort::new(version, Arc::clone(&view));
        Self { state: Mutex::new(State { current, view, earlier: VecDeque::new() }) }
    }

    /// Joins the readers of the visible version.
    pub(super) fn enter(&self) -> Arc<Cohort> {
        Arc::clone(&self.state().current)
    }

    /// The layers that are read from now.
    pub(super) fn view(&self) -> Arc<View> {
        Arc::clone(&self.state().view)
    }

    /// Makes a version visible.
    pub(super) fn publish(&self, version: u64) {
        let mut state = self.state();
        assert!(version > state.current.version, "versions become visible in order");
        let next = Cohort::new(version, Arc::clone(&state.view));
        state.supersede(next);
    }

    /// Exchanges the layers. The visible version stays, and so does what it reads.
    pub(super) fn exchange(&self, change: impl FnOnce(&View) -> View) {
        let mut state = self.state();
        state.view = Arc::new(change(&state.view));
        let next = Cohort::new(state.current.version, Arc::clone(&state.view));
        state.supersede(next);
    }

    /// The oldest version that anybody reads or will read.
    pub(super) fn floor(&self) -> u64 {
        let mut state = self.state();
        state.drop_idle();
        state.earlier.front().map_or(state.current.version, |(_, cohort)| cohort.version)
    }

    /// Ends the cohorts whose readers are all too old.
    pub(super) fn expire(&self, now: Instant) {
        let mut state = self.state();
        while let Some((since, _)) = state.earlier.front()
            && now.saturating_duration_since(*since) > EXPIRY
            && let Some((_, cohort)) = state.earlier.pop_front()
        {
            cohort.expire();
        }
    }

    /// Ends every cohort: the store is closed.
    pub(super) fn close(&self) {
        let mut state = self.state();
        state.current.expire();
        state.earlier.drain(..).for_each(|(_, cohort)| cohort.expire());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn supersede(&mut self, next: Arc<Cohort>) {
        let before = std::mem::replace(&mut self.current, next);
        // Nobody can join it any more, so a cohort that is empty now stays so.
        if Arc::strong_count(&before) > 1 {
            self.earlier.push_back((Instant::now(), before));
        }
        self.drop_idle();
    }

    fn drop_idle(&mut self) {
        while self.earlier.front().is_some_and(|(_, cohort)| Arc::strong_count(cohort) == 1) {
            self.earlier.pop_front();
        }
    }
}
