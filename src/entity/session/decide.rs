//! What follows from what a session hears.

use cadre_cluster::{
    address::Address,
    host::{Decision, EffectResult, Input, Moment},
};

use super::{Command, Past, Reply, Session, State, Thread, Work};
use crate::{
    control::{
        Error,
        args::{CreateSession, UpdateSession},
    },
    entity::{
        Host, Message,
        parent::{Spawned, Spawner},
        records,
    },
    exec::{Children, Draft, Ending, Outcome, Response, Room, Run, Source, split_name},
    fact::{
        Fact, StoredEvent,
        id::{SessionId, ThreadId, TurnId},
        payload::{SessionCreated, SessionUpdated, ThreadStarted},
        scope::{SessionScope, ThreadScope},
        status::{SessionStatus, ThreadStatus, TurnStatus},
    },
    view::SessionView,
};

pub(super) fn decide(
    host: &Host,
    state: &State,
    input: Input<Session>,
    moment: &Moment<'_>,
) -> Result<Decision<Session>, Error> {
    let id = SessionId::parse(moment.address.id())
        .map_err(|_| Error::not_found("session", moment.address.id()))?;
    let draft = Draft::new(&host.engine, id.clone(), moment);
    let mut step = match &state.work {
        Some(work) => {
            let mut draft = draft;
            draft.room = room(work);
            Step { work: work.clone(), draft, view: &state.view, looks_again: false }
        }
        None => {
            let work = Work {
                id,
                fingerprint: 0,
                archived: false,
                agent: None,
                threads: Vec::new(),
                loose: Children::default(),
                named: Default::default(),
            };
            let mut step = Step { work, draft, view: &state.view, looks_again: false };
            match &input {
                Input::Command(Command::Create(args)) => step.create(&args.0),
                Input::Command(Command::Submit { args, .. }) => {
                    let created = CreateSession {
                        session_id: None,
                        title: None,
                        agent: args.agent.clone(),
                        metadata: Default::default(),
                    };
                    step.create(&created);
                }
                Input::Command(_) => return Err(Error::not_found("session", moment.address.id())),
                _ => return Ok(Decision::nothing()),
            }
            step
        }
    };
    match input {
        Input::Command(command) => {
            let reply = step.command(command)?;
            Ok(step.decision().reply(reply))
        }
        Input::Message { from, message } => {
            step.message(&from, message);
            Ok(step.decision())
        }
        Input::Timer { name } => {
            step.timer(&name);
            Ok(step.decision())
        }
        Input::Progress { id, progress } => {
            if let Some((turn, _)) = split_name(&id)
                && let Some((index, _)) = step.active(turn)
                && let Some(run) = &mut step.work.threads[index].run
            {
                run.take_progress(progress, &mut step.draft);
            }
            Ok(step.decision())
        }
        Input::Effect { id, result } => {
            step.effect(&id, result);
            Ok(step.decision())
        }
    }
}

/// What the calls of all runs of a session may take of its state.
const CALLS_BYTES_MAX: usize = 8 * 1024;
/// What is left of a turn, without its children.
const LEFT_BYTES_MAX: usize = 512;
/// How many groups of children of all its turns may be open.
const GROUPS_MAX: usize = 128;

fn room(work: &Work) -> Room {
    let runs = work.threads.iter().flat_map(|thread| thread.run.iter().chain(&thread.lingering));
    let (bytes, groups) =
        runs.fold((0, 0), |(bytes, groups), run| (bytes + run.calls_size(), groups + run.children.len()));
    Room { bytes: CALLS_BYTES_MAX.saturating_sub(bytes), groups: GROUPS_MAX.saturating_sub(groups) }
}

/// One input of a session.
pub(super) struct Step<'a> {
    pub work: Work,
    pub draft: Draft<'a>,
    pub view: &'a SessionView,
    /// Whether turns that wait for room are looked at again in a step of its own.
    pub looks_again: bool,
}

impl Step<'_> {
    fn decision(mut self) -> Decision<Session> {
        self.keep_finished_turns();
        if self.looks_again && self.has_next() {
            self.draft.go_on(Message::GoOn { turn: None });
        }
        self.draft.decision(Some(self.work))
    }

    /// Turns that are over leave the state and become records.
    fn keep_finished_turns(&mut self) {
        let ends = |fact: &Fact| fact.event_type().as_str().starts_with("turn.");
        if !self.draft.facts.iter().any(ends) {
            return;
        }
        let mut view = self.view.clone();
        let finished: Vec<_> = self.draft.facts.iter().filter_map(|fact| view.apply(fact)).collect();
        for turn in finished {
            let (Some(thread), Some(number)) = (&turn.thread_id, turn.number) else { continue };
            let path = records::turn(&self.work.id, thread, number);
            let value = rmp_serde::to_vec_named(&turn).expect("views serialize into memory without fail");
            self.draft.set_record(path, value);
        }
    }

    fn create(&mut self, args: &CreateSession) {
        self.work.agent = args.agent.clone();
        let created = SessionCreated {
            status: SessionStatus::Active,
            title: args.title.clone(),
            agent: args.agent.clone(),
            metadata: args.metadata.clone(),
        };
        self.draft.tell(SessionScope {}, created);
        self.draft.set_record(records::session(self.draft.now, &self.work.id), &[][..]);
        metrics::counter!("cadre_sessions_total").increment(1);
    }

    fn command(&mut self, command: Command) -> Result<Reply, Error> {
        match command {
            Command::Create(args) => {
                // Asked for again: the same is answered the same, anything else is somebody else's session.
                let fingerprint = fingerprint(&args.0);
                let is_new = self.work.threads.is_empty() && self.work.fingerprint == 0;
                if is_new {
                    self.work.fingerprint = fingerprint;
                    self.start_thread(None)?;
                } else if self.work.fingerprint != fingerprint {
                    let message = format!("the session {} exists with other content", self.work.id);
                    return Err(Error::conflict(self.status(), message));
                }
                Ok(Reply::Done)
            }
            Command::Update(args) => self.update(*args.0),
            Command::Archive => {
                if !std::mem::replace(&mut self.work.archived, true) {
                    let archived =
                        SessionUpdated { status: Some(SessionStatus::Archived), ..Default::default() };
                    self.draft.tell(SessionScope {}, archived);
                    self.withdraw_waiting();
                }
                Ok(Reply::Done)
            }
            Command::Submit { args, source, from } => self.submit(*args.0, source, &from),
            Command::Interrupt { args, by } => self.interrupt(*args.0, &by),
            Command::Resume { thread, by } => self.resume(&thread, &by),
            Command::RemoveQueued { thread, turn, by } => self.remove_queued(&thread, &turn, &by),
            Command::PromoteQueued { thread, turn, by } => self.promote_queued(&thread, &turn, &by),
            Command::Respond(response) => self.respond(response),
            Command::Spawn { args, source } => self.spawn(*args.0, source),
            Command::Rollback(rollback) => self.rollback(*rollback),
            Command::Compact(compaction) => self.compact(*compaction),
            Command::Record(facts) => {
                let read = facts.iter().map(|fact| StoredEvent::decode(fact).map(|event| event.fact));
                let facts = read.collect::<Result<Vec<_>, _>>();
                let facts = facts.map_err(|error| Error::invalid("facts", error.to_string()))?;
                // Whoever found them has another clock; the time of a stream never goes back (P6).
                let now = self.draft.now;
                self.draft.facts.extend(facts.into_iter().map(|fact| Fact { at: now, ..fact }));
                Ok(Reply::Done)
            }
            Command::Evaluated { thread, turn, evaluated } => {
                self.evaluated(thread.as_ref(), turn, *evaluated.0)
            }
            Command::Expire(expiry) => self.expire(expiry),
        }
    }

    pub(super) fn status(&self) -> &'static str {
        if self.work.archived { "archived" } else { "active" }
    }

    pub(super) fn require_open(&self) -> Result<(), Error> {
        if self.work.archived {
            let message = format!("the session {} is archived and takes no new work", self.work.id);
            return Err(Error::conflict("archived", message));
        }
        Ok(())
    }

    fn update(&mut self, args: UpdateSession) -> Result<Reply, Error> {
        self.require_open()?;
        if let Some(agent) = &args.agent {
            self.work.agent = Some(agent.clone());
        }
        let updated = SessionUpdated {
            title: args.title,
            agent: args.agent,
            metadata: args.metadata,
            reason: args.reason,
            ..Default::default()
        };
        self.draft.tell(SessionScope {}, updated);
        Ok(Reply::Done)
    }

    /// Starts a thread, and says where it is in the list.
    pub(super) fn start_thread(&mut self, id: Option<ThreadId>) -> Result<usize, Error> {
        let limit = self.draft.engine.limits.threads;
        if self.work.threads.len() >= limit {
            let message = format!("the session has {limit} threads, which is the limit");
            return Err(Error::rate_limited(60_000, message));
        }
        let id = id.unwrap_or_else(|| self.draft.ids.next());
        let started = ThreadStarted { status: Some(ThreadStatus::Idle), ..Default::default() };
        self.draft.tell(ThreadScope { thread: id.clone() }, started);
        self.work.threads.push(Thread {
            id,
            run: None,
            queue: Default::default(),
            lingering: Vec::new(),
            unfinished: None,
            past: Past::default(),
        });
        Ok(self.work.threads.len() - 1)
    }

    pub(super) fn thread(&self, id: &ThreadId) -> Result<usize, Error> {
        let found = self.work.threads.iter().position(|thread| thread.id == *id);
        found.ok_or_else(|| Error::not_found("thread", id.as_str()))
    }

    /// The thread whose running turn this is.
    pub(super) fn active(&self, turn: &str) -> Option<(usize, &Run)> {
        self.work.threads.iter().enumerate().find_map(|(index, thread)| {
            thread.run.as_ref().filter(|run| run.turn.as_str() == turn).map(|run| (index, run))
        })
    }

    fn respond(&mut self, response: Response) -> Result<Reply, Error> {
        let action = response.action.clone();
        let asks = |thread: &Thread| {
            thread.run.as_ref().is_some_and(|run| run.open_actions().any(|open| *open == action))
        };
        let resolved = || Error::conflict("resolved", format!("the action {action} is resolved"));
        let index = self.work.threads.iter().position(asks).ok_or_else(resolved)?;
        let Some(run) = &mut self.work.threads[index].run else { return Err(resolved()) };
        let (asked, ending) = run.respond(response, &mut self.draft);
        asked.taken(&action)?;
        self.ended(index, ending);
        Ok(Reply::Done)
    }

    fn spawn(&mut self, args: crate::control::args::SpawnSubagent, source: Source) -> Result<Reply, Error> {
        self.require_open()?;
        let index = match (&args.turn_id, &args.thread_id) {
            (Some(turn), _) => match self.active(turn.as_str()) {
                Some((index, _)) => {
                    let thread = &self.work.threads[index].id;
                    if let Some(other) = args.thread_id.as_ref().filter(|named| *named != thread) {
                        return Err(super::not_of_thread(turn, other));
                    }
                    Some(index)
                }
                None => {
                    let message = format!("the turn {turn} is not running");
                    return Err(Error::conflict("not_running", message));
                }
            },
            (None, Some(thread)) => Some(self.thread(thread)?),
            (None, None) => None,
        };
        let agent = self.work.agent.clone().unwrap_or_else(|| crate::scripted::AGENT.into());
        let run = index.and_then(|index| self.work.threads[index].run.as_mut());
        let spawned = match run {
            Some(run) if run.is_closing() => {
                return Err(Error::conflict("cancelling", "the turn is being cancelled"));
            }
            Some(run) => {
                let (turn, lineage, depth) = (run.turn.clone(), run.lineage(), run.depth);
                let budget = run.budget(self.draft.engine);
                let spawner = Spawner { turn: Some(&turn), lineage, agent: &agent, depth, budget };
                spawner.spawn(&mut run.children, args, source, &mut self.draft)?
            }
            None => {
                let lineage = crate::entity::Lineage::default();
                let spawner = Spawner { turn: None, lineage, agent: &agent, depth: 0, budget: None };
                spawner.spawn(&mut self.work.loose, args, source, &mut self.draft)?
            }
        };
        let Spawned { subagent, thread, turn } = spawned;
        Ok(Reply::Spawned { subagent, thread, turn })
    }

    fn message(&mut self, from: &Address, message: Message) {
        let turn = match &message {
            Message::GoOn { turn } => turn.clone(),
            Message::ChildEnded { parent, .. }
            | Message::ChildClosed { parent }
            | Message::ChildReopened { parent, .. } => parent.turn.clone(),
            _ => return,
        };
        let Some(turn) = turn else { return self.loose_message(from, message) };
        let index = match (self.thread_of(&turn), &message) {
            (Some(index), _) => index,
            // A turn that was over with everybody below: somebody goes on, and an interrupt has to reach that.
            (None, Message::ChildReopened { .. }) if !self.work.threads.is_empty() => {
                if !self.draft.take_spare(LEFT_BYTES_MAX) {
                    return self.draft.send(from.clone(), Message::Close(Children::no_room()));
                }
                let thread = &mut self.work.threads[0];
                thread.lingering.push(Run::left_of(thread.id.clone(), turn.clone()));
                0
            }
            (None, _) => return,
        };
        let (draft, thread) = (&mut self.draft, &mut self.work.threads[index]);
        let lingering = thread.lingering.iter_mut().position(|run| run.turn == turn);
        let Some(run) = (match lingering {
            Some(at) => thread.lingering.get_mut(at),
            None => thread.run.as_mut(),
        }) else {
            return;
        };
        let ending = run.hear(from, message, draft);
        match lingering {
            Some(at) if thread.lingering[at].children.live() == 0 => {
                thread.lingering.remove(at);
                self.start_next_with_room();
            }
            Some(_) => {}
            None => self.ended(index, ending),
        }
    }

    fn loose_message(&mut self, from: &Address, message: Message) {
        let loose = &mut self.work.loose;
        match message {
            Message::ChildEnded { parent, id, status, live, .. } => {
                loose.ended(parent.group, &id, status, live);
                self.start_next_with_room();
            }
            Message::ChildClosed { parent } => {
                loose.closed(parent.group);
                self.start_next_with_room();
            }
            Message::ChildReopened { parent, again } => {
                loose.reopened(parent.group, from, &again, &mut self.draft);
            }
            // What was given up in the step before is room now.
            _ => self.start_next(),
        }
        if !self.work.loose.work(None, &mut self.draft) {
            self.draft.go_on(Message::GoOn { turn: None });
        }
    }

    fn thread_of(&self, turn: &TurnId) -> Option<usize> {
        self.work.threads.iter().position(|thread| {
            thread.run.as_ref().is_some_and(|run| run.turn == *turn)
                || thread.lingering.iter().any(|run| run.turn == *turn)
        })
    }

    fn timer(&mut self, name: &str) {
        let Some((turn, what)) = split_name(name) else { return };
        if let Some((index, _)) = self.active(turn) {
            let Some(run) = &mut self.work.threads[index].run else { return };
            let ending = run.take_timer(what, &mut self.draft);
            self.ended(index, ending);
        } else if what == "deadline" {
            self.expire_queued(turn);
        }
    }

    fn effect(&mut self, id: &str, result: EffectResult<Outcome>) {
        let Some((turn, what)) = split_name(id) else { return };
        let Some((index, _)) = self.active(turn) else { return };
        let Some(run) = &mut self.work.threads[index].run else { return };
        let ending = run.take_effect(what, result, &mut self.draft);
        self.ended(index, ending);
    }

    /// The running turn of a thread may have ended: the next one begins.
    pub(super) fn ended(&mut self, index: usize, ending: Option<Ending>) {
        let Some(ending) = ending else { return };
        self.over(index, &ending);
        self.start_next_with_room();
    }

    /// What is kept of a turn that has ended.
    pub(super) fn over(&mut self, index: usize, ending: &Ending) {
        let thread = &mut self.work.threads[index];
        if let Some(run) = thread.run.take() {
            thread.unfinished = (ending.status != TurnStatus::Completed).then(|| super::Unfinished {
                agent: run.agent.clone(),
                source: run.source().clone(),
                attempt: run.attempt,
                budget: run.budget(self.draft.engine),
                turn: Some(run.turn.clone()),
                model: run.model_asked().map(str::to_owned),
                failures: run.failures().clone(),
            });
            if run.children.live() > 0 {
                thread.lingering.push(run.remains());
            }
        }
    }
}

/// A hash by which the same request is recognised.
pub(crate) fn fingerprint<T: serde::Serialize>(request: &T) -> u128 {
    let bytes = rmp_serde::to_vec_named(request).expect("requests serialize into memory without fail");
    xxhash_rust::xxh3::xxh3_128(&bytes)
}
