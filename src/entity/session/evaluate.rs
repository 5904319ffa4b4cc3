//! A judgement that somebody has asked for, kept among the facts of the session.
//!
//! Facts about permissions name a turn. A judgement that belongs to none has the id of a turn that never is, of its own;
//! one of a turn that is over would be told after its end, so that is refused (P11).

use super::{Reply, decide::Step};
use crate::{
    control::Error,
    fact::{
        id::{ThreadId, TurnId},
        payload::PermissionEvaluated,
        scope::TurnScope,
    },
};

impl Step<'_> {
    pub(super) fn evaluated(
        &mut self,
        thread: Option<&ThreadId>,
        turn: Option<TurnId>,
        evaluated: PermissionEvaluated,
    ) -> Result<Reply, Error> {
        let index = match (thread, &turn) {
            (_, Some(turn)) => {
                let index = self.work.threads.iter().position(|thread| thread.expects(turn));
                let index = index.ok_or_else(|| {
                    let message = format!("the turn {turn} is over: nothing is decided in it any more");
                    Error::conflict("over", message).with("field", "turnId")
                })?;
                let of = &self.work.threads[index].id;
                if let Some(other) = thread.filter(|named| *named != of) {
                    let message = format!("the turn {turn} is not of the thread {other}");
                    return Err(Error::invalid("threadId", message));
                }
                index
            }
            (Some(thread), None) => self.thread(thread).map_err(|error| error.with("field", "threadId"))?,
            (None, None) if self.work.threads.is_empty() => self.start_thread(None)?,
            (None, None) => 0,
        };
        let thread = self.work.threads[index].id.clone();
        let turn = turn.unwrap_or_else(|| self.draft.ids.next());
        self.draft.tell(TurnScope { thread, turn }, evaluated);
        Ok(Reply::Done)
    }
}
