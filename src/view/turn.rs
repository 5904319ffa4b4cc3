//! One turn, from its submission to its end.

use super::{
    bound::{self, NAME_MAX, TEXT_MAX, WORD_MAX, push_last, set_text},
    declare::views,
    pending::PendingRequest,
    permission::PermissionState,
    routing::RoutingDecision,
    step::StepView,
};
use crate::fact::{
    Fact, OutputRef,
    failure::Failure,
    id::{AttemptId, BlobRef, JobId, RunId, SubagentId, TaskId, ThreadId, TurnId},
    payload::{Payload, TurnStarted, TurnSubmitted, Usage, WhenBusy},
    status::TurnStatus,
    time::Time,
};

views! {
    /// One turn. Steps, text and references are the latest or the first few of what there was; totals say of how many.
    TurnView {
        /// Its id.
        turn_id: TurnId,
        /// How it stands.
        status: TurnStatus,
        ..
        /// Its thread.
        thread_id: Option<ThreadId>,
        /// Which of its thread's turns it was, from 1, in the order in which they ended.
        number: Option<u64>,
        /// Who answers.
        agent: Option<String>,
        /// Where it came from.
        source: Option<String>,
        /// How urgent it is.
        priority: Option<String>,
        /// What was to happen if its thread was busy.
        when_busy: Option<WhenBusy>,
        /// Which attempt, from 1.
        attempt: u32,
        /// The model that was asked for, or is used.
        model: Option<String>,
        /// When it was submitted.
        submitted_at: Option<Time>,
        /// When it began to run.
        started_at: Option<Time>,
        /// When it ended, in whatever way.
        completed_at: Option<Time>,
        /// When something was last heard of it.
        updated_at: Option<Time>,
        /// Its last steps.
        steps: Vec<StepView>,
        /// How many steps it has had.
        steps_total: u32,
        /// How many tool calls began.
        tool_calls_total: u32,
        /// How many tool calls failed for good.
        tool_failures: u32,
        /// The beginning of what the model said.
        text: String,
        /// How much it said, in bytes.
        text_bytes: u64,
        /// The answer in short, in the words of its end.
        summary: Option<String>,
        /// What its models used.
        usage: Option<Usage>,
        /// What went wrong.
        error: Option<Failure>,
        /// Why it ended as it did.
        reason: Option<String>,
        /// Which model, and why.
        routing_decision: Option<RoutingDecision>,
        /// How many tools it may call.
        tool_count: Option<u32>,
        /// What was decided about permissions.
        permission_state: Option<PermissionState>,
        /// How many hooks were asked.
        hook_run_count: u32,
        /// The last of what it produced.
        output_refs: Vec<OutputRef>,
        /// How much it produced.
        output_refs_total: u32,
        /// The decisions that it waits for.
        pending_requests: Vec<PendingRequest>,
        /// How many more it waits for than there is room to tell.
        pending_omitted: u32,
        /// How it stands beside what it waits for.
        underneath: Option<TurnStatus>,
        /// The task that it works for.
        task_id: Option<TaskId>,
        /// Which execution of the task.
        run_id: Option<RunId>,
        /// Which attempt of that.
        attempt_id: Option<AttemptId>,
        /// The subagent whose turn it is.
        subagent_id: Option<SubagentId>,
        /// The job for which it works.
        job_id: Option<JobId>,
        /// When it was taken back: later turns of its thread do not see it.
        rolled_back_at: Option<Time>,
    }
}

impl TurnView {
    /// How many steps it tells of.
    pub const STEPS_MAX: usize = 8;
    /// How many references it tells of.
    pub const OUTPUT_REFS_MAX: usize = 4;
    /// How many decisions it tells of.
    pub const PENDING_MAX: usize = 8;

    /// A turn of which nothing is known but its id.
    pub fn new(turn_id: TurnId) -> Self {
        Self {
            turn_id,
            status: TurnStatus::Accepted,
            thread_id: None,
            number: None,
            agent: None,
            source: None,
            priority: None,
            when_busy: None,
            attempt: 0,
            model: None,
            submitted_at: None,
            started_at: None,
            completed_at: None,
            updated_at: None,
            steps: Vec::new(),
            steps_total: 0,
            tool_calls_total: 0,
            tool_failures: 0,
            text: String::new(),
            text_bytes: 0,
            summary: None,
            usage: None,
            error: None,
            reason: None,
            routing_decision: None,
            tool_count: None,
            permission_state: None,
            hook_run_count: 0,
            output_refs: Vec::new(),
            output_refs_total: 0,
            pending_requests: Vec::new(),
            pending_omitted: 0,
            underneath: None,
            task_id: None,
            run_id: None,
            attempt_id: None,
            subagent_id: None,
            job_id: None,
            rolled_back_at: None,
        }
    }

    /// Whether it waits for somebody's decision.
    pub fn is_pending(&self) -> bool {
        !self.pending_requests.is_empty() || self.pending_omitted > 0
    }

    /// Whether it has begun and not ended.
    pub fn is_active(&self) -> bool {
        !self.status.is_terminal() && !matches!(self.status, TurnStatus::Accepted | TurnStatus::Queued)
    }

    /// Folds a fact into the turn of an entity that has one at a time. A submission or start of another turn takes
    /// its place.
    pub(crate) fn fold(current: &mut Option<Box<Self>>, fact: &Fact) {
        let Some(turn_id) = fact.ids.turn() else { return };
        match current {
            Some(turn) if turn.turn_id == *turn_id => turn.apply(fact),
            _ if matches!(fact.payload, Payload::TurnSubmitted(_) | Payload::TurnStarted(_)) => {
                current.insert(Box::new(Self::new(turn_id.clone()))).apply(fact);
            }
            _ => {}
        }
    }

    /// Takes over the ids around it, which say what it belongs to.
    pub(super) fn belongs(&mut self, fact: &Fact) {
        let ids = &fact.ids;
        bound::set(&mut self.thread_id, ids.thread());
        bound::set(&mut self.task_id, ids.task());
        bound::set(&mut self.run_id, ids.run());
        bound::set(&mut self.attempt_id, ids.attempt());
        bound::set(&mut self.subagent_id, ids.subagent());
        bound::set(&mut self.job_id, ids.job());
    }

    pub(super) fn submitted(&mut self, fact: &Fact, submitted: &TurnSubmitted) {
        self.belongs(fact);
        self.submitted_at = Some(bound::time(fact.at));
        if !submitted.status.is_terminal() {
            self.stands(submitted.status);
        }
        self.source = Some(bound::cut(&submitted.source, WORD_MAX));
        set_text(&mut self.agent, submitted.agent.as_deref(), NAME_MAX);
        set_text(&mut self.model, submitted.model.as_deref(), NAME_MAX);
        set_text(&mut self.priority, submitted.priority.as_deref(), WORD_MAX);
        bound::set(&mut self.when_busy, submitted.when_busy.as_ref());
    }

    pub(super) fn started(&mut self, fact: &Fact, started: &TurnStarted) {
        self.belongs(fact);
        self.started_at.get_or_insert(bound::time(fact.at));
        self.attempt = started.attempt;
        self.stands(TurnStatus::Running);
        self.agent = Some(bound::cut(&started.agent, NAME_MAX));
        set_text(&mut self.source, started.source.as_deref(), WORD_MAX);
        set_text(&mut self.model, started.model.as_deref(), NAME_MAX);
    }

    /// It stands so, unless it waits for a decision: then it will.
    pub(super) fn stands(&mut self, status: TurnStatus) {
        if self.is_pending() {
            self.underneath = Some(status);
        } else {
            self.status = status;
        }
    }

    pub(super) fn produced(&mut self, output: &OutputRef) {
        self.output_refs_total = self.output_refs_total.saturating_add(1);
        if let Some(output) = bound::output(output) {
            push_last(&mut self.output_refs, output, Self::OUTPUT_REFS_MAX);
        }
    }

    pub(super) fn spilled(&mut self, blob: &BlobRef) {
        if !self.output_refs.iter().any(|output| output.reference.as_str() == blob.as_str()) {
            self.produced(&OutputRef::from(crate::fact::Ref::from(blob.clone())));
        }
    }

    /// It ended: nothing is waited for any more.
    pub(super) fn end(&mut self, fact: &Fact, status: TurnStatus, usage: Option<&Usage>) {
        let at = bound::time(fact.at);
        self.belongs(fact);
        self.pending_requests.clear();
        self.pending_omitted = 0;
        self.underneath = None;
        self.status = status;
        self.completed_at = Some(at);
        if let Some(usage) = usage {
            self.usage = Some(bound::usage(usage));
        }
        let unfinished = if status == TurnStatus::Cancelled {
            super::step::StepStatus::Cancelled
        } else {
            super::step::StepStatus::Unknown
        };
        for step in self.steps.iter_mut().filter(|step| step.status.is_open()) {
            step.end(unfinished, at);
        }
    }

    /// Forgets what is only of interest while it is watched closely; the totals stay.
    pub(super) fn shed(&mut self) {
        self.steps.clear();
        self.output_refs.clear();
        self.text.clear();
    }

    /// Whether it has anything to [shed](Self::shed).
    pub(super) fn has_detail(&self) -> bool {
        !(self.steps.is_empty() && self.output_refs.is_empty() && self.text.is_empty())
    }

    pub(super) const TEXT_MAX: usize = 2 * TEXT_MAX;
}
