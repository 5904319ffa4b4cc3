//! What follows from what a task hears.

use cadre_cluster::{
    address::Address,
    host::{Decision, EffectResult, Input, Moment},
};

use super::{
    Command, Reply, State, Task, Work,
    create::{create, not_created},
    cycle, watch,
};
use crate::{
    control::Error,
    entity::{Host, Message, Parent, Start, records},
    exec::{Draft, Outcome, split_name},
    fact::{
        Class, Failure, Ids,
        id::TaskId,
        payload::{TaskResumed, TaskWaiting},
        scope::TaskScope,
        status::{SubagentStatus, TaskStatus},
    },
    view::TaskView,
};

pub(super) fn decide(
    host: &Host,
    state: &State,
    input: Input<Task>,
    moment: &Moment<'_>,
) -> Result<Decision<Task>, Error> {
    let id = TaskId::parse(moment.address.id()).map_err(|_| Error::not_found("task", moment.address.id()))?;
    let Some(work) = &state.work else {
        return match input {
            Input::Message { message: Message::Start(start), .. } => {
                let parent = start.parent.clone();
                Ok(create(host, id.clone(), *start, moment)
                    .map_or_else(|error| not_created(&id, parent, error), Step::decision))
            }
            Input::Command(Command::Create(start)) => {
                let step = create(host, id, *start, moment)?;
                let reply = step.reply();
                Ok(step.decision().reply(reply))
            }
            Input::Command(_) => Err(Error::not_found("task", id.as_str())),
            Input::Message { from, message: Message::Watch { .. } } => {
                // Somebody waits for a task that nobody has created: say so, rather than nothing.
                Ok(Decision::nothing()
                    .send::<Task>(from, &Message::DependencyEnded { task: id, status: TaskStatus::Unknown }))
            }
            _ => Ok(Decision::nothing()),
        };
    };
    let draft = Draft::new(&host.engine, work.session.clone(), moment);
    let mut step = Step { work: work.clone(), draft };
    match input {
        Input::Command(command) => {
            let reply = step.command(command, &state.view)?;
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
        Input::Progress { progress, .. } => {
            if let Some(run) = step.run() {
                let mut run = run.clone();
                run.take_progress(progress, &mut step.draft);
                step.set_run(run);
            }
            Ok(step.decision())
        }
        Input::Effect { id, result } => {
            step.effect(&id, result);
            Ok(step.decision())
        }
    }
}

/// One input of a task.
pub(super) struct Step<'a> {
    pub work: Work,
    pub draft: Draft<'a>,
}

impl Step<'_> {
    pub(super) fn decision(mut self) -> Decision<Task> {
        self.tell_waiting();
        self.draft.decision(Some(self.work))
    }

    /// Says that its run waits for somebody's decision, and that it does not any more.
    fn tell_waiting(&mut self) {
        let Some(run) = self.run() else { return };
        let asked = run.waits_for().map(|(action, permission)| (action.clone(), permission));
        let action = asked.as_ref().map(|(action, _)| action.clone());
        let is_other = std::mem::replace(&mut self.work.waits_for, action.clone()) != action;
        let waits = matches!(self.work.status, TaskStatus::WaitingPermission | TaskStatus::WaitingInput);
        match (self.work.status, asked) {
            (status, Some((action, permission))) if status == TaskStatus::Running || (waits && is_other) => {
                let status =
                    if permission { TaskStatus::WaitingPermission } else { TaskStatus::WaitingInput };
                self.set_status(status);
                let reason = Some("a decision is needed".into());
                self.tell(TaskWaiting { status, reason, action_id: Some(action), ..Default::default() });
            }
            (_, None) if waits => {
                let status = TaskStatus::Running;
                self.set_status(status);
                let reason = Some("no decision is needed any more".into());
                self.tell(TaskResumed { status, reason, by: None });
            }
            _ => {}
        }
    }

    pub(super) fn reply(&self) -> Reply {
        let attempt = self.work.attempt.as_ref();
        let run = attempt.and_then(|attempt| attempt.agent.as_ref());
        Reply::Task {
            task: self.work.id.clone(),
            status: self.work.status,
            run: attempt.map(|attempt| attempt.run.clone()),
            session: Some(self.work.session.clone()),
            attempt: attempt.map(|attempt| attempt.number),
            place: run.map(|run| (run.thread.clone(), run.turn.clone())),
        }
    }

    fn command(&mut self, command: Command, view: &TaskView) -> Result<Reply, Error> {
        match command {
            Command::Create(start) => {
                if start.fingerprint() != self.work.fingerprint {
                    let message = format!("the task {} exists with other content", self.work.id);
                    return Err(Error::conflict(self.work.status.as_str(), message));
                }
            }
            Command::AddChild(id, start) => return self.add_child(id, *start),
            Command::AddJob(id, start) => self.add_job(&id, *start)?,
            Command::Update(args) => self.update(*args.0)?,
            Command::Start { by, reason } => self.start(by, reason)?,
            Command::Progress(args) => self.progress(*args.0)?,
            Command::Pause { reason, by } => self.pause(reason, by)?,
            Command::Resume { by, reason } => self.resume(by, reason)?,
            Command::Cancel { reason, propagate, by } => self.cancel(reason, propagate, &by)?,
            Command::Retry { reason, by } => self.retry(reason, by)?,
            Command::Complete { args, by } => self.complete(*args.0, by)?,
            Command::Fail { error, by } => self.fail(error, by)?,
            Command::Link { kind, target, reason } => self.link(kind, target, reason)?,
            Command::Unlink { kind, target, reason } => self.unlink(&kind, &target, reason, view)?,
            Command::Respond(response) => self.respond(response)?,
            Command::Spawn { args, source } => return self.spawn(*args.0, source),
        }
        Ok(self.reply())
    }

    /// Refuses what a task cannot do in the state it is in.
    pub(super) fn require(&self, allowed: &[TaskStatus], what: &str) -> Result<(), Error> {
        let status = self.work.status;
        if allowed.contains(&status) {
            return Ok(());
        }
        let message = format!("the task {} is {status} and cannot {what}", self.work.id);
        Err(Error::conflict(status.as_str(), message))
    }

    pub(super) fn require_open(&self, what: &str) -> Result<(), Error> {
        let status = self.work.status;
        if status.is_terminal() || status == TaskStatus::Cancelling {
            let message = format!("the task {} is {status} and cannot {what}", self.work.id);
            return Err(Error::conflict(status.as_str(), message));
        }
        Ok(())
    }

    fn message(&mut self, from: &Address, message: Message) {
        match message {
            Message::Watch { task } => self.watched(task),
            Message::Unwatch { task } => {
                self.work.watchers.remove(&task);
            }
            Message::DependencyEnded { task, status } => self.need_ended(&task, status),
            // Nobody else's script closes it by naming it.
            Message::Close(close) if Parent::is(self.work.parent.as_ref(), from) => self.close(close),
            Message::Close(_) => {}
            Message::GoOn { turn: None } => self.work_children(),
            Message::ChildEnded { ref parent, ref id, status, live, .. } if parent.turn.is_none() => {
                self.work.children.ended(parent.group, id, status, live);
                self.work_children();
                self.settle();
            }
            Message::ChildClosed { ref parent } if parent.turn.is_none() => {
                self.work.children.closed(parent.group);
                self.work_children();
                self.settle();
            }
            Message::ChildReopened { ref parent, ref again } if parent.turn.is_none() => {
                let order = self.order();
                self.work.children.stand_under(order.as_ref());
                self.work.children.reopened(parent.group, from, again, &mut self.draft);
                self.reopen(None);
            }
            Message::Start(start) => self.refuse_second_parent(*start),
            message => self.run_message(from, message),
        }
    }

    /// What concerns the run of the current attempt.
    fn run_message(&mut self, from: &Address, message: Message) {
        let Some(mut run) = self.last_run().cloned() else { return };
        let turn = match &message {
            Message::GoOn { turn } => turn.as_ref(),
            Message::ChildEnded { parent, .. }
            | Message::ChildClosed { parent }
            | Message::ChildReopened { parent, .. } => parent.turn.as_ref(),
            _ => return,
        };
        // Children of a former attempt that live on are those of the current one.
        let is_ours = turn == Some(&run.turn) || !matches!(message, Message::GoOn { .. });
        if !is_ours {
            return;
        }
        if matches!(message, Message::ChildReopened { .. }) {
            run.children.stand_under(self.order().as_ref());
        }
        let ending = run.hear(from, message, &mut self.draft);
        self.set_run(run);
        if self.last_run_live() {
            self.reopen(None);
        }
        self.attempt_ended(ending);
        self.settle();
    }

    fn refuse_second_parent(&mut self, start: Start) {
        let Some(parent) = start.parent.filter(|parent| Some(parent) != self.work.parent.as_ref()) else {
            return;
        };
        let error = Failure::new("conflict", format!("the task {} exists", self.work.id));
        let ended = Message::ChildEnded {
            parent: parent.slot,
            id: self.work.id.to_string(),
            status: SubagentStatus::Failed,
            live: false,
            error: Some(error),
        };
        self.draft.send(parent.address, ended);
    }

    fn timer(&mut self, name: &str) {
        match (name, split_name(name)) {
            ("retry", _) => self.retry_due(),
            // A worker that is done is not too late any more.
            ("heartbeat" | "timeout", _) if !self.is_tried() => {}
            ("heartbeat", _) => self.heartbeat_missed(),
            ("timeout", _) => self.timed_out(),
            (_, Some((turn, what))) => {
                let Some(mut run) = self.run().filter(|run| run.turn.as_str() == turn).cloned() else {
                    return;
                };
                let ending = run.take_timer(what, &mut self.draft);
                self.set_run(run);
                self.attempt_ended(ending);
                self.settle();
            }
            _ => {}
        }
    }

    /// Whether an attempt goes on.
    fn is_tried(&self) -> bool {
        self.work.attempt.as_ref().is_some_and(|attempt| attempt.open)
    }

    fn effect(&mut self, id: &str, result: EffectResult<Outcome>) {
        match id {
            watch::EFFECT => return self.found_watchers(result),
            cycle::EFFECT => return self.looked_for_cycle(result),
            _ => {}
        }
        let Some((turn, what)) = split_name(id) else { return };
        let Some(mut run) = self.run().filter(|run| run.turn.as_str() == turn).cloned() else { return };
        let ending = run.take_effect(what, result, &mut self.draft);
        self.set_run(run);
        self.attempt_ended(ending);
        self.settle();
    }

    pub(super) fn set_status(&mut self, status: TaskStatus) {
        let session = self.work.session.clone();
        self.draft.count(records::count(&session, "tasks", self.work.status.as_str()), -1);
        self.draft.count(records::count(&session, "tasks", status.as_str()), 1);
        self.work.status = status;
    }

    pub(super) fn ids(&self) -> Ids {
        let mut ids = Ids::default().with(self.work.id.clone());
        if let Some(parent) = &self.work.lineage.task {
            ids = ids.with_parent_task(parent.clone());
        }
        if let Some(subagent) = &self.work.lineage.subagent {
            ids = ids.with(subagent.clone());
        }
        if let Some(attempt) = &self.work.attempt {
            ids = ids.with(attempt.run.clone());
        }
        ids
    }

    pub(super) fn tell<P: Class<Scope = TaskScope>>(&mut self, payload: P) {
        let ids = self.ids();
        self.draft.tell_within(&ids, TaskScope { task: self.work.id.clone() }, payload);
    }
}
