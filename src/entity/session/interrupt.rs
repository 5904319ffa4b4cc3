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
        let named = args.thread_id.as_ref().map(|thread| self.thread(thread)).transpose()?;
        let of_turn = args.turn_id.as_ref().and_then(|turn| self.thread_with(turn));
        if let (Some(index), Some(named), Some(turn)) = (of_turn, named, &args.turn_id)
            && index != named
        {
            return Err(not_of_thread(turn, &self.work.threads[named].id));
        }
        let runs = || {
            let runs = self.work.threads.iter().position(|thread| thread.run.is_some());
            runs.or((!self.work.threads.is_empty()).then_some(0))
        };
        // Of a turn that is nowhere any more nobody knows here what waited behind it.
        let index = of_turn.or(named).or_else(|| runs().filter(|_| args.turn_id.is_none()));
        let removed = match index.filter(|_| args.clear_queue) {
            Some(index) => self.clear_queue(index, "the queue was cleared", by),
            None => Vec::new(),
        };
        let reason = args.reason.as_deref().unwrap_or("interrupted");
        if let Some(turn) = args.turn_id {
            let thread = of_turn.map(|index| self.work.threads[index].id.clone());
            self.interrupt_one(&turn, reason, by);
            return Ok(Reply::Interrupted { thread, turn: Some(turn), removed });
        }
        let running = index.and_then(|index| Some((index, self.work.threads[index].run.as_ref()?)));
        let Some((index, turn)) = running.map(|(index, run)| (index, run.turn.clone())) else {
            return Ok(Reply::Interrupted { thread: args.thread_id, turn: None, removed });
        };
        let thread = Some(self.work.threads[index].id.clone());
        self.interrupt_running(index, reason, by);
        Ok(Reply::Interrupted { thread, turn: Some(turn), removed })
    }

    /// The thread in which a turn runs or waits, or children of it live on.
    fn thread_with(&self, turn: &TurnId) -> Option<usize> {
        self.work
            .threads
            .iter()
            .position(|thread| thread.expects(turn) || thread.lingering.iter().any(|run| run.turn == *turn))
    }

    /// Stops a turn wherever it is.
    fn interrupt_one(&mut self, turn: &TurnId, reason: &str, by: &str) {
        for index in 0..self.work.threads.len() {
            let thread = &mut self.work.threads[index];
            if thread.run.as_ref().is_some_and(|run| run.turn == *turn) {
                self.interrupt_running(index, reason, by);
                return;
            }
            if let Some(at) = thread.queue.iter().position(|queued| queued.turn == *turn) {
                thread.queue.remove(at);
                self.cancel_queued(index, turn, TurnStatus::Cancelled, Some(reason), by);
                self.tell_queue(index, QueueChange::Removed, Some(turn.clone()), None);
                return;
            }
            if let Some(run) = thread.lingering.iter_mut().find(|run| run.turn == *turn) {
                let close = Close { reason: Some(reason.to_owned()), by: by.to_owned() };
                run.close_rest(&close, &mut self.draft);
                return;
            }
        }
    }

    pub(super) fn interrupt_running(&mut self, index: usize, reason: &str, by: &str) {
        let Some(run) = &mut self.work.threads[index].run else { return };
        let ending = Ending::cancelled(Some(reason.to_owned()), by);
        let ending = run.close(ending, &mut self.draft);
        self.ended(index, ending);
    }

    /// Turns that wait are new work: an archived session begins none of them.
    pub(super) fn withdraw_waiting(&mut self) {
        for index in 0..self.work.threads.len() {
            self.clear_queue(index, "the session was archived", "archive");
        }
    }

    fn clear_queue(&mut self, index: usize, reason: &str, by: &str) -> Vec<TurnId> {
        let cleared: Vec<TurnId> =
            self.work.threads[index].queue.drain(..).map(|queued| queued.turn).collect();
        for turn in &cleared {
            self.cancel_queued(index, turn, TurnStatus::Cancelled, Some(reason), by);
        }
        if !cleared.is_empty() {
            self.tell_queue(index, QueueChange::Cleared, None, None);
        }
        cleared
    }
}

/// A turn of another thread than the one that was named with it.
pub fn not_of_thread(turn: &TurnId, thread: &ThreadId) -> Error {
    Error::invalid("threadId", format!("the turn {turn} is not of the thread {thread}"))
}
