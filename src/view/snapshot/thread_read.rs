//! How a thread stands: the answer of `get_thread_read`, and the threads of a session snapshot.

use crate::{
    fact::{
        id::{EvidenceId, SubagentId, ThreadId, TurnId},
        status::{Availability, ThreadStatus, TurnStatus},
        time::Time,
    },
    view::{
        Incident, Outcome, PendingRequest, QueuedTurn, RoutingDecision, SessionView, SubagentView, TaskView,
        ThreadContext, ThreadView, TurnView,
        declare::views,
        summary::{self, ProcessEntry},
    },
};

use super::{Diagnostic, QueueSnapshot, history::HistoryCursor, parts::ThreadTurns};

views! {
    /// What is known of the evidence of a thread.
    #[derive(Default)]
    ThreadEvidence {
        /// The last pieces.
        evidence_refs: Vec<EvidenceId>,
        /// What the last checks found.
        verification_outcomes: Vec<summary::Outcome>,
        ..
        /// Why there is none: nothing was exported, or only something larger, of which the thread may be a part.
        availability: Option<Availability>,
        /// How often evidence changed.
        total: u32,
    }

    /// How a thread stands.
    ThreadRead {
        /// Its id.
        thread_id: ThreadId,
        /// How it stands.
        status: ThreadStatus,
        /// Turns that have ended, the newest last, then those that have not.
        turns: Vec<TurnView>,
        /// The decisions that are waited for.
        pending_requests: Vec<PendingRequest>,
        /// The turns that wait.
        queued_turns: Vec<QueuedTurn>,
        /// Their queue, and what makes it go on.
        queue: QueueSnapshot,
        /// What people should know.
        incidents: Vec<Incident>,
        /// What explains how it stands.
        diagnostics: Vec<Diagnostic>,
        /// What is known of its evidence.
        evidence_summary: ThreadEvidence,
        /// Where older turns are.
        history: HistoryCursor,
        /// What later turns see of them.
        context: ThreadContext,
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
        /// How the last turn ended.
        last_outcome: Option<Outcome>,
        /// How many turns have ended.
        turn_count: u64,
        /// How many more decisions are waited for.
        pending_omitted: u32,
        /// How many more turns wait.
        queue_omitted: u32,
        /// The processes that run.
        processes: Vec<ProcessEntry>,
        /// Which model answers, in the last turn that chose one.
        model_routing: Option<RoutingDecision>,
    }
}

impl ThreadRead {
    /// A thread of a session, with the turns that have ended.
    pub fn of(view: &SessionView, thread: &ThreadView, ended: Option<&ThreadTurns>) -> Self {
        let mut turns: Vec<TurnView> = ended.map(|ended| ended.turns.clone()).unwrap_or_default();
        let first = turns.first().and_then(|turn| turn.number);
        let has_more = ended.map_or(thread.turn_count > 0, |ended| ended.has_more);
        turns.extend(thread.turns.iter().cloned());
        let open = &thread.turns;
        let active = |entry: &&ProcessEntry| entry.thread_id.as_ref() == Some(&thread.thread_id);
        let processes = view.summary.processes.iter().flat_map(|processes| &processes.active);
        Self {
            thread_id: thread.thread_id.clone(),
            status: thread.status,
            pending_requests: open.iter().flat_map(|turn| turn.pending_requests.clone()).collect(),
            pending_omitted: open.iter().map(|turn| turn.pending_omitted).fold(0, u32::saturating_add),
            queued_turns: thread.queued_turns(),
            queue_omitted: thread.queue_omitted,
            queue: QueueSnapshot::of(thread),
            diagnostics: Diagnostic::of(view, thread),
            incidents: view.incidents_of(&thread.thread_id),
            evidence_summary: ThreadEvidence::of(view, thread),
            history: HistoryCursor { has_more, before: first.map(|first| first.to_string()) },
            title: thread.title.clone(),
            agent: thread.agent.clone(),
            source: thread.source.clone(),
            parent_thread_id: thread.parent_thread_id.clone(),
            subagent_id: thread.subagent_id.clone(),
            created_at: thread.created_at,
            updated_at: thread.updated_at,
            active_turn_id: thread.active_turn_id.clone(),
            last_outcome: thread.last_outcome.clone(),
            turn_count: thread.turn_count,
            context: ThreadContext::of(thread),
            processes: processes.filter(active).cloned().collect(),
            model_routing: turns.iter().rev().find_map(|turn| turn.routing_decision.clone()),
            turns,
        }
    }

    /// The thread of a subagent; none before it has one.
    pub fn of_subagent(subagent: &SubagentView) -> Option<Self> {
        let mut read = Self::of_turn(subagent.thread_id.as_ref()?, subagent.turn.as_deref());
        read.parent_thread_id.clone_from(&subagent.parent_thread_id);
        read.subagent_id.clone_from(&subagent.subagent_id);
        read.agent.clone_from(&subagent.agent);
        read.created_at = subagent.spawned_at;
        Some(read)
    }

    /// The thread of a task's current run; none before there is one.
    pub fn of_task(task: &TaskView) -> Option<Self> {
        let turn = task.turn.as_deref()?;
        let mut read = Self::of_turn(turn.thread_id.as_ref()?, Some(turn));
        read.agent = read.agent.or_else(|| task.agent.clone());
        Some(read)
    }

    /// A thread that has one turn: a subagent's, a task's or an item's.
    pub fn of_turn(thread_id: &ThreadId, turn: Option<&TurnView>) -> Self {
        let mut thread = ThreadView::new(thread_id.clone());
        thread.source = turn.and_then(|turn| turn.source.clone());
        thread.agent = turn.and_then(|turn| turn.agent.clone());
        thread.created_at = turn.and_then(|turn| turn.submitted_at.or(turn.started_at));
        thread.updated_at = turn.and_then(|turn| turn.updated_at);
        let mut ended = Vec::new();
        if let Some(turn) = turn {
            if turn.status.is_terminal() {
                thread.turn_count = 1;
                thread.last_outcome = Some(Outcome {
                    turn_id: turn.turn_id.clone(),
                    status: turn.status,
                    at: turn.completed_at.unwrap_or_default(),
                    error: turn.error.clone(),
                });
                ended.push(TurnView { number: Some(1), ..turn.clone() });
            } else {
                if turn.status == TurnStatus::Queued {
                    thread.queue.push(turn.turn_id.clone());
                }
                thread.turns.push(turn.clone());
            }
        }
        thread.reconsider();
        let ended = ThreadTurns { thread_id: thread_id.clone(), turns: ended, has_more: false };
        let mut read = Self::of(&SessionView::default(), &thread, Some(&ended));
        // What was exported of it is told by the session.
        read.evidence_summary.availability = Some(Availability::Unknown);
        read
    }
}

impl ThreadEvidence {
    fn of(view: &SessionView, thread: &ThreadView) -> Self {
        let mine = |thread_id: &Option<ThreadId>| thread_id.as_ref() == Some(&thread.thread_id);
        let all = view.summary.evidence.as_ref();
        let Some(evidence) = all.filter(|_| thread.evidence_count > 0) else {
            let is_part = all.is_some_and(|evidence| evidence.session_wide > 0);
            let availability = if is_part { Availability::Unknown } else { Availability::NotApplicable };
            return Self { availability: Some(availability), ..Self::default() };
        };
        let recent = evidence.recent.iter().filter(|entry| mine(&entry.thread_id));
        let outcomes = evidence.verification_outcomes.iter().filter(|outcome| mine(&outcome.thread_id));
        Self {
            evidence_refs: recent.map(|entry| entry.evidence_id.clone()).collect(),
            verification_outcomes: outcomes.cloned().collect(),
            availability: None,
            total: thread.evidence_count,
        }
    }
}
