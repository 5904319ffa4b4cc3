//! The nodes of a simulated cluster: each lives, dies at any moment, and comes back.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{sync::Mutex, time::Instant};

use super::{
    Dice, Lifeline, Trace,
    bank::Account,
    tree::Branch,
    world::{SkewedClock, World},
};
use crate::{
    bus::simulated::SimBus,
    host::{Client, HostConfig, Kinds, Node},
    placement::Takeover,
    store::simulated::SimStore,
};

/// The name of the simulated cluster.
pub(super) const CLUSTER: &str = "sim";

/// The most that a clock is wrong.
pub(super) const SKEW_MAX: Duration = Duration::from_secs(3);

/// Everything that a node is started with.
pub(super) struct Env {
    pub world: Arc<World>,
    pub store: SimStore,
    pub bus: SimBus,
    pub trace: Trace,
    pub shards: u16,
    /// Whether the bus may deliver a message twice.
    pub doubles: bool,
    /// How long idempotency keys are remembered.
    pub keys_ttl: Duration,
    pub limits: Limits,
}

/// Bounds of hosting that differ from one simulation to the next.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub entities_live: usize,
    pub step_inputs: usize,
    pub group_steps: usize,
    pub groups_in_flight: usize,
}

impl Limits {
    pub fn draw(dice: &Dice) -> Self {
        Self {
            // Few enough that entities have to leave for others, more than have effects at a time.
            entities_live: *dice.pick(&[8, 1_000, 1_000, 1_000]),
            step_inputs: *dice.pick(&[1, 4, 16, 16]),
            group_steps: *dice.pick(&[1, 4, 32, 32]),
            groups_in_flight: *dice.pick(&[1, 2, 4]),
        }
    }
}

impl Env {
    /// How often a shard looks for keys to forget.
    const SWEEP_EVERY: Duration = Duration::from_secs(1);

    /// Whether keys are forgotten within the simulation.
    pub fn forgets(&self) -> bool {
        self.keys_ttl < Duration::from_secs(3600)
    }

    /// When every key that was used until now is forgotten, whatever the clocks say.
    pub fn forgotten_by(&self) -> Instant {
        Instant::now() + self.keys_ttl + 2 * SKEW_MAX + 3 * Self::SWEEP_EVERY
    }

    pub fn config(&self, node: &str) -> HostConfig {
        HostConfig {
            shards: self.shards,
            takeover: Takeover::AfterWatching,
            inputs_waiting_max: 24,
            inputs_per_entity_max: 8,
            entities_live_max: self.limits.entities_live,
            step_inputs_max: self.limits.step_inputs,
            group_steps_max: self.limits.group_steps,
            groups_in_flight_max: self.limits.groups_in_flight,
            sweep_every: Self::SWEEP_EVERY,
            idempotency_ttl: self.keys_ttl,
            ..HostConfig::new(CLUSTER, node)
        }
    }

    pub fn kinds(&self) -> Kinds {
        Kinds::new().with(Account { world: self.world.clone() }).with(Branch)
    }
}

/// One node and what may be done to it.
pub(super) struct SimNode {
    pub name: String,
    env: Arc<Env>,
    dice: Dice,
    clock: Arc<SkewedClock>,
    life: Mutex<Life>,
    /// Lives that lost their name and may not know it yet.
    former: Mutex<Vec<Life>>,
    retired: AtomicBool,
}

#[derive(Default)]
struct Life {
    lifeline: Option<Lifeline>,
    node: Option<Node>,
}

impl SimNode {
    pub fn new(name: &str, env: Arc<Env>, dice: Dice) -> Arc<Self> {
        let clock = SkewedClock::new(env.world.clone(), 0);
        Arc::new(Self {
            name: name.into(),
            env,
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
        if life.lifeline.as_ref().is_some_and(|lifeline| !lifeline.is_cut()) && life.node.is_some() {
            return;
        }
        life.node = None;
        let lifeline = Lifeline::new(&self.name);
        life.lifeline = Some(lifeline.clone());
        self.env.trace.note(format_args!("{} starts", self.name));
        loop {
            let start = Node::start(
                self.env.config(&self.name),
                self.env.store.connect(lifeline.clone()),
                Arc::new(self.env.bus.connect(lifeline.clone())),
                self.clock.clone(),
                self.env.kinds(),
                self.dice.between(0..=u64::MAX),
            );
            tokio::select! {
                biased;
                () = lifeline.cut_happened() => return,
                started = start => match started {
                    Ok(node) => {
                        life.node = Some(node);
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
        life.node = None;
    }

    /// Hands its shards over and stops it.
    pub async fn drain(&self) {
        let mut life = self.life.lock().await;
        let (Some(node), Some(lifeline)) = (life.node.take(), life.lifeline.clone()) else { return };
        tokio::select! {
            biased;
            () = lifeline.cut_happened() => {}
            () = node.drain() => {}
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
        for life in self.former.lock().await.drain(..) {
            if let Some(lifeline) = &life.lifeline {
                lifeline.cut();
            }
        }
    }

    /// Its line, if it lives.
    pub async fn lifeline(&self) -> Option<Lifeline> {
        self.life.lock().await.lifeline.clone().filter(|lifeline| !lifeline.is_cut())
    }

    /// A client in its process, if it runs.
    pub fn try_client(&self) -> Option<(Client, Lifeline)> {
        let life = self.life.try_lock().ok()?;
        let lifeline = life.lifeline.clone().filter(|lifeline| !lifeline.is_cut())?;
        Some((life.node.as_ref()?.client(), lifeline))
    }

    /// Sets its clock wrong.
    pub fn skew(&self, offset_ms: i64) {
        self.clock.skew(offset_ms);
    }

    /// How many inputs wait on it, if it runs.
    pub fn try_inputs_waiting(&self) -> Option<usize> {
        let life = self.life.try_lock().ok()?;
        Some(life.node.as_ref()?.inputs_waiting())
    }
}
