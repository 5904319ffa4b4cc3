//! How a task ends: by itself, by a command, or with its parent; after everything below it (P11).

use super::{
    Finish, Named,
    acceptance::{Judged, judge},
    decide::Step,
};
use crate::{
    control::{Error, args::CompleteTask},
    entity::{Close, Message, Parent, Reopened},
    exec::Ending,
    fact::{
        Failure, Ref,
        id::{ArtifactId, Id},
        payload::{
            ArtifactChanged, TaskCancelRequested, TaskCancelled, TaskCompleted, TaskFailed, TaskLost,
            TaskTimedOut, TaskWaiting,
        },
        scope::ArtifactScope,
        status::{AcceptanceOutcome, AttemptStatus, SubagentStatus, TaskStatus},
    },
};

impl Step<'_> {
    /// The work is done; the task is, once what it promised is there and everything below has ended.
    pub(super) fn reconcile(&mut self, finish: Finish) {
        let missing = self.not_accepted(&finish);
        if !missing.is_empty() {
            self.set_status(TaskStatus::WaitingInput);
            let waiting = TaskWaiting {
                status: TaskStatus::WaitingInput,
                reason: Some(format!("not delivered yet: {}", missing.join(", "))),
                ..Default::default()
            };
            self.tell(waiting);
            return;
        }
        if self.work.children.live() > 0 {
            self.work.ending = Some(finish);
            self.set_status(TaskStatus::WaitingResource);
            let waiting = TaskWaiting {
                status: TaskStatus::WaitingResource,
                reason: Some(format!("{} tasks, subagents or jobs below go on", self.work.children.live())),
                ..Default::default()
            };
            self.tell(waiting);
            return;
        }
        self.finish(finish);
    }

    /// What the acceptance criteria say of what was delivered.
    fn judged(&self, finish: &Finish) -> Vec<Judged> {
        let result = finish.result.0.as_deref();
        let artifacts = result.map_or(&[][..], |result| &result.artifacts);
        let evidence = result.map_or(&[][..], |result| &result.evidence_refs);
        judge(&self.work.spec.acceptance, artifacts, evidence)
    }

    /// What the acceptance criteria require and nobody has delivered.
    fn not_accepted(&self, finish: &Finish) -> Vec<String> {
        let judged = self.judged(finish).into_iter();
        let is_missing = |one: &Judged| one.required && one.outcome == AcceptanceOutcome::Unmet;
        judged.filter(is_missing).map(|one| one.wanted).collect()
    }

    /// Ends cancelled, after the tasks and subagents below it that its attempt did not start: they are closed first.
    pub(super) fn finish_with_parts(&mut self, finish: Finish) {
        if self.work.children.live() == 0 {
            return self.finish(finish);
        }
        self.set_status(TaskStatus::Cancelling);
        let requested = TaskCancelRequested {
            status: TaskStatus::Cancelling,
            reason: finish.reason.clone(),
            by: finish.by.clone(),
            propagate: true,
        };
        self.tell(requested);
        let by = finish.by.clone().unwrap_or_else(|| "parent".into());
        self.work.children.close(&Close { reason: finish.reason.clone(), by });
        self.work.ending = Some(finish);
        self.work_children();
    }

    /// The terminal fact.
    pub(super) fn finish(&mut self, finish: Finish) {
        let judged = self.judged(&finish).into_iter().map(|one| one.outcome).collect();
        let Finish { status, error, reason, by, result, .. } = finish;
        self.work.ending = None;
        self.draft.cancel_timer("retry");
        self.set_status(status);
        match status {
            TaskStatus::Completed => {
                let attempts = Some(self.work.attempts);
                let mut completed =
                    TaskCompleted { status, reason, attempts, acceptance: judged, ..Default::default() };
                if let Some(result) = result.0 {
                    result.artifacts.iter().for_each(|artifact| self.delivered(artifact));
                    completed.summary = result.summary;
                    completed.artifacts = result.artifacts;
                    completed.evidence_refs = result.evidence_refs;
                }
                self.tell(completed);
            }
            TaskStatus::Cancelled => {
                self.tell(TaskCancelled { status, error, reason, by, summary: None });
            }
            TaskStatus::TimedOut => {
                let timeout_ms = self.work.spec.timeout_ms;
                self.tell(TaskTimedOut { status, error, reason, timeout_ms, summary: None });
            }
            TaskStatus::Lost => self.tell(TaskLost { status, error, reason, summary: None }),
            _ => {
                let attempts = Some(self.work.attempts);
                self.tell(TaskFailed { status, error, reason, attempts, summary: None });
            }
        }
        metrics::counter!("cadre_tasks_total", "status" => status.as_str()).increment(1);
        self.tell_watchers();
        let live = self.live() > 0;
        self.work.closed = !live;
        if let Some(Parent { address, slot }) = self.work.parent.clone() {
            let ended = Message::ChildEnded {
                parent: slot,
                id: self.work.id.to_string(),
                status: child_status(status),
                live,
                error: None,
            };
            self.draft.send(address, ended);
        }
    }

    /// Names what was delivered. It belongs to others, and nobody has looked whether it was there before.
    fn delivered(&mut self, artifact: &Ref) {
        let id = ArtifactId::parse(artifact.as_str());
        let id = id.unwrap_or_else(|_| ArtifactId::with_suffix(artifact.as_str()));
        let changed = ArtifactChanged {
            change: Some("observed".into()),
            status: Some("delivered".into()),
            artifact_ref: Some(artifact.clone()),
            ..Default::default()
        };
        let ids = self.ids();
        self.draft.tell_within(&ids, ArtifactScope { artifact: id }, changed);
    }

    /// How many below it are not closed.
    fn live(&self) -> u64 {
        self.work.children.live() + self.last_run().map_or(0, |run| run.children.live())
    }

    /// It goes on, or somebody below it does: everybody above has to know, so that a cancel reaches it and who waits for it
    /// waits on.
    pub(super) fn reopen(&mut self, ended_as: Option<TaskStatus>) {
        let was_closed = std::mem::replace(&mut self.work.closed, false);
        if (was_closed || ended_as.is_some())
            && let Some(Parent { address, slot }) = self.work.parent.clone()
        {
            let ended_as = ended_as.map(child_status);
            let again = Reopened { id: self.work.id.to_string(), ended_as, was_closed };
            self.draft.send(address, Message::ChildReopened { parent: slot, again });
        }
    }

    /// Something below has ended: perhaps that was the last thing to wait for.
    pub(super) fn settle(&mut self) {
        if self.work.status.is_terminal() {
            if self.live() == 0 {
                Parent::tell_closed(self.work.parent.as_ref(), &mut self.work.closed, &mut self.draft);
            }
            return;
        }
        let is_open = self.work.attempt.as_ref().is_some_and(|attempt| attempt.open);
        let waits_for_run = self.work.status == TaskStatus::Cancelling && self.last_run_live();
        if is_open || waits_for_run || self.waits_for_children() {
            return;
        }
        if let Some(finish) = self.work.ending.take() {
            self.finish(finish);
        }
    }

    pub(super) fn last_run_live(&self) -> bool {
        self.last_run().is_some_and(|run| run.children.live() > 0)
    }

    /// A cancel that is not propagated leaves what is below alone.
    fn waits_for_children(&self) -> bool {
        let is_alone = self.work.ending.as_ref().is_some_and(|finish| finish.alone);
        !is_alone && self.work.children.live() > 0
    }

    pub(super) fn cancel(&mut self, reason: Option<String>, propagate: bool, by: &str) -> Result<(), Error> {
        if self.work.status.is_terminal() {
            if propagate {
                self.close_rest(&Close { reason, by: by.to_owned() });
            }
            return Ok(());
        }
        if self.work.status == TaskStatus::Cancelling {
            if let Some(ending) = self.work.ending.as_mut().filter(|_| propagate) {
                // Perhaps somebody else had only the task itself cancelled.
                ending.alone = false;
                self.close_rest(&Close { reason, by: by.to_owned() });
            }
            return Ok(());
        }
        self.set_status(TaskStatus::Cancelling);
        let requested = TaskCancelRequested {
            status: TaskStatus::Cancelling,
            reason: reason.clone(),
            by: Some(by.to_owned()),
            propagate,
        };
        self.tell(requested);
        let message = reason.clone().unwrap_or_else(|| "it was cancelled".into());
        self.work.ending = Some(Finish {
            status: TaskStatus::Cancelled,
            error: Some(Failure::new("cancelled", message)),
            reason: reason.clone(),
            by: Some(by.to_owned()),
            result: Named(None),
            alone: !propagate,
        });
        self.draft.cancel_timer("retry");
        if propagate {
            self.work.children.close(&Close { reason: reason.clone(), by: by.to_owned() });
            self.work_children();
        }
        self.stop_attempt(reason, by);
        self.settle();
        Ok(())
    }

    fn stop_attempt(&mut self, reason: Option<String>, by: &str) {
        let ending = Ending::cancelled(reason, by);
        match self.run().cloned() {
            Some(mut run) => {
                let ending = run.close(ending, &mut self.draft);
                self.set_run(run);
                self.attempt_ended(ending);
            }
            None => {
                // An attempt that is over may have left children behind.
                if let Some(mut run) = self.last_run().cloned() {
                    let close = Close { reason: ending.reason.clone(), by: by.to_owned() };
                    run.close_rest(&close, &mut self.draft);
                    self.set_run(run);
                }
                self.close_attempt(AttemptStatus::Cancelled, ending.error, None);
            }
        }
    }

    /// The order to close that stands for something below, and so for all of it.
    pub(super) fn order(&self) -> Option<Close> {
        let of_run = self.last_run().and_then(|run| run.children.order());
        self.work.children.order().or(of_run).cloned()
    }

    /// The parent ends, and this task with it.
    pub(super) fn close(&mut self, close: Close) {
        let Close { reason, by } = close;
        if self.work.status == TaskStatus::Cancelling || self.work.status.is_terminal() {
            self.close_rest(&Close { reason, by });
            return;
        }
        // A cancel of a task that is open cannot be refused.
        let _ = self.cancel(reason, true, &by);
    }

    fn close_rest(&mut self, close: &Close) {
        self.work.children.close(close);
        self.work_children();
        if let Some(mut run) = self.last_run().cloned() {
            run.close_rest(close, &mut self.draft);
            self.set_run(run);
        }
        self.settle();
    }

    /// A worker outside, or whoever had to deliver something, is done.
    pub(super) fn complete(&mut self, args: CompleteTask, by: String) -> Result<(), Error> {
        self.require(&[TaskStatus::Running, TaskStatus::WaitingInput], "be completed")?;
        if self.run().is_some() {
            let message = format!("the task {} is being run by an agent", self.work.id);
            return Err(Error::conflict(self.work.status.as_str(), message));
        }
        let finish = Finish {
            status: TaskStatus::Completed,
            error: None,
            reason: None,
            by: Some(by),
            result: Named(Some(Box::new(args))),
            alone: false,
        };
        let missing = self.not_accepted(&finish);
        if !missing.is_empty() {
            let message = format!("the acceptance criteria also ask for {}", missing.join(", "));
            return Err(Error::conflict(self.work.status.as_str(), message).with("criteria", missing));
        }
        self.close_attempt(AttemptStatus::Completed, None, None);
        self.reconcile(finish);
        Ok(())
    }

    /// A worker outside could not do it.
    pub(super) fn fail(&mut self, error: Failure, by: String) -> Result<(), Error> {
        self.require(&[TaskStatus::Running, TaskStatus::WaitingInput], "fail")?;
        if self.run().is_some() {
            let message = format!("the task {} is being run by an agent", self.work.id);
            return Err(Error::conflict(self.work.status.as_str(), message));
        }
        let finish = Finish {
            status: TaskStatus::Failed,
            error: None,
            reason: None,
            by: Some(by),
            result: Named(None),
            alone: false,
        };
        self.attempt_failed(AttemptStatus::Failed, Some(error), finish);
        Ok(())
    }
}

fn child_status(status: TaskStatus) -> SubagentStatus {
    match status {
        TaskStatus::Completed => SubagentStatus::Completed,
        TaskStatus::Cancelled => SubagentStatus::Cancelled,
        TaskStatus::TimedOut => SubagentStatus::TimedOut,
        TaskStatus::Lost => SubagentStatus::Lost,
        _ => SubagentStatus::Failed,
    }
}
