//! Making a job.
//!
//! Everything is checked before anything is written. Then the job's entity is told that its items come, they are written in
//! batches, and the job begins: by itself, or as a child of its task. A try that ends in the middle is gone on with by
//! the next one of the same request; what nobody comes back to, or is refused after all, the entity removes
//! ([`crate::entity::job::Preparation`]).

use bytes::Bytes;
use cadre_cluster::{
    clock::Timestamp,
    host::{Called, read_entity},
    keys,
    store::Attempt,
};

use super::super::{
    Request, Runtime,
    failure::{of_blob, undecodable, unreadable},
    subagents::same_session,
};
use crate::{
    blob::NewBlob,
    control::{
        Code, Error,
        args::{CreateJob, NewItem},
        check,
        result::{Answer, JobState},
    },
    entity::{
        Child, Job, Lineage, Named, Start, Task,
        job::{Command, Create, ItemRecord, NewJob, Reply, Spec, schedule::Plan},
        kind, records,
        session::fingerprint,
        task,
    },
    exec::Source,
    fact::{
        Time,
        id::{BlobRef, Id, ItemId, JobId, SessionId, TaskId, child_suffix},
        status::{JobStatus, TaskStatus},
    },
};

/// Items that are written at once, and what they may come to.
const ITEMS_AT_ONCE: usize = 500;
const BYTES_AT_ONCE: usize = 1024 * 1024;

/// Whose items are written.
struct Prepared<'a> {
    job: &'a JobId,
    session: &'a SessionId,
    fingerprint: u128,
    since: Timestamp,
}

impl Runtime {
    pub(in crate::runtime) async fn create_job(
        &self,
        request: &Request<'_>,
        mut args: CreateJob,
    ) -> Result<Answer<JobState>, Error> {
        self.check_agent(args.agent.as_deref())?;
        let mut ids = request.ids();
        // In this order, whatever the caller has named: a retry gets the same ones.
        let (own_job, own_session): (JobId, SessionId) = (ids.next(), ids.next());
        let job = args.job_id.clone().unwrap_or(own_job);
        let fingerprint = fingerprint(&args);
        let existing = self.existing_job(&self.store.begin(), request, &job).await?;
        if let Some(known) = existing.as_ref().filter(|known| known.fingerprint != fingerprint) {
            let message = format!("the job {job} exists with other content");
            return Err(Error::conflict(known.status, message));
        }
        let spec = Spec::of(&args, crate::scripted::AGENT);
        let items = std::mem::take(&mut args.items);
        let count = u32::try_from(items.len()).map_err(|_| Error::invalid("items", "there are too many"))?;
        let session = match &existing {
            Some(known) => known.session.clone(),
            None => {
                let named = self.check_job(request, &args, &items).await?;
                let session = named.clone().unwrap_or(own_session);
                let command = Command::Prepare { session, fingerprint, items: count };
                let Called { reply: Reply { session, prepared, .. }, .. } =
                    self.tell_job(request, &job, &command).await?;
                if named.is_none() {
                    self.make_session(request, &session, None, args.agent.clone()).await?;
                }
                if let Some(since) = prepared {
                    let prepared = Prepared { job: &job, session: &session, fingerprint, since };
                    self.write_items(request, &prepared, &spec, items).await?;
                }
                session
            }
        };
        let new = NewJob { fingerprint, items: count, spec: Named(Box::new(spec)) };
        let made = match &args.task_id {
            None => self.begin_job(request, &job, &session, new).await,
            Some(task) if existing.is_none() || request.key.is_some() => {
                self.add_job(request, task, &job, &session, new).await
            }
            Some(_) => Ok(Answer::read(begun(&job, &session, &new))),
        };
        if let (Err(error), None) = (&made, &existing)
            && is_refusal(error)
        {
            // Were this lost, what is left would go by itself an hour later.
            let _ = self.tell_job(request, &job, &Command::Abandon { fingerprint }).await;
        }
        made
    }

    /// Refuses what can be refused before anything is written. The session that the job belongs to, unless it gets one of
    /// its own.
    async fn check_job(
        &self,
        request: &Request<'_>,
        args: &CreateJob,
        items: &[NewItem],
    ) -> Result<Option<SessionId>, Error> {
        if let Some(schedule) = &args.schedule {
            Plan::new(schedule, self.clock.now())?;
        }
        let limits = &self.engine.limits;
        if items.is_empty() || items.len() > limits.job_items {
            let message = format!("must be 1 to {}, not {}", limits.job_items, items.len());
            return Err(Error::invalid("items", message));
        }
        for (index, item) in items.iter().enumerate() {
            let size = check::input_bytes(&item.input);
            if size > limits.input_bytes {
                let error = Error::too_large(limits.input_bytes as u64, size as u64);
                return Err(error.with("field", format!("items[{index}].input")));
            }
        }
        let mut session = args.session_id.clone();
        if let Some(id) = &args.task_id {
            let task = self.task(request, id).await.map_err(|error| error.with("field", "taskId"))?;
            if let Some(session) = &session {
                same_session(&task.session, session, "taskId", id)?;
            }
            if task.status.is_terminal() || task.status == TaskStatus::Cancelling {
                let message = format!("the task {id} is {} and cannot take a job", task.status);
                return Err(Error::conflict(task.status, message));
            }
            session = Some(task.session);
        }
        if let Some(session) = &session {
            self.open_session(request, session).await?;
        }
        Ok(session)
    }

    /// Asks the job's entity what may be asked again at any time: the caller's key stands for the job itself.
    async fn tell_job(
        &self,
        request: &Request<'_>,
        job: &JobId,
        command: &Command,
    ) -> Result<Called<Reply>, Error> {
        self.ask_under::<Job>(request, &request.address(kind::JOB, job.as_str()), command, None).await
    }

    /// Begins a job that is part of nothing.
    async fn begin_job(
        &self,
        request: &Request<'_>,
        job: &JobId,
        session: &SessionId,
        new: NewJob,
    ) -> Result<Answer<JobState>, Error> {
        let count = new.items;
        let create = Create {
            session: session.clone(),
            parent: None,
            lineage: Lineage::default(),
            depth: 0,
            fingerprint: new.fingerprint,
            items: new.items,
            spec: new.spec,
        };
        let address = request.address(kind::JOB, job.as_str());
        let called = self.ask::<Job>(request, &address, &Command::Create(Box::new(create))).await?;
        let Reply { job, session, status, next, .. } = called.reply;
        let result = JobState {
            job_id: job,
            status,
            session_id: Some(session),
            total: Some(count),
            next_run_at: next.map(Time),
        };
        Ok(Answer { result, cursor: called.cursor })
    }

    /// Has a task begin it: the job hears from it that it is to be, and the caller may ask for it right away.
    async fn add_job(
        &self,
        request: &Request<'_>,
        task: &TaskId,
        job: &JobId,
        session: &SessionId,
        new: NewJob,
    ) -> Result<Answer<JobState>, Error> {
        let result = begun(job, session, &new);
        let start = Start {
            session: session.clone(),
            parent: None,
            lineage: Lineage::default(),
            agent: new.spec.agent.clone(),
            input: Source::Inline(Vec::new()),
            depth: 0,
            what: Child::Job(new),
            budget: None,
        };
        let command = task::Command::AddJob(job.clone(), Box::new(start));
        let address = request.address(kind::TASK, task.as_str());
        let called = self.ask::<Task>(request, &address, &command).await?;
        let added = || async { self.existing_job(&self.store.begin(), request, job).await };
        self.wait_for(request, session, request.until, added).await?.ok_or_else(Error::deadline)?;
        Ok(Answer { result, cursor: called.cursor })
    }

    /// Writes what the items are given.
    async fn write_items(
        &self,
        request: &Request<'_>,
        prepared: &Prepared<'_>,
        spec: &Spec,
        items: Vec<NewItem>,
    ) -> Result<(), Error> {
        let mut ids = request.ids();
        // The ids that the request itself has used come first.
        let (_, _): (JobId, SessionId) = (ids.next(), ids.next());
        let (mut batch, mut apart, mut bytes) = (Vec::new(), Vec::new(), 0);
        let last = items.len().saturating_sub(1);
        for (index, item) in items.into_iter().enumerate() {
            let item_id: ItemId = item.item_id.unwrap_or_else(|| ids.next());
            let index_of = u32::try_from(index).unwrap_or(u32::MAX);
            let is_small = Source::Inline(item.input.clone()).size() <= Source::INLINE_BYTES_MAX;
            let record = if is_small {
                ItemRecord { item_id, input: item.input, blob: None }
            } else {
                let blob = prepared.new_blob(index_of, spec.input(item.input));
                let record = ItemRecord { item_id, input: Vec::new(), blob: Some(blob.blob.clone()) };
                bytes += blob.content.len();
                apart.push(blob);
                record
            };
            let value = record.encode();
            bytes += value.len();
            batch.push((records::item(prepared.job, index_of), value));
            if batch.len() >= ITEMS_AT_ONCE || bytes >= BYTES_AT_ONCE || index == last {
                let is_mine = self.write_batch(request, prepared, std::mem::take(&mut batch)).await?;
                if !is_mine {
                    return Ok(()); // somebody else has made the same job meanwhile
                }
                // After the records that name them: what is kept apart is found again by those.
                for blob in std::mem::take(&mut apart) {
                    self.blobs.keep(&request.caller.tenant, blob).await.map_err(of_blob)?;
                }
                bytes = 0;
            }
        }
        Ok(())
    }

    /// Writes some records while the preparation stands; `false` when the job is there already.
    async fn write_batch(
        &self,
        request: &Request<'_>,
        prepared: &Prepared<'_>,
        batch: Vec<(Vec<u8>, Bytes)>,
    ) -> Result<bool, Error> {
        let tenant = &request.caller.tenant;
        let state = keys::state(&request.address(kind::JOB, prepared.job.as_str()));
        let mut attempt = Attempt::idempotent();
        loop {
            let mut tx = self.store.begin();
            let stored = tx.get(&state).await.map_err(unreadable)?;
            let found = stored.map(|stored| read_entity::<Job>(&stored).map_err(undecodable)).transpose()?;
            let (work, preparation) =
                found.map_or((None, None), |(_, state)| (state.work, state.preparation));
            if work.is_some_and(|work| work.fingerprint == prepared.fingerprint) {
                return Ok(false);
            }
            let stands = preparation.is_some_and(|known| {
                known.removed.is_none()
                    && (known.fingerprint, known.since) == (prepared.fingerprint, prepared.since)
            });
            if !stands {
                let message = format!("the job {} was given up meanwhile, try again", prepared.job);
                return Err(Error::unavailable(message));
            }
            for (path, value) in &batch {
                tx.set(keys::data(tenant, path), value.clone());
            }
            match tx.commit().await {
                Ok(_) => return Ok(true),
                Err(error) => attempt.again(error).await.map_err(unreadable)?,
            }
        }
    }
}

impl Prepared<'_> {
    /// What an item really runs with, when that is too large to be carried about.
    fn new_blob(&self, index: u32, input: Vec<crate::fact::Part>) -> NewBlob {
        let base = format!("{}/{:032x}/{}", self.job, self.fingerprint, self.since.0);
        let content = serde_json::to_vec(&input).expect("parts serialize into memory without fail");
        NewBlob {
            blob: BlobRef::with_suffix(&child_suffix(&base, u64::from(index))),
            media_type: "application/json".into(),
            session: Some(self.session.clone()),
            content: content.into(),
        }
    }
}

/// How a job stands when it has just begun.
fn begun(job: &JobId, session: &SessionId, new: &NewJob) -> JobState {
    JobState {
        job_id: job.clone(),
        status: if new.spec.schedule.is_some() { JobStatus::Scheduled } else { JobStatus::Running },
        session_id: Some(session.clone()),
        total: Some(new.items),
        next_run_at: None,
    }
}

/// Whether it is certain that there will be no job.
fn is_refusal(error: &Error) -> bool {
    match error.code {
        Code::InvalidArgument
        | Code::NotFound
        | Code::Conflict
        | Code::PayloadTooLarge
        | Code::RateLimited
        | Code::Unauthorized
        | Code::Forbidden => true,
        Code::DeadlineExceeded | Code::Unavailable | Code::Internal => false,
    }
}
