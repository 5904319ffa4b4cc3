//! The commands about subagents.

mod above;
mod list;
mod wait;

use cadre_cluster::feed::Cursor;

pub(super) use self::above::same_session;
use super::{
    EventFilter, Request, Runtime,
    failure::unexpected,
    turns::Blobs,
    wait::{Closing, Root},
};
use crate::{
    control::{
        Error,
        args::{CloseSubagent, ResumeSubagent, SendSubagentInput, SpawnSubagent},
        result::{Answer, SubagentState},
    },
    entity::{
        Named, Session, Subagent, Task, kind,
        parent::Spawned,
        session::{self, fingerprint},
        subagent::{Command, Reply, Work},
        task,
    },
    exec::Source,
    fact::{
        Fact, Payload,
        id::{SessionId, SubagentId, TaskId, TurnId},
        status::{SubagentStatus, TurnStatus},
    },
};

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
        let blobs = Blobs::of(&args.input);
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
        self.check_blobs(request, blobs).await?;
        let parent = self.parent_of(request, &args).await?;
        let (turn, named) = (args.turn_id.clone(), args.thread_id.clone());
        let asked_of = self.ask_to_spawn(request, &session, parent, (Named(Box::new(args)), source)).await;
        let (spawned, cursor) = match asked_of {
            Err(error) if error.details.get("status").is_some_and(|status| status == "not_running") => {
                return Err(self.not_running(request, &session, turn.as_ref(), error).await?);
            }
            Err(error) => return Err(self.not_own_thread(request, &session, named.as_ref(), error).await),
            Ok(asked_of) => asked_of,
        };
        let Spawned { subagent, thread, turn } = spawned;
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

    /// Asks whoever it is for to start a subagent.
    async fn ask_to_spawn(
        &self,
        request: &Request<'_>,
        session: &SessionId,
        parent: (Option<SubagentId>, Option<TaskId>),
        (args, source): (Named<Box<SpawnSubagent>>, Source),
    ) -> Result<(Spawned, Option<Cursor>), Error> {
        match parent {
            (Some(parent), _) => {
                let address = request.address(kind::SUBAGENT, parent.as_str());
                let called =
                    self.ask::<Subagent>(request, &address, &Command::Spawn { args, source }).await?;
                let Reply { subagent, thread, turn, .. } = called.reply;
                Ok((Spawned { subagent, thread, turn }, called.cursor))
            }
            (None, Some(parent)) => {
                let address = request.address(kind::TASK, parent.as_str());
                let command = task::Command::Spawn { args, source };
                let called = self.ask::<Task>(request, &address, &command).await?;
                let task::Reply::Spawned { subagent, thread, turn } = called.reply else {
                    return Err(unexpected());
                };
                Ok((Spawned { subagent, thread, turn }, called.cursor))
            }
            (None, None) => {
                let address = request.address(kind::SESSION, session.as_str());
                let command = session::Command::Spawn { args, source };
                let called = self.ask::<Session>(request, &address, &command).await?;
                let session::Reply::Spawned { subagent, thread, turn } = called.reply else {
                    return Err(unexpected());
                };
                Ok((Spawned { subagent, thread, turn }, called.cursor))
            }
        }
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
        if let Some((status, _)) = ended {
            return Ok(Error::conflict(status, error.message));
        }
        let (_, work) = self.session(&self.store.begin(), request, session).await?;
        if work.threads.iter().any(|thread| thread.place_of(turn).is_some()) {
            return Ok(Error::conflict(TurnStatus::Queued, error.message));
        }
        let message = format!("the turn {turn} runs elsewhere, where no subagents are started by command");
        Ok(Error::conflict(TurnStatus::Running, message))
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
        let Reply { subagent, thread, turn, status, session, attempt } = called.reply;
        let result = SubagentState {
            subagent_id: subagent,
            thread_id: thread,
            turn_id: turn,
            status,
            session_id: session,
            attempt,
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
        self.check_blobs(request, Blobs::of(&args.input)).await?;
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
        self.check_blobs(request, Blobs::of(&input)).await?;
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

    pub(super) async fn close_subagent(
        &self,
        request: &Request<'_>,
        args: CloseSubagent,
    ) -> Result<Answer<SubagentState>, Error> {
        let id = args.subagent_id;
        let session = self.subagent(request, &id).await?.session;
        let since = self.end_of_feed(request, &session).await?;
        let command = Command::Close { reason: args.reason, by: request.by() };
        let mut answer = self.tell_subagent(&request.for_order(), &id, command).await?;
        let closed = || async {
            let work = self.subagent(request, &id).await?;
            Ok(work.closed.then_some(work.status))
        };
        let ended = |fact: &Fact| {
            use Payload::{SubagentClosed, SubagentCompleted, SubagentFailed};
            matches!(fact.payload, SubagentCompleted(_) | SubagentFailed(_) | SubagentClosed(_))
        };
        let root = Root::new(kind::SUBAGENT, id.as_str(), &ended);
        let closing = Closing { session: &session, root, since, told: answer.cursor };
        match self.wait_closed(request, closing, closed, SubagentStatus::Cancelled).await? {
            Some((status, cursor)) => {
                answer.result.status = status;
                answer.cursor = cursor;
            }
            None => answer.result.status = SubagentStatus::Cancelling,
        }
        Ok(answer)
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
