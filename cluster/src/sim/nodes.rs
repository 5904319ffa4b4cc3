//! The nodes of a simulated cluster: each lives, dies at any moment, and comes back.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::future::join_all;
use tokio::sync::Mutex;

use super::{Dice, Lifeline, env::Env, world::SkewedClock};
use crate::{
    bus::Bus,
    clock::Clock,
    host::{HostConfig, StartError},
    store::Store,
};

/// What runs on the nodes.
pub trait Program: Send + Sync + 'static {
    /// It, while it runs on one.
    type Running: Send + Sync + 'static;

    /// Starts it.
    fn start(&self, place: Place) -> impl Future<Output = Result<Self::Running, StartError>> + Send;

    /// Has it hand everything over and stop.
    fn drain(&self, running: Self::Running) -> impl Future<Output = ()> + Send;

    /// Its process has died: what is left of it goes away.
    fn bury(&self, running: Self::Running) -> impl Future<Output = ()> + Send;
}

/// Where a program runs.
pub struct Place {
    /// How it hosts entities, under which name.
    pub host: HostConfig,
    /// The store, through the node's lifeline.
    pub store: Store,
    /// The bus, through the node's lifeline.
    pub bus: Bus,
    /// The node's own clock.
    pub clock: Arc<dyn Clock>,
    /// Where its randomness comes from.
    pub seed: u64,
}

/// One node and what may be done to it.
pub struct SimNode<P: Program> {
    pub(super) name: String,
    env: Arc<Env>,
    program: Arc<P>,
    dice: Dice,
    clock: Arc<SkewedClock>,
    life: Mutex<Life<P::Running>>,
    /// Lives that lost their name and may not know it yet.
    former: Mutex<Vec<Life<P::Running>>>,
    retired: AtomicBool,
}

struct Life<R> {
    lifeline: Option<Lifeline>,
    running: Option<R>,
}

impl<R> Default for Life<R> {
    fn default() -> Self {
        Self { lifeline: None, running: None }
    }
}

impl<P: Program> SimNode<P> {
    /// A node that does not run yet.
    pub fn new(name: &str, env: Arc<Env>, program: Arc<P>, dice: Dice) -> Arc<Self> {
        let clock = SkewedClock::new(env.world.clone(), 0);
        Arc::new(Self {
            name: name.into(),
            env,
            program,
            dice,
            clock,
            life: Mutex::default(),
            former: Mutex::default(),
            retired: AtomicBool::new(false),
        })
    }

    /// Starts it, unless it runs or has left for good. Tries until it runs or dies.
    pub async fn start(&self) {
        let mut life = self.life.lock().await;
        if self.is_retired() {
            return;
        }
        if life.lifeline.as_ref().is_some_and(|lifeline| !lifeline.is_cut()) && life.running.is_some() {
            return;
        }
        self.bury(&mut life).await;
        let lifeline = Lifeline::new(&self.name);
        life.lifeline = Some(lifeline.clone());
        self.env.trace.note(format_args!("{} starts", self.name));
        loop {
            let start = self.program.start(Place {
                host: self.env.config(&self.name),
                store: self.env.store.connect(lifeline.clone()),
                bus: Arc::new(self.env.bus.connect(lifeline.clone())),
                clock: self.clock.clone(),
                seed: self.dice.between(0..=u64::MAX),
            });
            tokio::select! {
                biased;
                () = lifeline.cut_happened() => return,
                started = start => match started {
                    Ok(running) => {
                        life.running = Some(running);
                        return;
                    }
                    Err(error) => self.env.trace.note(format_args!("{} cannot start: {error}", self.name)),
                },
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Kills it. What it had begun may still happen; nothing more will.
    pub async fn crash(&self) {
        let mut life = self.life.lock().await;
        if let Some(lifeline) = &life.lifeline {
            lifeline.cut();
        }
        self.bury(&mut life).await;
    }

    async fn bury(&self, life: &mut Life<P::Running>) {
        if let Some(running) = life.running.take() {
            self.program.bury(running).await;
        }
    }

    /// Hands its shards over and stops it.
    pub async fn drain(&self) {
        let mut life = self.life.lock().await;
        let (Some(running), Some(lifeline)) = (life.running.take(), life.lifeline.clone()) else { return };
        tokio::select! {
            biased;
            () = lifeline.cut_happened() => {}
            () = self.program.drain(running) => {}
            () = tokio::time::sleep(Duration::from_secs(20)) => {
                self.env.trace.note(format_args!("{} drains too long", self.name));
            }
        }
        lifeline.cut();
    }

    /// It will not start again.
    pub fn retire(&self) {
        self.retired.store(true, Ordering::Relaxed);
    }

    /// Whether it has left for good.
    pub fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Relaxed)
    }

    /// Starts a second node under its name, while the first may still be there.
    pub async fn supplant(&self) {
        let former = std::mem::take(&mut *self.life.lock().await);
        self.former.lock().await.push(former);
        self.start().await;
    }

    /// Kills whoever had its name before.
    pub async fn bury_former(&self) {
        for mut life in self.former.lock().await.drain(..) {
            if let Some(lifeline) = &life.lifeline {
                lifeline.cut();
            }
            self.bury(&mut life).await;
        }
    }

    /// Its line, if it lives.
    pub async fn lifeline(&self) -> Option<Lifeline> {
        self.life.lock().await.lifeline.clone().filter(|lifeline| !lifeline.is_cut())
    }

    /// What a look at it shows, with its line, if it runs.
    pub fn try_enter<T>(&self, look: impl FnOnce(&P::Running) -> T) -> Option<(T, Lifeline)> {
        let life = self.life.try_lock().ok()?;
        let lifeline = life.lifeline.clone().filter(|lifeline| !lifeline.is_cut())?;
        Some((look(life.running.as_ref()?), lifeline))
    }

    /// What a look at it shows, if anything of it is there.
    pub(super) fn try_look<T>(&self, look: impl FnOnce(&P::Running) -> T) -> Option<T> {
        let life = self.life.try_lock().ok()?;
        life.running.as_ref().map(look)
    }

    /// Sets its clock wrong.
    pub fn skew(&self, offset_ms: i64) {
        self.clock.skew(offset_ms);
    }
}

/// Starts all of them, the last one sometimes later.
pub async fn start_all<P: Program>(nodes: &[Arc<SimNode<P>>], dice: &Dice) {
    let Some((last, first)) = nodes.split_last() else { return };
    join_all(first.iter().map(|node| node.start())).await;
    let wait_ms = if dice.chance(0.3) { dice.between(0..=15_000) } else { 0 };
    let last = last.clone();
    let starting = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(wait_ms)).await;
        last.start().await;
    });
    if wait_ms == 0 {
        // A task that was not aborted ends.
        let _ = starting.await;
    }
}
