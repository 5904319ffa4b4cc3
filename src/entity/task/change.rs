//! What callers change about a task while it is open.

use super::decide::Step;
use crate::{
    control::{
        Error,
        args::{AppendTaskProgress, UpdateTask},
    },
    exec::Response,
    fact::{
        payload::{TaskPaused, TaskProgress, TaskResumed, TaskUpdated},
        status::TaskStatus,
    },
    sabotage::{Sabotage, is_on},
};

impl Step<'_> {
    pub(super) fn update(&mut self, args: UpdateTask) -> Result<(), Error> {
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
        if let Some(profile) = &args.profile {
            spec.profile.clone_from(profile);
        }
        if args.agent.is_some() {
            self.work.agent.clone_from(&args.agent); // from the next attempt on
        }
        if args.constraints.is_some() {
            self.expect_heartbeat();
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

    pub(super) fn progress(&mut self, args: AppendTaskProgress) -> Result<(), Error> {
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

    pub(super) fn pause(&mut self, reason: Option<String>, by: String) -> Result<(), Error> {
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

    pub(super) fn resume(&mut self, by: String, reason: Option<String>) -> Result<(), Error> {
        self.require(&[TaskStatus::Paused], "be resumed")?;
        let status = self.work.before_pause.take().unwrap_or(TaskStatus::Accepted);
        self.work.waits_for = None; // said again
        self.set_status(status);
        self.tell(TaskResumed { status, reason, by: Some(by) });
        if let Some(run) = self.run() {
            let mut run = run.clone();
            run.pause(false);
            let ending = run.advance(&mut self.draft);
            self.set_run(run);
            self.attempt_ended(ending);
        }
        self.expect_heartbeat();
        self.unblock();
        if self.work.status == TaskStatus::Blocked {
            self.look_for_cycle(); // whoever looked meanwhile found it paused
        }
        self.go_on();
        Ok(())
    }

    pub(super) fn respond(&mut self, response: Response) -> Result<(), Error> {
        let action = response.action.clone();
        let resolved = || Error::conflict("resolved", format!("the action {action} is resolved"));
        let mut run = self.run().cloned().ok_or_else(resolved)?;
        let (asked, ending) = run.respond(response, &mut self.draft);
        self.set_run(run);
        asked.taken(&action)?;
        self.attempt_ended(ending);
        Ok(())
    }
}
