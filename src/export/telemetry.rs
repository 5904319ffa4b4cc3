//! What evidence and the telemetry of other systems are joined by: traces, and requests to models.
//!
//! Facts carry the trace of whoever asked for the work, when somebody did so within one. Each trace that occurs is listed
//! with the ids that occur with it, so that a span that is found elsewhere leads to its turn and its calls, and back.

use std::collections::{HashMap, HashSet};

use serde::Serialize;

use super::{Listed, Span, spine::Spine};
use crate::fact::{
    Event, Failure, Payload,
    id::{RequestId, SubagentId, TaskId, TurnId},
    payload::Usage,
    status::Availability,
    time::Time,
};

/// One trace.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TraceEntry {
    /// Its id, as W3C trace context has it.
    pub trace_id: String,
    /// Which of its facts there are.
    pub span: Span,
    /// The spans that facts name, in the order in which they occur; at most [`SPANS_MAX`] of them.
    pub span_ids: Vec<Box<str>>,
    /// The ids that occur with it.
    pub correlation: Spine,
    #[serde(skip)]
    known: HashSet<Box<str>>,
}

/// How many spans of a trace are named.
pub const SPANS_MAX: usize = 100;

/// One request to a model.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestEntry {
    /// Its id.
    pub model_request_id: RequestId,
    /// Which model was asked.
    pub model: String,
    /// Whose.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// `running`, `completed`, `failed`, or `retrying`: failed, and another follows.
    pub status: &'static str,
    /// In which turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<TurnId>,
    /// For which task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskId>,
    /// By which subagent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subagent_id: Option<SubagentId>,
    /// In which trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<Box<str>>,
    /// Which attempt at the same step it is.
    pub attempt: u32,
    /// When it was first asked.
    pub started_at: Time,
    /// When it was answered, or failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Time>,
    /// How long the model took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// What it used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// What went wrong last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
}

/// The telemetry of a pack.
#[derive(Debug, Default)]
pub struct Telemetry {
    facts: u64,
    traced: u64,
    traces: Listed<TraceEntry>,
    trace_places: HashMap<Box<str>, usize>,
    requests: Listed<RequestEntry>,
    request_places: HashMap<RequestId, usize>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Written<'a> {
    facts: u64,
    traced_facts: u64,
    traces: Traces<'a>,
    model_requests: &'a Listed<RequestEntry>,
}

/// The traces that there are, or that there cannot be any.
#[derive(Serialize)]
#[serde(untagged)]
enum Traces<'a> {
    Some(&'a Listed<TraceEntry>),
    None { state: Availability, reason: &'static str },
}

impl Serialize for Telemetry {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let traces = match self.traced {
            0 => Traces::None { state: Availability::NotApplicable, reason: Self::UNTRACED },
            _ => Traces::Some(&self.traces),
        };
        let (facts, traced_facts, model_requests) = (self.facts, self.traced, &self.requests);
        Written { facts, traced_facts, traces, model_requests }.serialize(serializer)
    }
}

impl Telemetry {
    /// Why there are no traces.
    pub const UNTRACED: &'static str = "no fact carries a trace: nobody asked for this work within one";

    /// Takes in a fact.
    pub fn take(&mut self, event: &Event) {
        self.facts += 1;
        self.trace(event);
        self.request(event);
    }

    /// How many entries are left out for room: of traces, of requests.
    pub fn omitted(&self) -> [(&'static str, u64); 2] {
        [("telemetry.traces", self.traces.omitted), ("telemetry.modelRequests", self.requests.omitted)]
    }

    fn trace(&mut self, event: &Event) {
        let Some(trace) = &event.trace else { return };
        self.traced += 1;
        let place = match self.trace_places.get(&trace.trace_id) {
            Some(place) => *place,
            None => {
                let new = TraceEntry { trace_id: trace.trace_id.to_string(), ..TraceEntry::default() };
                let place = self.traces.push(new).unwrap_or(usize::MAX);
                self.trace_places.insert(trace.trace_id.clone(), place);
                place
            }
        };
        let Some(entry) = self.traces.entries.get_mut(place) else { return };
        entry.span.take(event);
        entry.correlation.take(event);
        if let Some(span) = &trace.span_id
            && entry.known.len() < SPANS_MAX
            && entry.known.insert(span.clone())
        {
            entry.span_ids.push(span.clone());
        }
    }

    fn request(&mut self, event: &Event) {
        let ids = &event.fact.ids;
        let Some(id) = ids.request() else { return };
        let at = Time(event.fact.at);
        if let Payload::ModelRequested(requested) = &event.fact.payload
            && !self.request_places.contains_key(id)
        {
            let place = self.requests.push(RequestEntry {
                model_request_id: id.clone(),
                model: requested.model.clone(),
                provider: requested.provider.clone(),
                status: "running",
                turn_id: ids.turn().cloned(),
                task_id: ids.task().cloned(),
                subagent_id: ids.subagent().cloned(),
                trace_id: event.trace.as_ref().map(|trace| trace.trace_id.clone()),
                attempt: 0,
                started_at: at,
                ended_at: None,
                duration_ms: None,
                usage: None,
                error: None,
            });
            self.request_places.insert(id.clone(), place.unwrap_or(usize::MAX));
        }
        let place = self.request_places.get(id).and_then(|place| self.requests.entries.get_mut(*place));
        let Some(entry) = place else { return };
        match &event.fact.payload {
            Payload::ModelRequested(requested) => {
                entry.status = "running";
                entry.ended_at = None;
                entry.attempt = requested.attempt;
            }
            Payload::ModelCompleted(completed) => {
                entry.status = "completed";
                entry.ended_at = Some(at);
                entry.duration_ms = completed.duration_ms;
                entry.usage.clone_from(&completed.usage);
                entry.error = None;
            }
            Payload::ModelFailed(failed) => {
                entry.status = if failed.will_retry { "retrying" } else { "failed" };
                entry.ended_at = Some(at);
                entry.duration_ms = failed.duration_ms;
                entry.error = Some(failed.error.clone());
            }
            _ => {}
        }
    }
}
