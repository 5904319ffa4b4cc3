//! What callers start below a task: tasks, jobs, subagents.

use super::{Reply, decide::Step, kind};
use crate::{
    control::{
        Error,
        args::{RunBudget, SpawnSubagent},
    },
    entity::{
        Lineage, Message, Start,
        parent::{Spawned, Spawner},
    },
    exec::{Budget, Group, Names, Source},
    fact::{
        id::{JobId, TaskId, TurnId},
        status::TaskStatus,
    },
    scripted::{self, Join},
};

impl Step<'_> {
    pub(super) fn add_child(&mut self, id: TaskId, start: Start) -> Result<Reply, Error> {
        self.require_open("take a task below it")?;
        if self.work.depth >= self.draft.engine.limits.depth {
            let limit = self.draft.engine.limits.depth;
            return Err(Error::invalid("parentTaskId", format!("tasks may be {limit} deep")));
        }
        self.adopt(kind::TASK, id.to_string(), start)?;
        let session = Some(self.work.session.clone());
        let status = TaskStatus::Accepted;
        Ok(Reply::Task { task: id, status, run: None, session, attempt: None, place: None })
    }

    pub(super) fn add_job(&mut self, id: &JobId, start: Start) -> Result<(), Error> {
        self.require_open("take a job")?;
        self.adopt(kind::JOB, id.to_string(), start)
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

    pub(super) fn spawn(&mut self, args: SpawnSubagent, source: Source) -> Result<Reply, Error> {
        self.require_open("start a subagent")?;
        if let Some(turn) = args.turn_id.clone() {
            return self.spawn_in(&turn, args, source);
        }
        let agent = self.work.agent.clone().unwrap_or_else(|| scripted::AGENT.into());
        let (lineage, depth) = (self.lineage(), self.work.depth);
        let spawner = Spawner { turn: None, lineage, agent: &agent, depth, budget: self.budget() };
        let Spawned { subagent, thread, turn } =
            spawner.spawn(&mut self.work.children, args, source, &mut self.draft)?;
        Ok(Reply::Spawned { subagent, thread, turn })
    }

    /// For the attempt that goes on, which has to be the one of this turn.
    fn spawn_in(&mut self, turn: &TurnId, args: SpawnSubagent, source: Source) -> Result<Reply, Error> {
        let Some(mut run) = self.run().filter(|run| run.turn == *turn).cloned() else {
            let message = format!("the turn {turn} is not the one that the task {} runs in", self.work.id);
            return Err(Error::conflict("not_running", message));
        };
        if run.is_closing() {
            return Err(Error::conflict("cancelling", format!("the turn {turn} is being cancelled")));
        }
        let (lineage, depth, agent) = (run.lineage(), run.depth, run.agent.clone());
        let budget = run.budget(self.draft.engine);
        let spawner = Spawner { turn: Some(turn), lineage, agent: &agent, depth, budget };
        let Spawned { subagent, thread, turn } =
            spawner.spawn(&mut run.children, args, source, &mut self.draft)?;
        self.set_run(run);
        Ok(Reply::Spawned { subagent, thread, turn })
    }

    /// What each attempt, and whatever is started below, may use up.
    pub(super) fn budget(&self) -> Option<Budget> {
        Budget::lower(self.work.budget, RunBudget::of_constraints(&self.work.spec.constraints))
    }

    pub(super) fn lineage(&self) -> Lineage {
        Lineage {
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
}
