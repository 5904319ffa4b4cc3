//! What follows from what a job hears.

use std::collections::VecDeque;

use cadre_cluster::{
    address::Address,
    host::{Decision, EffectResult, Input, Moment},
};

use super::{Command, Counts, Create, Job, Kept, Reply, Slots, State, Work, prepare, removal, schedule};
use crate::{
    control::Error,
    entity::{Host, Message, Parent, records},
    exec::{Draft, Outcome},
    fact::{
        id::{Id, JobId, RunId},
        payload::JobCreated,
        status::{ItemStatus, JobStatus},
    },
};

pub(super) fn decide(
    host: &Host,
    state: &State,
    input: Input<Job>,
    moment: &Moment<'_>,
) -> Result<Decision<Job>, Error> {
    let id = JobId::parse(moment.address.id()).map_err(|_| Error::not_found("job", moment.address.id()))?;
    let Some(work) = &state.work else {
        return prepare::decide(host, id, state, input, moment);
    };
    let draft = Draft::new(&host.engine, work.session.clone(), moment);
    let mut step = Step { work: work.clone(), draft };
    match input {
        Input::Command(command) => {
            step.command(command)?;
            let reply = step.reply();
            return Ok(step.decision().reply(reply));
        }
        Input::Message { message: Message::Start(start), .. } => {
            // A second start from the same place is the first one, come again.
            let other = start.parent.filter(|parent| Some(parent) != work.parent.as_ref());
            let error = Error::conflict(work.status, format!("the job {id} exists"));
            return Ok(prepare::refuse_parent(&id, other, error));
        }
        Input::Message { from, message } => step.message(&from, message),
        Input::Timer { name } => step.timer(&name),
        Input::Effect { id, result } => step.effect(&id, result),
        Input::Progress { .. } => return Ok(Decision::nothing()),
    }
    Ok(step.decision())
}

pub(super) fn begin<'a>(
    host: &'a Host,
    id: JobId,
    create: Create,
    moment: &Moment<'a>,
) -> Result<Step<'a>, Error> {
    let Create { session, parent, lineage, depth, fingerprint, items, spec } = create;
    let plan = spec.schedule.as_ref().map(|it| schedule::Plan::new(it, moment.now)).transpose()?;
    let status = if plan.is_some() { JobStatus::Scheduled } else { JobStatus::Accepted };
    let created = JobCreated {
        status,
        instruction: spec.instruction.clone(),
        items,
        agent: Some(spec.agent.clone()),
        concurrency: Some(spec.concurrency() as u32),
        retry_policy: spec.retry_policy,
        max_runtime_ms: spec.max_runtime_ms,
        schedule: spec.schedule.as_ref().map(schedule::describe),
        ..Default::default()
    };
    let mut step = Step {
        draft: Draft::new(&host.engine, session.clone(), moment),
        work: Work {
            id: id.clone(),
            session: session.clone(),
            parent,
            lineage,
            depth,
            fingerprint,
            created: moment.now,
            spec,
            items,
            status,
            counts: Counts::default(),
            told: 0,
            since: moment.now,
            next: items,
            slots: Slots::default(),
            asked: VecDeque::new(),
            buffer: VecDeque::new(),
            loading: false,
            loads: 0,
            retry_at: None,
            ending: None,
            scheduled: plan.as_ref().and_then(schedule::Plan::first),
            runs: 0,
            closed: false,
            removed: None,
            base: None,
            due: None,
        },
    };
    let base: RunId = step.draft.ids.next();
    step.work.base = Some(base.suffix().to_owned());
    step.draft.cancel_timer("abandoned");
    step.tell(created);
    step.draft.set_record(records::job(&session, &id), &[][..]);
    step.draft.set_record(records::any_job(&id), &[][..]);
    if let Some(task) = step.work.lineage.task.clone() {
        step.draft.set_record(records::task_job(&task, &id), &[][..]);
    }
    step.draft.count(records::count(&session, "jobs", status.as_str()), 1);
    match step.work.scheduled {
        Some(first) => step.draft.set_timer("schedule", first),
        None => step.begin_run(None),
    }
    Ok(step)
}

/// What is said of items that are removed.
pub(super) const EXPIRED: &str = "expired";

/// One input of a job.
pub(super) struct Step<'a> {
    pub work: Work,
    pub draft: Draft<'a>,
}

impl Step<'_> {
    pub(super) fn decision(self) -> Decision<Job> {
        self.draft.decision(Some(Kept::Work(Box::new(self.work))))
    }

    pub(super) fn reply(&self) -> Reply {
        Reply {
            job: self.work.id.clone(),
            session: self.work.session.clone(),
            status: self.work.status,
            prepared: None,
            next: self.work.scheduled,
        }
    }

    fn command(&mut self, command: Command) -> Result<(), Error> {
        match command {
            Command::Create(create) if create.fingerprint == self.work.fingerprint => Ok(()),
            Command::Prepare { fingerprint, .. } if fingerprint == self.work.fingerprint => Ok(()),
            Command::Create(_) | Command::Prepare { .. } | Command::Abandon { .. } => {
                let message = format!("the job {} exists with other content", self.work.id);
                Err(Error::conflict(self.work.status, message))
            }
            Command::Retry { index, item, status, by: _ } => {
                let conflict = |status: &str| {
                    let message = format!("the item {item} of the job {} is {status}", self.work.id);
                    Error::conflict(status, message)
                };
                match self.status_of(index, status) {
                    None => return Err(Error::not_found("item", item)),
                    Some("failed") => {}
                    Some(status) => return Err(conflict(status)),
                }
                self.retry(index)
            }
            Command::Cancel { reason, by } => {
                self.cancel(reason, by);
                Ok(())
            }
        }
    }

    /// How an item stands now, when its record said `status`; `failed` stands for all that can be tried again.
    fn status_of(&self, index: u32, status: ItemStatus) -> Option<&'static str> {
        let work = &self.work;
        let slot = work.slots.get(index).map(|slot| slot.phase);
        Some(match (slot, status) {
            _ if index >= work.items => return None,
            _ if work.removed.is_some() => EXPIRED,
            _ if work.ending.is_some() => JobStatus::Cancelling.as_str(),
            (Some(super::Phase::Running | super::Phase::Lingering), _) => ItemStatus::Running.as_str(),
            (Some(_), _) => ItemStatus::Pending.as_str(),
            // No run has begun, and the first takes all of them.
            _ if work.runs == 0 && work.status == JobStatus::Scheduled => ItemStatus::Pending.as_str(),
            _ if index >= work.next || work.asked.contains(&index) => ItemStatus::Pending.as_str(),
            (None, ItemStatus::Completed | ItemStatus::Running) => status.as_str(),
            // Without a record it was cancelled before it began.
            (None, _) => ItemStatus::Failed.as_str(),
        })
    }

    fn message(&mut self, from: &Address, message: Message) {
        match message {
            Message::ChildEnded { parent, id, status, live, error, .. } => {
                self.item_ended(from, parent.group, &id, status, live, error);
            }
            Message::ChildClosed { parent } => self.item_closed(from, parent.group),
            Message::Close(close) if Parent::is(self.work.parent.as_ref(), from) => {
                self.cancel(close.reason, close.by);
            }
            Message::Close(_) => return,
            Message::GoOn { .. } => {}
            Message::Start(_)
            | Message::ChildReopened { .. }
            | Message::Watch { .. }
            | Message::Unwatch { .. }
            | Message::DependencyEnded { .. }
            | Message::Forget => return,
        }
        self.go();
    }

    fn timer(&mut self, name: &str) {
        match name {
            "retry" => self.work.retry_at = None,
            "load" => self.work.loading = false,
            "open" => self.look(),
            "deadline" => self.time_out(),
            "expire" if self.work.closed => self.expire(),
            "schedule" if self.work.status == JobStatus::Scheduled => self.scheduled_time(false),
            _ => {}
        }
        self.go();
    }

    /// It has been over for long: its items go.
    fn expire(&mut self) {
        let below = *self.work.removed.get_or_insert(0);
        if below < self.work.items {
            removal::look(&mut self.draft, &self.work.id, below, self.work.items);
        }
    }

    fn effect(&mut self, id: &str, result: EffectResult<Outcome>) {
        if let Some(below) = self.work.removed.filter(|below| id == removal::name(*below)) {
            let items = self.work.items;
            let (job, base) = (&self.work.id, self.work.base());
            let removed = removal::clear(&mut self.draft, (job, base), below, items, result);
            self.work.removed = Some(removed);
            return;
        }
        if id == self.open_name() {
            return self.looked(result);
        }
        if !self.work.loading || id != self.load_name() {
            return;
        }
        self.work.loading = false;
        match result {
            EffectResult::Done(Outcome::Items(items)) => self.loaded(items),
            // The store will be there again: nothing of a job is given up for that.
            _ => {
                self.work.loading = true;
                self.draft.set_timer("load", self.draft.now.in_ms(1_000));
                return;
            }
        }
        self.go();
    }
}
