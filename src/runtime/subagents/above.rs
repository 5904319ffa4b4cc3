//! Whom subagents work for: who is named when one is started, and who has to know when one goes on again.

use super::super::{Request, Runtime};
use crate::{
    control::{Error, args::SpawnSubagent},
    entity::{JobItem, Parent, Session, Subagent, Task, kind, session},
    fact::id::{SessionId, SubagentId, TaskId, ThreadId, TurnId},
};

impl Runtime {
    /// Whom a new subagent works for. Whoever is named has to be there, in this session; of several, the subagent is the
    /// nearest, and it has to work for the others.
    pub(super) async fn parent_of(
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

    /// Whether everybody above somebody who goes on again knows that, so that a cancel up there reaches it (P11).
    pub(in crate::runtime) async fn is_open_above(
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
    pub(super) async fn works_for_nobody(
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

    /// Who runs a turn, its kind and id: the session itself, a subagent, a task or an item of a job.
    pub(super) async fn runner_of(
        &self,
        request: &Request<'_>,
        session: &SessionId,
        turn: &TurnId,
    ) -> Result<Option<(String, String)>, Error> {
        let first = self.first_event_of(request, session, turn).await?;
        let runner = first.as_ref().and_then(|event| event.stream.split_once(':'));
        Ok(runner.map(|(kind, id)| (kind.to_owned(), id.to_owned())))
    }

    /// The thread that a turn is of, if there is such a turn.
    pub(in crate::runtime) async fn thread_of_turn(
        &self,
        request: &Request<'_>,
        session: &SessionId,
        turn: &TurnId,
    ) -> Result<Option<ThreadId>, Error> {
        let first = self.first_event_of(request, session, turn).await?;
        Ok(first.and_then(|event| event.fact.ids.thread().cloned()))
    }
}

/// Refuses a parent that belongs to another session.
pub(in crate::runtime) fn same_session(
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
