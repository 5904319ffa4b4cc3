//! One thread of a session: its open turns, its queue, and how its last turn ended.

use super::{
    bound::{self, NAME_MAX, WORD_MAX, set_text},
    boundary::Boundary,
    declare::views,
    turn::TurnView,
};
use crate::fact::{
    Fact,
    failure::Failure,
    id::{SubagentId, ThreadId, TurnId},
    payload::{Payload, QueueChange, QueueChanged, WhenBusy},
    status::{ThreadStatus, TurnStatus},
    time::Time,
};

views! {
    /// How a turn ended.
    Outcome {
        /// Which.
        turn_id: TurnId,
        /// In which way.
        status: TurnStatus,
        /// When.
        at: Time,
        ..
        /// What went wrong.
        error: Option<Failure>,
    }

    /// A turn that waits for its thread.
    QueuedTurn {
        /// Which.
        turn_id: TurnId,
        /// Its place; 1 runs next.
        position: u32,
        ..
        /// How urgent it is.
        priority: Option<String>,
        /// Where it came from.
        source: Option<String>,
        /// What was to happen if the thread was busy: why it waits.
        when_busy: Option<WhenBusy>,
        /// When it was submitted.
        submitted_at: Option<Time>,
        /// Who should answer.
        agent: Option<String>,
    }

    /// One thread. Turns that have ended are records of their own: their numbers are 1 to `turnCount`.
    ThreadView {
        /// Its id.
        thread_id: ThreadId,
        /// How it stands.
        status: ThreadStatus,
        ..
        /// What people call it.
        title: Option<String>,
        /// The agent of its turns.
        agent: Option<String>,
        /// What began it.
        source: Option<String>,
        /// The thread from which it came.
        parent_thread_id: Option<ThreadId>,
        /// The subagent whose thread it is.
        subagent_id: Option<SubagentId>,
        /// When it began.
        created_at: Option<Time>,
        /// When something last happened in it.
        updated_at: Option<Time>,
        /// The turn that runs now.
        active_turn_id: Option<TurnId>,
        /// The turns that are not over, in the order in which they were heard of.
        turns: Vec<TurnView>,
        /// The turns that wait, the next first.
        queue: Vec<TurnId>,
        /// How many more wait than there is room to tell.
        queue_omitted: u32,
        /// How the last turn ended.
        last_outcome: Option<Outcome>,
        /// How many turns have ended.
        turn_count: u64,
        /// How much evidence there is of it.
        evidence_count: u32,
        /// How many turns were taken back.
        rolled_back: u64,
        /// Where summaries stand for the history before, the one that counts last.
        boundaries: Vec<Boundary>,
    }
}

impl ThreadView {
    /// How many waiting turns a thread tells of.
    pub const QUEUE_MAX: usize = 64;

    /// A thread of which nothing is known but its id.
    pub fn new(thread_id: ThreadId) -> Self {
        Self {
            thread_id,
            status: ThreadStatus::Idle,
            title: None,
            agent: None,
            source: None,
            parent_thread_id: None,
            subagent_id: None,
            created_at: None,
            updated_at: None,
            active_turn_id: None,
            turns: Vec::new(),
            queue: Vec::new(),
            queue_omitted: 0,
            last_outcome: None,
            turn_count: 0,
            evidence_count: 0,
            rolled_back: 0,
            boundaries: Vec::new(),
        }
    }

    /// An open turn.
    pub fn turn(&self, turn_id: &TurnId) -> Option<&TurnView> {
        self.turns.iter().find(|turn| turn.turn_id == *turn_id)
    }

    /// The turns that wait, with what is known of them.
    pub fn queued_turns(&self) -> Vec<QueuedTurn> {
        let queued = |(place, turn_id): (usize, &TurnId)| {
            let turn = self.turn(turn_id);
            QueuedTurn {
                turn_id: turn_id.clone(),
                position: place as u32 + 1,
                priority: turn.and_then(|turn| turn.priority.clone()),
                source: turn.and_then(|turn| turn.source.clone()),
                when_busy: turn.and_then(|turn| turn.when_busy),
                submitted_at: turn.and_then(|turn| turn.submitted_at),
                agent: turn.and_then(|turn| turn.agent.clone()),
            }
        };
        self.queue.iter().enumerate().map(queued).collect()
    }

    /// Takes in a fact of this thread. `room` says whether one more open turn may be kept; without it a turn is told
    /// of from its end alone. Gives back the turn that ended.
    pub(super) fn apply(&mut self, fact: &Fact, room: bool) -> Option<TurnView> {
        self.updated_at = Some(bound::time(fact.at));
        match &fact.payload {
            Payload::ThreadStarted(started) => {
                self.created_at.get_or_insert(bound::time(fact.at));
                set_text(&mut self.title, started.title.as_deref(), NAME_MAX);
                set_text(&mut self.agent, started.agent.as_deref(), NAME_MAX);
                set_text(&mut self.source, started.source.as_deref(), WORD_MAX);
                bound::set(&mut self.parent_thread_id, started.parent_thread_id.as_ref());
                bound::set(&mut self.subagent_id, started.subagent_id.as_ref());
                if let Some(status) = started.status {
                    self.status = status;
                }
                return None;
            }
            Payload::ThreadUpdated(updated) => {
                set_text(&mut self.title, updated.title.as_deref(), NAME_MAX);
                bound::set(&mut self.active_turn_id, updated.active_turn_id.as_ref());
                if let Some(status) = updated.status {
                    self.status = status;
                }
                return None;
            }
            Payload::QueueChanged(changed) => {
                self.queued(fact, changed);
                self.reconsider();
                return None;
            }
            Payload::HistoryRollbackCompleted(rollback) => {
                self.rolled_back(rollback);
                return None;
            }
            Payload::ContextCompactionCompleted(completed) => {
                self.compacted(fact, completed);
                return None;
            }
            Payload::EvidenceChanged(_) => {
                self.evidence_count = self.evidence_count.saturating_add(1);
            }
            _ => {}
        }
        let ended = self.turn_fact(fact, room);
        if ended.is_some() || matters(&fact.payload) {
            self.reconsider();
        }
        ended
    }

    fn turn_fact(&mut self, fact: &Fact, room: bool) -> Option<TurnView> {
        let turn_id = fact.ids.turn()?;
        let index = self.turns.iter().position(|turn| turn.turn_id == *turn_id);
        let ends = matches!(fact.payload, Payload::TurnCompleted(_) | Payload::TurnFailed(_));
        let begins = matches!(fact.payload, Payload::TurnSubmitted(_) | Payload::TurnStarted(_));
        if ends || matches!(fact.payload, Payload::TurnStarted(_)) {
            self.dequeue(turn_id, index.is_none_or(|index| self.turns[index].status == TurnStatus::Queued));
        }
        if ends {
            let mut turn =
                index.map_or_else(|| TurnView::new(turn_id.clone()), |index| self.turns.remove(index));
            turn.apply(fact);
            return Some(self.ended(turn));
        }
        match index {
            Some(index) => self.turns[index].apply(fact),
            None if begins && room => {
                let mut turn = TurnView::new(turn_id.clone());
                turn.apply(fact);
                self.turns.push(turn);
            }
            None => {}
        }
        match &fact.payload {
            Payload::TurnSubmitted(submitted) if submitted.status == TurnStatus::Queued => {
                self.enqueue(turn_id)
            }
            Payload::TurnStarted(_) => self.active_turn_id = Some(turn_id.clone()),
            _ => {}
        }
        None
    }

    fn ended(&mut self, mut turn: TurnView) -> TurnView {
        self.turn_count += 1;
        turn.number = Some(self.turn_count);
        self.last_outcome = Some(Outcome {
            turn_id: turn.turn_id.clone(),
            status: turn.status,
            at: turn.completed_at.unwrap_or_default(),
            error: turn
                .error
                .clone()
                .map(|error| Failure { message: bound::cut(&error.message, NAME_MAX), ..error }),
        });
        if self.active_turn_id.as_ref() == Some(&turn.turn_id) {
            self.active_turn_id = None;
        }
        turn
    }

    fn enqueue(&mut self, turn_id: &TurnId) {
        if self.queue.contains(turn_id) {
            return;
        }
        if self.queue.len() < Self::QUEUE_MAX {
            self.queue.push(turn_id.clone());
        } else {
            self.queue_omitted = self.queue_omitted.saturating_add(1);
        }
    }

    /// A turn waits no more. One that may have waited and is not in the queue was among those not told of.
    fn dequeue(&mut self, turn_id: &TurnId, may_have_waited: bool) {
        match self.queue.iter().position(|queued| queued == turn_id) {
            Some(place) => drop(self.queue.remove(place)),
            None if may_have_waited => self.queue_omitted = self.queue_omitted.saturating_sub(1),
            None => {}
        }
    }

    fn queued(&mut self, fact: &Fact, changed: &QueueChanged) {
        self.queue = changed.queue.iter().take(Self::QUEUE_MAX).cloned().collect();
        self.queue_omitted = changed.queue.len().saturating_sub(Self::QUEUE_MAX) as u32;
        if changed.change == QueueChange::Steered {
            let steered = changed.changed_turn_id.as_ref().or(self.active_turn_id.as_ref());
            if let Some(turn) = self.turns.iter_mut().find(|turn| Some(&turn.turn_id) == steered) {
                turn.steered(fact);
            }
        }
    }

    /// How the thread stands, from its turns.
    pub(super) fn reconsider(&mut self) {
        let active = |turn: &&TurnView| turn.is_active();
        if self.active_turn_id.as_ref().is_none_or(|turn_id| self.turn(turn_id).is_none()) {
            self.active_turn_id = self.turns.iter().rev().find(active).map(|turn| turn.turn_id.clone());
        }
        let blocked = |turn: &TurnView| {
            turn.is_pending() || matches!(turn.status, TurnStatus::Blocked | TurnStatus::WaitingResource)
        };
        self.status = if self.turns.iter().any(blocked) {
            ThreadStatus::Blocked
        } else if self.turns.iter().any(|turn| turn.is_active()) {
            ThreadStatus::Running
        } else if !self.turns.is_empty() || !self.queue.is_empty() || self.queue_omitted > 0 {
            ThreadStatus::Queued
        } else {
            match self.last_outcome.as_ref().map(|outcome| outcome.status) {
                None => ThreadStatus::Idle,
                Some(TurnStatus::Completed) => ThreadStatus::Completed,
                Some(TurnStatus::Cancelled) => ThreadStatus::Cancelled,
                // It cannot be known how it ended: that is neither success nor failure.
                Some(TurnStatus::Lost) => ThreadStatus::Unknown,
                Some(_) => ThreadStatus::Failed,
            }
        };
    }
}

/// Whether a fact of a turn can change how its thread stands. Text and progress, the most frequent, cannot.
fn matters(payload: &Payload) -> bool {
    matches!(
        payload,
        Payload::TurnSubmitted(_)
            | Payload::TurnStarted(_)
            | Payload::RunStatus(_)
            | Payload::ActionRequired(_)
            | Payload::ActionResolved(_)
    )
}
