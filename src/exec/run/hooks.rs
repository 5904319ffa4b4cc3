//! What hooks say about a run, and what follows from it.

use super::{Ending, Run};
use crate::{
    exec::{
        Call, Draft, Hook, HookPoint, HookRequest, Permit, ToolOutput, Verdict,
        hook::{ask, permit_after_failure, why_failed},
    },
    fact::{
        Failure, Ids,
        payload::{HookCompleted, HookFailed, HookStarted},
    },
};

/// The code of what a hook does not let through.
const BLOCKED: &str = "policy_blocked";
/// What may stand in place of a tool's result.
const TEXT_BYTES_MAX: usize = 16 * 1024;

/// What follows from what one hook says.
enum Follows {
    /// Nothing.
    Nothing,
    /// It shall not be.
    Block(Failure),
    /// Somebody has to decide: the hook itself could not.
    Ask(String),
    /// The model reads this.
    Replace(String),
}

/// What hooks have come to about a call.
pub(super) enum Before {
    /// Nothing against it.
    Pass,
    /// It must not be made.
    Deny(Failure),
    /// It may be made if somebody says so.
    Ask(String),
}

impl Run {
    /// Whether the run may begin.
    pub(super) fn ask_before_start(&self, draft: &mut Draft<'_>) -> Result<(), Ending> {
        let request = HookRequest::new(HookPoint::RunStart, &self.agent);
        for hook in hooks(draft, HookPoint::RunStart) {
            if let Follows::Block(failure) = self.ask_hook(hook, &request, &self.around, draft) {
                return Err(Ending::failed(failure));
            }
        }
        Ok(())
    }

    /// How the run ends is settled: what hooks say about it is recorded, and changes nothing.
    pub(super) fn ask_at_end(&self, ending: &Ending, draft: &mut Draft<'_>) {
        let request =
            HookRequest { ending: Some(ending), ..HookRequest::new(HookPoint::RunEnd, &self.agent) };
        for hook in hooks(draft, HookPoint::RunEnd) {
            self.ask_hook(hook, &request, &self.around, draft);
        }
    }

    /// Whether a tool may be called. The first that says no is the last that is asked.
    pub(super) fn ask_before_tool(
        &self,
        index: usize,
        name: &str,
        args: &str,
        draft: &mut Draft<'_>,
    ) -> Before {
        let mut before = Before::Pass;
        let request = HookRequest {
            tool: Some(name),
            args: self.calls[index].large.is_none().then_some(args),
            ..HookRequest::new(HookPoint::BeforeTool, &self.agent)
        };
        for hook in hooks(draft, HookPoint::BeforeTool) {
            match self.ask_hook(hook, &request, &self.call_ids(index), draft) {
                Follows::Block(failure) => return Before::Deny(failure),
                Follows::Ask(reason) => before = Before::Ask(reason),
                Follows::Nothing | Follows::Replace(_) => {}
            }
        }
        before
    }

    /// What the model reads of what a tool came to. Each hook sees what those before it have left.
    pub(super) fn ask_after_tool(
        &self,
        index: usize,
        mut result: Result<ToolOutput, Failure>,
        draft: &mut Draft<'_>,
    ) -> Result<ToolOutput, Failure> {
        for hook in hooks(draft, HookPoint::AfterTool) {
            let Call::Tool { name, args } = &self.calls[index].call else { return result };
            let request = HookRequest {
                tool: Some(name),
                args: self.calls[index].large.is_none().then_some(args),
                result: Some(result.as_ref()),
                ..HookRequest::new(HookPoint::AfterTool, &self.agent)
            };
            let text = match self.ask_hook(hook, &request, &self.call_ids(index), draft) {
                Follows::Nothing | Follows::Ask(_) => continue,
                Follows::Block(failure) => {
                    let text = format!("withheld: {}", failure.message);
                    result = result.map_err(|_| failure);
                    text
                }
                Follows::Replace(text) => {
                    result = result.map_err(|failure| Failure { message: text.clone(), ..failure });
                    text
                }
            };
            // What was kept apart is not told of: nobody can follow a reference that nobody has.
            result = result.map(|_| ToolOutput { preview: Some(text), ..ToolOutput::default() });
        }
        result
    }

    /// Asks one hook, and leaves the facts of that.
    fn ask_hook(
        &self,
        hook: &dyn Hook,
        request: &HookRequest<'_>,
        around: &Ids,
        draft: &mut Draft<'_>,
    ) -> Follows {
        let (name, point) = (hook.name().to_owned(), request.point.as_str().to_owned());
        let subject = Some(request.subject().to_owned());
        let started = HookStarted { hook: name.clone(), point: point.clone(), subject, ..Default::default() };
        draft.tell_within(around, self.scope(), started);
        let (outcome, reason, follows) = match ask(hook, request) {
            Ok(Verdict::Pass) => ("pass", None, Follows::Nothing),
            Ok(Verdict::Block { reason }) => {
                let failure = Failure::new(BLOCKED, reason);
                ("block", Some(failure.message.clone()), Follows::Block(failure))
            }
            Ok(Verdict::Replace { text, reason }) => {
                let reason = Failure::new(BLOCKED, reason).message;
                ("replace", Some(reason), Follows::Replace(cut(text)))
            }
            Err(error) => {
                metrics::counter!("cadre_hook_failures_total", "hook" => name.clone()).increment(1);
                let error = Failure::new(error.code, error.message);
                let policy = hook.failure_policy();
                let reason = why_failed(hook, &error);
                let failed =
                    HookFailed { hook: name, point, error, failure_policy: policy, ..Default::default() };
                draft.tell_within(around, self.scope(), failed);
                return match permit_after_failure(policy, request.point) {
                    Permit::Allow => Follows::Nothing,
                    Permit::Ask => Follows::Ask(reason),
                    Permit::Deny => Follows::Block(Failure::new(BLOCKED, reason)),
                };
            }
        };
        let completed =
            HookCompleted { hook: name, point, outcome: Some(outcome.into()), reason, ..Default::default() };
        draft.tell_within(around, self.scope(), completed);
        follows
    }
}

/// Those that want to be asked.
fn hooks<'a>(draft: &Draft<'a>, point: HookPoint) -> impl Iterator<Item = &'a dyn Hook> + use<'a> {
    draft.engine.hooks.iter().map(|hook| &**hook).filter(move |hook| hook.is_for(point))
}

fn cut(mut text: String) -> String {
    if text.len() > TEXT_BYTES_MAX {
        let end = (0..=TEXT_BYTES_MAX).rev().find(|at| text.is_char_boundary(*at));
        text.truncate(end.unwrap_or(0));
        text.push('…');
    }
    text
}
