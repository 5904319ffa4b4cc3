//! The commands that read a session: one moment of it, put together from what its entities keep.

use cadre_cluster::{
    feed::Cursor,
    keys,
    store::{KeyRange, RangeRead, Transaction},
};
use futures::TryStreamExt;

use super::{
    EventFilter, Request, Runtime,
    failure::{damaged, unreadable},
    load::{List, Room, SERVED_BYTES_MAX},
    tasks,
};
use crate::{
    control::{
        Error,
        args::{GetExecutionEnvironment, GetSession, GetThreadRead, GetToolInventory},
        result::Answer,
    },
    entity::{Subagent, Task, records},
    fact::id::{SessionId, ThreadId, TurnId},
    view::{
        JobView, SessionSnapshot, SessionView, SnapshotParts, SubagentView, TaskView, ThreadView, TurnView,
        Window,
        snapshot::{
            ExecutionEnvironment, HistoryPosition, Publisher, ThreadRead, ThreadTurns, ToolInventory,
        },
    },
};

/// The only mode of permission that there is.
const DEFAULT_MODE: &str = "default";

/// What a snapshot has of the newest of each kind, in the order in which they came.
pub(super) struct Newest {
    pub turns: Vec<ThreadTurns>,
    pub tasks: Vec<TaskView>,
    pub subagents: Vec<SubagentView>,
    pub jobs: Vec<JobView>,
}

impl Runtime {
    pub(super) async fn get_session(
        &self,
        request: &Request<'_>,
        args: GetSession,
    ) -> Result<Answer<SessionSnapshot>, Error> {
        let before = match &args.before {
            None => None,
            Some(before) => Some(
                before
                    .parse::<HistoryPosition>()
                    .map_err(|error| Error::invalid("before", error.to_string()))?,
            ),
        };
        let tx = self.store.begin();
        let (state, _) = self.session(&tx, request, &args.session_id).await?;
        let view = SessionView { session_id: Some(args.session_id.clone()), ..state.view.0 };
        let window = Window::default();
        let limit = args.limit.get();
        let mut turns = Vec::with_capacity(view.threads.len());
        // What one thread does not need is not given to another: each has its own position to go on from.
        let bytes_max = SERVED_BYTES_MAX / view.threads.len().max(1);
        for (place, thread) in view.threads.iter().enumerate() {
            let below = before.as_ref().map(|before| before.of(place));
            let bounds = (limit, bytes_max);
            turns.push(self.ended_turns(&tx, request, &args.session_id, thread, below, bounds).await?);
        }
        let newest = |prefix, field| List { prefix, after: None, field, newest_first: true };
        let reading = &tx;
        let look = |id: String| async move {
            let state = self.load::<Task>(reading, request, &id).await?;
            Ok(state.filter(|state| state.work.is_some()).map(tasks::served))
        };
        let list = newest(records::tasks(&args.session_id), "tasks");
        let (mut tasks, _) = self.page(&tx, request, list, window.tasks, look).await?;
        tasks.reverse();
        let jobs = self.newest_jobs(&tx, request, &args.session_id, window.jobs).await?;
        let list = newest(records::all_subagents(&args.session_id), "subagents");
        let look = |id: String| async move {
            let state = self.load::<Subagent>(reading, request, &id).await?;
            Ok(state.filter(|state| state.work.is_some()).map(|state| state.view.0))
        };
        let (mut subagents, _) = self.page(&tx, request, list, window.subagents, look).await?;
        subagents.reverse();
        let newest = Newest { turns, tasks, subagents, jobs };
        let parts = self.parts(&tx, request, view, newest).await?;
        Ok(Answer::read(SessionSnapshot::assemble(parts)))
    }

    /// What a snapshot of a session is put together from, all read at one moment.
    pub(super) async fn parts(
        &self,
        tx: &Transaction,
        request: &Request<'_>,
        view: SessionView,
        newest: Newest,
    ) -> Result<SnapshotParts, Error> {
        let session = view.session_id.clone().ok_or_else(|| damaged("a session without an id"))?;
        let cursor = self.feed(request.caller, &session).snapshot_cursor(tx).await.map_err(unreadable)?;
        let publisher = self.publisher();
        let Newest { turns, tasks, subagents, jobs } = newest;
        Ok(SnapshotParts {
            publisher: Publisher {
                runtime_id: publisher.runtime_id.clone(),
                schema_version: publisher.schema_version.clone(),
            },
            view,
            turns,
            tasks,
            task_counts: self.counts(tx, request, &session, "tasks").await?,
            subagent_counts: self.counts(tx, request, &session, "subagents").await?,
            subagents,
            job_counts: self.counts(tx, request, &session, "jobs").await?,
            jobs,
            cursor: Some(cursor),
            session_id: session,
        })
    }

    /// The newest turns of a thread that are over, up to a number, and one at least: fewer when they are large.
    pub(super) async fn ended_turns(
        &self,
        tx: &Transaction,
        request: &Request<'_>,
        session: &SessionId,
        thread: &ThreadView,
        below: Option<u64>,
        (limit, bytes_max): (usize, usize),
    ) -> Result<ThreadTurns, Error> {
        let tenant = &request.caller.tenant;
        let mut range =
            KeyRange::prefix(keys::data(tenant, &records::turns(session, &thread.thread_id)).to_vec());
        if let Some(below) = below {
            range.end = keys::data(tenant, &records::turn(session, &thread.thread_id, below));
        }
        // One more than is wanted says whether there is more; a page may be shorter than was asked for.
        let read = RangeRead::new(range).limit(limit + 1).reverse();
        let mut pairs = std::pin::pin!(tx.snapshot_stream(read));
        let (mut turns, mut room, mut has_room) = (Vec::new(), Room(bytes_max), true);
        let has_more = loop {
            let Some(pair) = pairs.try_next().await.map_err(unreadable)? else { break false };
            if !has_room || turns.len() >= limit {
                break true;
            }
            let turn: TurnView = rmp_serde::from_slice(&pair.value).map_err(damaged)?;
            has_room = room.take(&turn);
            turns.push(turn);
        };
        turns.reverse();
        self.say_rolled_back(tx, request, session, thread, &mut turns).await?;
        Ok(ThreadTurns { thread_id: thread.thread_id.clone(), turns, has_more })
    }

    pub(super) async fn get_thread_read(
        &self,
        request: &Request<'_>,
        args: GetThreadRead,
    ) -> Result<Answer<ThreadRead>, Error> {
        let GetThreadRead { session_id, thread_id } = args;
        let tx = self.store.begin();
        let (state, _) = self.session(&tx, request, &session_id).await?;
        let view = state.view.0;
        if let Some(thread) = view.thread(&thread_id) {
            let window = (Window::default().turns, SERVED_BYTES_MAX);
            let ended = self.ended_turns(&tx, request, &session_id, thread, None, window).await?;
            let mut read = ThreadRead::of(&view, thread, Some(&ended));
            read.context.summary = self.summary_of(&tx, request, &session_id, thread).await?;
            return Ok(Answer::read(read));
        }
        self.thread_of_another(&tx, request, &session_id, &thread_id).await
    }

    /// A thread that a subagent or a task's attempt has: they share the rest of their ids.
    async fn thread_of_another(
        &self,
        tx: &Transaction,
        request: &Request<'_>,
        session: &SessionId,
        thread: &ThreadId,
    ) -> Result<Answer<ThreadRead>, Error> {
        use crate::fact::id::{Id, SubagentId};
        let missing = || Error::not_found("thread", thread);
        let is_it = |read: &ThreadRead| read.thread_id == *thread;
        if let Some(event) = self.events_of(request, session, thread).await? {
            if let Some(subagent) = event.fact.ids.subagent()
                && let Some(state) = self.load::<Subagent>(tx, request, subagent.as_str()).await?
                && let Some(read) = ThreadRead::of_subagent(&state.view).filter(is_it)
            {
                return Ok(Answer::read(read));
            }
            if let Some(task) = event.fact.ids.task()
                && let Some(state) = self.load::<Task>(tx, request, task.as_str()).await?
                && let Some(read) = ThreadRead::of_task(&state.view).filter(is_it)
            {
                return Ok(Answer::read(read));
            }
            let read = self.thread_of_the_past(request, session, thread).await?;
            return read.map(Answer::read).ok_or_else(missing);
        }
        let subagent = SubagentId::with_suffix(thread.suffix());
        let state = self.load::<Subagent>(tx, request, subagent.as_str()).await?;
        let state = state.filter(|state| state.work.as_ref().is_some_and(|work| work.session == *session));
        let read = state.and_then(|state| ThreadRead::of_subagent(&state.view)).filter(is_it);
        read.map(Answer::read).ok_or_else(missing)
    }

    /// A thread that no state shows any more: of an earlier attempt of a task, or of an item of a job.
    async fn thread_of_the_past(
        &self,
        request: &Request<'_>,
        session: &SessionId,
        thread: &ThreadId,
    ) -> Result<Option<ThreadRead>, Error> {
        use crate::fact::id::Id;
        let filter =
            EventFilter { turn: Some(TurnId::with_suffix(thread.suffix())), ..EventFilter::default() };
        let (mut turn, mut after) = (None, Cursor::START);
        loop {
            let page = self.events(request.caller, session, after, 1_000, &filter).await?;
            page.events.iter().for_each(|event| TurnView::fold(&mut turn, &event.fact));
            after = page.cursor;
            if !page.more {
                return Ok(turn.map(|turn| ThreadRead::of_turn(thread, Some(&turn))));
            }
            if request.left().is_zero() {
                return Err(Error::deadline());
            }
        }
    }

    /// Refuses a thread or a turn that the session never had.
    async fn known_place(
        &self,
        request: &Request<'_>,
        session: &SessionId,
        state: &crate::entity::session::State,
        thread: Option<&ThreadId>,
        turn: Option<&TurnId>,
    ) -> Result<(), Error> {
        if let Some(thread) = thread
            && state.view.thread(thread).is_none()
            && self.events_of(request, session, thread).await?.is_none()
        {
            return Err(Error::not_found("thread", thread));
        }
        match turn {
            Some(turn) => self.known_turn(request, session, turn).await,
            None => Ok(()),
        }
    }

    pub(super) async fn get_tool_inventory(
        &self,
        request: &Request<'_>,
        args: GetToolInventory,
    ) -> Result<Answer<serde_json::Value>, Error> {
        self.check_agent(args.agent.as_deref())?;
        if let Some(mode) = args.mode.as_deref().filter(|mode| *mode != DEFAULT_MODE) {
            return Err(Error::invalid("mode", format!("is {mode}, and the only one is {DEFAULT_MODE}")));
        }
        if let Some(session) = &args.session_id {
            let (state, _) = self.session(&self.store.begin(), request, session).await?;
            self.known_place(request, session, &state, args.thread_id.as_ref(), args.turn_id.as_ref())
                .await?;
            let inventory = ToolInventory::of(session, &state.view);
            let told = serde_json::to_value(inventory).expect("views serialize into memory without fail");
            if state.view.summary.tools.is_some() {
                return Ok(Answer::read(told));
            }
        }
        // Nothing was resolved for a turn yet: this is what one would get.
        let tools = self.engine.inventory();
        let agent = args.agent.unwrap_or_else(|| crate::scripted::AGENT.into());
        Ok(Answer::read(serde_json::json!({
            "sessionId": args.session_id,
            "agent": agent,
            "source": "current",
            "count": tools.len(),
            "tools": tools,
        })))
    }

    pub(super) async fn get_execution_environment(
        &self,
        request: &Request<'_>,
        args: GetExecutionEnvironment,
    ) -> Result<Answer<ExecutionEnvironment>, Error> {
        let (state, _) = self.session(&self.store.begin(), request, &args.session_id).await?;
        let (thread, turn) = (args.thread_id.as_ref(), args.turn_id.as_ref());
        self.known_place(request, &args.session_id, &state, thread, turn).await?;
        let of_turn = match turn {
            Some(turn) => self.thread_of_turn(request, &args.session_id, turn).await?,
            None => None,
        };
        if let (Some(turn), Some(thread)) = (turn, thread.filter(|thread| of_turn.as_ref() != Some(*thread)))
        {
            return Err(crate::entity::session::not_of_thread(turn, thread));
        }
        let thread = thread.or(of_turn.as_ref());
        Ok(Answer::read(ExecutionEnvironment::of(&args.session_id, &state.view, thread)))
    }
}
