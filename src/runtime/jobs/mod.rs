//! The commands about jobs.

mod create;

use cadre_cluster::{
    keys,
    store::{KeyRange, RangeRead, Transaction},
};

use super::{
    Request, Runtime,
    failure::{undecodable, unreadable},
    load::{List, Room, SERVED_BYTES_MAX},
    subagents::same_session,
    wait::{Closing, Root},
};
use crate::{
    control::{
        Error,
        args::{CancelJob, GetJob, ListJobs, RetryJobItem},
        result::{Answer, GetJobResult, ItemsStatus, JobItemState, JobState, Jobs},
    },
    entity::{
        Job,
        job::{Command, ItemRecord, State, Work, decode_view},
        kind, records,
    },
    fact::{
        Fact, Failure, Payload, Time,
        id::{ItemId, JobId, SessionId},
        status::{ItemStatus, JobStatus},
    },
    view::{ItemView, JobView},
};

impl Runtime {
    async fn existing_job(
        &self,
        tx: &Transaction,
        request: &Request<'_>,
        job: &JobId,
    ) -> Result<Option<Work>, Error> {
        Ok(self.load::<Job>(tx, request, job.as_str()).await?.and_then(|state| state.work))
    }

    /// A job that exists.
    async fn job(&self, request: &Request<'_>, job: &JobId) -> Result<Work, Error> {
        let work = self.existing_job(&self.store.begin(), request, job).await?;
        work.ok_or_else(|| Error::not_found("job", job))
    }

    pub(super) async fn cancel_job(
        &self,
        request: &Request<'_>,
        args: CancelJob,
    ) -> Result<Answer<JobState>, Error> {
        let job = args.job_id;
        let session = self.job(request, &job).await?.session;
        let address = request.address(kind::JOB, job.as_str());
        let since = self.end_of_feed(request, &session).await?;
        let command = Command::Cancel { reason: args.reason, by: request.by() };
        let called = self.ask::<Job>(&request.for_order(), &address, &command).await?;
        let closed = || async {
            let work = self.job(request, &job).await?;
            Ok((work.status.is_terminal() && work.closed).then_some(work.status))
        };
        let ended = |fact: &Fact| {
            matches!(
                fact.payload,
                Payload::JobCompleted(_) | Payload::JobFailed(_) | Payload::JobCancelled(_)
            )
        };
        let root = Root::new(kind::JOB, job.as_str(), &ended);
        let closing = Closing { session: &session, root, since, told: called.cursor };
        let (status, cursor) = match self.wait_closed(request, closing, closed, JobStatus::Cancelled).await? {
            Some(ended) => ended,
            None => (JobStatus::Cancelling, called.cursor),
        };
        let result =
            JobState { job_id: job, status, session_id: Some(session), total: None, next_run_at: None };
        Ok(Answer { result, cursor })
    }

    pub(super) async fn retry_job_item(
        &self,
        request: &Request<'_>,
        args: RetryJobItem,
    ) -> Result<Answer<JobItemState>, Error> {
        let work = self.job(request, &args.job_id).await?;
        self.open_session(request, &work.session).await?;
        if work.removed.is_some() {
            let message = format!("the items of the job {} have expired", work.id);
            return Err(Error::conflict("expired", message));
        }
        let found = self.find_item(request, &work, &args.item_id).await?;
        let (index, view) = found.ok_or_else(|| Error::not_found("item", &args.item_id))?;
        let attempt = view.as_ref().map_or(1, |view| view.attempt + 1);
        let status = view.as_ref().map_or(ItemStatus::Pending, |view| view.status);
        let (status, attempt) = self.first_found(request, (status, attempt)).await?;
        let address = request.address(kind::JOB, args.job_id.as_str());
        let command = Command::Retry { index, item: args.item_id.clone(), status, by: request.by() };
        let called = self.ask::<Job>(request, &address, &command).await?;
        // A cancel of its task that follows this answer reaches it (P11).
        let known = || async {
            let closed_again = self.job(request, &work.id).await?.closed;
            Ok((closed_again || self.is_open_above(request, work.parent.clone()).await?).then_some(()))
        };
        self.wait_for(request, &work.session, request.until, known).await?;
        let result =
            JobItemState { job_id: args.job_id, item_id: args.item_id, status: ItemStatus::Pending, attempt };
        Ok(Answer { result, cursor: called.cursor })
    }

    /// Where an item of that name is, and how it stands.
    async fn find_item(
        &self,
        request: &Request<'_>,
        work: &Work,
        item: &ItemId,
    ) -> Result<Option<(u32, Option<ItemView>)>, Error> {
        let tenant = &request.caller.tenant;
        let tx = self.store.begin();
        let mut range = KeyRange::new(
            keys::data(tenant, &records::item(&work.id, 0)),
            keys::data(tenant, &records::item(&work.id, work.items)),
        );
        loop {
            let page =
                tx.snapshot_range(&RangeRead::new(range.clone()).limit(1_000)).await.map_err(unreadable)?;
            for pair in &page.pairs {
                let record = ItemRecord::decode(&pair.value).map_err(undecodable)?;
                if record.item_id == *item {
                    let path = &pair.key[keys::data(tenant, &[]).len()..];
                    let index = records::item_index(path).ok_or_else(|| Error::not_found("item", item))?;
                    return Ok(Some((index, self.item_view(&tx, request, &work.id, index).await?)));
                }
            }
            match page.pairs.last() {
                Some(last) if page.more => range.begin = cadre_cluster::store::key_after(&last.key),
                _ => return Ok(None),
            }
        }
    }

    async fn item_view(
        &self,
        tx: &Transaction,
        request: &Request<'_>,
        job: &JobId,
        index: u32,
    ) -> Result<Option<ItemView>, Error> {
        let key = keys::data(&request.caller.tenant, &records::item_view(job, index));
        let stored = tx.snapshot_get(&key).await.map_err(unreadable)?;
        stored.map(|stored| decode_view(&stored).map_err(undecodable)).transpose()
    }

    pub(super) async fn get_job(
        &self,
        request: &Request<'_>,
        args: GetJob,
    ) -> Result<Answer<GetJobResult<JobView, ItemView>>, Error> {
        let tx = self.store.begin();
        let state = self.load::<Job>(&tx, request, args.job_id.as_str()).await?;
        let state = state.ok_or_else(|| Error::not_found("job", &args.job_id))?;
        let work = state.work.clone().ok_or_else(|| Error::not_found("job", &args.job_id))?;
        let from = match &args.items_after {
            None => 0,
            Some(after) => after
                .parse::<u32>()
                .ok()
                .and_then(|after| after.checked_add(1))
                .ok_or_else(|| Error::invalid("itemsAfter", "is not a position in this list"))?,
        };
        let items_status = match work.removed {
            Some(_) => ItemsStatus::Expired,
            None => ItemsStatus::Available,
        };
        let kept = if work.removed.is_some() { 0 } else { work.items };
        let mut to = kept.min(from.saturating_add(u32::try_from(args.limit.get()).unwrap_or(u32::MAX)));
        let (mut items, mut room) = (Vec::new(), Room(SERVED_BYTES_MAX));
        for index in from..to {
            let key = keys::data(&request.caller.tenant, &records::item(&work.id, index));
            let Some(stored) = tx.snapshot_get(&key).await.map_err(unreadable)? else { continue };
            let record = ItemRecord::decode(&stored).map_err(undecodable)?;
            let view = self.item_view(&tx, request, &work.id, index).await?;
            let mut view =
                view.unwrap_or_else(|| ItemView { index: Some(index), ..ItemView::new(record.item_id) });
            if work.was_left_out(index, view.ended_at.map(|time| time.0)) {
                left_out(&mut view, &state.view);
            }
            let has_room = room.take(&view);
            items.push(view);
            if !has_room {
                to = index + 1;
                break;
            }
        }
        let has_more = to < kept;
        let cursor = has_more.then(|| to.saturating_sub(1).to_string());
        Ok(Answer::read(GetJobResult { job: shown(state), items, items_status, has_more, cursor }))
    }

    pub(super) async fn list_jobs(
        &self,
        request: &Request<'_>,
        args: ListJobs,
    ) -> Result<Answer<Jobs<JobView>>, Error> {
        let tx = self.store.begin();
        let prefix = match (&args.task_id, &args.session_id) {
            (Some(task), session) => {
                let found = self.task(request, task).await?;
                if let Some(session) = session {
                    same_session(&found.session, session, "taskId", task)?;
                }
                records::task_jobs(task)
            }
            (None, Some(session)) => {
                self.session(&tx, request, session).await?;
                records::jobs(session)
            }
            (None, None) => records::all_jobs(),
        };
        let list = List { prefix, after: args.after.as_deref(), field: "after", newest_first: true };
        let (tx, status) = (&tx, args.status);
        let look = |id: String| async move {
            let Some(state) = self.load::<Job>(tx, request, &id).await? else { return Ok(None) };
            let wanted = state.work.as_ref().is_some_and(|work| status.is_none_or(|is| is == work.status));
            Ok(wanted.then(|| shown(state)))
        };
        let (jobs, more) = self.served_page(tx, request, list, args.limit.get(), look).await?;
        Ok(Answer::read(Jobs { jobs, has_more: more.is_some(), cursor: more }))
    }

    /// The newest jobs of a session, the newest last.
    pub(super) async fn newest_jobs(
        &self,
        tx: &Transaction,
        request: &Request<'_>,
        session: &SessionId,
        limit: usize,
    ) -> Result<Vec<JobView>, Error> {
        Ok(self.newest_job_states(tx, request, session, limit).await?.into_iter().map(served).collect())
    }

    /// The same, with what they need to go on.
    pub(super) async fn newest_job_states(
        &self,
        tx: &Transaction,
        request: &Request<'_>,
        session: &SessionId,
        limit: usize,
    ) -> Result<Vec<State>, Error> {
        let list = List { prefix: records::jobs(session), after: None, field: "jobs", newest_first: true };
        let look = |id: String| async move {
            let state = self.load::<Job>(tx, request, &id).await?;
            Ok(state.filter(|state| state.work.is_some()))
        };
        let (mut jobs, _) = self.page(tx, request, list, limit, look).await?;
        jobs.reverse();
        Ok(jobs)
    }
}

/// An item that its job's end has left behind, counted with those that were cancelled.
fn left_out(item: &mut ItemView, job: &JobView) {
    let message = "the run of the job was over before the item was";
    item.status = ItemStatus::Cancelled;
    item.ended_at = job.ended_at;
    item.last_error = Some(Failure::new("cancelled", message));
    (item.next_attempt_at, item.summary) = (None, None);
    item.output_refs.clear();
}

/// A job as it is shown by itself: with what it will do next, which no fact tells.
fn shown(state: State) -> JobView {
    let schedule = state.work.as_ref().and_then(|work| work.spec.schedule.clone());
    let next = state.work.as_ref().and_then(Work::next_run);
    let mut view = served(state);
    if let Some(schedule) = schedule {
        view.next_run_at = next.map(Time);
        view.missed_runs = Some(schedule.missed_runs.as_str().to_owned());
        (view.start_at, view.max_runs) = (schedule.start_at, schedule.max_runs);
    }
    view
}

/// A job as its session shows it.
pub(super) fn served(state: State) -> JobView {
    let mut view = state.view.0;
    if let Some(work) = state.work {
        view.session_id = Some(work.session);
        view.job_id = Some(work.id);
    }
    view
}
