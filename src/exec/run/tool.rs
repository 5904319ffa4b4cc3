//! Tools: what speaks for and against a call, and the call.

use cadre_cluster::host::{EffectPolicy, Repeat};
use serde_json::Value;

use super::{Run, action::PERMISSION_DECISIONS, hooks::Before};
use crate::{
    exec::{Call, Draft, Effect, PermissionRequest, Permit, call::CallState},
    fact::{
        Failure,
        payload::{ActionRequired, PermissionEvaluated},
    },
};

impl Run {
    pub(super) fn start_tool(&mut self, index: usize, name: &str, args: &str, draft: &mut Draft<'_>) {
        self.say_catalog(draft);
        let engine = draft.engine;
        let Some(tool) = engine.tool(name) else {
            self.tell_started(index, draft);
            let failure = Failure::new("not_found", format!("there is no tool {name}"));
            return self.failed(index, failure, None, draft);
        };
        let checked = match &self.calls[index].large {
            Some(large) => large.refused.clone().map_or(Ok(()), Err),
            None => tool.check(&serde_json::from_str(args).unwrap_or(Value::Null)),
        };
        if let Err(reason) = checked {
            self.tell_started(index, draft);
            return self.failed(index, Failure::new("invalid_argument", reason), None, draft);
        }
        let doubt = match self.ask_before_tool(index, name, args, draft) {
            Before::Pass => None,
            Before::Ask(reason) => Some(reason),
            Before::Deny(failure) => {
                self.tell_started(index, draft);
                return self.failed(index, failure, None, draft);
            }
        };
        let request = PermissionRequest {
            session: Some(&draft.session),
            agent: &self.agent,
            subject: name,
            read_only: tool.spec().read_only,
        };
        let ruling = engine.permission.evaluate(&request);
        let evaluated = PermissionEvaluated { tool: Some(name.to_owned()), ..ruling.evaluated() };
        let around = self.call_ids(index);
        draft.tell_within(&around, self.scope(), evaluated);
        match ruling.permit {
            Permit::Allow if doubt.is_none() => self.run_tool(index, draft),
            Permit::Deny => {
                self.tell_started(index, draft);
                self.failed(index, Failure::new("forbidden", ruling.reason), None, draft);
            }
            Permit::Allow | Permit::Ask => {
                let why = doubt.map_or_else(String::new, |doubt| format!(" ({doubt})"));
                let required = ActionRequired {
                    action_type: "tool_permission".into(),
                    prompt: format!("Allow {name}?{why}"),
                    decisions: PERMISSION_DECISIONS.map(String::from).to_vec(),
                    tool_name: Some(name.to_owned()),
                    decision_kind: Some("allow_or_deny".into()),
                    ..Default::default()
                };
                self.ask_somebody(index, required, None, true, draft);
            }
        }
    }

    pub(super) fn run_tool(&mut self, index: usize, draft: &mut Draft<'_>) {
        let Call::Tool { name, args } = self.calls[index].call.clone() else { return };
        let Some(tool) = draft.engine.tool(&name).cloned() else { return };
        self.tell_started(index, draft);
        let (policy, stored) = match &self.calls[index].large {
            Some(large) => (policy(large.deadline_ms, large.repeat), Some(large.blob.clone())),
            None => {
                let parsed: Value = serde_json::from_str(&args).unwrap_or(Value::Null);
                (policy(tool.deadline_ms(&parsed), tool.repeat(&parsed)), None)
            }
        };
        let call = self.calls[index].id.clone();
        let session = draft.session.clone();
        let about = self.ids().with(self.calls[index].step.clone()).with(call.clone());
        let effect = Effect::Tool { call: call.clone(), name, args, session, stored, about };
        draft.start_effect(self.effect(&format!("tool/{call}")), effect, policy);
        self.calls[index].state = CallState::Running { since: draft.now };
    }
}

/// Whether a call may be made again when it may have happened.
fn policy(deadline_ms: u64, repeat: Repeat) -> EffectPolicy {
    EffectPolicy { deadline_ms, repeat, ..EffectPolicy::default() }
}
