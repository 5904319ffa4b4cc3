//! A trajectory: what agents did step by step, in the format that benchmark harnesses read (ATIF).

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;
use serde_json::{Value, json};

use super::{
    evidence::Costs,
    sink::{Full, Sink},
};
use crate::fact::{
    Event, Part, Payload,
    id::{CallId, SessionId, TurnId},
    payload::Usage,
    time::Time,
};

/// The version of the format.
pub const SCHEMA: &str = "ATIF-v1.4";
/// Steps that are told of; beyond it they are counted.
const STEPS_MAX: usize = 20_000;
/// How much of a message is kept, in bytes.
const MESSAGE_MAX: usize = 256 * 1024;

/// One step.
#[derive(Debug, Clone, Serialize)]
struct Step {
    step_id: usize,
    timestamp: Time,
    source: &'static str,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    model_name: Option<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    reasoning_content: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    observation: Option<Observation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metrics: Option<Value>,
    extra: Value,
}

#[derive(Debug, Clone, Default, Serialize)]
struct Observation {
    results: Vec<Value>,
}

/// A trajectory in the making.
#[derive(Debug)]
pub struct Trajectory {
    session: SessionId,
    agent: Option<String>,
    model: Option<String>,
    steps: Vec<Step>,
    omitted: u64,
    open: HashMap<TurnId, usize>,
    calls: HashMap<CallId, usize>,
    unobserved: usize,
    costs: Costs,
}

impl Trajectory {
    /// Of a session.
    pub fn new(session: SessionId) -> Self {
        Self {
            session,
            agent: None,
            model: None,
            steps: Vec::new(),
            omitted: 0,
            open: HashMap::new(),
            calls: HashMap::new(),
            unobserved: 0,
            costs: Costs::default(),
        }
    }

    fn step(&mut self, event: &Event, source: &'static str, message: String) -> Option<usize> {
        if self.steps.len() >= STEPS_MAX {
            self.omitted += 1;
            return None;
        }
        let ids = &event.fact.ids;
        self.steps.push(Step {
            step_id: self.steps.len() + 1,
            timestamp: Time(event.fact.at),
            source,
            message,
            model_name: None,
            reasoning_content: String::new(),
            tool_calls: Vec::new(),
            observation: None,
            metrics: None,
            extra: json!({ "turnId": ids.turn(), "taskId": ids.task(), "subagentId": ids.subagent() }),
        });
        Some(self.steps.len() - 1)
    }

    /// The step of the agent that a fact of a turn belongs to.
    fn agent_step(&mut self, event: &Event) -> Option<&mut Step> {
        let turn = event.fact.ids.turn()?;
        let place = match self.open.get(turn) {
            Some(place) => *place,
            None => {
                let place = self.step(event, "agent", String::new())?;
                self.open.insert(turn.clone(), place);
                place
            }
        };
        self.steps.get_mut(place)
    }

    /// Takes in a fact.
    pub fn take(&mut self, event: &Event) {
        self.costs.take(&event.fact.payload);
        let ids = &event.fact.ids;
        match &event.fact.payload {
            Payload::TurnSubmitted(submitted) => {
                self.agent = self.agent.take().or_else(|| submitted.agent.clone());
                let source = if ids.subagent().is_some() || ids.task().is_some() { "system" } else { "user" };
                self.step(event, source, words(&submitted.input));
            }
            Payload::TurnStarted(started) => {
                self.agent.get_or_insert_with(|| started.agent.clone());
            }
            Payload::ModelRequested(requested) => {
                self.model.get_or_insert_with(|| requested.model.clone());
                ids.turn().and_then(|turn| self.open.remove(turn));
                if let Some(step) = self.agent_step(event) {
                    step.model_name = Some(requested.model.clone());
                }
            }
            Payload::ModelDelta(delta) => {
                if let Some(step) = self.agent_step(event) {
                    append(&mut step.message, &delta.text);
                }
            }
            Payload::ReasoningDelta(delta) => {
                if let Some(step) = self.agent_step(event) {
                    append(&mut step.reasoning_content, &delta.text);
                }
            }
            Payload::ModelCompleted(completed) => {
                if let (Some(usage), Some(step)) = (&completed.usage, self.agent_step(event)) {
                    step.metrics = Some(metrics(usage));
                }
            }
            Payload::ToolStarted(started) => {
                let Some(call) = ids.call() else { return };
                if self.calls.contains_key(call) {
                    return;
                }
                let Some(step) = self.agent_step(event) else { return };
                step.tool_calls.push(json!({
                    "tool_call_id": call,
                    "function_name": started.name,
                    "arguments": started.args.clone().unwrap_or_else(|| json!({})),
                }));
                let place = step.step_id - 1;
                self.calls.insert(call.clone(), place);
                self.unobserved += 1;
            }
            Payload::ToolResult(result) => {
                let content =
                    result.preview.clone().or_else(|| result.structured.as_ref().map(Value::to_string));
                self.observe(event, json!({ "content": content, "outputRef": ids.output() }));
            }
            Payload::ToolFailed(failed) if !failed.will_retry => {
                self.observe(event, json!({ "content": failed.error.message, "error": failed.error.code }));
            }
            Payload::TurnFailed(failed) => {
                let words = format!("the turn ended as {}: {}", failed.status, failed.error.message);
                self.step(event, "system", words);
            }
            _ => {}
        }
    }

    fn observe(&mut self, event: &Event, mut seen: Value) {
        let Some(call) = event.fact.ids.call() else { return };
        let Some(step) = self.calls.get(call).and_then(|place| self.steps.get_mut(*place)) else { return };
        seen["source_call_id"] = json!(call);
        step.observation.get_or_insert_default().results.push(seen);
        self.unobserved = self.unobserved.saturating_sub(1);
    }

    /// Which fields that must be there are there.
    pub fn required(&self) -> BTreeMap<String, bool> {
        let some = !self.steps.is_empty();
        [
            ("schema_version", true),
            ("session_id", true),
            ("agent", self.agent.is_some()),
            ("steps[].step_id", some),
            ("steps[].tool_calls", some),
            ("steps[].observation", some && self.unobserved == 0),
            ("final_metrics", true),
        ]
        .map(|(name, there)| (name.to_owned(), there))
        .into()
    }

    /// All of it, as JSON.
    pub fn finish(&self) -> Result<Vec<u8>, Full> {
        let usage = &self.costs.usage;
        let mut sink = Sink::default();
        sink.json(&json!({
            "schema_version": SCHEMA,
            "session_id": self.session,
            "agent": {
                "name": self.agent.as_deref().unwrap_or("unknown"),
                "version": env!("CARGO_PKG_VERSION"),
                "model_name": self.model,
            },
            "steps": self.steps,
            "final_metrics": {
                "total_prompt_tokens": usage.input_tokens,
                "total_completion_tokens": usage.output_tokens,
                "total_cached_tokens": usage.cached_tokens,
                "total_cost_usd": self.costs.usd(),
                "total_steps": self.steps.len() as u64 + self.omitted,
            },
            "extra": { "omittedSteps": self.omitted },
        }))?;
        Ok(sink.into_bytes())
    }
}

fn metrics(usage: &Usage) -> Value {
    json!({
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "cached_tokens": usage.cached_tokens,
        "cost_usd": usage.cost_usd,
    })
}

fn words(input: &[Part]) -> String {
    let mut text = String::new();
    for part in input {
        match part {
            Part::Text { text: more } => append(&mut text, more),
            Part::Blob { blob, media_type } => append(&mut text, &format!("[{media_type} {blob}]")),
        }
    }
    text
}

fn append(text: &mut String, more: &str) {
    let mut room = MESSAGE_MAX.saturating_sub(text.len()).min(more.len());
    while !more.is_char_boundary(room) {
        room -= 1;
    }
    text.push_str(&more[..room]);
}
