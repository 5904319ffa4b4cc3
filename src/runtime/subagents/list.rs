//! Listing subagents: a walk through a tree, a page at a time.

use cadre_cluster::{
    codec, keys,
    store::{KeyRange, RangeRead, Transaction, key_after},
};

use super::super::{
    Request, Runtime,
    failure::{undecodable, unreadable},
    load::{List, Room, SERVED_BYTES_MAX},
};
use crate::{
    control::{
        Code, Error,
        args::ListSubagents,
        result::{Answer, Subagents},
    },
    entity::{Session, Subagent, Task, kind, records},
    fact::id::{SessionId, SubagentId, TurnId},
    view::SubagentView,
};

impl Runtime {
    pub(in crate::runtime) async fn list_subagents(
        &self,
        request: &Request<'_>,
        args: ListSubagents,
    ) -> Result<Answer<Subagents<SubagentView>>, Error> {
        let tx = self.store.begin();
        self.session(&tx, request, &args.session_id).await?;
        let session = &args.session_id;
        let root = match &args.parent_id {
            Some(parent) => self.root_of(request, Some(session), parent.as_str()).await?,
            None => Root::of_session(session.clone(), None),
        };
        // Without a parent everybody is meant, with one its children, unless the caller says how deep.
        let depth = args.depth.unwrap_or(if args.parent_id.is_some() { 1 } else { u32::MAX });
        let mut walk = Walk { depth, ..Walk::begin(&root) };
        if let Some(after) = &args.after {
            self.go_to(&mut walk, &tx, request, session, after).await?;
        }
        let (mut subagents, limit) = (Vec::new(), args.limit.get());
        let (mut looked, mut room, mut has_room) = (0, Room(SERVED_BYTES_MAX), true);
        let more = loop {
            if !has_room || subagents.len() >= limit || looked >= 2_000 {
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
                let view = SubagentView { session_id: Some(args.session_id.clone()), ..state.view.0 };
                has_room = room.take(&view);
                subagents.push(view);
            }
        };
        Ok(Answer::read(Subagents { subagents, has_more: more.is_some(), cursor: more }))
    }

    /// Whose children are meant by the id of a subagent, a task, a turn or a session. Without a session the turn has to
    /// be that of one session alone.
    pub(super) async fn root_of(
        &self,
        request: &Request<'_>,
        session: Option<&SessionId>,
        id: &str,
    ) -> Result<Root, Error> {
        let tx = self.store.begin();
        let is_there = |found: &SessionId| session.is_none_or(|session| session == found);
        let all = |session, kind| Root { session, kind, id: id.to_owned(), turn: None };
        if let Some(work) = self.load::<Subagent>(&tx, request, id).await?.and_then(|state| state.work)
            && is_there(&work.session)
        {
            return Ok(all(work.session, kind::SUBAGENT));
        }
        if let Some(work) = self.load::<Task>(&tx, request, id).await?.and_then(|state| state.work)
            && is_there(&work.session)
        {
            return Ok(all(work.session, kind::TASK));
        }
        if let Some(work) = self.load::<Session>(&tx, request, id).await?.and_then(|state| state.work)
            && is_there(&work.id)
        {
            return Ok(all(work.id, kind::SESSION));
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
            Ok([session]) => {
                // What was steered under an id of its own is part of the turn that heard it.
                let key = keys::data(&request.caller.tenant, &records::known_turn(&turn, &session));
                let known = tx.snapshot_get(&key).await.map_err(unreadable)?;
                let known: Option<records::KnownTurn> =
                    known.map(|known| codec::decode(&known)).transpose().map_err(undecodable)?;
                let turn = known.and_then(|known| known.answered).unwrap_or(turn);
                Ok(Root::of_session(session, Some(turn)))
            }
            Err(sessions) if sessions.is_empty() => {
                let message = format!(
                    "there is no parent {id}; of a turn that is not a session's own name the sessionId"
                );
                Err(Error::new(Code::NotFound, message))
            }
            Err(_) => {
                let message = format!("several sessions have a turn {id}: name the sessionId");
                Err(Error::conflict("ambiguous", message))
            }
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
        let turn = Some(turn.clone());
        Ok(runner.map(|(kind, id)| match kind.as_str() {
            kind::SUBAGENT => Root { session: session.clone(), kind: kind::SUBAGENT, id, turn },
            kind::TASK => Root { session: session.clone(), kind: kind::TASK, id, turn },
            _ => Root::of_session(session.clone(), turn),
        }))
    }
}

/// Whose children are meant.
pub(super) struct Root {
    /// In which session.
    pub session: SessionId,
    /// Below what they are listed: a subagent, a task, the session.
    kind: &'static str,
    /// Below which.
    id: String,
    /// The only turn whose children count.
    turn: Option<TurnId>,
}

impl Root {
    fn of_session(session: SessionId, turn: Option<TurnId>) -> Self {
        Self { id: session.to_string(), session, kind: kind::SESSION, turn }
    }

    /// Below whom they are listed.
    pub(super) fn place(&self) -> (&str, &str) {
        (self.kind, &self.id)
    }

    pub(super) fn is_meant(&self, view: &SubagentView) -> bool {
        self.turn.is_none() || self.turn == view.parent_turn_id
    }
}

/// A walk through a tree of subagents, parents before children. Its position is the last one seen, so that a page costs
/// what it returns, and that place is short however deep the tree.
struct Walk {
    root: (&'static str, String),
    depth: u32,
    path: Vec<String>,
    /// The next one, already found.
    found: Option<Vec<String>>,
    /// Whether what is below the last one seen is left out.
    skipped: bool,
}

impl Walk {
    fn begin(root: &Root) -> Self {
        Self {
            root: (root.kind, root.id.clone()),
            depth: u32::MAX,
            path: Vec::new(),
            found: None,
            skipped: false,
        }
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

    /// Below whom the next ones of a path are listed.
    fn above<'a>(&'a self, path: &'a [String]) -> (&'a str, &'a str) {
        match path.last() {
            Some(subagent) => (kind::SUBAGENT, subagent),
            None => (self.root.0, &self.root.1),
        }
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
            let child = runtime.child_after(tx, request, session, self.above(&path), None).await?;
            if let Some(child) = child {
                path.push(child);
                return Ok(Some(path));
            }
        }
        while let Some(last) = path.pop() {
            let parent = self.above(&path);
            if let Some(sibling) = runtime.child_after(tx, request, session, parent, Some(&last)).await? {
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
            let is_root = |kind: &str, id: &str| walk.root.0 == kind && walk.root.1 == id;
            if task.is_some_and(|task| is_root(kind::TASK, task.as_str())) {
                return Ok(());
            }
            match work.lineage.subagent {
                Some(above) if is_root(kind::SUBAGENT, above.as_str()) => return Ok(()),
                Some(above) => id = above,
                None if is_root(kind::SESSION, session.as_str()) => return Ok(()),
                None => return Err(invalid()),
            }
        }
    }

    async fn child_after(
        &self,
        tx: &Transaction,
        request: &Request<'_>,
        session: &SessionId,
        parent: (&str, &str),
        after: Option<&str>,
    ) -> Result<Option<String>, Error> {
        let tenant = &request.caller.tenant;
        let mut range = KeyRange::prefix(keys::data(tenant, &records::subagents(session, parent)).to_vec());
        if let Some(after) = after {
            range.begin = key_after(&keys::data(tenant, &records::subagent(session, parent, after)));
        }
        let page = tx.snapshot_range(&RangeRead::new(range).limit(1)).await.map_err(unreadable)?;
        let data = keys::data(tenant, &[]).len();
        Ok(page.pairs.first().and_then(|pair| records::last_id(&pair.key[data..])))
    }
}
