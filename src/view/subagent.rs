//! A subagent: who it is, whose it is, and how it stands.

use super::{
    bound::{self, NAME_MAX, TEXT_MAX, WORD_MAX, cut, cut_some, set, set_text},
    declare::views,
    turn::TurnView,
};
use crate::fact::{
    Fact, OutputRef,
    failure::Failure,
    id::{SessionId, SubagentId, TaskId, ThreadId, TurnId},
    payload::{Object, Payload, SubagentSpawned, Usage},
    status::SubagentStatus,
    time::Time,
};

const MODEL_POLICY_MAX: usize = 512;
const OUTPUT_REFS_MAX: usize = 4;

views! {
    /// A subagent. It is kept by the subagent's entity, which changes it only with [`apply`](Self::apply), as a replay
    /// does. There are very many, so it is small: the turn keeps its steps only until it ends.
    #[derive(Default)]
    SubagentView {
        /// How it stands.
        status: SubagentStatus,
        ..
        /// Its id.
        subagent_id: Option<SubagentId>,
        /// Its session. No fact says it: whoever owns the view sets it.
        session_id: Option<SessionId>,
        /// The subagent that made it.
        parent_subagent_id: Option<SubagentId>,
        /// The task that it works for.
        parent_task_id: Option<TaskId>,
        /// The turn that made it.
        parent_turn_id: Option<TurnId>,
        /// The thread of that turn.
        parent_thread_id: Option<ThreadId>,
        /// Its thread.
        thread_id: Option<ThreadId>,
        /// Its turn.
        turn_id: Option<TurnId>,
        /// What it is for.
        role: Option<String>,
        /// What people call it.
        nickname: Option<String>,
        /// Who it is.
        agent: Option<String>,
        /// What it shares with its parent.
        isolation: Option<String>,
        /// Which models it may use.
        model_policy: Option<Object>,
        /// How long it may take.
        deadline_ms: Option<u64>,
        /// How far it is from the root.
        depth: u32,
        /// Which attempt, from 1.
        attempt: u32,
        /// How often it was told something.
        inputs: u32,
        /// When it was made.
        spawned_at: Option<Time>,
        /// When something was last heard of it.
        updated_at: Option<Time>,
        /// When it ended.
        ended_at: Option<Time>,
        /// The answer in short.
        summary: Option<String>,
        /// What it produced.
        output_refs: Vec<OutputRef>,
        /// What its models used.
        usage: Option<Usage>,
        /// What went wrong.
        last_error: Option<Failure>,
        /// Why it stands as it does.
        reason: Option<String>,
        /// Its turn.
        turn: Option<Box<TurnView>>,
    }
}

impl SubagentView {
    /// Whether nothing follows any more, unless a command says otherwise.
    pub fn is_over(&self) -> bool {
        self.status.is_terminal()
    }

    /// Takes in a fact of this subagent.
    pub fn apply(&mut self, fact: &Fact) {
        self.updated_at = self.updated_at.max(Some(bound::time(fact.at)));
        match &fact.payload {
            Payload::SubagentSpawned(spawned) => self.spawned(fact, spawned),
            Payload::SubagentStatusChanged(changed) => {
                self.attempt = changed.attempt.unwrap_or(self.attempt);
                self.stands(fact, changed.status, changed.reason.as_deref());
            }
            Payload::SubagentInput(input) => {
                self.inputs = self.inputs.saturating_add(1);
                set(&mut self.turn_id, input.input_turn_id.as_ref());
            }
            Payload::SubagentCompleted(completed) => {
                self.attempt = completed.attempt.unwrap_or(self.attempt);
                self.summary = cut_some(completed.summary.as_deref(), TEXT_MAX);
                self.output_refs =
                    completed.output_refs.iter().filter_map(bound::output).take(OUTPUT_REFS_MAX).collect();
                self.usage = completed.usage.as_ref().map(bound::usage);
                self.last_error = None;
                self.stands(fact, completed.status, None);
            }
            Payload::SubagentFailed(failed) => {
                self.attempt = failed.attempt.unwrap_or(self.attempt);
                self.summary = cut_some(failed.summary.as_deref(), TEXT_MAX);
                self.usage = failed.usage.as_ref().map(bound::usage);
                self.last_error = Some(bound::failure(&failed.error));
                self.stands(fact, failed.status, failed.reason.as_deref());
            }
            Payload::SubagentClosed(closed) => self.stands(fact, closed.status, closed.reason.as_deref()),
            _ => {
                TurnView::fold(&mut self.turn, fact);
                if matches!(fact.payload, Payload::TurnSubmitted(_) | Payload::TurnStarted(_)) {
                    set(&mut self.thread_id, fact.ids.thread());
                    set(&mut self.turn_id, fact.ids.turn());
                }
            }
        }
    }

    fn spawned(&mut self, fact: &Fact, spawned: &SubagentSpawned) {
        set(&mut self.subagent_id, fact.ids.subagent());
        set(&mut self.thread_id, fact.ids.thread());
        set(&mut self.turn_id, fact.ids.turn());
        self.status = spawned.status;
        self.spawned_at = Some(bound::time(fact.at));
        self.attempt = 1;
        self.depth = spawned.depth;
        self.agent = Some(cut(&spawned.agent, NAME_MAX));
        self.parent_subagent_id.clone_from(&spawned.parent_subagent_id);
        self.parent_task_id.clone_from(&spawned.parent_task_id);
        self.parent_turn_id.clone_from(&spawned.parent_turn_id);
        self.parent_thread_id.clone_from(&spawned.parent_thread_id);
        self.role = cut_some(spawned.role.as_deref(), NAME_MAX);
        self.nickname = cut_some(spawned.nickname.as_deref(), NAME_MAX);
        self.isolation = cut_some(spawned.isolation.as_deref(), WORD_MAX);
        self.model_policy =
            spawned.model_policy.as_ref().map(|policy| bound::object(policy, MODEL_POLICY_MAX));
        self.deadline_ms = spawned.deadline_ms;
    }

    fn stands(&mut self, fact: &Fact, status: SubagentStatus, reason: Option<&str>) {
        self.status = status;
        self.ended_at = status.is_terminal().then(|| bound::time(fact.at));
        if status.is_terminal() {
            set_text(&mut self.reason, reason, TEXT_MAX);
            if let Some(turn) = &mut self.turn {
                turn.steps = Vec::new();
            }
        } else {
            self.reason = cut_some(reason, TEXT_MAX);
        }
    }
}
