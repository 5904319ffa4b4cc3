//! The facts of a turn as events of a run.
//!
//! A fold, and nothing else: the same facts make the same events, with the same ids. Whoever comes back is given the run
//! from its first fact on, without those events that it has seen. What it makes is always well-formed, whatever facts
//! come: everything that was opened is closed, and nothing follows the end.

use serde_json::{Value, json};

use super::event::{Event, Kind, Outcome, PROTOCOL_VERSION, Usage};
use crate::fact::{
    Fact, Failure,
    id::{CallId, TurnId},
    payload::{self, Payload},
    status::TurnStatus,
};

/// Which run it is, in the words of the client.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct About {
    /// Its thread.
    pub thread: String,
    /// The run.
    pub run: String,
    /// The run that it came from.
    pub parent: Option<String>,
    /// The state that the client begins with.
    pub state: Option<Value>,
}

/// A run as far as it was told.
#[derive(Debug, Clone)]
pub struct Fold {
    about: About,
    turn: TurnId,
    begun: bool,
    over: bool,
    /// How many messages there were: their ids are made of it.
    messages: u32,
    text: Option<String>,
    reasoning: Option<String>,
    step: Option<String>,
    /// Calls without a result, and whether their arguments are complete. As many as a run has open at once.
    calls: Vec<(CallId, bool)>,
}

/// The events of one fact.
struct Said {
    at: u64,
    events: Vec<Event>,
}

impl Said {
    fn say(&mut self, kind: Kind) {
        self.events.push(Event { kind, timestamp: self.at });
    }
}

impl Fold {
    /// A run of which nothing was told yet.
    pub fn new(about: About, turn: TurnId) -> Self {
        Self {
            about,
            turn,
            begun: false,
            over: false,
            messages: 0,
            text: None,
            reasoning: None,
            step: None,
            calls: Vec::new(),
        }
    }

    /// Whether the run has ended.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// The events of the next fact.
    pub fn take(&mut self, fact: &Fact) -> Vec<Event> {
        if self.over || fact.ids.turn() != Some(&self.turn) {
            return Vec::new();
        }
        let mut said = Said { at: fact.at.0, events: Vec::new() };
        self.begin(&mut said);
        match &fact.payload {
            Payload::TurnSubmitted(submitted) => {
                if let Some(position) = submitted.queue_position {
                    said.say(custom("turn.queued", json!({ "queuePosition": position })));
                }
            }
            Payload::ModelRequested(requested) => {
                self.end_step(&mut said);
                let name = format!("step-{}", requested.step);
                said.say(Kind::StepStarted { step_name: name.clone() });
                self.step = Some(name);
            }
            Payload::ModelDelta(delta) => self.speak(&delta.text, &mut said),
            Payload::ModelCompleted(_) => self.fall_silent(&mut said),
            Payload::ModelFailed(failed) => {
                self.end_step(&mut said);
                let value = json!({ "error": failed.error, "attempt": failed.attempt, "willRetry": failed.will_retry });
                said.say(custom("model.failed", value));
            }
            Payload::ReasoningDelta(delta) => self.think(&delta.text, &mut said),
            Payload::ReasoningSummary(summary) => {
                self.fall_silent(&mut said);
                self.think(&summary.text, &mut said);
                self.fall_silent(&mut said);
            }
            Payload::ToolStarted(started) => self.call(fact, started, &mut said),
            Payload::ToolArgs(args) => self.args(fact, args, &mut said),
            Payload::ToolProgress(progress) => {
                let value = json!({ "toolCallId": fact.ids.call(), "progress": progress });
                said.say(custom("tool.progress", value));
            }
            Payload::ToolResult(result) => {
                let content = result.preview.clone();
                let content = content.or_else(|| result.structured.as_ref().map(Value::to_string));
                let metadata = fact
                    .ids
                    .output()
                    .map(|output| json!({ "outputRef": output, "sizeBytes": result.size_bytes }));
                self.returned(fact, &result.name, content.unwrap_or_default(), metadata, &mut said);
            }
            Payload::ToolFailed(failed) if !failed.will_retry => {
                let content = json!({ "error": failed.error, "status": failed.status }).to_string();
                self.returned(fact, &failed.name, content, None, &mut said);
            }
            Payload::ActionRequired(required) => {
                said.say(custom("action.required", named(fact, &**required)));
            }
            Payload::ActionResolved(resolved) => {
                said.say(custom("action.resolved", named(fact, &**resolved)));
            }
            Payload::TurnCompleted(completed) => {
                self.finish(Outcome::Success, completed.usage.as_ref(), &mut said);
            }
            Payload::TurnFailed(failed) if failed.status == TurnStatus::Cancelled => {
                self.finish(Outcome::Cancelled, failed.usage.as_ref(), &mut said);
            }
            Payload::TurnFailed(failed) => self.fail(&failed.error, &mut said),
            _ => {}
        }
        said.events
    }

    /// Some of the run is no longer kept.
    pub fn gap(&mut self, at: u64, value: Value) -> Vec<Event> {
        let mut said = Said { at, events: Vec::new() };
        if !self.over {
            self.begin(&mut said);
            said.say(custom("history.gap", value));
        }
        said.events
    }

    /// The run cannot be told to its end.
    pub fn break_off(&mut self, at: u64, error: &Failure) -> Vec<Event> {
        let mut said = Said { at, events: Vec::new() };
        if !self.over {
            self.begin(&mut said);
            self.fail(error, &mut said);
        }
        said.events
    }

    fn begin(&mut self, said: &mut Said) {
        if std::mem::replace(&mut self.begun, true) {
            return;
        }
        said.say(Kind::RunStarted {
            thread_id: self.about.thread.clone(),
            run_id: self.about.run.clone(),
            protocol_version: PROTOCOL_VERSION,
            parent_run_id: self.about.parent.clone(),
        });
        if let Some(snapshot) = self.about.state.take() {
            said.say(Kind::StateSnapshot { snapshot });
        }
    }

    fn new_message(&mut self) -> String {
        self.messages += 1;
        format!("{}.m{}", self.turn, self.messages)
    }

    fn speak(&mut self, delta: &str, said: &mut Said) {
        if delta.is_empty() {
            return;
        }
        self.stop_thinking(said);
        let message_id = match &self.text {
            Some(id) => id.clone(),
            None => {
                let id = self.new_message();
                said.say(Kind::TextMessageStart { message_id: id.clone(), role: "assistant" });
                self.text.insert(id).clone()
            }
        };
        said.say(Kind::TextMessageContent { message_id, delta: delta.to_owned() });
    }

    fn think(&mut self, delta: &str, said: &mut Said) {
        if delta.is_empty() {
            return;
        }
        self.stop_speaking(said);
        let message_id = match &self.reasoning {
            Some(id) => id.clone(),
            None => {
                let id = self.new_message();
                said.say(Kind::ReasoningStart { message_id: id.clone() });
                said.say(Kind::ReasoningMessageStart { message_id: id.clone(), role: "reasoning" });
                self.reasoning.insert(id).clone()
            }
        };
        said.say(Kind::ReasoningMessageContent { message_id, delta: delta.to_owned() });
    }

    fn stop_speaking(&mut self, said: &mut Said) {
        if let Some(message_id) = self.text.take() {
            said.say(Kind::TextMessageEnd { message_id });
        }
    }

    fn stop_thinking(&mut self, said: &mut Said) {
        if let Some(message_id) = self.reasoning.take() {
            said.say(Kind::ReasoningMessageEnd { message_id: message_id.clone() });
            said.say(Kind::ReasoningEnd { message_id });
        }
    }

    fn fall_silent(&mut self, said: &mut Said) {
        self.stop_speaking(said);
        self.stop_thinking(said);
    }

    fn end_step(&mut self, said: &mut Said) {
        self.fall_silent(said);
        if let Some(step_name) = self.step.take() {
            said.say(Kind::StepFinished { step_name });
        }
    }

    fn call(&mut self, fact: &Fact, started: &payload::ToolStarted, said: &mut Said) {
        let Some(call) = self.open_call(fact, &started.name, said) else { return };
        let kept_apart = started.args_ref.as_ref().map(|kept| json!({ "argsRef": kept }));
        if let Some(args) = started.args.clone().or(kept_apart) {
            said.say(Kind::ToolCallArgs { tool_call_id: call.to_string(), delta: args.to_string() });
            self.complete_call(&call, said);
        }
    }

    /// Opens a call, unless it is open.
    fn open_call(&mut self, fact: &Fact, name: &str, said: &mut Said) -> Option<CallId> {
        let call = fact.ids.call()?.clone();
        if self.calls.iter().any(|(open, _)| *open == call) {
            return None;
        }
        self.fall_silent(said);
        said.say(Kind::ToolCallStart { tool_call_id: call.to_string(), tool_call_name: name.to_owned() });
        self.calls.push((call.clone(), false));
        Some(call)
    }

    /// Arguments that come later or bit by bit. Those of a call whose arguments were complete cannot be told any more.
    fn args(&mut self, fact: &Fact, args: &payload::ToolArgs, said: &mut Said) {
        let Some(call) = fact.ids.call() else { return };
        if !self.calls.iter().any(|(open, complete)| open == call && !complete) {
            return;
        }
        if let Some(delta) = &args.delta {
            said.say(Kind::ToolCallArgs { tool_call_id: call.to_string(), delta: delta.clone() });
        } else if let Some(all) = &args.args {
            said.say(Kind::ToolCallArgs { tool_call_id: call.to_string(), delta: all.to_string() });
            self.complete_call(call, said);
        }
    }

    fn complete_call(&mut self, call: &CallId, said: &mut Said) {
        let open = self.calls.iter_mut().find(|(open, complete)| open == call && !complete);
        if let Some((_, complete)) = open {
            *complete = true;
            said.say(Kind::ToolCallEnd { tool_call_id: call.to_string() });
        }
    }

    fn returned(
        &mut self,
        fact: &Fact,
        name: &str,
        content: String,
        metadata: Option<Value>,
        said: &mut Said,
    ) {
        let Some(call) = fact.ids.call().cloned() else { return };
        self.open_call(fact, name, said);
        self.fall_silent(said);
        self.complete_call(&call, said);
        self.calls.retain(|(open, _)| *open != call);
        let (tool_call_id, message_id) = (call.to_string(), format!("{call}.result"));
        said.say(Kind::ToolCallResult { message_id, tool_call_id, content, role: "tool", metadata });
    }

    fn close(&mut self, said: &mut Said) {
        self.fall_silent(said);
        for (call, complete) in std::mem::take(&mut self.calls) {
            if !complete {
                said.say(Kind::ToolCallEnd { tool_call_id: call.to_string() });
            }
        }
        self.end_step(said);
        self.over = true;
    }

    fn finish(&mut self, outcome: Outcome, usage: Option<&payload::Usage>, said: &mut Said) {
        self.close(said);
        let used = |usage: &payload::Usage| Usage {
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
        };
        said.say(Kind::RunFinished {
            thread_id: self.about.thread.clone(),
            run_id: self.about.run.clone(),
            outcome,
            usage: usage.map(used).into_iter().collect(),
        });
    }

    fn fail(&mut self, error: &Failure, said: &mut Said) {
        self.close(said);
        said.say(Kind::RunError { message: error.message.clone(), code: error.code.clone() });
    }
}

fn custom(name: &str, value: Value) -> Kind {
    Kind::Custom { name: name.into(), value }
}

/// A payload with the id of the action that it is about.
fn named(fact: &Fact, payload: &impl serde::Serialize) -> Value {
    let mut value = serde_json::to_value(payload).expect("payloads serialize into memory without fail");
    value["actionId"] = json!(fact.ids.action());
    value["toolCallId"] = json!(fact.ids.call());
    value
}
