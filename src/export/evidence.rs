//! The evidence pack: how a result came about, joined by ids and verified.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use super::{
    About, Closing, KnownGap, Listed, Pack, Scope, Span,
    class::{self, Quoted},
    sink::{Full, Sink},
    spine::Spine,
    telemetry::Telemetry,
    tools::{ToolEntry, Tools},
};
use crate::fact::{
    Event, EventType, Ids, Payload,
    id::ActionId,
    payload::{Usage, VerificationOutcome},
    time::Time,
};

/// What the format is called.
pub const FORMAT: &str = "cadre-evidence/1";

/// A fact as it was told, where a pack quotes it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Told {
    /// Its id.
    pub event_id: String,
    /// When.
    pub timestamp: Time,
    /// Its class.
    #[serde(rename = "type")]
    pub class: EventType,
    /// What it is about.
    pub ids: Ids,
    /// What it says.
    pub payload: Payload,
}

impl From<&Event> for Told {
    fn from(event: &Event) -> Self {
        Self {
            event_id: event.event_id(),
            timestamp: Time(event.fact.at),
            class: event.fact.event_type(),
            ids: event.fact.ids.clone(),
            payload: event.fact.payload.clone(),
        }
    }
}

/// A decision: who, when, why.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DecisionEntry {
    /// `action` when somebody was asked, `permission` when a rule or a mode decided.
    pub kind: &'static str,
    /// `pending`, or how it was settled.
    pub status: String,
    /// What it was about, in words.
    pub about: String,
    /// What it is about.
    pub ids: Ids,
    /// When it was asked for.
    pub asked_at: Time,
    /// What was decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<String>,
    /// Who or what decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// When.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decided_at: Option<Time>,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What was used and what it cost.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Costs {
    /// How many answers of models are in it.
    pub model_answers: u64,
    /// What the models used.
    pub usage: Usage,
    /// What was recorded as cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded_usd: Option<f64>,
    /// What was estimated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimated_usd: Option<f64>,
}

impl Costs {
    /// Takes in a fact.
    pub fn take(&mut self, payload: &Payload) {
        match payload {
            Payload::ModelCompleted(completed) => {
                self.model_answers += 1;
                let Some(usage) = &completed.usage else { return };
                self.usage.input_tokens = self.usage.input_tokens.saturating_add(usage.input_tokens);
                self.usage.output_tokens = self.usage.output_tokens.saturating_add(usage.output_tokens);
                if let Some(cached) = usage.cached_tokens {
                    *self.usage.cached_tokens.get_or_insert(0) += cached;
                }
                if let Some(cost) = usage.cost_usd {
                    *self.usage.cost_usd.get_or_insert(0.0) += cost;
                }
            }
            Payload::CostRecorded(recorded) => *self.recorded_usd.get_or_insert(0.0) += recorded.cost_usd,
            Payload::CostEstimated(estimated) => *self.estimated_usd.get_or_insert(0.0) += estimated.cost_usd,
            _ => {}
        }
    }

    /// What it cost, if anybody said so.
    pub fn usd(&self) -> Option<f64> {
        self.recorded_usd.or(self.usage.cost_usd)
    }
}

/// How turns, tasks, subagents and jobs stand: the last status of each, counted.
#[derive(Debug, Default)]
pub struct Standing(BTreeMap<&'static str, HashMap<Box<str>, String>>);

impl Standing {
    /// Takes in a fact.
    pub fn take(&mut self, event: &Event) {
        let (ids, class) = (&event.fact.ids, event.fact.event_type().as_str());
        let (kind, id) = match class.split('.').next() {
            Some("turn") => ("turns", ids.turn().map(AsRef::as_ref)),
            Some("task") if !class.contains(".attempt.") && class != "task.dependency.updated" => {
                ("tasks", ids.task().map(AsRef::as_ref))
            }
            Some("subagent") => ("subagents", ids.subagent().map(AsRef::as_ref)),
            Some("job") if !class.contains(".item.") => ("jobs", ids.job().map(AsRef::as_ref)),
            _ => return,
        };
        let status = if class == "turn.started" { Some("running") } else { event.fact.payload.status() };
        if let (Some(id), Some(status)) = (id, status) {
            self.0.entry(kind).or_default().insert(id.into(), status.to_owned());
        }
    }

    /// How many stand how.
    pub fn counts(&self) -> BTreeMap<&'static str, BTreeMap<&str, u64>> {
        let mut counts = BTreeMap::<_, BTreeMap<_, _>>::new();
        for (kind, statuses) in &self.0 {
            for status in statuses.values() {
                *counts.entry(*kind).or_default().entry(status.as_str()).or_default() += 1;
            }
        }
        counts
    }
}

/// An evidence pack in the making.
pub struct Evidence {
    about: About,
    span: Span,
    spine: Spine,
    decisions: Listed<DecisionEntry>,
    asked: HashMap<ActionId, usize>,
    tools: Tools,
    failures: Listed<Told>,
    artifacts: Listed<Told>,
    routing: Listed<Told>,
    costs: Costs,
    telemetry: Telemetry,
    standing: Standing,
    sandboxed: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Written<'a> {
    #[serde(flatten)]
    about: &'a About,
    scope: Scope,
    span: Span,
    correlation: &'a Spine,
    decisions: &'a Listed<DecisionEntry>,
    tool_calls: &'a Listed<ToolEntry>,
    failures: &'a Listed<Told>,
    artifacts: &'a Listed<Told>,
    routing: &'a Listed<Told>,
    costs: &'a Costs,
    telemetry: &'a Telemetry,
    outcomes: BTreeMap<&'static str, BTreeMap<&'a str, u64>>,
    verification: &'a [VerificationOutcome],
    known_gaps: &'a [KnownGap],
    missing: &'a [String],
}

impl Evidence {
    /// Nothing yet.
    pub fn new(about: About) -> Self {
        Self {
            about,
            span: Span::default(),
            spine: Spine::default(),
            decisions: Listed::default(),
            asked: HashMap::new(),
            tools: Tools::default(),
            failures: Listed::default(),
            artifacts: Listed::default(),
            routing: Listed::default(),
            costs: Costs::default(),
            telemetry: Telemetry::default(),
            standing: Standing::default(),
            sandboxed: false,
        }
    }

    fn decision(&mut self, event: &Event) {
        let (ids, at) = (&event.fact.ids, Time(event.fact.at));
        let entry = |kind, about: &str| DecisionEntry {
            kind,
            status: "pending".into(),
            about: about.to_owned(),
            ids: ids.clone(),
            asked_at: at,
            decision: None,
            by: None,
            decided_at: None,
            reason: None,
        };
        match &event.fact.payload {
            Payload::ActionRequired(required) => {
                let place = self.decisions.push(entry("action", &required.prompt));
                if let (Some(action), Some(place)) = (ids.action(), place) {
                    self.asked.insert(action.clone(), place);
                }
            }
            Payload::ActionResolved(resolved) => {
                let place = ids.action().and_then(|action| self.asked.get(action)).copied();
                let asked = place.and_then(|place| self.decisions.entries.get_mut(place));
                let Some(asked) = asked else { return };
                asked.status = resolved.status.to_string();
                asked.decision = Some(resolved.decision.clone());
                asked.by.clone_from(&resolved.by);
                asked.decided_at = Some(at);
                asked.reason.clone_from(&resolved.reason);
            }
            Payload::PermissionEvaluated(evaluated) => {
                let subject = [&evaluated.tool, &evaluated.process, &evaluated.action];
                let about = subject.into_iter().flatten().next().map_or("", String::as_str);
                self.decisions.push(DecisionEntry {
                    status: "evaluated".into(),
                    decision: Some(evaluated.decision.to_string()),
                    by: Some(evaluated.source.clone()),
                    decided_at: Some(at),
                    reason: evaluated.reason.clone(),
                    ..entry("permission", about)
                });
            }
            _ => {}
        }
    }

    /// What the facts leave open.
    fn gaps(&self) -> Vec<KnownGap> {
        let mut gaps = Vec::new();
        if self.costs.model_answers > 0 && self.costs.usd().is_none() {
            gaps.push(KnownGap::unknown("costs", "no fact says what the models cost"));
        }
        if self.spine.count("processes") > 0 && !self.sandboxed {
            gaps.push(KnownGap::unknown("sandbox", "processes ran and no fact says within which bounds"));
        }
        let lists = [
            ("decisions", self.decisions.omitted),
            ("failures", self.failures.omitted),
            ("artifacts", self.artifacts.omitted),
            ("routing", self.routing.omitted),
        ];
        let lists = lists.into_iter().chain(self.telemetry.omitted());
        for (what, omitted) in lists.filter(|(_, omitted)| *omitted > 0) {
            gaps.push(KnownGap::unavailable(what, format!("{omitted} more are in the feed only")));
        }
        gaps
    }
}

impl Pack for Evidence {
    fn take(&mut self, event: &Event) -> Result<(), Full> {
        self.span.take(event);
        self.spine.take(event);
        self.tools.take(event);
        self.costs.take(&event.fact.payload);
        self.telemetry.take(event);
        self.standing.take(event);
        self.decision(event);
        self.sandboxed |=
            matches!(event.fact.payload, Payload::SandboxApplied(_) | Payload::SandboxViolation(_));
        let list = match class::quoted(event.fact.event_type()) {
            Some(Quoted::Failures) => &mut self.failures,
            Some(Quoted::Artifacts) => &mut self.artifacts,
            Some(Quoted::Routing) => &mut self.routing,
            None => return Ok(()),
        };
        list.push(event.into());
        Ok(())
    }

    fn finish(mut self: Box<Self>, closing: Closing) -> Result<Vec<u8>, Full> {
        let mut gaps = closing.gaps;
        gaps.extend(self.gaps());
        let tool_calls = std::mem::take(&mut self.tools).finish();
        if tool_calls.omitted > 0 {
            gaps.push(KnownGap::unavailable(
                "toolCalls",
                format!("{} more are in the feed only", tool_calls.omitted),
            ));
        }
        let mut sink = Sink::default();
        sink.json(&Written {
            about: &self.about,
            scope: closing.selection.scope(),
            span: self.span,
            correlation: &self.spine,
            decisions: &self.decisions,
            tool_calls: &tool_calls,
            failures: &self.failures,
            artifacts: &self.artifacts,
            routing: &self.routing,
            costs: &self.costs,
            telemetry: &self.telemetry,
            outcomes: self.standing.counts(),
            verification: &closing.verification,
            known_gaps: &gaps,
            missing: &closing.missing,
        })?;
        Ok(sink.into_bytes())
    }
}
