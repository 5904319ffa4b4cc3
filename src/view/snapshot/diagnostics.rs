//! Why a thread stands as it does, for people who wonder. Nothing here is more than the views say.

use crate::{
    fact::{id::TurnId, status::TurnStatus},
    view::{SessionView, Severity, ThreadView, declare::views},
};

views! {
    /// One thing that explains how a thread stands.
    Diagnostic {
        /// One word that programs act on.
        code: String,
        /// How bad it is; nothing is wrong where it is left out.
        message: String,
        ..
        /// Whether something is wrong.
        severity: Option<Severity>,
        /// The turn that it is about.
        turn_id: Option<TurnId>,
    }
}

impl Diagnostic {
    fn new(code: &str, severity: Option<Severity>, message: String, turn_id: Option<&TurnId>) -> Self {
        Self { code: code.into(), message, severity, turn_id: turn_id.cloned() }
    }

    /// What explains how a thread of a session stands.
    pub fn of(view: &SessionView, thread: &ThreadView) -> Vec<Self> {
        use Severity::{Error, Warning};
        let mut found = Vec::new();
        for turn in thread.turns.iter().filter(|turn| turn.is_active()) {
            let id = Some(&turn.turn_id);
            let asked = turn.pending_requests.len() as u64 + u64::from(turn.pending_omitted);
            if asked > 0 {
                let message = format!("{asked} decisions are waited for");
                found.push(Self::new("decision_pending", None, message, id));
            }
            match turn.status {
                TurnStatus::Retrying => {
                    let message = "a request to a model failed and is made again".to_owned();
                    found.push(Self::new("retrying", Some(Warning), message, id));
                }
                TurnStatus::WaitingResource | TurnStatus::Blocked if asked == 0 => {
                    let message = turn.reason.clone().unwrap_or_else(|| "something is not at hand".into());
                    found.push(Self::new("blocked", Some(Warning), message, id));
                }
                _ => {}
            }
            if turn.steps.is_empty() && turn.steps_total > 0 {
                let message = format!("its {} steps are in the feed only", turn.steps_total);
                found.push(Self::new("details_omitted", None, message, id));
            }
        }
        let waiting = thread.queue.len() as u64 + u64::from(thread.queue_omitted);
        if waiting > 0 {
            let message = format!("{waiting} turns wait");
            found.push(Self::new("queue_waits", None, message, thread.queue.first()));
        }
        if let Some(last) = thread.last_outcome.as_ref().filter(|_| thread.turns.is_empty()) {
            let why = last.error.as_ref().map(|error| format!("{}: {}", error.code, error.message));
            let why = why.unwrap_or_else(|| last.status.to_string());
            match last.status {
                TurnStatus::Completed | TurnStatus::Cancelled => {}
                TurnStatus::Lost => {
                    found.push(Self::new("outcome_unknown", Some(Warning), why, Some(&last.turn_id)));
                }
                _ => found.push(Self::new("last_turn_failed", Some(Error), why, Some(&last.turn_id))),
            }
        }
        let limits = view.summary.limits.iter().flat_map(|limits| &limits.limits);
        for (name, limit) in limits.filter(|(_, limit)| limit.state != "ok") {
            let message = format!("the limit {name} is {}", limit.state);
            found.push(Self::new("limit", Some(Warning), message, None));
        }
        found
    }
}
