//! Attempts: started, ended, tried again.

use super::{Attempt, Finish, Named, decide::Step};
use crate::{
    control::Error,
    exec::{Ending, NewRun, Run, STEP_RETRIES_MAX},
    fact::{
        Failure, RetryPolicy, Time,
        id::{AttemptId, Id, RunId, ThreadId, TurnId},
        payload::{
            TaskAttemptCompleted, TaskAttemptFailed, TaskAttemptStarted, TaskProfileResolved, TaskRetrying,
            TaskStarted, Worker,
        },
        scope::AttemptScope,
        status::{AttemptStatus, TaskStatus, TurnStatus},
    },
    sabotage::{Sabotage, is_on},
};

impl Step<'_> {
    /// Starts the first attempt if nothing is in the way.
    pub(super) fn go_on(&mut self) {
        let waits =
            matches!(self.work.status, TaskStatus::Accepted | TaskStatus::Queued | TaskStatus::Blocked);
        if waits && self.work.wanted && !self.is_blocked() {
            self.start_attempt(None, None);
        }
    }

    pub(super) fn start(&mut self, by: String, reason: Option<String>) -> Result<(), Error> {
        let startable = [TaskStatus::Draft, TaskStatus::Accepted, TaskStatus::Queued, TaskStatus::Blocked];
        self.require(&startable, "be started")?;
        if self.work.status == TaskStatus::Blocked {
            if !std::mem::replace(&mut self.work.wanted, true) {
                return Ok(()); // it starts as soon as nothing is in the way
            }
            let message = format!("the task {} is blocked: {}", self.work.id, self.why_blocked());
            return Err(Error::conflict(TaskStatus::Blocked.as_str(), message));
        }
        self.work.wanted = true;
        self.start_attempt(Some(by), reason);
        Ok(())
    }

    /// `by` is who wanted it, when that was anybody but whoever made the task.
    fn start_attempt(&mut self, by: Option<String>, reason: Option<String>) {
        self.work.attempts += 1;
        self.work.attempts_spent += 1;
        let number = self.work.attempts;
        let run_id: RunId = self.draft.ids.next();
        let former = self.work.attempt.take();
        self.work.attempt =
            Some(Attempt { run: run_id.clone(), number, agent: None, open: true, since: self.draft.now });
        self.set_status(TaskStatus::Running);
        let agent = self.work.agent.clone();
        // With every attempt: a task that was retried is running again, and only facts say so.
        self.tell_profile(number);
        let (status, attempt) = (TaskStatus::Running, Some(number));
        self.tell(TaskStarted { status, attempt, agent: agent.clone(), by, reason });
        let timeout = self.work.spec.timeout_ms;
        let deadline = timeout.map(|ms| self.draft.now.in_ms(ms));
        let worker = Worker {
            id: agent.clone().unwrap_or_else(|| "outside".into()),
            kind: Some(if agent.is_some() { "agent" } else { "external" }.into()),
        };
        let (thread, turn) = (ThreadId::with_suffix(run_id.suffix()), TurnId::with_suffix(run_id.suffix()));
        let started = TaskAttemptStarted {
            status: AttemptStatus::Running,
            attempt: number,
            worker: Some(worker),
            agent: agent.clone(),
            deadline_at: deadline.map(Time),
        };
        let attempt = AttemptId::with_suffix(run_id.suffix());
        let mut ids = self.ids().with(attempt.clone());
        if agent.is_some() {
            ids = ids.with(thread.clone()).with(turn.clone());
        }
        let scope = AttemptScope { task: self.work.id.clone(), run: run_id.clone() };
        self.draft.tell_within(&ids, scope, started);
        let Some(agent) = agent else {
            if let Some(deadline) = deadline {
                self.draft.set_timer("timeout", deadline);
            }
            return self.expect_heartbeat();
        };
        let has_policy = self.work.spec.retry_policy.is_some();
        let new = NewRun {
            thread,
            turn,
            around: self.ids().with(attempt),
            agent,
            model: None,
            attempt: number,
            depth: self.work.depth,
            source: self.work.source.clone(),
            // With a policy of its own a task tries again as a whole.
            retries_max: if has_policy { 0 } else { STEP_RETRIES_MAX },
            budget: self.budget(),
            history: None,
            deadline,
        };
        let mut run = Run::begin(new, "task", false, &mut self.draft);
        if let Some(former) = former.and_then(|attempt| attempt.agent) {
            run = run.after(&former);
        }
        let ending = run.advance(&mut self.draft);
        self.set_run(run);
        self.attempt_ended(ending);
    }

    /// What its attempts ask of their models, before the first of them.
    fn tell_profile(&mut self, number: u32) {
        let spec = &self.work.spec;
        if number > 1 || spec.profile.is_empty() {
            return;
        }
        let words = spec.profile.get("capabilities").and_then(|words| words.as_array());
        let words = words.into_iter().flatten().filter_map(|word| word.as_str());
        let resolved = TaskProfileResolved {
            task_kind: spec.task_kind.clone(),
            capabilities: words.map(str::to_owned).collect(),
            source: Some("request".into()),
            profile: spec.profile.clone(),
        };
        self.tell(resolved);
    }

    /// The run of the attempt that goes on.
    pub(super) fn run(&self) -> Option<&Run> {
        self.work.attempt.as_ref().filter(|attempt| attempt.open)?.agent.as_ref()
    }

    /// The run of the last attempt, which may be over while its children live on.
    pub(super) fn last_run(&self) -> Option<&Run> {
        self.work.attempt.as_ref()?.agent.as_ref()
    }

    pub(super) fn set_run(&mut self, run: Run) {
        if let Some(attempt) = &mut self.work.attempt {
            attempt.agent = Some(run);
        }
    }

    /// The run of the current attempt has ended.
    pub(super) fn attempt_ended(&mut self, ending: Option<Ending>) {
        let Some(ending) = ending else { return };
        let failure = ending.error.clone();
        let finish = |status, error| Finish {
            status,
            error,
            reason: ending.reason.clone(),
            by: ending.by.clone(),
            result: Named(None),
            alone: false,
        };
        if self.work.ending.is_some() {
            // It was told to end, and has.
            self.close_attempt(status_of(ending.status), failure, None);
            return;
        }
        match ending.status {
            TurnStatus::Completed => {
                self.close_attempt(AttemptStatus::Completed, None, None);
                self.reconcile(finish(TaskStatus::Completed, None));
            }
            TurnStatus::Cancelled => {
                self.close_attempt(AttemptStatus::Cancelled, failure.clone(), None);
                self.finish_with_parts(finish(TaskStatus::Cancelled, failure));
            }
            TurnStatus::Lost => {
                self.close_attempt(AttemptStatus::Lost, failure.clone(), None);
                self.finish(finish(TaskStatus::Lost, failure));
            }
            TurnStatus::TimedOut => {
                self.attempt_failed(AttemptStatus::TimedOut, failure, finish(TaskStatus::TimedOut, None));
            }
            _ => self.attempt_failed(AttemptStatus::Failed, failure, finish(TaskStatus::Failed, None)),
        }
    }

    /// Tries again if the policy allows, ends the task otherwise.
    pub(super) fn attempt_failed(&mut self, status: AttemptStatus, error: Option<Failure>, finish: Finish) {
        let error = error.unwrap_or_else(|| Failure::new("internal", "it failed without saying why"));
        let policy =
            self.work.spec.retry_policy.unwrap_or(RetryPolicy { max_attempts: 1, ..Default::default() });
        let next = self.work.attempts_spent + 1;
        let limit = self.draft.engine.limits.task_attempts;
        let wait = policy.wait_ms(next).filter(|_| error.retryable && self.work.attempts < limit);
        let at = wait.map(|ms| self.draft.now.in_ms(ms));
        if at.is_none() || !is_on(Sabotage::FailedAttemptForgotten) {
            self.close_attempt(status, Some(error.clone()), at);
        }
        let Some(at) = at else { return self.finish(Finish { error: Some(error), ..finish }) };
        self.draft.set_timer("retry", at);
        if self.work.status == TaskStatus::Paused {
            // It is tried again when somebody resumes it.
            self.work.before_pause = Some(TaskStatus::Retrying);
            return;
        }
        self.set_status(TaskStatus::Retrying);
        let retrying = TaskRetrying {
            status: TaskStatus::Retrying,
            attempt: self.work.attempts + 1,
            next_attempt_at: Some(Time(at)),
            error: Some(error),
            reason: Some("policy".into()),
            by: None,
        };
        self.tell(retrying);
    }

    pub(super) fn retry_due(&mut self) {
        if self.work.status == TaskStatus::Retrying {
            self.start_attempt(None, None);
        } else if self.work.before_pause == Some(TaskStatus::Retrying) {
            self.work.before_pause = Some(TaskStatus::Accepted);
        }
    }

    /// Says how an attempt ended.
    pub(super) fn close_attempt(
        &mut self,
        status: AttemptStatus,
        error: Option<Failure>,
        next: Option<cadre_cluster::clock::Timestamp>,
    ) {
        let Some(attempt) = self.work.attempt.as_mut().filter(|attempt| attempt.open) else { return };
        attempt.open = false;
        let (number, run) = (attempt.number, attempt.run.clone());
        let duration_ms = Some(self.draft.now.0.saturating_sub(attempt.since.0));
        let mut ids = self.ids().with(AttemptId::with_suffix(run.suffix()));
        if let Some(run) = self.last_run() {
            ids = ids.with(run.thread.clone()).with(run.turn.clone());
        }
        self.draft.cancel_timer("timeout");
        self.draft.cancel_timer("heartbeat");
        let scope = AttemptScope { task: self.work.id.clone(), run };
        if status == AttemptStatus::Completed {
            let completed =
                TaskAttemptCompleted { status, attempt: number, duration_ms, ..Default::default() };
            self.draft.tell_within(&ids, scope, completed);
            return;
        }
        let failed = TaskAttemptFailed {
            status,
            retryable: error.as_ref().is_some_and(|error| error.retryable),
            attempt: Some(number),
            failure_category: error.as_ref().map(|error| error.code.clone()),
            error,
            next_attempt_policy: Some(if next.is_some() { "policy" } else { "manual" }.into()),
            next_attempt_at: next.map(Time),
            duration_ms,
        };
        self.draft.tell_within(&ids, scope, failed);
    }

    /// Starts another attempt of a task that did not complete.
    pub(super) fn retry(&mut self, reason: Option<String>, by: String) -> Result<(), Error> {
        let ended = [TaskStatus::Failed, TaskStatus::TimedOut, TaskStatus::Cancelled, TaskStatus::Lost];
        self.require(&ended, "be retried")?;
        if self.work.attempts >= self.draft.engine.limits.task_attempts {
            let message = format!("the task was tried {} times, which is the limit", self.work.attempts);
            return Err(Error::conflict(self.work.status.as_str(), message));
        }
        self.work.attempts_spent = 0;
        self.work.ending = None;
        self.work.children.forget_order();
        if let Some(run) = self.work.attempt.as_mut().and_then(|attempt| attempt.agent.as_mut()) {
            run.children.forget_order();
        }
        self.reopen(Some(self.work.status));
        let retrying = TaskRetrying {
            status: TaskStatus::Retrying,
            attempt: self.work.attempts + 1,
            reason,
            by: Some(by.clone()),
            ..Default::default()
        };
        self.set_status(TaskStatus::Retrying);
        self.tell(retrying);
        self.work.wanted = true;
        if self.is_blocked() {
            self.tell_blocked();
            self.look_for_cycle();
        } else {
            self.start_attempt(Some(by), None);
        }
        Ok(())
    }

    /// A worker outside has to show signs of life, if the task's constraints say so: whoever runs the next attempt.
    pub(super) fn expect_heartbeat(&mut self) {
        let is_outside = self.work.status != TaskStatus::Paused
            && self.work.attempt.as_ref().is_some_and(|attempt| attempt.open && attempt.agent.is_none());
        let every = self.work.spec.constraints.get("heartbeatMs").and_then(serde_json::Value::as_u64);
        match every.filter(|_| is_outside) {
            Some(ms) => self.draft.set_timer("heartbeat", self.draft.now.in_ms(ms.max(1))),
            None => self.draft.cancel_timer("heartbeat"),
        }
    }

    /// Nobody can say whether the worker lives: the task is lost, not failed.
    pub(super) fn heartbeat_missed(&mut self) {
        let error = Failure::new("lost", "the worker gave no sign of life in time");
        self.close_attempt(AttemptStatus::Lost, Some(error.clone()), None);
        let finish = Finish {
            status: TaskStatus::Lost,
            error: Some(error),
            reason: Some("no sign of life".into()),
            by: Some("runtime".into()),
            result: Named(None),
            alone: false,
        };
        self.finish(finish);
    }

    /// A worker outside took too long.
    pub(super) fn timed_out(&mut self) {
        let error = Failure::new("deadline_exceeded", "the attempt took too long").retryable();
        let finish = Finish {
            status: TaskStatus::TimedOut,
            error: None,
            reason: None,
            by: Some("deadline".into()),
            result: Named(None),
            alone: false,
        };
        self.attempt_failed(AttemptStatus::TimedOut, Some(error), finish);
    }
}

fn status_of(status: TurnStatus) -> AttemptStatus {
    match status {
        TurnStatus::Completed => AttemptStatus::Completed,
        TurnStatus::Cancelled => AttemptStatus::Cancelled,
        TurnStatus::TimedOut => AttemptStatus::TimedOut,
        TurnStatus::Lost => AttemptStatus::Lost,
        _ => AttemptStatus::Failed,
    }
}
