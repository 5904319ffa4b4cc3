//! The commands about subagents.

use std::time::Duration;

use cadre_cluster::{feed::Cursor, store::Transaction};
use tokio::time::Instant;

use super::{EventFilter, Request, Runtime, load::List, turns::unexpected};
use crate::{
    control::{
        Error,
        args::{
            CloseSubagent, ListSubagents, ResumeSubagent, SendSubagentInput, SpawnSubagent, WaitMode,
            WaitSubagents,
        },
        result::{Answer, SubagentState, Subagents, Waited, WaitedSubagent},
    },
    entity::{
        JobItem, Named, Parent, Session, Subagent, Task, kind, records,
        session::{self, fingerprint},
        subagent::{Command, Reply, State, Work},
        task,
    },
    exec::Source,
    fact::{
        id::{SessionId, SubagentId, TaskId, TurnId},
        status::{SubagentStatus, TurnStatus},
    },
    view::SubagentView,
};

/// How many of those that are waited for an answer names.
const WAITED_NAMED_MAX: usize = 1_000;

impl Runtime {
    pub(super) async fn spawn_subagent(
        &self,
        request: &Request<'_>,
        mut args: SpawnSubagent,
    ) -> Result<Answer<SubagentState>, Error> {
        self.check_agent(args.agent.as_deref())?;
        let session = args.session_id.clone();
        self.session(&self.store.begin(), request, &session).await?;
        let own = args.subagent_id.clone();
        let name = own.as_ref().map(|id| id.as_str());
        let input = (std::mem::take(&mut args.input), Source::INLINE_BYTES_MAX);
        let source = self.source(request, Some(&session), name, input).await?;
        let asked = fingerprint(&(&args, &source));
        // Under a key the parent remembers what it answered.
        if let Some(id) = &own
            && request.key.is_none()
            && let Some(work) = self.existing_subagent(request, id).await?
        {
            return spawned_before(id.clone(), asked, &work).map(Answer::read);
        }
        self.open_session(request, &session).await?;
        let parent = self.parent_of(request, &args).await?;
        let turn = args.turn_id.clone();
        let args = Named(Box::new(args));
        let (subagent, thread, turn, cursor) = match parent {
            (Some(parent), _) => {
                let address = request.address(kind::SUBAGENT, parent.as_str());
                let called =
                    self.ask::<Subagent>(request, &address, &Command::Spawn { args, source }).await?;
                let Reply { subagent, thread, turn, .. } = called.reply;
                (subagent, thread, turn, called.cursor)
            }
            (None, Some(parent)) => {
                let address = request.address(kind::TASK, parent.as_str());
                let command = task::Command::Spawn { args, source };
                let called = self.ask::<Task>(request, &address, &command).await?;
                let task::Reply::Spawned { subagent, thread, turn } = called.reply else {
                    return Err(unexpected());
                };
                (subagent, thread, turn, called.cursor)
            }
            (None, None) => {
                let address = request.address(kind::SESSION, session.as_str());
                let command = session::Command::Spawn { args, source };
                let called = match self.ask::<Session>(request, &address, &command).await {
                    Err(error)
                        if error.details.get("status").is_some_and(|status| status == "not_running") =>
                    {
                        return Err(self.not_running(request, &session, turn.as_ref(), error).await?);
                    }
                    called => called?,
                };
                let session::Reply::Spawned { subagent, thread, turn } = called.reply else {
                    return Err(unexpected());
                };
                (subagent, thread, turn, called.cursor)
            }
        };
        // The child hears of it from its parent; the caller may ask for it right away.
        let started = || self.existing_subagent(request, &subagent);
        let result = match self.wait_for(request, &session, request.until, started).await? {
            // Two who bring the same id at the same moment are told of the one that came first.
            Some(work) => spawned_before(subagent, asked, &work)?,
            None => SubagentState {
                subagent_id: subagent,
                thread_id: thread,
                turn_id: turn,
                // The same as if it had been heard of in time (P3).
                status: SubagentStatus::Running,
                session_id: Some(session.clone()),
                attempt: Some(1),
            },
        };
        let cursor = match cursor {
            Some(cursor) => cursor,
            None => {
                let (subagent, types) =
                    (Some(result.subagent_id.clone()), vec!["subagent.spawned".to_owned()]);
                let filter = EventFilter { subagent, types, ..EventFilter::default() };
                self.first_told(request, &session, filter).await?
            }
        };
        Ok(Answer { result, cursor: Some(cursor) })
    }

    /// Says of a turn that takes no children how it stands.
    async fn not_running(
        &self,
        request: &Request<'_>,
        session: &SessionId,
        turn: Option<&TurnId>,
        error: Error,
    ) -> Result<Error, Error> {
        let Some(turn) = turn else { return Ok(error) };
        let ended = self.turn_end(request, session, turn).await?;
        let status = ended.map_or(TurnStatus::Queued, |(status, _)| status);
        Ok(Error::conflict(status, error.message))
    }

    /// Whom a new subagent works for. Whoever is named has to be there, in this session; of several, the subagent is the
    /// nearest, and it has to work for the others.
    async fn parent_of(
        &self,
        request: &Request<'_>,
        args: &SpawnSubagent,
    ) -> Result<(Option<SubagentId>, Option<TaskId>), Error> {
        let session = &args.session_id;
        if let Some(task) = &args.task_id {
            let known = self.task(request, task).await.map_err(|error| error.with("field", "taskId"))?;
            same_session(&known.session, session, "taskId", task)?;
        }
        if let Some(parent) = &args.parent_subagent_id {
            let known = self.subagent(request, parent).await;
            let known = known.map_err(|error| error.with("field", "parentSubagentId"))?;
            same_session(&known.session, session, "parentSubagentId", parent)?;
            if let Some(task) = args.task_id.as_ref().filter(|task| known.run.around.task() != Some(task)) {
                let message = format!("the subagent {parent} does not work for the task {task}");
                return Err(Error::invalid("taskId", message));
            }
        }
        let named = (args.parent_subagent_id.clone(), args.task_id.clone());
        let Some(turn) = &args.turn_id else { return Ok(named) };
        let runner = self.runner_of(request, session, turn).await?;
        let (kind, id) = runner.ok_or_else(|| Error::not_found("turn", turn).with("field", "turnId"))?;
        Ok(match named {
            // The turn of a subagent or a task is theirs: what it starts ends with them.
            (None, None) if kind == kind::SUBAGENT => (SubagentId::parse(&id).ok(), None),
            (None, None) if kind == kind::TASK => (None, TaskId::parse(&id).ok()),
            named => named,
        })
    }

    async fn existing_subagent(&self, request: &Request<'_>, id: &SubagentId) -> Result<Option<Work>, Error> {
        let state = self.load::<Subagent>(&self.store.begin(), request, id.as_str()).await?;
        Ok(state.and_then(|state| state.work))
    }

    /// A subagent that exists.
    async fn subagent(&self, request: &Request<'_>, id: &SubagentId) -> Result<Work, Error> {
        self.existing_subagent(request, id).await?.ok_or_else(|| Error::not_found("subagent", id))
    }

    async fn tell_subagent(
        &self,
        request: &Request<'_>,
        id: &SubagentId,
        command: Command,
    ) -> Result<Answer<SubagentState>, Error> {
        let address = request.address(kind::SUBAGENT, id.as_str());
        let called = self.ask::<Subagent>(request, &address, &command).await?;
        let Reply { subagent, thread, turn, status } = called.reply;
        let result = SubagentState {
            subagent_id: subagent,
            thread_id: thread,
            turn_id: turn,
            status,
            session_id: None,
            attempt: None,
        };
        Ok(Answer { result, cursor: called.cursor })
    }

    pub(super) async fn send_subagent_input(
        &self,
        request: &Request<'_>,
        args: SendSubagentInput,
    ) -> Result<Answer<SubagentState>, Error> {
        let session = self.subagent(request, &args.subagent_id).await?.session;
        self.open_session(request, &session).await?;
        let command = Command::Input { input: args.input, by: request.by() };
        self.tell_subagent(request, &args.subagent_id, command).await
    }

    pub(super) async fn resume_subagent(
        &self,
        request: &Request<'_>,
        args: ResumeSubagent,
    ) -> Result<Answer<SubagentState>, Error> {
        let ResumeSubagent { subagent_id, input, reason } = args;
        let work = self.subagent(request, &subagent_id).await?;
        self.open_session(request, &work.session).await?;
        if !request.repeated && self.works_for_nobody(request, work.parent.clone()).await? {
            let message = format!("the job item that the subagent {subagent_id} worked for is over");
            return Err(Error::conflict(work.status, message));
        }
        let source = match input.is_empty() {
            true => None,
            false => {
                let input = (input, Source::INLINE_BYTES_MAX);
                Some(self.source(request, Some(&work.session), None, input).await?)
            }
        };
        let command = Command::Resume { source, reason, by: request.by() };
        let answer = self.tell_subagent(request, &subagent_id, command).await?;
        let known = || async {
            let closed_again = self.subagent(request, &subagent_id).await?.closed;
            Ok((closed_again || self.is_open_above(request, work.parent.clone()).await?).then_some(()))
        };
        self.wait_for(request, &work.session, request.until, known).await?;
        Ok(answer)
    }

    /// Whether everybody above somebody who goes on again knows that, so that a cancel up there reaches it (P11).
    pub(super) async fn is_open_above(
        &self,
        request: &Request<'_>,
        mut parent: Option<Parent>,
    ) -> Result<bool, Error> {
        let tx = self.store.begin();
        while let Some(Parent { address, slot }) = parent {
            let id = address.id();
            let (closed, next) = match address.kind() {
                kind::SUBAGENT => {
                    let work = self.load::<Subagent>(&tx, request, id).await?.and_then(|state| state.work);
                    work.map_or((false, None), |work| (work.closed, work.parent))
                }
                kind::TASK => {
                    let work = self.load::<Task>(&tx, request, id).await?.and_then(|state| state.work);
                    work.map_or((false, None), |work| (work.closed, work.parent))
                }
                kind::SESSION => {
                    let work = self.load::<Session>(&tx, request, id).await?.and_then(|state| state.work);
                    let turn = slot.turn.as_ref();
                    let knows = |work: session::Work| turn.is_none_or(|turn| work.is_open(turn));
                    (!work.is_none_or(knows), None)
                }
                kind::ITEM => {
                    let work = self.load::<JobItem>(&tx, request, id).await?.and_then(|state| state.work);
                    (work.is_none_or(|work| work.closed), None)
                }
                _ => (false, None),
            };
            if closed {
                return Ok(false);
            }
            parent = next;
        }
        Ok(true)
    }

    /// Whether somebody was started for a job item that is over: its job has settled with that, and would never close
    /// what goes on again.
    async fn works_for_nobody(
        &self,
        request: &Request<'_>,
        mut parent: Option<Parent>,
    ) -> Result<bool, Error> {
        let tx = self.store.begin();
        while let Some(Parent { address, .. }) = parent {
            let id = address.id();
            parent = match address.kind() {
                kind::SUBAGENT => {
                    let state = self.load::<Subagent>(&tx, request, id).await?;
                    state.and_then(|state| state.work?.parent)
                }
                kind::TASK => {
                    let state = self.load::<Task>(&tx, request, id).await?;
                    state.and_then(|state| state.work?.parent)
                }
                kind::ITEM => {
                    let state = self.load::<JobItem>(&tx, request, id).await?;
                    return Ok(state.and_then(|state| state.work).is_none_or(|work| work.closed));
                }
                _ => return Ok(false),
            };
        }
        Ok(false)
    }

    pub(super) async fn close_subagent(
        &self,
        request: &Request<'_>,
        args: CloseSubagent,
    ) -> Result<Answer<SubagentState>, Error> {
        let id = args.subagent_id;
        let session = self.subagent(request, &id).await?.session;
        let command = Command::Close { reason: args.reason, by: request.by() };
        let mut answer = self.tell_subagent(request, &id, command).await?;
        let closed = || async {
            let work = self.subagent(request, &id).await?;
            Ok(work.closed.then_some(work.status))
        };
        match self.wait_closed(request, &session, closed, SubagentStatus::Cancelled).await? {
            Some((status, cursor)) => {
                answer.result.status = status;
                answer.cursor = Some(cursor);
            }
            None => answer.result.status = SubagentStatus::Cancelling,
        }
        Ok(answer)
    }

    pub(super) async fn wait_subagents(
        &self,
        request: &Request<'_>,
        args: WaitSubagents,
    ) -> Result<Answer<Waited>, Error> {
        let (session, parent) = match (&args.subagent_ids, &args.parent_id) {
            (Some(ids), _) => {
                let first = ids.first().ok_or_else(|| Error::invalid("subagentIds", "must not be empty"))?;
                (self.subagent(request, first).await?.session, None)
            }
            (None, Some(parent)) => {
                let root = self.root_of(request, None, parent.as_str()).await?;
                (root.session.clone(), Some(root))
            }
            (None, None) => return Err(Error::invalid("subagentIds", "say whom to wait for")),
        };
        let until = request.until.min(Instant::now() + Duration::from_millis(args.timeout_ms));
        let (args, parent, session) = (&args, &parent, &session);
        let look = |whatever: bool| async move {
            let mut seen = Vec::new();
            match (&args.subagent_ids, parent) {
                (Some(ids), _) => {
                    let tx = &self.store.begin();
                    for id in ids {
                        let state = self.load::<Subagent>(tx, request, id.as_str()).await?;
                        let state = state.filter(|state| state.work.is_some());
                        let state = state.ok_or_else(|| Error::not_found("subagent", id))?;
                        seen.push(waited(id.clone(), &state));
                    }
                }
                (None, Some(parent)) => {
                    let prefix = records::subagents(session, &parent.id);
                    let mut after: Option<String> = None;
                    loop {
                        // Each page in its own: reading all of very many takes longer than a transaction may.
                        let tx = &self.store.begin();
                        let list = List {
                            prefix: prefix.clone(),
                            after: after.as_deref(),
                            field: "parentId",
                            newest_first: false,
                        };
                        let look = |id: String| async move {
                            let Ok(id) = SubagentId::parse(&id) else { return Ok(None) };
                            let state = self.load::<Subagent>(tx, request, id.as_str()).await?;
                            let state = state.filter(|state| parent.is_meant(&state.view));
                            Ok(state.map(|state| waited(id, &state)))
                        };
                        let (some, more) = self.page(tx, request, list, 1_000, look).await?;
                        seen.extend(some);
                        after = more;
                        if after.is_none() {
                            break;
                        }
                    }
                }
                (None, None) => {}
            }
            let total = seen.len() as u64;
            let ended = seen.iter().filter(|waited| waited.status.is_terminal()).count() as u64;
            let is_met = match args.mode {
                WaitMode::All => ended == total,
                WaitMode::Any => ended > 0 || total == 0,
            };
            seen.truncate(WAITED_NAMED_MAX);
            let found = Waited { subagents: seen, timed_out: !is_met, mode: args.mode, total, ended };
            Ok((is_met || whatever).then_some(found))
        };
        if let Some(found) = self.wait_for(request, session, until, || look(false)).await? {
            return Ok(Answer::read(found));
        }
        look(true).await?.map(Answer::read).ok_or_else(unexpected)
    }

    /// Whose children are meant by the id of a subagent, a task, a turn or a session. Without a session the turn has to
    /// be that of one session alone.
    async fn root_of(
        &self,
        request: &Request<'_>,
        session: Option<&SessionId>,
        id: &str,
    ) -> Result<Root, Error> {
        let tx = self.store.begin();
        let is_there = |found: &SessionId| session.is_none_or(|session| session == found);
        let all = |session| Root { session, id: id.to_owned(), turn: None };
        if let Some(work) = self.load::<Subagent>(&tx, request, id).await?.and_then(|state| state.work)
            && is_there(&work.session)
        {
            return Ok(all(work.session));
        }
        if let Some(work) = self.load::<Task>(&tx, request, id).await?.and_then(|state| state.work)
            && is_there(&work.session)
        {
            return Ok(all(work.session));
        }
        if let Some(work) = self.load::<Session>(&tx, request, id).await?.and_then(|state| state.work)
            && is_there(&work.id)
        {
            return Ok(all(work.id));
        }
        let Ok(turn) = TurnId::parse(id) else { return Err(Error::not_found("parent", id)) };
        if let Some(session) = session {
            let root = self.owner_of(request, session, &turn).await?;
            return root.ok_or_else(|| Error::not_found("parent", id));
        }
        let list = List {
            prefix: records::turn_sessions(&turn),
            after: None,
            field: "parentId",
            newest_first: false,
        };
        let look = |id: String| async move { Ok(SessionId::parse(&id).ok()) };
        let (sessions, _) = self.page(&tx, request, list, 2, look).await?;
        match <[SessionId; 1]>::try_from(sessions) {
            Ok([session]) => Ok(Root { id: session.to_string(), session, turn: Some(turn) }),
            Err(_) => Err(Error::not_found("parent", id)),
        }
    }

    /// Below whom the children of a turn are listed.
    async fn owner_of(
        &self,
        request: &Request<'_>,
        session: &SessionId,
        turn: &TurnId,
    ) -> Result<Option<Root>, Error> {
        let runner = self.runner_of(request, session, turn).await?;
        Ok(runner.map(|(kind, id)| {
            let id = if kind == kind::SUBAGENT || kind == kind::TASK { id } else { session.to_string() };
            Root { session: session.clone(), id, turn: Some(turn.clone()) }
        }))
    }

    /// Who runs a turn, its kind and id: the session itself, a subagent, a task or an item of a job.
    async fn runner_of(
        &self,
        request: &Request<'_>,
        session: &SessionId,
        turn: &TurnId,
    ) -> Result<Option<(String, String)>, Error> {
        let filter = EventFilter { turn: Some(turn.clone()), ..EventFilter::default() };
        let mut after = Cursor::START;
        loop {
            let page = self.events(request.caller, session, after, 8, &filter).await?;
            if let Some(event) = page.events.first() {
                let runner = event.stream.split_once(':');
                return Ok(runner.map(|(kind, id)| (kind.to_owned(), id.to_owned())));
            }
            if !page.more {
                return Ok(None);
            }
            after = page.cursor;
        }
    }

    pub(super) async fn list_subagents(
        &self,
        request: &Request<'_>,
        args: ListSubagents,
    ) -> Result<Answer<Subagents<SubagentView>>, Error> {
        let tx = self.store.begin();
        self.session(&tx, request, &args.session_id).await?;
        let session = &args.session_id;
        let root = match &args.parent_id {
            Some(parent) => self.root_of(request, Some(session), parent.as_str()).await?,
            None => Root { session: session.clone(), id: session.to_string(), turn: None },
        };
        // Without a parent everybody is meant, with one its children, unless the caller says how deep.
        let depth = args.depth.unwrap_or(if args.parent_id.is_some() { 1 } else { u32::MAX });
        let mut walk = Walk { depth, ..Walk::begin(&root.id) };
        if let Some(after) = &args.after {
            self.go_to(&mut walk, &tx, request, session, after).await?;
        }
        let (mut subagents, limit) = (Vec::new(), args.limit.get());
        let mut looked = 0;
        let more = loop {
            if subagents.len() >= limit || looked >= 2_000 {
                break walk.peek(self, &tx, request, &args.session_id).await?;
            }
            let Some(id) = walk.next(self, &tx, request, &args.session_id).await? else { break None };
            looked += 1;
            let Some(state) = self.load::<Subagent>(&tx, request, id.as_str()).await? else { continue };
            if walk.path.len() == 1 && !root.is_meant(&state.view) {
                walk.skip();
                continue;
            }
            if args.status.is_none_or(|status| status == state.view.status) {
                subagents.push(SubagentView { session_id: Some(args.session_id.clone()), ..state.view.0 });
            }
        };
        Ok(Answer::read(Subagents { subagents, has_more: more.is_some(), cursor: more }))
    }
}

/// Whose children are meant.
struct Root {
    session: SessionId,
    /// Where they are listed.
    id: String,
    /// The only turn whose children count.
    turn: Option<TurnId>,
}

impl Root {
    fn is_meant(&self, view: &SubagentView) -> bool {
        self.turn.is_none() || self.turn == view.parent_turn_id
    }
}

/// A walk through a tree of subagents, parents before children. Its position is the last one seen, so that a page costs
/// what it returns, and that place is short however deep the tree.
struct Walk {
    root: String,
    depth: u32,
    path: Vec<String>,
    /// The next one, already found.
    found: Option<Vec<String>>,
    /// Whether what is below the last one seen is left out.
    skipped: bool,
}

impl Walk {
    fn begin(root: &str) -> Self {
        Self { root: root.to_owned(), depth: u32::MAX, path: Vec::new(), found: None, skipped: false }
    }

    /// Leaves out what is below the last one seen.
    fn skip(&mut self) {
        self.skipped = true;
    }

    async fn next(
        &mut self,
        runtime: &Runtime,
        tx: &Transaction,
        request: &Request<'_>,
        session: &SessionId,
    ) -> Result<Option<SubagentId>, Error> {
        let next = match self.found.take() {
            Some(found) => Some(found),
            None => self.after_path(runtime, tx, request, session).await?,
        };
        let Some(path) = next else { return Ok(None) };
        (self.path, self.skipped) = (path, false);
        Ok(self.path.last().and_then(|id| SubagentId::parse(id).ok()))
    }

    /// The position to go on from, if there is anything more.
    async fn peek(
        &mut self,
        runtime: &Runtime,
        tx: &Transaction,
        request: &Request<'_>,
        session: &SessionId,
    ) -> Result<Option<String>, Error> {
        self.found = self.after_path(runtime, tx, request, session).await?;
        let mark = if self.skipped { "!" } else { "" };
        let last = self.path.last().map_or("", String::as_str);
        Ok(self.found.is_some().then(|| format!("{last}{mark}")))
    }

    /// The path of what comes after the current one: its first child, else its next sibling, else that of its parent.
    async fn after_path(
        &self,
        runtime: &Runtime,
        tx: &Transaction,
        request: &Request<'_>,
        session: &SessionId,
    ) -> Result<Option<Vec<String>>, Error> {
        let mut path = self.path.clone();
        if (path.len() as u64) < u64::from(self.depth) && !self.skipped {
            let parent = path.last().unwrap_or(&self.root).clone();
            if let Some(child) = runtime.child_after(tx, request, session, &parent, None).await? {
                path.push(child);
                return Ok(Some(path));
            }
        }
        while let Some(last) = path.pop() {
            let parent = path.last().unwrap_or(&self.root).clone();
            if let Some(sibling) = runtime.child_after(tx, request, session, &parent, Some(&last)).await? {
                path.push(sibling);
                return Ok(Some(path));
            }
        }
        Ok(None)
    }
}

impl Runtime {
    /// Goes to a place that an earlier page ended at. The way there follows from who is whose parent.
    async fn go_to(
        &self,
        walk: &mut Walk,
        tx: &Transaction,
        request: &Request<'_>,
        session: &SessionId,
        after: &str,
    ) -> Result<(), Error> {
        let invalid = || Error::invalid("after", "is not a position in this list");
        let last = after.strip_suffix('!');
        walk.skipped = last.is_some();
        let mut id = SubagentId::parse(last.unwrap_or(after)).map_err(|_| invalid())?;
        loop {
            let state = self.load::<Subagent>(tx, request, id.as_str()).await?;
            let work = state.and_then(|state| state.work).filter(|work| work.session == *session);
            let work = work.ok_or_else(invalid)?;
            walk.path.insert(0, id.to_string());
            let is_of_task = work.parent.is_some_and(|parent| parent.address.kind() == kind::TASK);
            let task = work.lineage.task.filter(|_| is_of_task);
            if task.is_some_and(|task| task.as_str() == walk.root) {
                return Ok(());
            }
            match work.lineage.subagent {
                Some(above) if above.as_str() == walk.root => return Ok(()),
                Some(above) => id = above,
                None if session.as_str() == walk.root => return Ok(()),
                None => return Err(invalid()),
            }
        }
    }

    async fn child_after(
        &self,
        tx: &Transaction,
        request: &Request<'_>,
        session: &SessionId,
        parent: &str,
        after: Option<&str>,
    ) -> Result<Option<String>, Error> {
        use cadre_cluster::{
            keys,
            store::{KeyRange, RangeRead, key_after},
        };
        let tenant = &request.caller.tenant;
        let mut range = KeyRange::prefix(keys::data(tenant, &records::subagents(session, parent)).to_vec());
        if let Some(after) = after {
            range.begin = key_after(&keys::data(tenant, &records::subagent(session, parent, after)));
        }
        let page =
            tx.snapshot_range(&RangeRead::new(range).limit(1)).await.map_err(super::request::unreadable)?;
        let data = keys::data(tenant, &[]).len();
        Ok(page.pairs.first().and_then(|pair| records::last_id(&pair.key[data..])))
    }
}

fn waited(id: SubagentId, state: &State) -> WaitedSubagent {
    WaitedSubagent {
        subagent_id: id,
        status: state.work.as_ref().map_or(state.view.status, |work| work.status),
        summary: None,
        error: state.view.last_error.clone(),
    }
}

/// A subagent of that id exists: the same request is answered the same.
fn spawned_before(id: SubagentId, asked: u128, work: &Work) -> Result<SubagentState, Error> {
    if work.spec.fingerprint != asked {
        let message = format!("the subagent {id} exists with other content");
        return Err(Error::conflict(work.status.as_str(), message));
    }
    Ok(SubagentState {
        subagent_id: id,
        thread_id: work.run.thread.clone(),
        turn_id: work.spec.turn.clone().unwrap_or_else(|| work.run.turn.clone()),
        // As it began: whoever asks again is told the same, whatever has become of it.
        status: SubagentStatus::Running,
        session_id: Some(work.session.clone()),
        attempt: Some(1),
    })
}

/// Refuses a parent that belongs to another session.
pub(super) fn same_session(
    known: &SessionId,
    asked: &SessionId,
    field: &str,
    id: impl std::fmt::Display,
) -> Result<(), Error> {
    if known == asked {
        return Ok(());
    }
    Err(Error::invalid(field, format!("{id} belongs to another session")))
}
