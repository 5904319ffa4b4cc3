//! Stopping turns.

use super::{Reply, decide::Step};
use crate::{
    control::{Error, args::InterruptTurn},
    entity::Close,
    exec::Ending,
    fact::{
        id::{ThreadId, TurnId},
        payload::QueueChange,
        status::TurnStatus,
    },
};

impl Step<'_> {
    pub(super) fn interrupt(&mut self, args: InterruptTurn, by: &str) -> Result<Reply, Error> {
        let threads: Vec<usize> = match &args.thread_id {
            Some(thread) => vec![self.thread(thread)?],
            None => (0..self.work.threads.len()).collect(),
        };
        let mut removed = Vec::new();
        if args.clear_queue {
            for index in threads.clone() {
                removed.extend(self.clear_queue(index, by));
            }
        }
        let reason = args.reason.as_deref().unwrap_or("interrupted");
        let Some(turn) = args.turn_id else {
            let Some(index) = threads.into_iter().find(|index| self.work.threads[*index].run.is_some())
            else {
                return Ok(Reply::Interrupted { thread: args.thread_id, turn: None, removed });
            };
            let turn = self.work.threads[index].run.as_ref().map(|run| run.turn.clone());
            self.interrupt_running(index, reason, by);
            let thread = Some(self.work.threads[index].id.clone());
            return Ok(Reply::Interrupted { thread, turn, removed });
        };
        let thread = self.interrupt_one(&turn, reason, by);
        Ok(Reply::Interrupted { thread, turn: Some(turn), removed })
    }

    /// Stops a turn wherever it is. Its thread, if it is anywhere.
    fn interrupt_one(&mut self, turn: &TurnId, reason: &str, by: &str) -> Option<ThreadId> {
        for index in 0..self.work.threads.len() {
            let thread = &mut self.work.threads[index];
            let id = thread.id.clone();
            if thread.run.as_ref().is_some_and(|run| run.turn == *turn) {
                self.interrupt_running(index, reason, by);
                return Some(id);
            }
            if let Some(at) = thread.queue.iter().position(|queued| queued.turn == *turn) {
                thread.queue.remove(at);
                self.cancel_queued(index, turn, TurnStatus::Cancelled, Some(reason), by);
                self.tell_queue(index, QueueChange::Removed, Some(turn.clone()), None);
                return Some(id);
            }
            if let Some(run) = thread.lingering.iter_mut().find(|run| run.turn == *turn) {
                let close = Close { reason: Some(reason.to_owned()), by: by.to_owned() };
                run.close_rest(&close, &mut self.draft);
                return Some(id);
            }
        }
        None
    }

    pub(super) fn interrupt_running(&mut self, index: usize, reason: &str, by: &str) {
        let Some(run) = &mut self.work.threads[index].run else { return };
        let ending = Ending::cancelled(Some(reason.to_owned()), by);
        let ending = run.close(ending, &mut self.draft);
        self.ended(index, ending);
    }

    fn clear_queue(&mut self, index: usize, by: &str) -> Vec<TurnId> {
        let cleared: Vec<TurnId> =
            self.work.threads[index].queue.drain(..).map(|queued| queued.turn).collect();
        for turn in &cleared {
            self.cancel_queued(index, turn, TurnStatus::Cancelled, Some("the queue was cleared"), by);
        }
        if !cleared.is_empty() {
            self.tell_queue(index, QueueChange::Cleared, None, None);
        }
        cleared
    }
}
