//! What follows from what a subagent hears.

use cadre_cluster::{
    address::Address,
    host::{Decision, Input, Moment},
};

use super::{Command, Reply, State, Subagent, Work};
use crate::{
    control::Error,
    entity::{
        Child, Close, Host, Message, Parent, Reopened, Start, kind,
        parent::{self, Spawner},
        records,
    },
    exec::{Draft, Ending, NewRun, Run, STEP_RETRIES_MAX, Source, split_name},
    fact::{
        Failure, Ids,
        id::{Id, SubagentId, ThreadId, TurnId},
        payload::{
            SubagentClosed, SubagentCompleted, SubagentFailed, SubagentInput, SubagentSpawned,
            SubagentStatusChanged,
        },
        scope::SubagentScope,
        status::SubagentStatus,
    },
    sabotage::{Sabotage, is_on},
};

pub(super) fn decide(
    host: &Host,
    state: &State,
    input: Input<Subagent>,
    moment: &Moment<'_>,
) -> Result<Decision<Subagent>, Error> {
    let id = SubagentId::parse(moment.address.id())
        .map_err(|_| Error::not_found("subagent", moment.address.id()))?;
    let Some(work) = &state.work else {
        return match input {
            Input::Message { message: Message::Start(start), .. } => Ok(begin(host, id, *start, moment)),
            Input::Command(_) => Err(Error::not_found("subagent", id.as_str())),
            _ => Ok(Decision::nothing()),
        };
    };
    let draft = Draft::new(&host.engine, work.session.clone(), moment);
    let mut step = Step { id, work: work.clone(), draft };
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
            let ending = match split_name(&name) {
                Some((turn, name)) if turn == step.work.run.turn.as_str() => {
                    step.work.run.take_timer(name, &mut step.draft)
                }
                _ => None,
            };
            step.ended(ending);
            Ok(step.decision())
        }
        Input::Progress { progress, .. } => {
            step.work.run.take_progress(progress, &mut step.draft);
            Ok(step.decision())
        }
        Input::Effect { id, result } => {
            let ending = match split_name(&id) {
                Some((turn, name)) if turn == step.work.run.turn.as_str() => {
                    step.work.run.take_effect(name, result, &mut step.draft)
                }
                _ => None,
            };
            step.ended(ending);
            Ok(step.decision())
        }
    }
}

fn begin(host: &Host, id: SubagentId, start: Start, moment: &Moment<'_>) -> Decision<Subagent> {
    let Child::Subagent(spec) = start.what else { return Decision::nothing() };
    let mut draft = Draft::new(&host.engine, start.session.clone(), moment);
    let thread = spec.thread.clone().unwrap_or_else(|| ThreadId::with_suffix(id.suffix()));
    let turn = spec.turn.clone().unwrap_or_else(|| TurnId::with_suffix(id.suffix()));
    let lineage = start.lineage;
    let mut around = Ids::default().with(id.clone());
    if let Some(task) = &lineage.task {
        around = around.with(task.clone());
    }
    let spawned = SubagentSpawned {
        status: SubagentStatus::Running,
        agent: start.agent.clone(),
        depth: start.depth,
        parent_subagent_id: lineage.subagent.clone(),
        parent_task_id: lineage.task.clone(),
        parent_turn_id: lineage.turn.clone(),
        parent_thread_id: lineage.thread.clone(),
        role: spec.role.clone(),
        nickname: spec.nickname.clone(),
        isolation: spec.isolation.clone(),
        model_policy: spec.model_policy.as_deref().and_then(|json| serde_json::from_str(json).ok()),
        deadline_ms: spec.deadline_ms,
        ..Default::default()
    };
    let ids = around.clone().with(thread.clone()).with(turn.clone());
    draft.tell_within(&ids, SubagentScope { subagent: id.clone() }, spawned);
    let above = match &lineage.subagent {
        Some(subagent) => (kind::SUBAGENT, subagent.as_str()),
        None => (kind::SESSION, start.session.as_str()),
    };
    draft.set_record(records::subagent(&start.session, above, id.as_str()), &[][..]);
    // What works for a task further up is below somebody who does, and is listed there.
    let is_of_task = start.parent.as_ref().is_some_and(|parent| parent.address.kind() == kind::TASK);
    if let Some(task) = lineage.task.as_ref().filter(|_| is_of_task) {
        draft
            .set_record(records::subagent(&start.session, (kind::TASK, task.as_str()), id.as_str()), &[][..]);
    }
    draft.count(records::count(&start.session, "subagents", SubagentStatus::Running.as_str()), 1);
    let new = NewRun {
        thread,
        turn,
        around,
        agent: start.agent,
        model: None,
        attempt: 1,
        depth: start.depth,
        source: start.input,
        retries_max: STEP_RETRIES_MAX,
        budget: start.budget,
        history: None,
        deadline: spec.deadline_ms.map(|ms| draft.now.in_ms(ms)),
    };
    let run = Run::begin(new, "subagent", false, &mut draft);
    let work = Work {
        session: start.session,
        parent: start.parent,
        lineage,
        spec,
        status: SubagentStatus::Running,
        run,
        closed: false,
    };
    let mut step = Step { id, work, draft };
    let ending = step.work.run.advance(&mut step.draft);
    step.ended(ending);
    step.decision()
}

/// One input of a subagent that was started.
struct Step<'a> {
    id: SubagentId,
    work: Work,
    draft: Draft<'a>,
}

impl Step<'_> {
    fn decision(mut self) -> Decision<Subagent> {
        self.tell_waiting();
        self.draft.decision(Some(self.work))
    }

    /// Says that it waits for somebody's decision, and that it does not any more.
    fn tell_waiting(&mut self) {
        let (from, asked) = (self.work.status, self.work.run.waits_for().is_some());
        let (status, reason) = match (from, asked) {
            (SubagentStatus::Running, true) => (SubagentStatus::WaitingInput, "a decision is needed"),
            (SubagentStatus::WaitingInput, false) => {
                (SubagentStatus::Running, "no decision is needed any more")
            }
            _ => return,
        };
        self.count(from, status);
        self.work.status = status;
        let attempt = Some(self.work.run.attempt);
        self.tell(SubagentStatusChanged { status, reason: Some(reason.into()), attempt, by: None });
    }

    fn reply(&self) -> Reply {
        Reply {
            subagent: self.id.clone(),
            thread: self.work.run.thread.clone(),
            turn: self.work.run.turn.clone(),
            status: self.work.status,
            session: Some(self.work.session.clone()),
            attempt: Some(self.work.run.attempt),
        }
    }

    fn command(&mut self, command: Command) -> Result<Reply, Error> {
        match command {
            Command::Input { input, by } => {
                self.require_open()?;
                self.work.run.steer(input.clone()).map_err(|error| error.with("field", "input"))?;
                if !self.draft.take_spare(Source::Inline(input.clone()).size()) {
                    return Err(Error::rate_limited(
                        1_000,
                        "the subagent has too much going on to hear more",
                    ));
                }
                self.tell(SubagentInput { input, source: Some(by), input_turn_id: None });
            }
            Command::Resume { source, reason, by } => self.resume(source, reason, by)?,
            Command::Close { reason, by } => self.close(Close { reason, by }),
            Command::Respond(response) => self.respond(response)?,
            Command::Spawn { args, source } => {
                self.require_open()?;
                if let Some(turn) = args.0.turn_id.as_ref().filter(|turn| **turn != self.work.run.turn) {
                    let message = format!("the turn {turn} of the subagent {} is over", self.id);
                    return Err(Error::conflict("not_running", message));
                }
                let spawner = Spawner {
                    turn: Some(&self.work.run.turn),
                    lineage: self.work.run.lineage(),
                    agent: &self.work.run.agent,
                    depth: self.work.run.depth,
                    budget: self.work.run.budget(self.draft.engine),
                };
                let spawned = spawner.spawn(&mut self.work.run.children, *args.0, source, &mut self.draft)?;
                let parent::Spawned { subagent, thread, turn } = spawned;
                return Ok(Reply {
                    subagent,
                    thread,
                    turn,
                    status: SubagentStatus::Running,
                    session: Some(self.work.session.clone()),
                    attempt: Some(1),
                });
            }
        }
        Ok(self.reply())
    }

    fn require_open(&self) -> Result<(), Error> {
        let status = self.work.status;
        if status.is_terminal() || self.work.run.is_closing() {
            let status = if status.is_terminal() { status } else { SubagentStatus::Cancelling };
            let message = format!("the subagent {} is {status}", self.id);
            return Err(Error::conflict(status.as_str(), message));
        }
        Ok(())
    }

    fn respond(&mut self, response: crate::exec::Response) -> Result<(), Error> {
        let action = response.action.clone();
        let (asked, ending) = self.work.run.respond(response, &mut self.draft);
        asked.taken(&action)?;
        self.ended(ending);
        Ok(())
    }

    /// Starts another attempt of one that did not complete.
    fn resume(&mut self, source: Option<Source>, reason: Option<String>, by: String) -> Result<(), Error> {
        let status = self.work.status;
        if !status.is_terminal() || status == SubagentStatus::Completed {
            let message = format!("the subagent {} is {status}: there is nothing to resume", self.id);
            return Err(Error::conflict(status.as_str(), message));
        }
        let attempt = self.work.run.attempt + 1;
        if !is_on(Sabotage::ResumeNotCounted) {
            self.count(status, SubagentStatus::Running);
        }
        let former = self.work.run.clone();
        let source = source.unwrap_or_else(|| former.source().clone());
        let turn: TurnId = self.draft.ids.next();
        let told = SubagentStatusChanged {
            status: SubagentStatus::Running,
            attempt: Some(attempt),
            by: Some(by),
            reason: Some(reason.unwrap_or_else(|| "resumed".into())),
        };
        let scope = SubagentScope { subagent: self.id.clone() };
        let ids = former.around.clone().with(former.thread.clone()).with(turn.clone());
        self.draft.tell_within(&ids, scope, told);
        let new = NewRun {
            thread: former.thread.clone(),
            turn,
            around: former.around.clone(),
            agent: former.agent.clone(),
            model: None,
            attempt,
            depth: former.depth,
            source,
            retries_max: STEP_RETRIES_MAX,
            budget: former.budget(self.draft.engine),
            history: None,
            deadline: self.work.spec.deadline_ms.map(|ms| self.draft.now.in_ms(ms)),
        };
        self.reopen(Some(status));
        self.work.run = Run::begin(new, "resume", false, &mut self.draft).after(&former);
        self.work.status = SubagentStatus::Running;
        let ending = self.work.run.advance(&mut self.draft);
        self.ended(ending);
        Ok(())
    }

    /// It goes on, or somebody below it does: everybody above has to know, so that a cancel reaches it and who waits for it
    /// waits on (P11).
    fn reopen(&mut self, ended_as: Option<SubagentStatus>) {
        let was_closed = std::mem::replace(&mut self.work.closed, false);
        if (was_closed || ended_as.is_some())
            && let Some(Parent { address, slot }) = self.work.parent.clone()
        {
            let again = Reopened { id: self.id.to_string(), ended_as, was_closed };
            self.draft.send(address, Message::ChildReopened { parent: slot, again });
        }
    }

    fn message(&mut self, from: &Address, message: Message) {
        let ending = match message {
            // Nobody else's script closes it by naming it.
            Message::Close(close) => {
                if Parent::is(self.work.parent.as_ref(), from) {
                    self.close(close);
                }
                None
            }
            Message::Start(start) => {
                self.refuse_second_parent(*start);
                None
            }
            message => {
                if matches!(message, Message::ChildReopened { .. }) {
                    self.reopen(None);
                }
                self.work.run.hear(from, message, &mut self.draft)
            }
        };
        self.ended(ending);
    }

    /// Somebody else wanted to start a subagent of this name at the same moment.
    fn refuse_second_parent(&mut self, start: Start) {
        let Some(parent) = start.parent.filter(|parent| Some(parent) != self.work.parent.as_ref()) else {
            return;
        };
        let ended = Message::ChildEnded {
            parent: parent.slot,
            id: self.id.to_string(),
            status: SubagentStatus::Failed,
            live: false,
            error: Some(Failure::new("conflict", "a subagent of this id exists")),
        };
        self.draft.send(parent.address, ended);
    }

    fn close(&mut self, close: Close) {
        if self.work.status.is_terminal() {
            self.work.run.close_rest(&close, &mut self.draft);
            self.tell_closed();
            return;
        }
        let ending = Ending::cancelled(close.reason, &close.by);
        let ending = self.work.run.close(ending, &mut self.draft);
        self.ended(ending);
    }

    /// The run has ended, and with it the subagent.
    fn ended(&mut self, ending: Option<Ending>) {
        let Some(ending) = ending else {
            self.tell_closed();
            return;
        };
        let attempt = Some(self.work.run.attempt);
        let failure = || Failure::new("internal", "it ended without saying why");
        let status = SubagentStatus::from(ending.status);
        match status {
            SubagentStatus::Completed => {
                self.tell(SubagentCompleted { status, attempt, ..Default::default() });
                if is_on(Sabotage::TerminalFactTwice) {
                    self.tell(SubagentCompleted { status, attempt, ..Default::default() });
                }
            }
            SubagentStatus::Cancelled => {
                self.tell(SubagentClosed { status, reason: ending.reason, by: ending.by });
            }
            _ => {
                let error = ending.error.unwrap_or_else(failure);
                self.tell(SubagentFailed { status, error, attempt, ..Default::default() });
            }
        }
        self.count(self.work.status, status);
        metrics::counter!("cadre_subagents_total", "status" => status.as_str()).increment(1);
        self.work.status = status;
        let live = self.work.run.children.live() > 0;
        self.work.closed = !live;
        if let Some(Parent { address, slot }) = self.work.parent.clone() {
            let id = self.id.to_string();
            let ended = Message::ChildEnded { parent: slot, id, status, live, error: None };
            self.draft.send(address, ended);
        }
    }

    /// Tells the parent when the last of the children is closed after the subagent itself has ended.
    fn tell_closed(&mut self) {
        if self.work.status.is_terminal() && self.work.run.children.live() == 0 {
            Parent::tell_closed(self.work.parent.as_ref(), &mut self.work.closed, &mut self.draft);
        }
    }

    fn tell<P: crate::fact::Class<Scope = SubagentScope>>(&mut self, payload: P) {
        let run = &self.work.run;
        let ids = run.around.clone().with(run.thread.clone()).with(run.turn.clone());
        self.draft.tell_within(&ids, SubagentScope { subagent: self.id.clone() }, payload);
    }

    fn count(&mut self, from: SubagentStatus, to: SubagentStatus) {
        let session = self.work.session.clone();
        self.draft.count(records::count(&session, "subagents", from.as_str()), -1);
        self.draft.count(records::count(&session, "subagents", to.as_str()), 1);
    }
}
