//! Turns and threads that are not the session's own. Every subagent, every attempt of a task and every item of a job has
//! a thread and a turn to itself, so a turn that is submitted can neither be called like such a turn nor go into such a
//! thread: two turns would tell their facts under one name, and one of them would go on after the other's end (P11).

use super::{Request, Runtime};
use crate::{
    control::{Code, Error},
    entity::{Session, Subagent, Task, kind},
    fact::{
        Event,
        id::{SessionId, ThreadId, TurnId},
        status::TurnStatus,
    },
};

impl Runtime {
    /// Refuses the name and the place of a turn where they are those of a run.
    pub(super) async fn refuse_places_of_runs(
        &self,
        request: &Request<'_>,
        session: &SessionId,
        (turn, thread): (Option<&TurnId>, Option<&ThreadId>),
    ) -> Result<(), Error> {
        let state = self.load::<Session>(&self.store.begin(), request, session.as_str()).await?;
        let Some(work) = state.and_then(|state| state.work) else { return Ok(()) };
        if let Some(turn) = turn {
            self.refuse_turn_of_run(request, session, turn).await?;
        }
        match thread.filter(|thread| work.threads.iter().all(|own| own.id != **thread)) {
            Some(thread) => self.refuse_thread_of_run(request, session, thread).await,
            None => Ok(()),
        }
    }

    /// Refuses the name of a turn that nobody has submitted. What was submitted is recognised by its record.
    async fn refuse_turn_of_run(
        &self,
        request: &Request<'_>,
        session: &SessionId,
        turn: &TurnId,
    ) -> Result<(), Error> {
        let event = self.first_event_of(request, session, turn).await?;
        let Some((event, kind, id)) = event.as_ref().and_then(of_run) else { return Ok(()) };
        let message = format!("the turn {turn} exists: it is that of {}", called(event, kind, id));
        Err(Error::conflict("exists", message).with("field", "turnId"))
    }

    /// Refuses a thread in which somebody else runs.
    async fn refuse_thread_of_run(
        &self,
        request: &Request<'_>,
        session: &SessionId,
        thread: &ThreadId,
    ) -> Result<(), Error> {
        let event = self.events_of(request, session, thread).await?;
        let Some((event, kind, id)) = event.as_ref().and_then(of_run) else { return Ok(()) };
        let tx = self.store.begin();
        let (status, instead) = match kind {
            kind::SUBAGENT => {
                let state = self.load::<Subagent>(&tx, request, id).await?;
                let status = state.and_then(|state| state.work).map(|work| work.status.as_str());
                (status, "send_subagent_input, resume_subagent and close_subagent reach it")
            }
            kind::TASK => {
                let state = self.load::<Task>(&tx, request, id).await?;
                let status = state.and_then(|state| state.work).map(|work| work.status.as_str());
                (status, "pause_task, retry_task and cancel_task reach it")
            }
            _ => (None, "retry_job_item and cancel_job reach it"),
        };
        let status = match (status, event.fact.ids.turn()) {
            (Some(status), _) => status,
            (None, Some(turn)) => {
                let ended = self.turn_end(request, session, turn).await?;
                ended.map_or(TurnStatus::Running, |(status, _)| status).as_str()
            }
            (None, None) => TurnStatus::Running.as_str(),
        };
        let message = format!(
            "the thread {thread} is that of {}, and takes no turns of the session: {instead}",
            called(event, kind, id)
        );
        Err(Error::conflict(status, message).with("field", "threadId"))
    }

    /// What is answered about a thread that the session itself does not have.
    pub(super) async fn not_own_thread(
        &self,
        request: &Request<'_>,
        session: &SessionId,
        thread: Option<&ThreadId>,
        error: Error,
    ) -> Error {
        let Some(thread) = thread.filter(|_| error.code == Code::NotFound) else { return error };
        match self.session(&self.store.begin(), request, session).await {
            Ok((_, work)) if work.threads.iter().all(|known| known.id != *thread) => {
                self.refuse_thread_of_run(request, session, thread).await.err().unwrap_or(error)
            }
            _ => error,
        }
    }
}

/// Who has told an event, if not the session itself: kind and id.
fn of_run(event: &Event) -> Option<(&Event, &str, &str)> {
    let (kind, id) = event.stream.split_once(':')?;
    (kind != kind::SESSION).then_some((event, kind, id))
}

/// Somebody by kind and id, as callers know them.
fn called(event: &Event, kind: &str, id: &str) -> String {
    match (kind, event.fact.ids.item(), event.fact.ids.job()) {
        (kind::SUBAGENT, ..) => format!("the subagent {id}"),
        (kind::TASK, ..) => format!("an attempt of the task {id}"),
        (_, Some(item), Some(job)) => format!("an attempt of the item {item} of the job {job}"),
        _ => "somebody else".to_owned(),
    }
}
