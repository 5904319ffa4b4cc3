//! Questions to somebody: asked, decided, expired. Unanswered is never approval (P10).

use serde::{Deserialize, Serialize};

use super::{Ending, Run};
use crate::{
    control::Error,
    entity::records,
    exec::{Call, Draft, OpenCall, call::CallState},
    fact::{
        Failure, Time,
        id::ActionId,
        payload::{ActionRequired, ActionResolved, Decision, PermissionRequested, PermissionResolved},
        scope::ActionScope,
        status::ActionStatus,
    },
    sabotage::{Sabotage, is_on},
};

/// How somebody's decision was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// It is resolved.
    Resolved,
    /// Nobody waits for it: it was resolved or has expired.
    NotOpen,
    /// It is not among what may be decided.
    NotOffered {
        /// What may be.
        decisions: Vec<String>,
    },
}

impl Asked {
    /// A refusal of what was not taken.
    pub fn taken(self, action: &ActionId) -> Result<(), Error> {
        match self {
            Self::Resolved => Ok(()),
            Self::NotOpen => Err(Error::conflict("resolved", format!("the action {action} is resolved"))),
            Self::NotOffered { decisions } => {
                Err(Error::invalid("decision", format!("must be one of {}", decisions.join(", "))))
            }
        }
    }
}

/// Somebody's decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Response {
    /// About what.
    pub action: ActionId,
    /// What.
    pub decision: String,
    /// Who.
    pub by: String,
    /// Why.
    pub reason: Option<String>,
    /// More, as the action's schema asks for: JSON text.
    pub payload: Option<String>,
}

/// Remembers who asks, and how that has ended, for whoever answers too late.
pub(super) fn keep_action(action: &ActionId, status: Option<ActionStatus>, draft: &mut Draft<'_>) {
    let (kind, id) = (draft.address.kind().to_owned(), draft.address.id().to_owned());
    draft.set_record(records::action(action), records::Owner { kind, id, status }.encode());
}

/// What may be decided about a tool.
pub(super) const PERMISSION_DECISIONS: [&str; 2] = ["allow", "deny"];

impl Run {
    pub(super) fn ask_somebody(
        &mut self,
        index: usize,
        required: ActionRequired,
        expires_ms: Option<u64>,
        permission: bool,
        draft: &mut Draft<'_>,
    ) {
        let action: ActionId = draft.ids.next();
        let expires = expires_ms.map(|ms| draft.now.in_ms(ms));
        let required = ActionRequired { expires_at: expires.map(Time), ..required };
        if permission {
            let requested = PermissionRequested {
                tool: required.tool_name.clone(),
                reason: required.prompt.clone(),
                action_id: Some(action.clone()),
                ..Default::default()
            };
            let around = self.around.clone().with(action.clone());
            draft.tell_within(&around, self.scope(), requested);
        }
        let around = self.call_ids(index);
        draft.tell_within(&around, self.action_scope(&action), required);
        if let Some(expires) = expires {
            let due = if is_on(Sabotage::QuestionExpiresEarly) { draft.now } else { expires };
            draft.set_timer(self.timer(&format!("action/{action}")), due);
        }
        keep_action(&action, None, draft);
        self.calls[index].state = CallState::Asking { action, expires, permission };
    }

    /// The questions that wait for somebody.
    pub fn open_actions(&self) -> impl Iterator<Item = &ActionId> {
        self.calls.iter().filter_map(|call| match &call.state {
            CallState::Asking { action, .. } => Some(action),
            _ => None,
        })
    }

    /// The first of them, and whether it asks for a permission.
    pub fn waits_for(&self) -> Option<(&ActionId, bool)> {
        self.calls.iter().find_map(|call| match &call.state {
            CallState::Asking { action, permission, .. } => Some((action, *permission)),
            _ => None,
        })
    }

    /// Somebody has decided. `Some` when the run has ended with that.
    pub fn respond(&mut self, response: Response, draft: &mut Draft<'_>) -> (Asked, Option<Ending>) {
        let asked = |call: &OpenCall| matches!(&call.state, CallState::Asking { action, .. } if *action == response.action);
        let Some(index) = self.calls.iter().position(asked) else { return (Asked::NotOpen, None) };
        let offered: Vec<String> = match &self.calls[index].call {
            Call::Ask { decisions, .. } => decisions.clone(),
            _ => PERMISSION_DECISIONS.map(String::from).to_vec(),
        };
        if !offered.contains(&response.decision) {
            return (Asked::NotOffered { decisions: offered }, None);
        }
        let is_yes = offered.first() == Some(&response.decision);
        draft.cancel_timer(self.timer(&format!("action/{}", response.action)));
        let resolved = ActionResolved {
            decision: response.decision.clone(),
            status: ActionStatus::Resolved,
            by: Some(response.by.clone()),
            reason: response.reason.clone(),
            payload: response.payload.and_then(|json| serde_json::from_str(&json).ok()),
        };
        let ending = self.resolve(index, resolved, is_yes, draft);
        match ending {
            Some(ending) => (Asked::Resolved, self.close(ending, draft)),
            None => (Asked::Resolved, self.advance(draft)),
        }
    }

    pub(super) fn resolve(
        &mut self,
        index: usize,
        resolved: ActionResolved,
        is_yes: bool,
        draft: &mut Draft<'_>,
    ) -> Option<Ending> {
        let CallState::Asking { action, permission, .. } = self.calls[index].state.clone() else {
            return None;
        };
        let (decision, by, reason) =
            (resolved.decision.clone(), resolved.by.clone(), resolved.reason.clone());
        keep_action(&action, Some(resolved.status), draft);
        if permission {
            let resolved = PermissionResolved {
                decision: if is_yes { Decision::Allow } else { Decision::Deny },
                source: "human".into(),
                action_id: Some(action.clone()),
                // Nothing keeps an answer for the next time.
                scope: Some("once".into()),
                by: by.clone(),
                reason: reason.clone(),
                ..Default::default()
            };
            let around = self.around.clone().with(action.clone());
            draft.tell_within(&around, self.scope(), resolved);
        }
        draft.tell_within(&self.around, self.action_scope(&action), resolved);
        match (permission, is_yes) {
            (true, true) => self.run_tool(index, draft),
            (true, false) => {
                self.tell_started(index, draft);
                let failure = Failure::new("forbidden", format!("decided: {decision}"));
                self.failed(index, failure, None, draft);
            }
            (false, true) => self.calls[index].state = CallState::Done,
            (false, false) => {
                self.calls[index].state = CallState::Done;
                let reason = reason.unwrap_or_else(|| format!("decided: {decision}"));
                return Some(Ending::cancelled(Some(reason), by.as_deref().unwrap_or("unknown")));
            }
        }
        None
    }

    pub(super) fn action_scope(&self, action: &ActionId) -> ActionScope {
        ActionScope { thread: self.thread.clone(), turn: self.turn.clone(), action: action.clone() }
    }
}
