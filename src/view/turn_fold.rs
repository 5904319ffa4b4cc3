//! What each fact does to the turn that it is about.

use super::{
    bound::{self, NAME_MAX, TEXT_MAX, WORD_MAX, append, cut, cut_some, push_last, set_text},
    pending::PendingRequest,
    routing::RoutingDecision,
    step::{StepKind, StepStatus, StepView},
    turn::TurnView,
};
use crate::fact::{
    Fact,
    payload::Payload,
    status::{ActionStatus, TurnStatus},
};

impl TurnView {
    /// Takes in a fact of this turn. After its end it stays as it is.
    pub fn apply(&mut self, fact: &Fact) {
        if self.status.is_terminal() {
            return;
        }
        self.updated_at = Some(bound::time(fact.at));
        match &fact.payload {
            Payload::TurnSubmitted(submitted) => self.submitted(fact, submitted),
            Payload::TurnStarted(started) => self.started(fact, started),
            Payload::TurnCompleted(completed) => {
                self.end(fact, TurnStatus::Completed, completed.usage.as_ref());
                set_text(&mut self.summary, completed.summary.as_deref(), TEXT_MAX);
                completed.output_refs.iter().for_each(|output| self.produced(output));
            }
            Payload::TurnFailed(failed) => {
                let status = if failed.status.is_terminal() { failed.status } else { TurnStatus::Failed };
                self.end(fact, status, failed.usage.as_ref());
                self.error = Some(bound::failure(&failed.error));
                set_text(&mut self.reason, failed.reason.as_deref(), TEXT_MAX);
            }
            _ => {
                self.model(fact);
                self.tool(fact);
                self.action(fact);
                self.governance(fact);
                self.routing(fact);
            }
        }
    }

    fn begin(&mut self, fact: &Fact, mut step: StepView) {
        step.step_id = fact.ids.step().cloned();
        self.steps_total = self.steps_total.saturating_add(1);
        push_last(&mut self.steps, step, Self::STEPS_MAX);
    }

    fn model(&mut self, fact: &Fact) {
        let at = bound::time(fact.at);
        match &fact.payload {
            Payload::RunStatus(run) => {
                let said = |status: &&TurnStatus| status.as_str() == run.phase && !status.is_terminal();
                if let Some(status) = TurnStatus::ALL.iter().find(said) {
                    self.stands(*status);
                }
                let mut step = StepView::new(StepKind::Status, StepStatus::Completed, at);
                step.name = Some(cut(&run.phase, NAME_MAX));
                step.preview = cut_some(run.title.as_deref().or(run.detail.as_deref()), TEXT_MAX);
                self.begin(fact, step);
            }
            Payload::ModelRequested(requested) => {
                self.model = Some(cut(&requested.model, NAME_MAX));
                let mut step = StepView::new(StepKind::Message, StepStatus::Running, at);
                step.name.clone_from(&self.model);
                self.begin(fact, step);
                self.stands(TurnStatus::Streaming);
            }
            Payload::ModelDelta(delta) => {
                append(&mut self.text, &delta.text, Self::TEXT_MAX);
                self.text_bytes = self.text_bytes.saturating_add(delta.text.len() as u64);
                if let Some(step) = self.message() {
                    append(step.preview.get_or_insert_default(), &delta.text, TEXT_MAX);
                }
                self.stands(TurnStatus::Streaming);
            }
            Payload::ModelCompleted(completed) => {
                if let Some(step) = self.message() {
                    step.end(StepStatus::Completed, at);
                }
                if let Some(usage) = &completed.usage {
                    bound::add_usage(&mut self.usage, usage);
                }
                self.stands(TurnStatus::Running);
            }
            Payload::ModelFailed(failed) => {
                let status = if failed.will_retry { StepStatus::Retrying } else { StepStatus::Failed };
                if let Some(step) = self.message() {
                    step.end(status, at);
                    step.error = Some(bound::failure(&failed.error));
                }
                self.stands(if failed.will_retry { TurnStatus::Retrying } else { TurnStatus::Running });
            }
            _ => {}
        }
    }

    /// The request to a model that is open.
    fn message(&mut self) -> Option<&mut StepView> {
        let open = |step: &&mut StepView| step.kind == StepKind::Message && step.ended_at.is_none();
        self.steps.iter_mut().rev().find(open)
    }

    fn tool(&mut self, fact: &Fact) {
        let at = bound::time(fact.at);
        match &fact.payload {
            Payload::ToolCatalogResolved(catalog) => self.tool_count = Some(catalog.count),
            Payload::ToolStarted(started) => {
                self.stands(TurnStatus::Running);
                let preview = started.args.as_ref().map(|args| bound::preview(args, TEXT_MAX));
                if let Some(step) = self.call(fact) {
                    step.status = StepStatus::Running;
                    step.ended_at = None;
                    return;
                }
                self.tool_calls_total = self.tool_calls_total.saturating_add(1);
                let mut step = StepView::new(StepKind::Tool, StepStatus::Running, at);
                step.tool_call_id = fact.ids.call().cloned();
                step.name = Some(cut(&started.name, NAME_MAX));
                step.preview = preview;
                self.begin(fact, step);
            }
            Payload::ToolProgress(progress) => {
                let words = progress.message.as_deref().or(progress.output.as_deref());
                if let (Some(step), Some(words)) = (self.call(fact), words) {
                    step.preview = Some(cut(words, TEXT_MAX));
                }
            }
            Payload::ToolResult(result) => {
                if let Some(step) = self.call(fact) {
                    step.end(StepStatus::Completed, at);
                    step.error = None;
                    step.output_ref = fact.ids.output().cloned();
                    let structured =
                        || result.structured.as_ref().map(|value| bound::preview(value, TEXT_MAX));
                    step.preview = cut_some(result.preview.as_deref(), TEXT_MAX).or_else(structured);
                }
                result.output_refs.iter().for_each(|output| self.produced(output));
                if let Some(blob) = fact.ids.output() {
                    self.spilled(blob);
                }
            }
            Payload::ToolFailed(failed) => {
                let status = match failed.will_retry {
                    true => StepStatus::Retrying,
                    false => StepStatus::of_failure(failed.status.as_deref()),
                };
                self.tool_failures = self.tool_failures.saturating_add(u32::from(!failed.will_retry));
                if let Some(step) = self.call(fact) {
                    step.end(status, at);
                    step.error = Some(bound::failure(&failed.error));
                    set_text(&mut step.preview, failed.preview.as_deref(), TEXT_MAX);
                }
            }
            Payload::OutputTruncated(truncated) => {
                if let Some(step) = self.call(fact) {
                    step.truncated_from_bytes = truncated.size_bytes;
                }
            }
            Payload::OutputSpilled(_) => {
                if let Some(blob) = fact.ids.output() {
                    self.spilled(blob);
                }
            }
            _ => {}
        }
    }

    fn call(&mut self, fact: &Fact) -> Option<&mut StepView> {
        let call = fact.ids.call()?;
        self.steps.iter_mut().rev().find(|step| step.tool_call_id.as_ref() == Some(call))
    }

    fn action(&mut self, fact: &Fact) {
        let Some(action) = fact.ids.action() else { return };
        let at = bound::time(fact.at);
        match &fact.payload {
            Payload::ActionRequired(required) => {
                if self.pending_requests.iter().any(|pending| pending.action_id == *action) {
                    return;
                }
                if !self.is_pending() {
                    self.underneath = Some(self.status);
                }
                let mut step = StepView::new(StepKind::Action, StepStatus::Waiting, at);
                step.action_id = Some(action.clone());
                step.tool_call_id = fact.ids.call().cloned();
                step.name = Some(cut(&required.action_type, WORD_MAX));
                step.preview = Some(cut(&required.prompt, TEXT_MAX));
                self.begin(fact, step);
                if self.pending_requests.len() < Self::PENDING_MAX {
                    self.pending_requests.push(PendingRequest::new(action.clone(), fact, required));
                } else {
                    self.pending_omitted = self.pending_omitted.saturating_add(1);
                }
                self.waits();
            }
            Payload::ActionResolved(resolved) => {
                let before = self.pending_requests.len();
                self.pending_requests.retain(|pending| pending.action_id != *action);
                if self.pending_requests.len() == before {
                    self.pending_omitted = self.pending_omitted.saturating_sub(1);
                }
                let mine = |step: &&mut StepView| step.action_id.as_ref() == Some(action);
                if let Some(step) = self.steps.iter_mut().rev().find(mine) {
                    let status = match resolved.status {
                        ActionStatus::Expired => StepStatus::Expired,
                        ActionStatus::Cancelled => StepStatus::Cancelled,
                        _ => StepStatus::Completed,
                    };
                    step.end(status, at);
                    step.preview = Some(cut(&resolved.decision, TEXT_MAX));
                }
                self.waits();
            }
            _ => {}
        }
    }

    /// How it stands, now that a decision more or less is waited for.
    fn waits(&mut self) {
        if !self.is_pending() {
            if let Some(status) = self.underneath.take() {
                self.status = status;
            }
        } else if self.pending_omitted == 0 && self.pending_requests.iter().all(PendingRequest::wants_input) {
            self.status = TurnStatus::WaitingInput;
        } else {
            self.status = TurnStatus::WaitingPermission;
        }
    }

    /// Its thread was told more while it ran, and it takes that in at its next step.
    pub(super) fn steered(&mut self, fact: &Fact) {
        let mut step = StepView::new(StepKind::Status, StepStatus::Completed, bound::time(fact.at));
        step.name = Some("steered".into());
        self.begin(fact, step);
    }

    /// The last decision that is waited for is counted and no more told of; false when there was none to forget.
    pub(super) fn forget_last_pending(&mut self) -> bool {
        let forgotten = self.pending_requests.pop().is_some();
        self.pending_omitted = self.pending_omitted.saturating_add(u32::from(forgotten));
        forgotten
    }

    fn governance(&mut self, fact: &Fact) {
        match &fact.payload {
            Payload::PermissionEvaluated(_)
            | Payload::PermissionRequested(_)
            | Payload::PermissionResolved(_) => self.permission_state.get_or_insert_default().apply(fact),
            Payload::HookStarted(_) => self.hook_run_count = self.hook_run_count.saturating_add(1),
            _ => {}
        }
    }

    fn routing(&mut self, fact: &Fact) {
        if RoutingDecision::concerns(fact) {
            self.routing_decision.get_or_insert_default().apply(fact);
        }
    }
}
