//! The actor of one entity: gathers inputs, runs the core, and waits for the commit before anything shows.

mod gather;
mod runs;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};

use self::runs::Run;
use super::{
    Entity,
    committer::{Done, Step},
    core::{Broken, Core, Draft, DraftAnswer, StepBuilder, Taken, unusable},
    effect::EffectError,
    gate::Gate,
    room::LivePlace,
    shard::ShardMessage,
    shared::Shared,
    wire::Response,
    work::{EntityMessage, StepError, Work},
    write::Placed,
};
use crate::{
    address::{Address, ShardId},
    clock::Timestamp,
    feed::Cursor,
    placement::Epoch,
    sabotage::{Sabotage, is_on},
    store::ReadError,
};

/// The configuration of an entity's actor.
pub(super) struct EntityActor<E> {
    pub entity: Arc<E>,
}

/// What a shard starts it with.
pub(super) struct EntityArgs {
    pub address: Address,
    pub shard: ShardId,
    pub epoch: Epoch,
    pub shared: Arc<Shared>,
    pub supervisor: ActorRef<ShardMessage>,
    /// Where the shard's attempts begin that must not be repeated.
    pub gate: Gate,
    /// Its place in memory, for as long as it is there.
    pub _place: LivePlace,
}

/// The actor's state.
pub(super) struct Live<E: Entity> {
    args: EntityArgs,
    /// Loaded with the first input, and again after a step that could not be committed as it was.
    core: Option<Core<E>>,
    /// Whether effects of a former owner were taken care of.
    adopted: bool,
    waiting: VecDeque<Work>,
    /// Whether the inbox may hold something unread.
    rung: bool,
    /// The last inbox message that was read. Later ones have larger stamps.
    inbox_after: Option<Bytes>,
    in_flight: Option<Box<InFlight>>,
    running: BTreeMap<String, Run>,
    /// Counts the effects that were started, to tell their results apart.
    runs: u64,
    /// Inputs counted by the shard, to know that none is on its way when the entity rests.
    received: u64,
    /// The most inputs that the next step takes. Halved when a step is refused, to find out which input it was,
    /// and doubled when one commits.
    inputs_max: usize,
    /// Attempts that are due to start, once the state in memory is that of the store.
    to_start: BTreeSet<(String, u32)>,
    paused: Option<Pause>,
    /// How often it paused since something last worked.
    pauses: u32,
    draining: bool,
}

struct InFlight {
    works: Vec<(Work, Taken)>,
    start: Vec<String>,
    cancel: Vec<String>,
    /// The earliest timer that it sets.
    timer: Option<Timestamp>,
}

/// The store cannot be read or has no room. Callers are told, and everything else that waits is kept: nobody but this
/// owner knows how its effects have ended.
struct Pause {
    reason: String,
}

/// Why an entity's actor ends by itself.
#[derive(Debug)]
enum Stop {
    /// Another node owns the shard now, or nobody knows what the store holds.
    Over,
    /// What is stored of it cannot be read.
    Unreadable,
}

impl Stop {
    fn reason(&self) -> Option<String> {
        match self {
            Self::Over => None,
            Self::Unreadable => Some(UNREADABLE.into()),
        }
    }
}

/// What a shard is told when what is stored of an entity cannot be read.
pub(super) const UNREADABLE: &str = "unreadable";

impl<E: Entity> Actor for EntityActor<E> {
    type Msg = EntityMessage;
    type State = Box<Live<E>>;
    type Arguments = EntityArgs;

    async fn pre_start(
        &self,
        _: ActorRef<EntityMessage>,
        args: EntityArgs,
    ) -> Result<Box<Live<E>>, ActorProcessingErr> {
        let inputs_max = args.shared.config.step_inputs_max;
        Ok(Box::new(Live {
            args,
            core: None,
            adopted: false,
            waiting: VecDeque::new(),
            rung: true,
            inbox_after: None,
            in_flight: None,
            running: BTreeMap::new(),
            runs: 0,
            received: 0,
            inputs_max,
            to_start: BTreeSet::new(),
            paused: None,
            pauses: 0,
            draining: false,
        }))
    }

    async fn handle(
        &self,
        myself: ActorRef<EntityMessage>,
        message: EntityMessage,
        live: &mut Box<Live<E>>,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            EntityMessage::Work(work) => {
                if matches!(work, Work::Command { .. } | Work::Timer { .. }) {
                    live.received += 1;
                }
                if live.is_current(&work) {
                    live.waiting.push_back(work);
                }
                live.turn_away();
            }
            EntityMessage::Bell => {
                live.received += 1;
                live.rung = true;
            }
            EntityMessage::StartEffect { id, attempt } => {
                self.start_effect(&myself, live, &id, attempt).await;
            }
            EntityMessage::StepDone(Ok(placed)) => self.settle(&myself, live, placed).await,
            EntityMessage::StepDone(Err(error)) => {
                if let Err(stop) = live.not_committed(&myself, error) {
                    myself.stop(stop.reason());
                    return Ok(());
                }
            }
            EntityMessage::GoOn => live.paused = None,
            EntityMessage::Rest => {
                if live.is_idle() {
                    live.rest(&myself);
                }
                return Ok(());
            }
            EntityMessage::Drain => live.draining = true,
        }
        if live.draining {
            live.send_away();
        }
        if live.draining && live.has_left() {
            myself.stop(None);
        } else if let Err(stop) = Box::pin(self.advance(&myself, live)).await {
            myself.stop(stop.reason());
        } else if live.is_idle() && live.core.as_ref().is_some_and(|core| self.entity.is_over(&core.state)) {
            live.rest(&myself);
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<EntityMessage>,
        event: SupervisionEvent,
        live: &mut Box<Live<E>>,
    ) -> Result<(), ActorProcessingErr> {
        if let SupervisionEvent::ActorFailed(cell, error) = event {
            let died = live.running.iter().find(|(_, run)| run.actor.get_id() == cell.get_id());
            if let Some((id, run)) = died {
                metrics::counter!("cadre_host_effect_panics_total").increment(1);
                let result = Err(EffectError::unsure(format!("effect died: {error}")));
                let work = Work::Effect { id: id.clone(), attempt: run.attempt, run: run.number, result };
                // To ourselves: it cannot be gone.
                let _ = myself.cast(EntityMessage::Work(work));
            }
        }
        Ok(())
    }
}

impl<E: Entity> EntityActor<E> {
    /// Builds and submits the next step, if there is anything to do and none is on its way.
    async fn advance(&self, myself: &ActorRef<EntityMessage>, live: &mut Live<E>) -> Result<(), Stop> {
        while live.in_flight.is_none() && live.paused.is_none() {
            let gathered = match live.gather().await {
                Ok(works) => works,
                Err(ReadError::Failed(error)) => return Err(live.unreadable(&*error)),
                Err(error) => {
                    live.pause(myself, error.to_string());
                    return Ok(());
                }
            };
            if live.core.is_none() {
                return Ok(()); // nothing to do yet
            }
            live.pauses = 0;
            for (id, attempt) in std::mem::take(&mut live.to_start) {
                self.start_effect(myself, live, &id, attempt).await;
            }
            self.adopt_orphans(live);
            if gathered.is_empty() {
                if live.waiting.is_empty() {
                    return Ok(());
                }
                continue; // every command gathered so far had been answered before
            }
            match self.build(live, gathered) {
                Some((draft, works)) => submit(myself, live, draft, works),
                None => continue,
            }
        }
        Ok(())
    }

    /// Runs the core over the inputs. `None`: nothing came of them, or they wait again after a reload.
    fn build(&self, live: &mut Live<E>, mut works: Vec<Work>) -> Option<(Draft, Vec<(Work, Taken)>)> {
        let shared = live.args.shared.clone();
        let core = live.core.as_mut().expect("inputs are gathered for a loaded entity");
        let mut builder = StepBuilder::new(
            &*self.entity,
            core,
            &live.args.address,
            live.args.shard,
            shared.feed_epoch,
            &shared.config,
            shared.now(),
        )
        .leaving(live.draining);
        let mut taken = Vec::with_capacity(works.len());
        let mut broken = None;
        for (index, work) in works.iter().enumerate() {
            match builder.take(work, shared.seed()) {
                Ok(outcome) => taken.push(outcome),
                Err(Broken { reason }) => {
                    broken = Some((index, reason));
                    break;
                }
            }
            if builder.is_full() {
                break;
            }
        }
        let finished = match broken {
            Some(broken) => Err(Some(broken)),
            None => builder.finish().map_err(|bytes| {
                let limit = shared.config.record_bytes_max;
                (works.len() == 1)
                    .then(|| (0, format!("makes the entity {bytes} bytes large, the limit is {limit}")))
            }),
        };
        let draft = match finished {
            Ok(draft) => draft,
            // Everything is tried again on a fresh copy, the culprit put aside.
            Err(culprit) => {
                live.core = None;
                match culprit {
                    Some((index, reason)) => live.aside(works.remove(index), reason),
                    None => live.take_fewer(taken.len()),
                }
                live.put_back(works);
                return None;
            }
        };
        live.put_back(works.split_off(taken.len()));
        let idle = draft.writes.is_empty() && taken.iter().all(|taken| matches!(taken, Taken::Silent));
        if idle {
            works.iter_mut().for_each(Work::is_durable);
            return None;
        }
        Some((draft, works.into_iter().zip(taken).collect()))
    }

    /// After the commit: now it may show.
    async fn settle(&self, myself: &ActorRef<EntityMessage>, live: &mut Live<E>, placed: Placed) {
        let Some(done) = live.in_flight.take() else { return };
        live.inputs_max = (live.inputs_max * 2).min(live.args.shared.config.step_inputs_max);
        let epoch = live.args.shared.feed_epoch;
        for (mut work, taken) in done.works {
            work.is_durable();
            match taken {
                Taken::Answered(DraftAnswer { refused, body, last_event, .. }) => {
                    let position = last_event.map(|position| placed.base.saturating_add(position));
                    let cursor = position.map(|position| Cursor::new(epoch, placed.stamp, position));
                    work.answer(Response::Answered { refused, body, cursor });
                }
                Taken::Poisoned(reason) => work.answer(Response::Poisoned { reason }),
                Taken::Silent => {}
            }
        }
        if let Some(due) = done.timer {
            // A shard that is gone looks at its timers when it is back.
            let _ = live.args.supervisor.cast(ShardMessage::TimerSet(due));
        }
        for id in &done.cancel {
            live.forget_run(id);
        }
        for id in done.start {
            live.forget_run(&id);
            self.schedule_effect(myself, live, &id).await;
        }
    }
}

fn submit<E: Entity>(
    myself: &ActorRef<EntityMessage>,
    live: &mut Live<E>,
    draft: Draft,
    mut works: Vec<(Work, Taken)>,
) {
    if is_on(Sabotage::AnswerBeforeCommit) {
        for (work, taken) in &mut works {
            if let Taken::Answered(answer) = taken {
                let (refused, body) = (answer.refused, answer.body.clone());
                work.answer(Response::Answered { refused, body, cursor: None });
            }
        }
    }
    if is_on(Sabotage::ReportBeforeCommit) {
        works.iter_mut().for_each(|(work, _)| work.is_durable());
    }
    for (work, _) in &mut works {
        work.submitted(true);
    }
    let Draft { start, cancel, timer, .. } = draft;
    live.in_flight = Some(Box::new(InFlight { works, start, cancel, timer }));
    live.args.shared.committer.submit(Step {
        owner: Some(live.args.address.clone()),
        shard: live.args.shard,
        epoch: live.args.epoch,
        bytes: draft.bytes,
        positions: draft.positions,
        writes: draft.writes,
        inboxes: draft.inboxes,
        feed: draft.feed,
        done: Done::Entity(myself.clone()),
    });
}

impl<E: Entity> Live<E> {
    /// A step did not commit as it was.
    fn not_committed(&mut self, myself: &ActorRef<EntityMessage>, error: StepError) -> Result<(), Stop> {
        let Some(step) = self.in_flight.take() else { return Ok(()) };
        let mut works: Vec<Work> = step.works.into_iter().map(|(work, _)| work).collect();
        match error {
            StepError::Fenced => {
                for mut work in works.into_iter().chain(self.waiting.drain(..)) {
                    work.answer(Response::NotOwner);
                }
                Err(Stop::Over)
            }
            StepError::Failed => {
                for work in &mut works {
                    work.answer(Response::OutcomeUnknown);
                }
                Err(Stop::Over)
            }
            StepError::NoRoom(error) => {
                self.core = None;
                for work in &mut works {
                    work.submitted(false);
                }
                self.put_back(works);
                self.pause(myself, error.to_string());
                Ok(())
            }
            StepError::Refused(error) => {
                // The state in memory is ahead of the store: start over from there.
                self.core = None;
                self.take_fewer(works.len());
                for work in &mut works {
                    work.submitted(false);
                }
                if works.len() == 1
                    && let Some(work) = works.pop()
                {
                    self.aside(work, error.to_string());
                }
                self.put_back(works);
                Ok(())
            }
        }
    }

    /// Whether an input is still awaited. A timer is not when it is known already: every look finds it until it is
    /// consumed. The result of an effect is when it comes from the run that was started last under its id, and only
    /// once.
    fn is_current(&mut self, work: &Work) -> bool {
        if let Work::Timer { name, due } = work {
            let same = |work: &Work| matches!(work, Work::Timer { name: n, due: d } if n == name && d == due);
            let in_flight = self.in_flight.iter().flat_map(|step| &step.works).map(|(work, _)| work);
            return !self.waiting.iter().chain(in_flight).any(same);
        }
        let (Work::Effect { id, run, .. } | Work::Progress { id, run, .. }) = work else { return true };
        if self.running.get(id).is_none_or(|running| running.number != *run) {
            return false;
        }
        if matches!(work, Work::Effect { .. }) {
            self.running.remove(id);
        }
        true
    }

    /// Waits for the store to be well again, longer each time.
    fn pause(&mut self, myself: &ActorRef<EntityMessage>, reason: String) {
        const FIRST: Duration = Duration::from_millis(250);
        const LONGEST: Duration = Duration::from_secs(4);
        tracing::debug!(address = %self.args.address, reason, "entity pauses");
        metrics::counter!("cadre_host_entity_pauses_total").increment(1);
        self.paused = Some(Pause { reason });
        self.turn_away();
        let pause = (FIRST * 2u32.saturating_pow(self.pauses.min(8))).min(LONGEST);
        self.pauses += 1;
        myself.send_after(pause, || EntityMessage::GoOn);
    }

    /// While it pauses: tells callers that nothing can be done for them now, and keeps everything else that waits.
    fn turn_away(&mut self) {
        let Some(Pause { reason }) = &self.paused else { return };
        self.waiting.retain_mut(|work| {
            work.answer(Response::Unavailable { reason: reason.clone() });
            !work.is_command()
        });
    }

    /// A step with so many inputs was too much.
    fn take_fewer(&mut self, inputs: usize) {
        self.inputs_max = (inputs / 2).max(1);
    }

    /// Marks an input as one that broke the core: the next step only puts it aside.
    fn aside(&mut self, work: Work, reason: String) {
        if let Work::Effect { id, attempt, run, result: Ok(_) } = &work {
            let (id, result) = (id.clone(), Err(EffectError::fatal(unusable(&reason))));
            self.waiting.push_front(Work::Effect { id, attempt: *attempt, run: *run, result });
        }
        self.waiting.push_front(Work::Aside { work: Box::new(work), reason });
    }

    fn put_back(&mut self, works: Vec<Work>) {
        for work in works.into_iter().rev() {
            self.waiting.push_front(work);
        }
    }

    /// What is stored cannot be read, now or soon: whoever waits is told, and the shard tries again later.
    fn unreadable(&mut self, error: &dyn std::error::Error) -> Stop {
        tracing::error!(address = %self.args.address, %error, "entity is unreadable");
        for mut work in self.waiting.drain(..) {
            work.answer(Response::Unavailable { reason: error.to_string() });
        }
        Stop::Unreadable
    }

    /// Sends callers to the next owner, and keeps only what that one could not learn from the store: how effects
    /// have ended, and which were not begun.
    fn send_away(&mut self) {
        self.rung = false;
        for mut work in std::mem::take(&mut self.waiting) {
            if work.is_only_here() {
                self.waiting.push_back(work);
            } else {
                work.answer(Response::Moving);
            }
        }
        if self.in_flight.is_some() || !self.waiting.is_empty() || !self.adopted {
            return;
        }
        let begun = || self.running.iter().filter(|(_, run)| run.once.is_some()).map(|(id, _)| id.clone());
        let except: BTreeSet<String> = begun().collect();
        if self.core.as_ref().is_some_and(|core| core.has_effects_to_hold(&except)) {
            self.waiting.push_back(Work::Hold { except });
        }
    }

    /// Whether nothing is on its way, and nothing left that only this owner knows.
    fn has_left(&self) -> bool {
        self.in_flight.is_none() && self.waiting.is_empty()
    }

    /// Whether nothing waits, is on its way or runs. The inbox has then been read since the last bell.
    fn is_idle(&self) -> bool {
        self.in_flight.is_none()
            && self.waiting.is_empty()
            && !self.rung
            && self.paused.is_none()
            && self.to_start.is_empty()
            && self.running.is_empty()
            && self.core.as_ref().is_none_or(|core| core.record.effects.is_empty())
    }

    /// Tells the shard that there is nothing to do here. It decides: it knows what is on its way.
    fn rest(&self, myself: &ActorRef<EntityMessage>) {
        let (address, actor, received) = (self.args.address.clone(), myself.get_id(), self.received);
        // A shard that is gone takes its entities with it.
        let _ = self.args.supervisor.cast(ShardMessage::Rested { address, actor, received });
    }
}
