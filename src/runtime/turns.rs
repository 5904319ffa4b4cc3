//! The commands about turns.

use cadre_cluster::{codec, feed::Cursor, keys};

use super::{
    EventFilter, Request, Runtime,
    failure::{of_blob, undecodable, unexpected, unreadable},
    wait::{Closing, Root},
};
use crate::{
    blob::BlobError,
    control::{
        Code, Error,
        args::{InterruptTurn, PromoteQueuedTurn, RemoveQueuedTurn, RespondAction, ResumeThread, SubmitTurn},
        check,
        result::{
            ActionState, Answer, InterruptStatus, Interrupted, QueueState, SubmissionStatus, ThreadResumed,
            TurnSubmission,
        },
    },
    entity::{
        JobItem, Named, Session, Subagent, Task,
        job::ItemCommand,
        kind, records,
        session::{self, Command, Reply, fingerprint},
        subagent, task,
    },
    exec::{Response, Source},
    fact::{
        Fact, Part, Payload,
        id::{BlobRef, Id, SessionId, ThreadId, TurnId, child_suffix},
        status::{ActionStatus, ThreadStatus, TurnStatus},
    },
};

/// What goes along with a command to a session, which keeps apart what it has no room for in the same step.
const SENT_BYTES_MAX: usize = 128 * 1024;

/// The blobs that an input names, with the places of its parts.
pub(super) struct Blobs(Vec<(usize, BlobRef)>);

impl Blobs {
    pub(super) fn of(input: &[Part]) -> Self {
        let named = input.iter().enumerate().filter_map(|(index, part)| match part {
            Part::Blob { blob, .. } => Some((index, blob.clone())),
            Part::Text { .. } => None,
        });
        Self(named.collect())
    }
}

impl Runtime {
    /// The input of a command: here when it has at most so many bytes, stored otherwise. `own` is the id that the caller brings for what the input is given to: the
    /// same id with the same input makes the same source, by which an entity recognises the request.
    pub(super) async fn source(
        &self,
        request: &Request<'_>,
        session: Option<&SessionId>,
        own: Option<&str>,
        (input, inline_bytes_max): (Vec<Part>, usize),
    ) -> Result<Source, Error> {
        let (size, limit) = (check::input_bytes(&input), self.engine.limits.input_bytes);
        if size > limit {
            return Err(Error::too_large(limit as u64, size as u64).with("field", "input"));
        }
        let source = Source::Inline(input);
        if source.size() <= inline_bytes_max {
            return Ok(source);
        }
        let Source::Inline(input) = source else { return Ok(source) };
        let content = serde_json::to_vec(&input).expect("parts serialize into memory without fail");
        let new = crate::blob::NewBlob {
            blob: match own {
                Some(id) => {
                    let base = format!("{id}/{:032x}", xxhash_rust::xxh3::xxh3_128(&content));
                    BlobRef::with_suffix(&child_suffix(&base, 0))
                }
                None => request.ids().next(),
            },
            media_type: "application/json".into(),
            session: session.cloned(),
            content: content.into(),
        };
        let blob = new.blob.clone();
        self.blobs.write(&request.caller.tenant, new).await.map_err(of_blob)?;
        Ok(Source::Stored(blob))
    }

    /// Refuses an input with blobs that are not there. What was executed before stays as it was answered.
    pub(super) async fn check_blobs(&self, request: &Request<'_>, blobs: Blobs) -> Result<(), Error> {
        for (index, blob) in blobs.0.into_iter().filter(|_| !request.repeated) {
            match self.blobs.meta(&request.caller.tenant, &blob).await {
                Ok(_) => {}
                Err(BlobError::NotFound { .. } | BlobError::Expired { .. } | BlobError::Leaving { .. }) => {
                    let error = Error::not_found("blob", blob);
                    return Err(error.with("field", format!("input[{index}].ref")));
                }
                Err(error) => return Err(of_blob(error)),
            }
        }
        Ok(())
    }

    /// Refuses an agent that nobody knows.
    pub(super) fn check_agent(&self, agent: Option<&str>) -> Result<(), Error> {
        match agent {
            Some(agent) if !self.engine.knows_agent(agent) => {
                Err(Error::not_found("agent", agent).with("field", "agent"))
            }
            _ => Ok(()),
        }
    }

    pub(super) async fn submit_turn(
        &self,
        request: &Request<'_>,
        mut args: SubmitTurn,
    ) -> Result<Answer<TurnSubmission>, Error> {
        self.check_agent(args.agent.as_deref())?;
        let session = args.session_id.clone().unwrap_or_else(|| request.ids().next());
        let own = args.turn_id.clone();
        let own = own.as_ref().map(|turn| turn.as_str());
        let blobs = Blobs::of(&args.input);
        let input = (std::mem::take(&mut args.input), SENT_BYTES_MAX);
        let source = self.source(request, Some(&session), own, input).await?;
        let address = request.address(kind::SESSION, session.as_str());
        let named = (args.turn_id.as_ref(), args.thread_id.as_ref());
        // What was answered under the key is answered again, as it was.
        if named != (None, None) && !self.is_answered(request, &address).await? {
            if let Some(turn) = &args.turn_id
                && let Some(known) = self.submitted_before(request, &session, turn, &args, &source).await?
            {
                return Ok(Answer::read(known));
            }
            self.refuse_places_of_runs(request, &session, named).await?;
        }
        self.check_blobs(request, blobs).await?;
        let command = Command::Submit { args: Named(Box::new(args)), source, from: request.by() };
        let called = self.ask::<Session>(request, &address, &command).await?;
        let Reply::Submitted { thread, turn, position } = called.reply else { return Err(unexpected()) };
        let result = TurnSubmission {
            session_id: session,
            thread_id: thread,
            turn_id: turn,
            status: submission_status(position),
            queue_position: position,
        };
        Ok(Answer { result, cursor: called.cursor })
    }

    /// A turn of that id was submitted longer ago than the session itself remembers.
    async fn submitted_before(
        &self,
        request: &Request<'_>,
        session: &SessionId,
        turn: &TurnId,
        args: &SubmitTurn,
        source: &Source,
    ) -> Result<Option<TurnSubmission>, Error> {
        let tx = self.store.begin();
        let key = keys::data(&request.caller.tenant, &records::known_turn(turn, session));
        let Some(known) = tx.snapshot_get(&key).await.map_err(unreadable)? else { return Ok(None) };
        let known: records::KnownTurn = codec::decode(&known).map_err(undecodable)?;
        let (_, work) = self.session(&tx, request, session).await?;
        if work.named.iter().any(|named| named.turn == *turn) {
            return Ok(None);
        }
        if known.fingerprint != fingerprint(&(args, source)) {
            return Err(Error::conflict("exists", format!("the turn {turn} exists with other content")));
        }
        let turn = known.answered.as_ref().unwrap_or(turn);
        let position = work.threads.iter().find_map(|thread| thread.place_of(turn));
        Ok(Some(TurnSubmission {
            session_id: session.clone(),
            thread_id: known.thread,
            turn_id: turn.clone(),
            status: submission_status(position),
            queue_position: position,
        }))
    }

    pub(super) async fn interrupt_turn(
        &self,
        request: &Request<'_>,
        mut args: InterruptTurn,
    ) -> Result<Answer<Interrupted>, Error> {
        let session = args.session_id.clone();
        let address = request.address(kind::SESSION, session.as_str());
        let (_, work) = self.session(&self.store.begin(), request, &session).await?;
        let not_own = |turn: &TurnId| {
            let message = format!("the turn {turn} is not one of the session itself: end whoever runs it");
            Error::conflict(TurnStatus::Running, message)
        };
        let mut over = None;
        if let Some(turn) = args.turn_id.as_ref().filter(|turn| !work.has(turn)) {
            self.known_turn(request, &session, turn).await?;
            let ended = self.turn_end(request, &session, turn).await?;
            let Some((_, thread)) = ended else { return Err(not_own(turn)) };
            let other = args.thread_id.as_ref().filter(|named| thread.as_ref() != Some(*named));
            if let Some(other) = other.filter(|_| !request.repeated) {
                return Err(session::not_of_thread(turn, other));
            }
            // A run's own thread is none of the session's, and what is over needs no place.
            if thread.is_some()
                && thread == args.thread_id
                && work.threads.iter().all(|own| Some(&own.id) != thread.as_ref())
            {
                args.thread_id = None;
            }
            // What waits behind a turn that is over waits in its thread.
            over = thread.filter(|thread| work.threads.iter().any(|known| known.id == *thread));
        }
        if args.clear_queue && args.turn_id.is_some() && args.thread_id.is_none() {
            args.thread_id = self.first_found(request, over).await?;
        }
        let named = args.thread_id.clone();
        let since = self.end_of_feed(request, &session).await?;
        let command = Command::Interrupt { args: Named(Box::new(args)), by: request.by() };
        let called = match self.ask::<Session>(&request.for_order(), &address, &command).await {
            Err(error) => return Err(self.not_own_thread(request, &session, named.as_ref(), error).await),
            Ok(called) => called,
        };
        let Reply::Interrupted { thread, turn, removed } = called.reply else { return Err(unexpected()) };
        let mut result = Interrupted {
            session_id: session.clone(),
            status: InterruptStatus::Idle,
            thread_id: thread,
            turn_id: turn.clone(),
            removed,
        };
        let Some(turn) = turn else { return Ok(Answer { result, cursor: called.cursor }) };
        let closed = || async {
            let (_, work) = self.session(&self.store.begin(), request, &session).await?;
            Ok((!work.is_open(&turn)).then_some(()))
        };
        let ended = |fact: &Fact| {
            fact.ids.turn() == Some(&turn)
                && matches!(fact.payload, Payload::TurnCompleted(_) | Payload::TurnFailed(_))
        };
        let root = Root::new(kind::SESSION, session.as_str(), &ended);
        let closing = Closing { session: &session, root, since, told: called.cursor };
        let Some(((), cursor)) = self.wait_closed(request, closing, closed, ()).await? else {
            result.status = InterruptStatus::Cancelling;
            return Ok(Answer { result, cursor: called.cursor });
        };
        // Children may have outlived their turn: the last fact of the tree is not always that of the turn.
        let ended = self.turn_end(request, &session, &turn).await?;
        let Some((status, thread)) = ended else { return Err(not_own(&turn)) };
        result.status = status.into();
        result.thread_id = result.thread_id.or(thread);
        Ok(Answer { result, cursor })
    }

    /// Refuses a turn that the session never had.
    pub(super) async fn known_turn(
        &self,
        request: &Request<'_>,
        session: &SessionId,
        turn: &TurnId,
    ) -> Result<(), Error> {
        let filter = EventFilter { turn: Some(turn.clone()), ..EventFilter::default() };
        let page = self.events(request.caller, session, Cursor::START, 8, &filter).await?;
        if page.events.is_empty() && !page.more { Err(Error::not_found("turn", turn)) } else { Ok(()) }
    }

    /// How a turn ended, and in which thread.
    pub(super) async fn turn_end(
        &self,
        request: &Request<'_>,
        session: &SessionId,
        turn: &TurnId,
    ) -> Result<Option<(TurnStatus, Option<ThreadId>)>, Error> {
        let types = vec!["turn.completed".to_owned(), "turn.failed".to_owned()];
        let filter = EventFilter { turn: Some(turn.clone()), types, ..EventFilter::default() };
        let mut after = Cursor::START;
        loop {
            let page = self.events(request.caller, session, after, 1_000, &filter).await?;
            if let Some(event) = page.events.last() {
                let status = match &event.fact.payload {
                    Payload::TurnFailed(failed) => failed.status,
                    _ => TurnStatus::Completed,
                };
                return Ok(Some((status, event.fact.ids.thread().cloned())));
            }
            if !page.more {
                return Ok(None);
            }
            after = page.cursor;
        }
    }

    pub(super) async fn resume_thread(
        &self,
        request: &Request<'_>,
        args: ResumeThread,
    ) -> Result<Answer<ThreadResumed>, Error> {
        if args.resume_token.is_some() {
            // Threads go on where they stopped: no fact and no read model has given out another place yet.
            return Err(Error::invalid("resumeToken", "was not given out for this thread"));
        }
        let address = request.address(kind::SESSION, args.session_id.as_str());
        let command = Command::Resume { thread: args.thread_id.clone(), by: request.by() };
        let called = match self.ask::<Session>(request, &address, &command).await {
            Err(error) => {
                let (session, thread) = (&args.session_id, Some(&args.thread_id));
                return Err(self.not_own_thread(request, session, thread, error).await);
            }
            Ok(called) => called,
        };
        let Reply::Resumed { turn, started, waits } = called.reply else { return Err(unexpected()) };
        let status = match turn {
            Some(_) if waits => ThreadStatus::Queued,
            Some(_) => ThreadStatus::Running,
            None => ThreadStatus::Idle,
        };
        let result = ThreadResumed {
            session_id: args.session_id,
            thread_id: args.thread_id,
            status,
            resumed: started,
            turn_id: turn,
        };
        Ok(Answer { result, cursor: called.cursor })
    }

    pub(super) async fn remove_queued_turn(
        &self,
        request: &Request<'_>,
        args: RemoveQueuedTurn,
    ) -> Result<Answer<QueueState>, Error> {
        let RemoveQueuedTurn { session_id, thread_id, turn_id } = args;
        let (thread, turn) = (thread_id.clone(), turn_id.clone());
        let command = Command::RemoveQueued { thread, turn, by: request.by() };
        self.change_queue(request, (session_id, thread_id, turn_id), command, TurnStatus::Cancelled).await
    }

    pub(super) async fn promote_queued_turn(
        &self,
        request: &Request<'_>,
        args: PromoteQueuedTurn,
    ) -> Result<Answer<QueueState>, Error> {
        let PromoteQueuedTurn { session_id, thread_id, turn_id } = args;
        let (thread, turn) = (thread_id.clone(), turn_id.clone());
        let command = Command::PromoteQueued { thread, turn, by: request.by() };
        self.change_queue(request, (session_id, thread_id, turn_id), command, TurnStatus::Queued).await
    }

    async fn change_queue(
        &self,
        request: &Request<'_>,
        (session_id, thread_id, turn_id): (SessionId, ThreadId, TurnId),
        command: Command,
        status: TurnStatus,
    ) -> Result<Answer<QueueState>, Error> {
        let address = request.address(kind::SESSION, session_id.as_str());
        let called = match self.ask::<Session>(request, &address, &command).await {
            Err(error) if error.code == Code::NotFound => {
                return Err(self.not_queued(request, (&session_id, &thread_id, &turn_id), error).await?);
            }
            called => called?,
        };
        let (_, work) = self.session(&self.store.begin(), request, &session_id).await?;
        let thread = work.threads.iter().find(|thread| thread.id == thread_id);
        let queue = thread.map(|thread| thread.queue.iter().map(|queued| queued.turn.clone()).collect());
        let queue = queue.unwrap_or_default();
        let result = QueueState { session_id, thread_id, turn_id, status, queue };
        Ok(Answer { result, cursor: called.cursor })
    }

    /// Says of a turn that does not wait in a thread how it stands.
    async fn not_queued(
        &self,
        request: &Request<'_>,
        (session, thread, turn): (&SessionId, &ThreadId, &TurnId),
        error: Error,
    ) -> Result<Error, Error> {
        let (_, work) = self.session(&self.store.begin(), request, session).await?;
        if !work.threads.iter().any(|known| known.id == *thread) {
            return Ok(self.not_own_thread(request, session, Some(thread), error).await);
        }
        if work.threads.iter().any(|thread| thread.place_of(turn).is_some()) {
            return Ok(session::not_of_thread(turn, thread));
        }
        match self.known_turn(request, session, turn).await {
            Err(unknown) if unknown.code == Code::NotFound => return Ok(error),
            known => known?,
        }
        let ended = self.turn_end(request, session, turn).await?;
        let status = ended.map_or(TurnStatus::Running, |(status, _)| status);
        Ok(Error::conflict(status, format!("the turn {turn} is {status}, it does not wait")))
    }

    pub(super) async fn respond_action(
        &self,
        request: &Request<'_>,
        args: RespondAction,
    ) -> Result<Answer<ActionState>, Error> {
        let response = Response {
            action: args.action_id.clone(),
            decision: args.decision.clone(),
            by: request.by(),
            reason: args.reason,
            payload: args.payload.map(|payload| payload.to_string()),
        };
        let (cursor, session_id) = self.respond(request, response).await?;
        let result = ActionState {
            action_id: args.action_id,
            status: ActionStatus::Resolved,
            decision: args.decision,
            session_id,
        };
        Ok(Answer { result, cursor })
    }

    /// Takes a decision to whoever waits for it. Says in which session that is.
    pub(super) async fn respond(
        &self,
        request: &Request<'_>,
        response: Response,
    ) -> Result<(Option<Cursor>, Option<SessionId>), Error> {
        let action = response.action.clone();
        let owner = self.owner(request, &action).await?;
        let session = self.session_of(request, &owner).await?;
        match self.respond_to(request, &owner, response).await {
            Err(error) if error.code == Code::Conflict => {
                // Whoever asked knows that nobody is waited for any more; the record says why.
                let Some(status) = self.owner(request, &action).await?.status else { return Err(error) };
                let (word, by) = (status.as_str(), error.message);
                Err(Error::conflict(
                    word,
                    if status == ActionStatus::Resolved {
                        by
                    } else {
                        format!("the action {action} is {word}")
                    },
                ))
            }
            answer => Ok((answer?, session)),
        }
    }

    /// The session of whoever asks, if it is there still.
    async fn session_of(
        &self,
        request: &Request<'_>,
        owner: &records::Owner,
    ) -> Result<Option<SessionId>, Error> {
        let (tx, id) = (&self.store.begin(), owner.id.as_str());
        Ok(match owner.kind.as_str() {
            kind::SUBAGENT => {
                let state = self.load::<Subagent>(tx, request, id).await?;
                state.and_then(|state| state.work).map(|work| work.session)
            }
            kind::TASK => {
                let state = self.load::<Task>(tx, request, id).await?;
                state.and_then(|state| state.work).map(|work| work.session)
            }
            kind::ITEM => {
                let state = self.load::<JobItem>(tx, request, id).await?;
                state.and_then(|state| state.work).map(|work| work.session)
            }
            _ => SessionId::parse(id).ok(),
        })
    }

    async fn respond_to(
        &self,
        request: &Request<'_>,
        owner: &records::Owner,
        response: Response,
    ) -> Result<Option<Cursor>, Error> {
        let address = request.address(&owner.kind, &owner.id);
        Ok(match owner.kind.as_str() {
            kind::SESSION => {
                self.ask::<Session>(request, &address, &Command::Respond(response)).await?.cursor
            }
            kind::SUBAGENT => {
                self.ask::<Subagent>(request, &address, &subagent::Command::Respond(response)).await?.cursor
            }
            kind::TASK => {
                self.ask::<Task>(request, &address, &task::Command::Respond(response)).await?.cursor
            }
            kind::ITEM => {
                self.ask::<JobItem>(request, &address, &ItemCommand::Respond(response)).await?.cursor
            }
            _ => return Err(Error::not_found("action", response.action)),
        })
    }
}

fn submission_status(position: Option<u32>) -> SubmissionStatus {
    if position.is_some() { SubmissionStatus::Queued } else { SubmissionStatus::Accepted }
}
