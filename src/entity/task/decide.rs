//! What follows from what a task hears.

use cadre_cluster::{
    address::Address,
    host::{Decision, EffectResult, Input, Moment},
};

use super::{Command, Reply, State, Task, Work, cycle, watch};
use crate::{
    control::{
        Error,
        args::{AppendTaskProgress, RunBudget, SpawnSubagent, UpdateTask},
    },
    entity::{
        Child, Host, Message, Parent, Start,
        parent::{Spawned, Spawner},
        records,
    },
    exec::{Asked, Budget, Children, Draft, Group, Names, Outcome, Response, Source, split_name},
    fact::{
        Class, Failure, Ids,
        id::{JobId, TaskId},
        payload::{
            TaskAccepted, TaskCreated, TaskPaused, TaskProgress, TaskResumed, TaskUpdated, TaskWaiting,
            Visibility,
        },
        scope::TaskScope,
        status::{SubagentStatus, TaskStatus},
    },
    sabotage::{Sabotage, is_on},
    scripted::Join,
};

/// What remembering one task that has to end first takes, beside its name.
const NEED_BYTES: usize = 24;
/// What is shown of what a task was told, at most.
const VIEW_BYTES_MAX: usize = 16 * 1024;

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

/// The input, apart when there is no room for it: an attempt has it once more.
fn keep_input(id: &TaskId, input: Source, draft: &mut Draft<'_>) -> Source {
    match input {
        Source::Inline(parts) if !draft.take_spare(2 * Source::Inline(parts.clone()).size()) => {
            let content = serde_json::to_vec(&parts).expect("parts serialize into memory without fail");
            Source::Stored(draft.keep(content, Ids::default().with(id.clone())))
        }
        input => input,
    }
}

/// What cannot be a task has ended before it began, and whoever wanted it hears of that.
fn not_created(id: &TaskId, parent: Option<Parent>, error: Error) -> Decision<Task> {
    let Some(Parent { address, slot }) = parent else { return Decision::nothing() };
    let ended = Message::ChildEnded {
        parent: slot,
        id: id.to_string(),
        status: SubagentStatus::Failed,
        live: false,
        again: false,
        error: Some(Failure::new(error.code.as_str(), error.message)),
    };
    Decision::nothing().send_to(address, &ended)
}

fn create<'a>(host: &'a Host, id: TaskId, start: Start, moment: &Moment<'a>) -> Result<Step<'a>, Error> {
    let fingerprint = start.fingerprint();
    let Child::Task(mut spec) = start.what else {
        return Err(Error::invalid("taskId", "this is the id of a task"));
    };
    let args = (*spec.0).clone();
    // Kept as what it needs, which changes.
    spec.0.depends_on = Vec::new();
    let mut draft = Draft::new(&host.engine, start.session.clone(), moment);
    let told = serde_json::to_vec(&spec.0).map_or(usize::MAX, |json| json.len());
    let needs: usize = args.depends_on.iter().map(|need| need.as_str().len() + NEED_BYTES).sum();
    let bytes = told.saturating_add(told.min(VIEW_BYTES_MAX)).saturating_add(needs);
    if !draft.take_spare(bytes) {
        return Err(Error::too_large(draft.spare as u64, bytes as u64));
    }
    // Without an agent and without anything to run, somebody outside does the work.
    let is_outside = args.agent.is_none() && start.input.size() == 0;
    let is_named = args.task_id.is_some();
    let source = keep_input(&id, start.input, &mut draft);
    let created = TaskCreated {
        status: TaskStatus::Accepted,
        objective: args.objective.clone(),
        title: args.title.clone(),
        task_kind: args.task_kind.clone(),
        visibility: Some(args.visibility.unwrap_or(Visibility::Foreground)),
        priority: args.priority.clone(),
        assignee: args.assignee.clone(),
        agent: args.agent.clone(),
        constraints: args.constraints.clone(),
        profile: args.profile.clone(),
        acceptance: args.acceptance.clone(),
        depends_on: args.depends_on.clone(),
        retry_policy: args.retry_policy,
        timeout_ms: args.timeout_ms,
        auto_start: args.auto_start,
        ..Default::default()
    };
    let mut step = Step {
        work: Work {
            id: id.clone(),
            session: start.session.clone(),
            parent: start.parent,
            lineage: start.lineage,
            fingerprint,
            agent: (!is_outside).then_some(start.agent),
            source,
            depth: start.depth,
            status: TaskStatus::Accepted,
            before_pause: None,
            waits_for: None,
            wanted: args.auto_start,
            attempts: 0,
            attempts_spent: 0,
            attempt: None,
            children: Children::default(),
            needs: Default::default(),
            watchers: Default::default(),
            ending: None,
            closed: false,
            // Others may wait for a name before there is anybody of that name: who does is looked up at the end.
            has_more_watchers: is_named,
            budget: start.budget,
            spec,
        },
        draft,
    };
    step.tell(created);
    step.draft.set_record(records::task(&start.session, &id), &[][..]);
    let parent = step.work.lineage.task.as_ref().map_or_else(Vec::new, |parent| parent.as_str().into());
    step.draft.set_record(records::any_task(&id), parent);
    if let Some(parent) = &step.work.lineage.task {
        step.draft.set_record(records::task_child(parent, &id), &[][..]);
    }
    step.draft.count(records::count(&start.session, "tasks", TaskStatus::Accepted.as_str()), 1);
    if !args.depends_on.is_empty() {
        step.look_for_cycle();
    }
    for need in args.depends_on {
        step.need(need);
    }
    if !step.is_blocked() {
        step.tell(TaskAccepted { status: TaskStatus::Accepted, ..Default::default() });
    }
    step.go_on();
    Ok(step)
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
        Reply::Task {
            task: self.work.id.clone(),
            status: self.work.status,
            run: self.work.attempt.as_ref().map(|attempt| attempt.run.clone()),
        }
    }

    fn command(&mut self, command: Command) -> Result<Reply, Error> {
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
            Command::Start { by } => self.start(&by)?,
            Command::Progress(args) => self.progress(*args.0)?,
            Command::Pause { reason, by } => self.pause(reason, by)?,
            Command::Resume { by } => self.resume(by)?,
            Command::Cancel { reason, propagate, by } => self.cancel(reason, propagate, &by)?,
            Command::Retry { reason, by } => self.retry(reason, by)?,
            Command::Complete { args, by } => self.complete(*args.0, by)?,
            Command::Fail { error, by } => self.fail(error, by)?,
            Command::Link { kind, target, reason } => self.link(kind, target, reason)?,
            Command::Unlink { kind, target } => self.unlink(&kind, &target)?,
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

    fn add_child(&mut self, id: TaskId, start: Start) -> Result<Reply, Error> {
        self.require_open("take a task below it")?;
        if self.work.depth >= self.draft.engine.limits.depth {
            let limit = self.draft.engine.limits.depth;
            return Err(Error::invalid("parentTaskId", format!("tasks may be {limit} deep")));
        }
        self.adopt(super::kind::TASK, id.to_string(), start)?;
        Ok(Reply::Task { task: id, status: TaskStatus::Accepted, run: None })
    }

    fn add_job(&mut self, id: &JobId, start: Start) -> Result<(), Error> {
        self.require_open("take a job")?;
        self.adopt(super::kind::JOB, id.to_string(), start)
    }

    /// Starts something below that a caller has asked for.
    fn adopt(&mut self, kind: &str, id: String, start: Start) -> Result<(), Error> {
        let open = self.work.children.len();
        if open >= self.draft.engine.limits.children_open {
            let message = format!("the task has {open} children that are not closed");
            return Err(Error::rate_limited(1_000, message));
        }
        if !self.draft.take_spare(Group::BYTES_MAX) {
            return Err(Error::rate_limited(1_000, "the task has too much going on to take more below it"));
        }
        let names = Names::one(kind, &id);
        let budget = Budget::lower(self.budget(), start.budget);
        let start = Start { lineage: self.lineage(), depth: self.work.depth + 1, budget, ..start };
        self.work.children.add(Group::new(names, 1, Join::None, None, start));
        self.work_children();
        Ok(())
    }

    fn spawn(&mut self, args: SpawnSubagent, source: Source) -> Result<Reply, Error> {
        self.require_open("start a subagent")?;
        let agent = self.work.agent.clone().unwrap_or_else(|| crate::scripted::AGENT.into());
        let (lineage, depth) = (self.lineage(), self.work.depth);
        let spawner = Spawner { turn: None, lineage, agent: &agent, depth, budget: self.budget() };
        let Spawned { subagent, thread, turn } =
            spawner.spawn(&mut self.work.children, args, source, &mut self.draft)?;
        Ok(Reply::Spawned { subagent, thread, turn })
    }

    /// What each attempt, and whatever is started below, may use up.
    pub(super) fn budget(&self) -> Option<Budget> {
        Budget::lower(self.work.budget, RunBudget::of_constraints(&self.work.spec.constraints))
    }

    fn lineage(&self) -> crate::entity::Lineage {
        crate::entity::Lineage {
            task: Some(self.work.id.clone()),
            subagent: self.work.lineage.subagent.clone(),
            ..Default::default()
        }
    }

    pub(super) fn work_children(&mut self) {
        if !self.work.children.work(None, &mut self.draft) {
            self.draft.go_on(Message::GoOn { turn: None });
        }
    }

    fn update(&mut self, args: UpdateTask) -> Result<(), Error> {
        self.require_open("be changed")?;
        let bytes = serde_json::to_vec(&args).map_or(usize::MAX, |json| json.len());
        if !self.draft.take_spare(bytes) {
            return Err(Error::too_large(self.draft.spare as u64, bytes as u64));
        }
        let spec = &mut self.work.spec.0;
        if let Some(objective) = &args.objective {
            spec.objective.clone_from(objective);
        }
        if args.retry_policy.is_some() {
            spec.retry_policy = args.retry_policy;
        }
        if args.timeout_ms.is_some() {
            spec.timeout_ms = args.timeout_ms;
        }
        if let Some(acceptance) = &args.acceptance {
            spec.acceptance.clone_from(acceptance);
        }
        if let Some(constraints) = &args.constraints {
            spec.constraints.clone_from(constraints);
        }
        if args.agent.is_some() {
            self.work.agent.clone_from(&args.agent); // from the next attempt on
        }
        let updated = TaskUpdated {
            title: args.title,
            objective: args.objective,
            visibility: args.visibility,
            priority: args.priority,
            assignee: args.assignee,
            agent: args.agent,
            constraints: args.constraints,
            profile: args.profile,
            acceptance: args.acceptance,
            retry_policy: args.retry_policy,
            timeout_ms: args.timeout_ms,
            reason: args.reason,
            ..Default::default()
        };
        self.tell(updated);
        Ok(())
    }

    fn progress(&mut self, args: AppendTaskProgress) -> Result<(), Error> {
        if !is_on(Sabotage::LateFactAfterTerminal) {
            self.require_open("make progress")?;
        }
        let told = TaskProgress {
            phase: args.phase,
            percent: args.percent,
            summary: args.summary,
            counters: args.counters,
            output_refs: args.output_refs,
            delivery_state: args.delivery_state,
            ..Default::default()
        };
        if !is_on(Sabotage::ProgressNotTold) {
            self.tell(told);
        }
        self.expect_heartbeat();
        Ok(())
    }

    fn pause(&mut self, reason: Option<String>, by: String) -> Result<(), Error> {
        self.require_open("be paused")?;
        self.require_not(TaskStatus::Paused, "be paused again")?;
        self.work.before_pause = Some(self.work.status);
        if let Some(run) = self.run() {
            let mut run = run.clone();
            run.pause(true);
            self.set_run(run);
        }
        self.set_status(TaskStatus::Paused);
        self.draft.cancel_timer("heartbeat");
        if !is_on(Sabotage::ChangeNotTold) {
            self.tell(TaskPaused { status: TaskStatus::Paused, reason, by: Some(by) });
        }
        Ok(())
    }

    fn require_not(&self, status: TaskStatus, what: &str) -> Result<(), Error> {
        if self.work.status == status {
            let message = format!("the task {} is {status} and cannot {what}", self.work.id);
            return Err(Error::conflict(status.as_str(), message));
        }
        Ok(())
    }

    fn resume(&mut self, by: String) -> Result<(), Error> {
        self.require(&[TaskStatus::Paused], "be resumed")?;
        let status = self.work.before_pause.take().unwrap_or(TaskStatus::Accepted);
        self.work.waits_for = None; // said again
        self.set_status(status);
        self.tell(TaskResumed { status, reason: None, by: Some(by) });
        if let Some(run) = self.run() {
            let mut run = run.clone();
            run.pause(false);
            let ending = run.advance(&mut self.draft);
            self.set_run(run);
            self.attempt_ended(ending);
        }
        self.expect_heartbeat();
        self.unblock();
        self.go_on();
        Ok(())
    }

    fn respond(&mut self, response: Response) -> Result<(), Error> {
        let action = response.action.clone();
        let resolved = || Error::conflict("resolved", format!("the action {action} is resolved"));
        let mut run = self.run().cloned().ok_or_else(resolved)?;
        let (asked, ending) = run.respond(response, &mut self.draft);
        self.set_run(run);
        match asked {
            Asked::Resolved => {
                self.attempt_ended(ending);
                Ok(())
            }
            Asked::NotOpen => Err(resolved()),
            Asked::NotOffered { decisions } => {
                Err(Error::invalid("decision", format!("must be one of {}", decisions.join(", "))))
            }
        }
    }

    fn message(&mut self, from: &Address, message: Message) {
        match message {
            Message::Watch { task } => self.watched(task),
            Message::Unwatch { task } => {
                self.work.watchers.remove(&task);
            }
            Message::DependencyEnded { task, status } => self.need_ended(&task, status),
            Message::Close(close) if self.is_parent(from) => self.close(close),
            Message::Close(_) => {}
            Message::GoOn { turn: None } => self.work_children(),
            Message::ChildEnded { ref parent, ref id, status, live, again, .. } if parent.turn.is_none() => {
                self.work.children.ended(parent.group, id, status, live, again);
                self.work_children();
                self.settle();
            }
            Message::ChildClosed { ref parent } if parent.turn.is_none() => {
                self.work.children.closed(parent.group);
                self.work_children();
                self.settle();
            }
            Message::ChildReopened { ref parent, .. } if parent.turn.is_none() => {
                self.work.children.reopened(parent.group, from, &mut self.draft);
                self.reopen();
                self.close_reopened();
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
        let goes_on_again = matches!(message, Message::ChildReopened { .. });
        let ending = match message {
            Message::ChildEnded { parent, id, status, live, again, .. } => {
                run.take_child_ended(parent.group, &id, (status, live, again), &mut self.draft)
            }
            Message::ChildClosed { parent } => run.take_child_closed(parent.group, &mut self.draft),
            Message::ChildReopened { parent, .. } => {
                run.take_child_reopened(parent.group, from, &mut self.draft)
            }
            _ => run.advance(&mut self.draft),
        };
        self.set_run(run);
        if self.last_run_live() {
            self.reopen();
        }
        self.attempt_ended(ending);
        if goes_on_again {
            self.close_reopened();
        }
        self.settle();
    }

    /// Whether that is whose child this is: nobody else's script closes it by naming it.
    fn is_parent(&self, from: &Address) -> bool {
        self.work.parent.as_ref().is_some_and(|parent| parent.address == *from)
    }

    fn refuse_second_parent(&mut self, start: Start) {
        let Some(parent) = start.parent.filter(|parent| Some(parent) != self.work.parent.as_ref()) else {
            return;
        };
        let error = crate::fact::Failure::new("conflict", format!("the task {} exists", self.work.id));
        let ended = Message::ChildEnded {
            parent: parent.slot,
            id: self.work.id.to_string(),
            status: SubagentStatus::Failed,
            live: false,
            again: false,
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
