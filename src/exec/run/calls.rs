//! What a model has asked for: started in order, side by side where that is safe, and observed.

use serde_json::Value;

use super::{Ending, Run, Source};
use crate::{
    entity::{Child, Named, SubagentSpec, kind, task},
    exec::{
        Call, Draft, Group, OpenCall,
        call::{CallState, Large},
        children::Names,
    },
    fact::{
        Failure, Ids, OutputRef, Time,
        id::{CallId, Id, StepId, SubagentId},
        payload::{ActionRequired, ActionResolved, RateLimitHit, RunStatus, TaskDelegated, ToolStarted},
        scope::{TaskScope, ToolScope},
        status::ActionStatus,
    },
    sabotage::{Sabotage, is_on},
    scripted::Join,
};

/// What of an input each child carries about; the rest is fetched.
const CHILD_INPUT_BYTES_MAX: usize = 2 * 1024;

/// What the calls of one answer may take in a state, once what is large is kept apart. As much again may be in the
/// effects that make them.
const CALLS_BYTES_MAX: usize = 16 * 1024;
/// What of a tool's arguments is part of the state, at most.
const ARGS_BYTES_MAX: usize = 1024;

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
                let hit = RateLimitHit {
                    limit: "child_groups".into(),
                    source: Some("runtime".into()),
                    ..Default::default()
                };
                draft.tell_within(&self.call_ids(index), self.scope(), hit);
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
                        let names = Names::one(kind::TASK, task.as_str());
                        let agent = spec.agent.clone().unwrap_or_else(|| self.agent.clone());
                        let start = self.start(agent, input, Child::Task(Named(Box::new(spec))), draft);
                        let join = if join { Join::All } else { Join::None };
                        self.join(index, Group::new(names, 1, join, None, start), draft);
                    }
                }
            }
        }
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

    pub(super) fn tell_started(&mut self, index: usize, draft: &mut Draft<'_>) {
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

    pub(super) fn call_ids(&self, index: usize) -> Ids {
        self.around.clone().with(self.calls[index].step.clone()).with(self.calls[index].id.clone())
    }

    pub(super) fn tool_scope(&self, index: usize) -> ToolScope {
        let (step, call): (_, CallId) = (self.calls[index].step.clone(), self.calls[index].id.clone());
        ToolScope { thread: self.thread.clone(), turn: self.turn.clone(), step, call }
    }
}
