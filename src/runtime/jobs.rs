//! The commands about jobs.

use cadre_cluster::{
    keys,
    store::{Attempt, KeyRange, RangeRead, Transaction},
};
use serde::{Deserialize, Serialize};

use super::{Request, Runtime, load::List, request::unreadable};
use crate::{
    control::{
        Error,
        args::{CancelJob, CreateJob, GetJob, ListJobs, NewItem, RetryJobItem},
        result::{Answer, GetJobResult, JobItemState, JobState, Jobs},
    },
    entity::{
        Job, Lineage, Named,
        job::{Command, Create, ItemRecord, Reply, Spec, State, Work, decode_view},
        kind, records,
        session::fingerprint,
    },
    exec::Source,
    fact::{
        id::{ItemId, JobId, SessionId},
        status::{ItemStatus, JobStatus},
    },
    view::{ItemView, JobView},
};

/// Items that are written at once, and what they may come to.
const ITEMS_AT_ONCE: usize = 500;
const BYTES_AT_ONCE: usize = 1024 * 1024;

/// How an item stood when it was asked to be tried again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct SeenItem {
    status: ItemStatus,
    /// The attempt that follows.
    next: u32,
}

cadre_cluster::stored! { SeenItem: "seen item" }

impl Runtime {
    pub(super) async fn create_job(
        &self,
        request: &Request<'_>,
        mut args: CreateJob,
    ) -> Result<Answer<JobState>, Error> {
        self.check_agent(args.agent.as_deref())?;
        let mut ids = request.ids();
        let job: JobId = args.job_id.clone().unwrap_or_else(|| ids.next());
        let task = match &args.task_id {
            Some(task) => {
                Some(self.task(request, task).await.map_err(|error| error.with("field", "taskId"))?)
            }
            None => None,
        };
        let fingerprint = fingerprint(&args);
        let known = self.existing_job(&self.store.begin(), request, &job).await?;
        if let Some(known) = &known
            && known.fingerprint != fingerprint
        {
            let message = format!("the job {job} exists with other content");
            return Err(Error::conflict(known.status.as_str(), message));
        }
        let session = match (&args.session_id, task) {
            // A session that takes no new work has not forgotten what it took.
            (Some(session), _) if known.is_some() => session.clone(),
            (Some(session), _) => {
                self.open_session(request, session).await?;
                session.clone()
            }
            (None, Some(task)) => task.session,
            (None, None) => {
                let session: SessionId = ids.next();
                self.make_session(request, &session, None, args.agent.clone()).await?;
                session
            }
        };
        let items = std::mem::take(&mut args.items);
        let count = u32::try_from(items.len()).map_err(|_| Error::invalid("items", "there are too many"))?;
        self.write_items(request, &session, &job, items, fingerprint).await?;
        let create = Create {
            session: session.clone(),
            parent: None,
            lineage: Lineage { task: args.task_id.clone(), ..Lineage::default() },
            depth: 0,
            fingerprint,
            items: count,
            spec: Named(Box::new(Spec::of(&args, crate::scripted::AGENT))),
        };
        let address = request.address(kind::JOB, job.as_str());
        let called = self.ask::<Job>(request, &address, &Command::Create(Box::new(create))).await?;
        let Reply { job, session, status } = called.reply;
        let result = JobState {
            job_id: job,
            status,
            session_id: Some(session),
            total: Some(count),
            next_run_at: None,
        };
        Ok(Answer { result, cursor: called.cursor })
    }

    /// Writes what the items are given, before the job that will ask for it. The first request for a job has its items;
    /// another one for the same job is refused.
    async fn write_items(
        &self,
        request: &Request<'_>,
        session: &SessionId,
        job: &JobId,
        items: Vec<NewItem>,
        fingerprint: u128,
    ) -> Result<(), Error> {
        let tenant = &request.caller.tenant;
        let (mut ids, mut batch, mut bytes) = (request.ids(), Vec::new(), 0);
        // The ids that the request itself has used come first.
        let (_, _): (JobId, SessionId) = (ids.next(), ids.next());
        let last = items.len().saturating_sub(1);
        for (index, item) in items.into_iter().enumerate() {
            let item_id: ItemId = item.item_id.unwrap_or_else(|| ids.next());
            let own = format!("{job}.{index}");
            let record = match self.source(request, Some(session), Some(&own), item.input).await? {
                Source::Inline(input) if Source::Inline(input.clone()).size() <= Source::INLINE_BYTES_MAX => {
                    ItemRecord { item_id, input, blob: None }
                }
                Source::Inline(input) => {
                    let content =
                        serde_json::to_vec(&input).expect("parts serialize into memory without fail");
                    let blob = ids.next();
                    let new = crate::blob::NewBlob {
                        blob,
                        media_type: "application/json".into(),
                        session: Some(session.clone()),
                        content: content.into(),
                    };
                    let blob = Some(new.blob.clone());
                    self.blobs.write(tenant, new).await.map_err(unreadable)?;
                    ItemRecord { item_id, input: Vec::new(), blob }
                }
                Source::Stored(blob) => ItemRecord { item_id, input: Vec::new(), blob: Some(blob) },
            };
            let value = record.encode();
            bytes += value.len();
            let path = records::item(job, u32::try_from(index).unwrap_or(u32::MAX));
            batch.push((keys::data(tenant, &path), value));
            if batch.len() >= ITEMS_AT_ONCE || bytes >= BYTES_AT_ONCE || index == last {
                self.write_batch(request, job, std::mem::take(&mut batch), fingerprint).await?;
                bytes = 0;
            }
        }
        Ok(())
    }

    async fn write_batch(
        &self,
        request: &Request<'_>,
        job: &JobId,
        batch: Vec<(bytes::Bytes, bytes::Bytes)>,
        fingerprint: u128,
    ) -> Result<(), Error> {
        let claim = keys::data(&request.caller.tenant, &records::items(job));
        let mine = fingerprint.to_be_bytes();
        let mut attempt = Attempt::idempotent();
        loop {
            let mut tx = self.store.begin();
            match tx.get(&claim).await.map_err(unreadable)? {
                Some(theirs) if theirs[..] != mine[..] => {
                    let message = format!("the job {job} exists with other content");
                    return Err(Error::conflict("exists", message));
                }
                _ => tx.set(claim.clone(), mine.to_vec()),
            }
            for (key, value) in &batch {
                tx.set(key.clone(), value.clone());
            }
            match tx.commit().await {
                Ok(_) => return Ok(()),
                Err(error) => attempt.again(error).await.map_err(unreadable)?,
            }
        }
    }

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
        let command = Command::Cancel { reason: args.reason, by: request.by() };
        let called = self.ask::<Job>(request, &address, &command).await?;
        let closed = async || {
            let work = self.job(request, &job).await?;
            Ok((work.status.is_terminal() && work.closed).then_some(work.status))
        };
        let status = self.wait_for(request, &session, request.until, closed).await?;
        let cursor = match status {
            Some(_) => Some(self.end_of_feed(request, &session).await?),
            None => called.cursor,
        };
        let result = JobState {
            job_id: job,
            status: status.unwrap_or(JobStatus::Cancelling),
            session_id: Some(session),
            total: None,
            next_run_at: None,
        };
        Ok(Answer { result, cursor })
    }

    pub(super) async fn retry_job_item(
        &self,
        request: &Request<'_>,
        args: RetryJobItem,
    ) -> Result<Answer<JobItemState>, Error> {
        let work = self.job(request, &args.job_id).await?;
        let found = self.find_item(request, &work, &args.item_id).await?;
        let (index, view) = found.ok_or_else(|| Error::not_found("item", &args.item_id))?;
        let address = request.address(kind::JOB, args.job_id.as_str());
        let fresh = SeenItem {
            status: view.as_ref().map_or(ItemStatus::Pending, |view| view.status),
            next: view.map_or(1, |view| view.attempt + 1),
        };
        let SeenItem { status, next } = self.seen(request, &address, fresh).await?;
        let command = Command::Retry { index, item: args.item_id.clone(), status, by: request.by() };
        let called = self.ask::<Job>(request, &address, &command).await?;
        let result = JobItemState {
            job_id: args.job_id,
            item_id: args.item_id,
            status: ItemStatus::Pending,
            attempt: next,
        };
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
                let record = ItemRecord::decode(&pair.value).map_err(unreadable)?;
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
        stored.map(|stored| decode_view(&stored).map_err(unreadable)).transpose()
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
        let to = work.items.min(from.saturating_add(u32::try_from(args.limit.get()).unwrap_or(u32::MAX)));
        let mut items = Vec::new();
        for index in from..to {
            let key = keys::data(&request.caller.tenant, &records::item(&work.id, index));
            let Some(stored) = tx.snapshot_get(&key).await.map_err(unreadable)? else { continue };
            let record = ItemRecord::decode(&stored).map_err(unreadable)?;
            let view = self.item_view(&tx, request, &work.id, index).await?;
            let view =
                view.unwrap_or_else(|| ItemView { index: Some(index), ..ItemView::new(record.item_id) });
            items.push(view);
        }
        let has_more = to < work.items;
        let cursor = has_more.then(|| to.saturating_sub(1).to_string());
        Ok(Answer::read(GetJobResult { job: served(state), items, has_more, cursor }))
    }

    pub(super) async fn list_jobs(
        &self,
        request: &Request<'_>,
        args: ListJobs,
    ) -> Result<Answer<Jobs<JobView>>, Error> {
        let tx = self.store.begin();
        let prefix = match &args.session_id {
            Some(session) => {
                self.session(&tx, request, session).await?;
                records::jobs(session)
            }
            None => records::all_jobs(),
        };
        let list = List { prefix, after: args.after.as_deref(), field: "after", newest_first: true };
        let look = async |id: String| {
            let Some(state) = self.load::<Job>(&tx, request, &id).await? else { return Ok(None) };
            let wanted =
                state.work.as_ref().is_some_and(|work| args.status.is_none_or(|is| is == work.status));
            Ok(wanted.then(|| served(state)))
        };
        let (jobs, more) = self.page(&tx, request, list, args.limit.get(), look).await?;
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
        let list = List { prefix: records::jobs(session), after: None, field: "jobs", newest_first: true };
        let look = async |id: String| {
            let state = self.load::<Job>(tx, request, &id).await?;
            Ok(state.filter(|state| state.work.is_some()).map(served))
        };
        let (mut jobs, _) = self.page(tx, request, list, limit, look).await?;
        jobs.reverse();
        Ok(jobs)
    }
}

/// A job as it is shown.
fn served(state: State) -> JobView {
    let mut view = state.view.0;
    if let Some(work) = state.work {
        view.session_id = Some(work.session);
        view.job_id = Some(work.id);
    }
    view
}
