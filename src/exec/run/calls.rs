//! What a model has asked for: started in order, side by side where that is safe, and observed.

use cadre_cluster::{address::Address, host::EffectResult};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Ending, Phase, Run, policy, unfinished};
use crate::{
    entity::{Child, Close, Named, Start, SubagentSpec, kind, records, task},
    exec::{
        Call, Draft, Effect, Group, HookPoint, OpenCall, Outcome, PermissionRequest, Permit, ToolOutput,
        Verdict,
        call::{CallState, Large},
        children::Names,
        run::Source,
    },
    fact::{
        Failure, Ids, OutputRef, Time,
        id::{ActionId, CallId, Id, StepId, SubagentId},
        payload::{
            ActionRequired, ActionResolved, Decision, HookCompleted, HookStarted, OutputSpilled,
            OutputTruncated, PermissionEvaluated, PermissionRequested, PermissionResolved, RunStatus,
            TaskDelegated, ToolFailed, ToolResult, ToolStarted,
        },
        scope::{ActionScope, OutputScope, TaskScope, ToolScope},
        status::{ActionStatus, SubagentStatus},
    },
    sabotage::{Sabotage, is_on},
    scripted::Join,
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
const PERMISSION_DECISIONS: [&str; 2] = ["allow", "deny"];

/// What of an input each child carries about; the rest is fetched.
const CHILD_INPUT_BYTES_MAX: usize = 2 * 1024;

/// A call that nobody has begun. Arguments of a tool that would make the state too large are kept apart from it.
fn open(call: Call, around: impl FnOnce() -> Ids, draft: &mut Draft<'_>) -> OpenCall {
    let (step, id, state) = (draft.ids.next(), draft.ids.next(), CallState::Waiting);
    let (name, args) = match call {
        Call::Tool { name, args } => (name, args),
        mut call => {
            if let Call::Spawn { input, .. } | Call::Task { input, .. } = &mut call {
                keep_apart(input, around, draft);
            }
            return OpenCall { step, id, call, state, parallel: false, large: None };
        }
    };
    let engine = draft.engine;
    let tool = engine.tool(&name);
    let parallel = tool.is_some_and(|tool| tool.spec().parallel_safe);
    let Some(tool) = tool.filter(|_| args.len() > ARGS_BYTES_MAX.min(draft.room.bytes)) else {
        // Nobody reads what a tool is given that there is not.
        let args = if tool.is_some() || args.len() <= ARGS_BYTES_MAX { args } else { "{}".into() };
        return OpenCall { step, id, call: Call::Tool { name, args }, state, parallel, large: None };
    };
    let parsed: Value = serde_json::from_str(&args).unwrap_or(Value::Null);
    let about = around().with(StepId::clone(&step)).with(CallId::clone(&id));
    let large = Large {
        size_bytes: args.len() as u64,
        deadline_ms: tool.deadline_ms(&parsed),
        repeat: tool.repeat(&parsed),
        refused: tool.check(&parsed).err(),
        blob: draft.keep(args.into_bytes(), about),
    };
    let call = Call::Tool { name, args: String::new() };
    OpenCall { step, id, call, state, parallel, large: Some(large) }
}

/// An input that is too large goes to each child by reference.
fn keep_apart(input: &mut Source, around: impl FnOnce() -> Ids, draft: &mut Draft<'_>) {
    if input.size() <= CHILD_INPUT_BYTES_MAX {
        return;
    }
    let Source::Inline(parts) = &*input else { return };
    let content = serde_json::to_vec(parts).expect("parts serialize into memory without fail");
    *input = Source::Stored(draft.keep(content, around()));
}

/// What the calls of one answer may take in a state, once what is large is kept apart. As much again may be in the
/// effects that make them.
const CALLS_BYTES_MAX: usize = 16 * 1024;
/// What of a tool's arguments is part of the state, at most.
const ARGS_BYTES_MAX: usize = 1024;

impl Run {
    /// Takes what the model has asked for. Refused as a whole when it is more than can be remembered (P9).
    pub(super) fn open_calls(&mut self, calls: Vec<Call>, draft: &mut Draft<'_>) -> Result<(), Failure> {
        let calls: Vec<_> = calls.into_iter().map(|call| open(call, || self.ids(), draft)).collect();
        let taken: usize = calls.iter().map(OpenCall::size).sum();
        if taken > CALLS_BYTES_MAX {
            let message =
                format!("the calls of one answer take {taken} bytes, the limit is {CALLS_BYTES_MAX}");
            return Err(Failure::new("payload_too_large", message));
        }
        if !draft.take_spare(2 * taken) {
            let message = "too much goes on at once here for another call to be remembered";
            return Err(Failure::new("rate_limited", message).retryable());
        }
        draft.room.bytes = draft.room.bytes.saturating_sub(taken);
        self.calls = calls;
        Ok(())
    }

    /// All calls are observed.
    pub(super) fn close_calls(&mut self, draft: &mut Draft<'_>) {
        draft.room.bytes += self.calls.iter().map(OpenCall::size).sum::<usize>();
        self.calls.clear();
    }

    /// About how much of its owner's state the calls take.
    pub fn calls_size(&self) -> usize {
        self.calls.iter().map(OpenCall::size).sum()
    }

    /// Starts what may start. `Some` when the run has to end instead.
    pub(super) fn start_calls(&mut self, draft: &mut Draft<'_>) -> Option<Ending> {
        let mut alone = true;
        for index in 0..self.calls.len() {
            let (state, parallel) = (&self.calls[index].state, self.calls[index].parallel);
            match state {
                CallState::Done => continue,
                CallState::Waiting if alone || parallel => {
                    self.start_call(index, draft);
                }
                _ => {}
            }
            if self.calls[index].state != CallState::Done {
                if !parallel {
                    return None;
                }
                alone = false;
            }
        }
        None
    }

    fn start_call(&mut self, index: usize, draft: &mut Draft<'_>) {
        let call = self.calls[index].call.clone();
        match call {
            Call::Tool { name, args } => self.start_tool(index, &name, &args, draft),
            Call::Ask { prompt, decisions, expires_ms } => {
                let required = ActionRequired {
                    action_type: "approval".into(),
                    prompt,
                    decisions,
                    ..Default::default()
                };
                self.ask_somebody(index, required, expires_ms, false, draft);
            }
            Call::Sleep { ms } => {
                let until = draft.now.in_ms(ms);
                let status = RunStatus {
                    phase: "sleeping".into(),
                    title: Some(format!("sleeping until {}", Time(until))),
                    ..Default::default()
                };
                draft.tell_within(&self.around, self.scope(), status);
                let name = format!("sleep/{}", self.calls[index].id);
                draft.set_timer(self.timer(&name), until);
                self.calls[index].state = CallState::Running { since: draft.now };
            }
            Call::Spawn { .. } | Call::Task { .. }
                if draft.room.groups == 0 || !draft.take_spare(Group::BYTES_MAX) =>
            {
                self.tell_started(index, draft);
                let message = "too many groups of children are not closed: join or close some first";
                self.failed(index, Failure::new("rate_limited", message).retryable(), None, draft);
            }
            Call::Spawn { count, agent, input, join } => {
                self.tell_started(index, draft);
                let base: SubagentId = draft.ids.next();
                let names = Names::Derived(base.suffix().to_owned());
                let start = self.start(agent, input, Child::Subagent(SubagentSpec::default()), draft);
                self.join(index, Group::new(names, count, join, None, start), draft);
            }
            Call::Task { args, input, join } => {
                self.tell_started(index, draft);
                match task::from_call(&args, draft) {
                    Err(failure) => self.failed(index, failure, None, draft),
                    Ok((task, spec)) => {
                        let delegated = TaskDelegated {
                            child_task_id: Some(task.clone()),
                            agent: spec.agent.clone(),
                            ..Default::default()
                        };
                        draft.tell_within(&self.ids(), TaskScope { task: task.clone() }, delegated);
                        let names = Names::One { kind: kind::TASK.into(), id: task.to_string() };
                        let agent = spec.agent.clone().unwrap_or_else(|| self.agent.clone());
                        let start = self.start(agent, input, Child::Task(Named(Box::new(spec))), draft);
                        let join = if join { Join::All } else { Join::None };
                        self.join(index, Group::new(names, 1, join, None, start), draft);
                    }
                }
            }
        }
    }

    fn start(&self, agent: String, input: Source, what: Child, draft: &Draft<'_>) -> Start {
        Start {
            session: draft.session.clone(),
            parent: None,
            lineage: self.lineage(),
            agent,
            input,
            depth: self.depth + 1,
            what,
        }
    }

    /// Starts a group, and waits for it if that is wanted.
    fn join(&mut self, index: usize, mut group: Group, draft: &mut Draft<'_>) {
        group.call = Some(self.calls[index].id.clone());
        draft.room.groups = draft.room.groups.saturating_sub(1);
        let number = self.children.add(group);
        self.calls[index].state = CallState::Joining { group: number, since: draft.now };
        self.children.work(Some(&self.turn), draft);
        self.check_joined(number, draft);
    }

    /// Observes all groups that are joined.
    pub(super) fn observe_joins(&mut self, draft: &mut Draft<'_>) {
        let joining = self.calls.iter().filter_map(|call| match call.state {
            CallState::Joining { group, .. } => Some(group),
            _ => None,
        });
        for group in joining.collect::<Vec<_>>() {
            self.check_joined(group, draft);
        }
    }

    /// Observes a group that is joined.
    fn check_joined(&mut self, number: u32, draft: &mut Draft<'_>) {
        let Some(group) = self.children.group(number).filter(|group| group.is_joined()) else { return };
        let joining =
            |call: &OpenCall| matches!(call.state, CallState::Joining { group, .. } if group == number);
        let Some(index) = self.calls.iter().position(joining) else { return };
        let mut structured = group.tally.to_json(group.started);
        if !group.troubled.is_empty() {
            structured["notCompleted"] = group.troubled.clone().into();
        }
        if let Names::One { kind, id } = &group.names {
            structured[format!("{kind}Id")] = id.clone().into();
        }
        let output = ToolOutput { structured: Some(structured.to_string()), ..ToolOutput::default() };
        self.children.joined(number);
        self.returned(index, output, draft);
    }

    fn start_tool(&mut self, index: usize, name: &str, args: &str, draft: &mut Draft<'_>) {
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
        if let Some(reason) = self.blocked_by_hook(name, draft) {
            self.tell_started(index, draft);
            return self.failed(index, Failure::new("blocked", reason), None, draft);
        }
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
            Permit::Allow => self.run_tool(index, draft),
            Permit::Deny => {
                self.tell_started(index, draft);
                self.failed(index, Failure::new("forbidden", ruling.reason), None, draft);
            }
            Permit::Ask => {
                let required = ActionRequired {
                    action_type: "tool_permission".into(),
                    prompt: format!("Allow {name}?"),
                    decisions: PERMISSION_DECISIONS.map(String::from).to_vec(),
                    tool_name: Some(name.to_owned()),
                    decision_kind: Some("allow_or_deny".into()),
                    ..Default::default()
                };
                self.ask_somebody(index, required, None, true, draft);
            }
        }
    }

    fn run_tool(&mut self, index: usize, draft: &mut Draft<'_>) {
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

    fn blocked_by_hook(&self, tool: &str, draft: &mut Draft<'_>) -> Option<String> {
        for hook in draft.engine.hooks.iter().filter(|hook| hook.is_for(HookPoint::BeforeTool)) {
            let point = HookPoint::BeforeTool.as_str().to_owned();
            let started =
                HookStarted { hook: hook.name().to_owned(), point: point.clone(), ..Default::default() };
            draft.tell_within(&self.around, self.scope(), started);
            let verdict = hook.run(HookPoint::BeforeTool, tool);
            let outcome = if verdict == Verdict::Pass { "pass" } else { "block" };
            let completed = HookCompleted {
                hook: hook.name().to_owned(),
                point,
                outcome: Some(outcome.into()),
                ..Default::default()
            };
            draft.tell_within(&self.around, self.scope(), completed);
            if let Verdict::Block { reason } = verdict {
                return Some(reason);
            }
        }
        None
    }

    fn ask_somebody(
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

    fn resolve(
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

    pub(super) fn take_call_timer(&mut self, name: &str, draft: &mut Draft<'_>) -> Option<Ending> {
        let (what, id) = name.split_once('/')?;
        match what {
            "sleep" => {
                let index = self.calls.iter().position(|call| call.id.as_str() == id)?;
                self.calls[index].state = CallState::Done;
                None
            }
            "action" => {
                // Unanswered is never approval (P10).
                let asked = |call: &OpenCall| matches!(&call.state, CallState::Asking { action, .. } if action.as_str() == id);
                let index = self.calls.iter().position(asked)?;
                let resolved = ActionResolved {
                    decision: "expired".into(),
                    status: ActionStatus::Expired,
                    by: Some("deadline".into()),
                    reason: Some("nobody answered in time".into()),
                    payload: None,
                };
                self.resolve(index, resolved, is_on(Sabotage::ExpiredIsApproval), draft)
            }
            _ => None,
        }
    }

    pub(super) fn take_call_effect(
        &mut self,
        name: &str,
        result: EffectResult<Outcome>,
        draft: &mut Draft<'_>,
    ) -> Option<Ending> {
        let id = name.strip_prefix("tool/")?;
        let index = self.calls.iter().position(|call| call.id.as_str() == id)?;
        if !matches!(self.calls[index].state, CallState::Running { .. }) {
            return None;
        }
        match result {
            EffectResult::Done(Outcome::Returned(Ok(output))) => self.returned(index, output, draft),
            EffectResult::Done(Outcome::Returned(Err(failure))) => self.failed(index, failure, None, draft),
            EffectResult::Lost => {
                let failure = unfinished(EffectResult::Lost);
                self.failed(index, failure.clone(), Some("lost"), draft);
                return Some(Ending::lost(failure));
            }
            other => self.failed(index, unfinished(other), None, draft),
        }
        None
    }

    /// A child has ended.
    pub fn take_child_ended(
        &mut self,
        group: u32,
        id: &str,
        (status, live, again): (SubagentStatus, bool, bool),
        draft: &mut Draft<'_>,
    ) -> Option<Ending> {
        self.children.ended(group, id, status, live, again);
        self.check_joined(group, draft);
        self.advance(draft)
    }

    /// A child's tree is closed, some time after the child had ended.
    pub fn take_child_closed(&mut self, group: u32, draft: &mut Draft<'_>) -> Option<Ending> {
        self.children.closed(group);
        self.advance(draft)
    }

    /// A child that had ended goes on, and is closed again if everything else is.
    pub fn take_child_reopened(
        &mut self,
        group: u32,
        child: &Address,
        draft: &mut Draft<'_>,
    ) -> Option<Ending> {
        self.children.reopened(group, child);
        if self.phase == Phase::Closing
            && let Some(ending) = &self.ending
        {
            let by = ending.by.clone().unwrap_or_else(|| "parent".into());
            self.children.close(&Close { reason: ending.reason.clone(), by });
        }
        self.advance(draft)
    }

    fn returned(&mut self, index: usize, output: ToolOutput, draft: &mut Draft<'_>) {
        let since = match self.calls[index].state {
            CallState::Running { since } | CallState::Joining { since, .. } => since,
            _ => draft.now,
        };
        let scope = self.tool_scope(index);
        let mut around = self.around.clone();
        if let Some(spilled) = &output.spilled {
            around = around.with(spilled.blob.clone());
            let told = OutputSpilled {
                size_bytes: output.kept_bytes.unwrap_or(output.size_bytes),
                media_type: spilled.media_type.clone(),
                hash: format!("sha256:{}", spilled.hash),
                preview: output.preview.clone(),
                expires_at: Some(Time(cadre_cluster::clock::Timestamp(spilled.expires_ms))),
                source: None,
            };
            let ids = self.ids().with(scope.step.clone()).with(scope.call.clone());
            if let Some(kept_bytes) = output.kept_bytes {
                let limit = draft.engine.limits.output_bytes;
                let cut = OutputTruncated {
                    size_bytes: Some(output.size_bytes),
                    kept_bytes,
                    reason: Some(format!("no more than {limit} bytes of an output are kept")),
                    source: Some("tool".into()),
                };
                draft.tell_within(&ids.clone().with(spilled.blob.clone()), self.scope(), cut);
            }
            draft.tell_within(&ids, OutputScope { output: spilled.blob.clone() }, told);
        }
        let result = ToolResult {
            name: self.calls[index].call.name().to_owned(),
            preview: output.preview,
            structured: output.structured.and_then(|json| serde_json::from_str(&json).ok()),
            size_bytes: (output.size_bytes > 0).then_some(output.size_bytes),
            duration_ms: Some(draft.now.0.saturating_sub(since.0)),
            output_refs: Vec::new(),
        };
        draft.tell_within(&around, scope, result);
        self.calls[index].state = CallState::Done;
    }

    pub(super) fn failed(
        &mut self,
        index: usize,
        error: Failure,
        status: Option<&str>,
        draft: &mut Draft<'_>,
    ) {
        let name = self.calls[index].call.name().to_owned();
        let failed = ToolFailed { name, error, status: status.map(str::to_owned), ..Default::default() };
        draft.tell_within(&self.around, self.tool_scope(index), failed);
        self.calls[index].state = CallState::Done;
    }

    fn tell_started(&mut self, index: usize, draft: &mut Draft<'_>) {
        let OpenCall { call, large, .. } = &self.calls[index];
        let reference = |large: &Large| OutputRef {
            reference: large.blob.clone().into(),
            media_type: Some("application/json".into()),
            size_bytes: Some(large.size_bytes),
            title: None,
        };
        let started = ToolStarted {
            name: call.name().to_owned(),
            args: large.is_none().then(|| call.args()),
            args_ref: large.as_ref().map(reference),
            ..Default::default()
        };
        draft.tell_within(&self.around, self.tool_scope(index), started);
    }

    fn call_ids(&self, index: usize) -> Ids {
        self.around.clone().with(self.calls[index].step.clone()).with(self.calls[index].id.clone())
    }

    pub(super) fn tool_scope(&self, index: usize) -> ToolScope {
        let (step, call): (_, CallId) = (self.calls[index].step.clone(), self.calls[index].id.clone());
        ToolScope { thread: self.thread.clone(), turn: self.turn.clone(), step, call }
    }

    pub(super) fn action_scope(&self, action: &ActionId) -> ActionScope {
        ActionScope { thread: self.thread.clone(), turn: self.turn.clone(), action: action.clone() }
    }
}
