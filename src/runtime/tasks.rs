//! The commands about tasks.

use cadre_cluster::{host::read_entity, keys, store::Attempt};

use super::{
    EventFilter, Request, Runtime,
    failure::{undecodable, unexpected, unreadable},
    load::List,
    subagents::same_session,
    turns::Blobs,
    wait::{Closing, Root},
};
use crate::{
    control::{
        Code, Error,
        args::{
            AppendTaskProgress, CancelTask, CompleteTask, CreateTask, FailTask, GetTask, LinkTasks,
            ListTasks, PauseTask, ResumeTask, RetryTask, StartTask, UnlinkTasks, UpdateTask,
        },
        result::{Answer, GetTaskResult, TaskLink, TaskState, Tasks},
    },
    entity::{
        Child, Lineage, Named, Start, Task, kind, records,
        task::{Command, Reply, SearchError, State, blocks},
    },
    exec::Source,
    fact::{
        Fact, Payload,
        id::{SessionId, TaskId},
        status::TaskStatus,
    },
    view::TaskView,
};

impl Runtime {
    pub(super) async fn create_task(
        &self,
        request: &Request<'_>,
        mut args: CreateTask,
    ) -> Result<Answer<TaskState>, Error> {
        self.check_agent(args.agent.as_deref())?;
        let mut ids = request.ids();
        let task = args.task_id.clone().unwrap_or_else(|| ids.next());
        let parent = match &args.parent_task_id {
            Some(parent) => Some(self.task(request, parent).await?),
            None => None,
        };
        let existing = self.existing_task(request, &task).await?.and_then(|state| state.work);
        // Before a session is made for it: what is refused leaves nothing behind.
        for need in &args.depends_on {
            self.task(request, need).await.map_err(|error| error.with("field", "dependsOn"))?;
            let tx = &mut self.store.begin();
            let tenant = &request.caller.tenant;
            let new = (&task, args.parent_task_id.as_ref());
            if existing.is_none() && blocks(tx, tenant, new, need).await.map_err(not_searched)? {
                let message = format!("{need} already waits for {task}: the edge would close a cycle");
                return Err(Error::conflict("cycle", message).with("field", "dependsOn"));
            }
        }
        let session = match (&args.session_id, &parent, &existing) {
            (Some(session), None, _) => session.clone(),
            (Some(session), Some(parent), _) => {
                same_session(&parent.session, session, "parentTaskId", &parent.id)?;
                session.clone()
            }
            (None, Some(parent), _) => parent.session.clone(),
            (None, None, Some(existing)) => existing.session.clone(),
            (None, None, None) => self.own_session(request, &args).await?,
        };
        if existing.is_none() {
            self.open_session(request, &session).await?;
            self.check_blobs(request, Blobs::of(&args.input)).await?;
        }
        let own = args.task_id.as_ref().map(|_| task.as_str());
        let input = (std::mem::take(&mut args.input), Source::INLINE_BYTES_MAX);
        let input = self.source(request, Some(&session), own, input).await?;
        let agent = args.agent.clone().unwrap_or_else(|| crate::scripted::AGENT.into());
        let start = Start {
            session: session.clone(),
            parent: None,
            lineage: Lineage { task: args.parent_task_id.clone(), ..Lineage::default() },
            agent,
            input,
            depth: 0,
            what: Child::Task(Named(Box::new(args.clone()))),
            budget: None,
        };
        let called = match &args.parent_task_id {
            Some(parent) if existing.is_none() || request.key.is_some() => {
                let asked = start.fingerprint();
                let command = Command::AddChild(task.clone(), Box::new(start));
                let address = request.address(kind::TASK, parent.as_str());
                let called = self.ask::<Task>(request, &address, &command).await?;
                self.added(request, &session, &task, asked).await?;
                called
            }
            _ => {
                let address = request.address(kind::TASK, task.as_str());
                self.ask::<Task>(request, &address, &Command::Create(Box::new(start))).await?
            }
        };
        let mut state = task_state(called.reply)?;
        let cursor = match called.cursor {
            None if args.parent_task_id.is_some() => {
                let (task, types) = (Some(task), vec!["task.created".to_owned()]);
                let filter = EventFilter { task, types, ..EventFilter::default() };
                Some(self.first_told(request, &session, filter).await?)
            }
            cursor => cursor,
        };
        state.session_id = Some(session);
        Ok(Answer { result: state, cursor })
    }

    /// A task hears from its parent that it is to be; the caller may ask for it right away.
    async fn added(
        &self,
        request: &Request<'_>,
        session: &SessionId,
        task: &TaskId,
        asked: u128,
    ) -> Result<(), Error> {
        let added = || self.existing_task(request, task);
        let state = self.wait_for(request, session, request.until, added).await?;
        let work = state.and_then(|state| state.work).ok_or_else(Error::deadline)?;
        if work.fingerprint != asked {
            let message = format!("the task {task} exists with other content");
            return Err(Error::conflict(work.status.as_str(), message));
        }
        Ok(())
    }

    /// A task without a session gets one of its own.
    async fn own_session(&self, request: &Request<'_>, args: &CreateTask) -> Result<SessionId, Error> {
        let mut ids = request.ids();
        let _: TaskId = ids.next();
        let session: SessionId = ids.next();
        self.make_session(request, &session, args.title.clone(), args.agent.clone()).await?;
        Ok(session)
    }

    async fn existing_task(&self, request: &Request<'_>, task: &TaskId) -> Result<Option<State>, Error> {
        let state = self.load::<Task>(&self.store.begin(), request, task.as_str()).await?;
        Ok(state.filter(|state| state.work.is_some()))
    }

    /// A task that exists.
    pub(super) async fn task(
        &self,
        request: &Request<'_>,
        task: &TaskId,
    ) -> Result<crate::entity::task::Work, Error> {
        let state = self.existing_task(request, task).await?;
        state.and_then(|state| state.work).ok_or_else(|| Error::not_found("task", task))
    }

    async fn tell_task(
        &self,
        request: &Request<'_>,
        task: &TaskId,
        command: Command,
    ) -> Result<Answer<TaskState>, Error> {
        let address = request.address(kind::TASK, task.as_str());
        let called = self.ask::<Task>(request, &address, &command).await?;
        Ok(Answer { result: task_state(called.reply)?, cursor: called.cursor })
    }

    pub(super) async fn update_task(
        &self,
        request: &Request<'_>,
        args: UpdateTask,
    ) -> Result<Answer<TaskState>, Error> {
        self.check_agent(args.agent.as_deref())?;
        let task = args.task_id.clone();
        self.tell_task(request, &task, Command::Update(Named(Box::new(args)))).await
    }

    pub(super) async fn start_task(
        &self,
        request: &Request<'_>,
        args: StartTask,
    ) -> Result<Answer<TaskState>, Error> {
        let session = self.task(request, &args.task_id).await?.session;
        self.open_session(request, &session).await?;
        self.tell_task(request, &args.task_id, Command::Start { by: request.by(), reason: args.reason }).await
    }

    pub(super) async fn append_task_progress(
        &self,
        request: &Request<'_>,
        args: AppendTaskProgress,
    ) -> Result<Answer<TaskState>, Error> {
        let task = args.task_id.clone();
        self.tell_task(request, &task, Command::Progress(Named(Box::new(args)))).await
    }

    pub(super) async fn pause_task(
        &self,
        request: &Request<'_>,
        args: PauseTask,
    ) -> Result<Answer<TaskState>, Error> {
        let command = Command::Pause { reason: args.reason, by: request.by() };
        self.tell_task(request, &args.task_id, command).await
    }

    pub(super) async fn resume_task(
        &self,
        request: &Request<'_>,
        args: ResumeTask,
    ) -> Result<Answer<TaskState>, Error> {
        let command = Command::Resume { by: request.by(), reason: args.reason };
        self.tell_task(request, &args.task_id, command).await
    }

    pub(super) async fn cancel_task(
        &self,
        request: &Request<'_>,
        args: CancelTask,
    ) -> Result<Answer<TaskState>, Error> {
        let CancelTask { task_id, reason, propagate } = args;
        let session = self.task(request, &task_id).await?.session;
        let since = self.end_of_feed(request, &session).await?;
        let command = Command::Cancel { reason, propagate, by: request.by() };
        let mut answer = self.tell_task(&request.for_order(), &task_id, command).await?;
        let closed = || async {
            let work = self.task(request, &task_id).await?;
            let over = work.status.is_terminal() && (work.closed || !propagate);
            Ok(over.then_some(work.status))
        };
        let ended = |fact: &Fact| {
            use Payload::{TaskCancelled, TaskCompleted, TaskFailed, TaskLost, TaskTimedOut};
            matches!(
                fact.payload,
                TaskCompleted(_) | TaskFailed(_) | TaskCancelled(_) | TaskTimedOut(_) | TaskLost(_)
            )
        };
        let root = Root::new(kind::TASK, task_id.as_str(), &ended);
        let closing = Closing { session: &session, root, since, told: answer.cursor };
        let ended = self.wait_closed(request, closing, closed, TaskStatus::Cancelled).await?;
        if let Some((status, cursor)) = ended {
            answer.result.status = status;
            answer.cursor = cursor;
        } else {
            answer.result.status = TaskStatus::Cancelling;
        }
        Ok(answer)
    }

    pub(super) async fn retry_task(
        &self,
        request: &Request<'_>,
        args: RetryTask,
    ) -> Result<Answer<TaskState>, Error> {
        let work = self.task(request, &args.task_id).await?;
        self.open_session(request, &work.session).await?;
        let command = Command::Retry { reason: args.reason, by: request.by() };
        let answer = self.tell_task(request, &args.task_id, command).await?;
        let known = || async {
            let closed_again = self.task(request, &args.task_id).await?.closed;
            Ok((closed_again || self.is_open_above(request, work.parent.clone()).await?).then_some(()))
        };
        self.wait_for(request, &work.session, request.until, known).await?;
        Ok(answer)
    }

    pub(super) async fn complete_task(
        &self,
        request: &Request<'_>,
        args: CompleteTask,
    ) -> Result<Answer<TaskState>, Error> {
        let task = args.task_id.clone();
        let command = Command::Complete { args: Named(Box::new(args)), by: request.by() };
        self.tell_task(request, &task, command).await
    }

    pub(super) async fn fail_task(
        &self,
        request: &Request<'_>,
        args: FailTask,
    ) -> Result<Answer<TaskState>, Error> {
        let command = Command::Fail { error: args.error, by: request.by() };
        self.tell_task(request, &args.task_id, command).await
    }

    pub(super) async fn get_task(
        &self,
        request: &Request<'_>,
        args: GetTask,
    ) -> Result<Answer<GetTaskResult<TaskView>>, Error> {
        let state = self.existing_task(request, &args.task_id).await?;
        let state = state.ok_or_else(|| Error::not_found("task", &args.task_id))?;
        Ok(Answer::read(GetTaskResult { task: served(state) }))
    }

    pub(super) async fn list_tasks(
        &self,
        request: &Request<'_>,
        args: ListTasks,
    ) -> Result<Answer<Tasks<TaskView>>, Error> {
        let prefix = match (&args.parent_task_id, &args.session_id) {
            (Some(parent), _) => {
                let known = self.task(request, parent).await;
                known.map_err(|error| error.with("field", "parentTaskId"))?;
                records::task_children(parent)
            }
            (None, Some(session)) => {
                self.session(&self.store.begin(), request, session).await?;
                records::tasks(session)
            }
            (None, None) => records::all_tasks(),
        };
        let tx = self.store.begin();
        let list = List { prefix, after: args.after.as_deref(), field: "after", newest_first: true };
        let (tx, args) = (&tx, &args);
        let look = |id: String| async move {
            let state = self.load::<Task>(tx, request, &id).await?;
            let Some(state) = state else { return Ok(None) };
            let Some(work) = &state.work else { return Ok(None) };
            let wanted = args.status.is_none_or(|status| status == work.status)
                && args.session_id.as_ref().is_none_or(|session| *session == work.session);
            Ok(wanted.then(|| served(state)))
        };
        let (tasks, more) = self.served_page(tx, request, list, args.limit.get(), look).await?;
        Ok(Answer::read(Tasks { tasks, has_more: more.is_some(), cursor: more }))
    }

    pub(super) async fn link_tasks(
        &self,
        request: &Request<'_>,
        args: LinkTasks,
    ) -> Result<Answer<TaskLink>, Error> {
        let (blocker, blocked, edge) = direction(&args.from, &args.to, &args.kind);
        self.task(request, &args.from).await.map_err(|error| error.with("field", "from"))?;
        self.task(request, &args.to).await.map_err(|error| error.with("field", "to"))?;
        let (task, target) = if edge { (blocked, blocker) } else { (&args.from, &args.to) };
        if edge {
            self.add_edge(request, blocker, blocked).await?;
        }
        let kind = if edge { crate::entity::task::BLOCKS.to_owned() } else { args.kind.clone() };
        let command = Command::Link { kind, target: target.to_string(), reason: args.reason.clone() };
        let answered = self.tell_task(request, task, command).await;
        // One whose outcome is not known may still come about.
        if answered.as_ref().is_err_and(|error| !error.retryable && error.code != Code::Internal) && edge {
            self.forget_edge(request, blocker, blocked).await?;
        }
        let answered = answered?;
        let result = TaskLink {
            from: args.from,
            to: args.to,
            kind: args.kind,
            linked: true,
            status: Some(answered.result.status),
        };
        Ok(Answer { result, cursor: answered.cursor })
    }

    pub(super) async fn unlink_tasks(
        &self,
        request: &Request<'_>,
        args: UnlinkTasks,
    ) -> Result<Answer<TaskLink>, Error> {
        let (blocker, blocked, edge) = direction(&args.from, &args.to, &args.kind);
        let (task, target) = if edge { (blocked, blocker) } else { (&args.from, &args.to) };
        let kind = if edge { crate::entity::task::BLOCKS.to_owned() } else { args.kind.clone() };
        let command = Command::Unlink { kind, target: target.to_string(), reason: args.reason.clone() };
        let answered = self.tell_task(request, task, command).await?;
        let result = TaskLink {
            from: args.from,
            to: args.to,
            kind: args.kind,
            linked: false,
            status: Some(answered.result.status),
        };
        Ok(Answer { result, cursor: answered.cursor })
    }

    /// Adds an edge unless that closes a cycle. Two callers who each add half of a cycle conflict in the store, and one
    /// of them sees the other's half.
    async fn add_edge(&self, request: &Request<'_>, from: &TaskId, to: &TaskId) -> Result<(), Error> {
        let tenant = &request.caller.tenant;
        let mut attempt = Attempt::idempotent();
        loop {
            let mut tx = self.store.begin();
            if from == to || blocks(&mut tx, tenant, (to, None), from).await.map_err(not_searched)? {
                let message = format!("{from} already waits for {to}: the edge would close a cycle");
                return Err(Error::conflict("cycle", message));
            }
            tx.set(keys::data(tenant, &records::edge(from, to)), &[][..]);
            match tx.commit().await {
                Ok(_) => return Ok(()),
                Err(error) => attempt.again(error).await.map_err(unreadable)?,
            }
        }
    }

    /// Takes an edge away that a task has refused, unless it is one that the task has from before.
    async fn forget_edge(&self, request: &Request<'_>, from: &TaskId, to: &TaskId) -> Result<(), Error> {
        let mut attempt = Attempt::idempotent();
        loop {
            let mut tx = self.store.begin();
            // Read so that the task cannot take it on at the same time.
            let blocked = tx.get(&keys::state(&request.address(kind::TASK, to.as_str()))).await;
            let blocked = blocked.map_err(unreadable)?.map(|stored| read_entity::<Task>(&stored)).transpose();
            let work = blocked.map_err(undecodable)?.and_then(|(_, state)| state.work);
            if work.is_some_and(|work| work.needs.contains_key(from)) {
                return Ok(());
            }
            tx.clear(keys::data(&request.caller.tenant, &records::edge(from, to)));
            match tx.commit().await {
                Ok(_) => return Ok(()),
                Err(error) => attempt.again(error).await.map_err(unreadable)?,
            }
        }
    }
}

/// Nobody can say whether an edge would close a cycle.
fn not_searched(error: SearchError) -> Error {
    match error {
        SearchError::Read(error) => unreadable(error),
        SearchError::TooLarge => Error::rate_limited(60_000, error.to_string()),
    }
}

/// Which task blocks which, when the edge is of that kind.
fn direction<'a>(from: &'a TaskId, to: &'a TaskId, kind: &str) -> (&'a TaskId, &'a TaskId, bool) {
    match kind {
        crate::entity::task::BLOCKS => (from, to, true),
        crate::control::args::DEPENDS_ON => (to, from, true),
        _ => (from, to, false),
    }
}

/// A task as it is shown.
pub(super) fn served(state: State) -> TaskView {
    let mut view = state.view.0;
    if let Some(work) = state.work {
        view.session_id = Some(work.session);
    }
    view
}

fn task_state(reply: Reply) -> Result<TaskState, Error> {
    let Reply::Task { task, status, run, session, attempt, place } = reply else { return Err(unexpected()) };
    let (thread_id, turn_id) = place.unzip();
    Ok(TaskState { task_id: task, status, session_id: session, attempt, run_id: run, thread_id, turn_id })
}
