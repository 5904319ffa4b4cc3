//! Ending a run before its time: its effects are told, its questions withdrawn, its children closed, and only then
//! does it say that it is over (P11).

use super::{Ending, Phase, Run, action::keep_action};
use crate::{
    entity::Close,
    exec::{Call, Draft, call::CallState},
    fact::{
        Failure,
        payload::{ActionResolved, ModelFailed, TurnCompleted, TurnFailed},
        scope::TurnScope,
        status::ActionStatus,
    },
    scripted::Join,
};

impl Run {
    /// Ends the run and everything below. `Some` when all of it was closed already; otherwise it follows from
    /// [`Run::advance`] once the last child is. The first reason to end counts.
    pub fn close(&mut self, ending: Ending, draft: &mut Draft<'_>) -> Option<Ending> {
        if matches!(self.phase, Phase::Closing | Phase::Over) {
            return None;
        }
        self.stop_model(draft);
        for index in 0..self.calls.len() {
            self.stop_call(index, draft);
        }
        self.close_calls(draft);
        draft.cancel_timer(self.timer("deadline"));
        let by = ending.by.clone().unwrap_or_else(|| "parent".into());
        self.children.close(&Close { reason: ending.reason.clone(), by });
        self.ending = Some(ending);
        self.phase = Phase::Closing;
        self.advance(draft)
    }

    /// Ends, after those who raced each other and are still at it: nobody waits for them any more, and only children of
    /// `join: "none"` live on.
    pub(super) fn leave(&mut self, ending: Ending, draft: &mut Draft<'_>) -> Option<Ending> {
        if self.children.live_of(Join::Any) == 0 {
            return Some(self.end(ending, draft));
        }
        draft.cancel_timer(self.timer("deadline"));
        self.children.close_of(Join::Any, &Self::race_over());
        self.ending = Some(ending);
        self.phase = Phase::Leaving;
        self.advance(draft)
    }

    /// What those are told who raced each other when their run ends.
    pub(super) fn race_over() -> Close {
        Close {
            reason: Some("the turn that one of them was enough for has ended".into()),
            by: "parent".into(),
        }
    }

    /// Closes children that live on after the run itself is over.
    pub fn close_rest(&mut self, close: &Close, draft: &mut Draft<'_>) {
        if self.phase == Phase::Over {
            self.children.close(close);
            self.advance(draft);
        }
    }

    fn stop_model(&mut self, draft: &mut Draft<'_>) {
        match self.phase {
            Phase::Model => draft.cancel_effect(self.effect("model")),
            Phase::Pause => draft.cancel_timer(self.timer("pause")),
            Phase::Retry => draft.cancel_timer(self.timer("retry")),
            _ => {}
        }
        if let Some(request) = &self.request {
            let error = Failure::new("cancelled", "the run was ended");
            let attempt = self.tries + request.attempt;
            self.tell(draft, ModelFailed { error, attempt, ..Default::default() });
            self.tell_cost(draft);
            self.request = None;
        }
    }

    fn stop_call(&mut self, index: usize, draft: &mut Draft<'_>) {
        let open = self.calls[index].clone();
        match open.state {
            CallState::Waiting | CallState::Done => {}
            CallState::Asking { action, .. } => {
                draft.cancel_timer(self.timer(&format!("action/{action}")));
                keep_action(&action, Some(ActionStatus::Cancelled), draft);
                let resolved = ActionResolved {
                    decision: "cancelled".into(),
                    status: ActionStatus::Cancelled,
                    by: Some("runtime".into()),
                    reason: Some("the run was ended".into()),
                    payload: None,
                };
                draft.tell_within(&self.around, self.action_scope(&action), resolved);
            }
            CallState::Running { .. } if matches!(open.call, Call::Sleep { .. }) => {
                draft.cancel_timer(self.timer(&format!("sleep/{}", open.id)));
            }
            CallState::Running { .. } | CallState::Joining { .. } => {
                if matches!(open.state, CallState::Running { .. }) {
                    draft.cancel_effect(self.effect(&format!("tool/{}", open.id)));
                }
                let error = Failure::new("cancelled", "the run was ended");
                self.failed(index, error, Some("cancelled"), draft);
            }
        }
    }

    /// The last fact of the turn.
    pub(super) fn end(&mut self, ending: Ending, draft: &mut Draft<'_>) -> Ending {
        self.phase = Phase::Over;
        draft.cancel_timer(self.timer("deadline"));
        self.ask_at_end(&ending, draft);
        match &ending.error {
            None => {
                let completed = TurnCompleted {
                    status: ending.status,
                    steps: self.used.steps,
                    usage: Some(self.used.usage()),
                    ..Default::default()
                };
                self.tell(draft, completed);
            }
            Some(error) => {
                let failed = TurnFailed {
                    status: ending.status,
                    error: error.clone(),
                    reason: ending.reason.clone(),
                    by: ending.by.clone(),
                    steps: Some(self.used.steps),
                    usage: Some(self.used.usage()),
                };
                self.tell(draft, failed);
            }
        }
        metrics::counter!("cadre_turns_total", "status" => ending.status.as_str()).increment(1);
        ending
    }

    pub(super) fn scope(&self) -> TurnScope {
        TurnScope { thread: self.thread.clone(), turn: self.turn.clone() }
    }
}
