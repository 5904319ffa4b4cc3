//! The review pack: what a person reads who has to say whether the work was good.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use super::{
    About, Closing, KnownGap, Listed, Pack, Scope, Span,
    evidence::{Costs, Standing},
    sink::{Full, Sink},
};
use crate::fact::{
    Event, Failure, OutputRef, Part, Payload, Ref,
    id::{ActionId, RunId, SubagentId, TaskId, ThreadId, TurnId},
    payload::VerificationOutcome,
    time::Time,
};

/// What the format is called.
pub const FORMAT: &str = "cadre-review/1";
/// How much of an objective or an answer is quoted, in characters: a page of it.
const QUOTED_MAX: usize = 4_000;

/// A question that somebody was asked.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Question {
    /// Which.
    pub action_id: Option<ActionId>,
    /// In words.
    pub prompt: String,
    /// When it was asked.
    pub asked_at: Time,
    /// The answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<String>,
    /// Whose.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// How often a tool was called.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ToolUse {
    /// All calls.
    pub calls: u32,
    /// Those that gave no result.
    pub failed: u32,
}

/// What one turn did.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnReview {
    /// Its id.
    pub turn_id: Option<TurnId>,
    /// Its thread.
    pub thread_id: Option<ThreadId>,
    /// The task for which it worked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskId>,
    /// The subagent whose turn it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subagent_id: Option<SubagentId>,
    /// Who answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// What was asked.
    pub objective: String,
    /// What was said.
    pub answer: String,
    /// What was called.
    pub tools: BTreeMap<String, ToolUse>,
    /// Who was asked, and what they said.
    pub approvals: Vec<Question>,
    /// How it stands.
    pub outcome: String,
    /// What went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
    /// When it began.
    pub started_at: Option<Time>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Time>,
    /// What it produced.
    pub outputs: Vec<OutputRef>,
}

/// What one task did.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskReview {
    /// Its id.
    pub task_id: Option<TaskId>,
    /// What people call it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What was to be achieved.
    pub objective: String,
    /// How it stands.
    pub outcome: String,
    /// The result in short.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// Its attempts.
    pub attempts: Vec<AttemptReview>,
    /// What it delivered.
    pub artifacts: Vec<Ref>,
    /// What proves it.
    pub evidence_refs: Vec<Ref>,
}

/// One attempt of a task.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AttemptReview {
    /// Which run.
    pub run_id: Option<RunId>,
    /// How it ended.
    pub outcome: &'static str,
    /// What went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
}

/// An artifact that changed.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Changed {
    /// Where it is.
    pub artifact_ref: Option<Ref>,
    /// What people call it.
    pub title: Option<String>,
    /// What happened to it.
    pub change: Option<String>,
    /// What is different.
    pub diff_ref: Option<Ref>,
}

/// A review pack in the making.
pub struct Review {
    about: About,
    span: Span,
    turns: Listed<TurnReview>,
    turn_places: HashMap<TurnId, usize>,
    tasks: Listed<TaskReview>,
    task_places: HashMap<TaskId, usize>,
    changes: Listed<Changed>,
    costs: Costs,
    standing: Standing,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Written<'a> {
    #[serde(flatten)]
    about: &'a About,
    scope: Scope,
    span: Span,
    outcomes: BTreeMap<&'static str, BTreeMap<&'a str, u64>>,
    open_questions: Vec<&'a Question>,
    turns: &'a Listed<TurnReview>,
    tasks: &'a Listed<TaskReview>,
    changes: &'a Listed<Changed>,
    costs: &'a Costs,
    verification: &'a [VerificationOutcome],
    known_gaps: &'a [KnownGap],
    missing: &'a [String],
}

impl Review {
    /// Nothing yet.
    pub fn new(about: About) -> Self {
        Self {
            about,
            span: Span::default(),
            turns: Listed::default(),
            turn_places: HashMap::new(),
            tasks: Listed::default(),
            task_places: HashMap::new(),
            changes: Listed::default(),
            costs: Costs::default(),
            standing: Standing::default(),
        }
    }

    fn turn(&mut self, event: &Event) -> Option<&mut TurnReview> {
        let ids = &event.fact.ids;
        let id = ids.turn()?;
        if !self.turn_places.contains_key(id) {
            if !matches!(event.fact.payload, Payload::TurnSubmitted(_) | Payload::TurnStarted(_)) {
                return None;
            }
            let place = self.turns.push(TurnReview {
                turn_id: Some(id.clone()),
                thread_id: ids.thread().cloned(),
                task_id: ids.task().cloned(),
                subagent_id: ids.subagent().cloned(),
                ..TurnReview::default()
            });
            self.turn_places.insert(id.clone(), place.unwrap_or(usize::MAX));
        }
        self.turns.entries.get_mut(*self.turn_places.get(id)?)
    }

    fn task(&mut self, event: &Event) -> Option<&mut TaskReview> {
        let id = event.fact.ids.task()?;
        if !self.task_places.contains_key(id) {
            if !matches!(event.fact.payload, Payload::TaskCreated(_)) {
                return None;
            }
            let place = self.tasks.push(TaskReview { task_id: Some(id.clone()), ..TaskReview::default() });
            self.task_places.insert(id.clone(), place.unwrap_or(usize::MAX));
        }
        self.tasks.entries.get_mut(*self.task_places.get(id)?)
    }

    fn in_turn(&mut self, event: &Event) {
        let Some(turn) = self.turn(event) else { return };
        let at = Time(event.fact.at);
        match &event.fact.payload {
            Payload::TurnSubmitted(submitted) => {
                turn.objective = words(&submitted.input);
                turn.outcome = submitted.status.to_string();
                turn.agent.clone_from(&submitted.agent);
            }
            Payload::TurnStarted(started) => {
                turn.agent = Some(started.agent.clone());
                turn.started_at.get_or_insert(at);
                turn.outcome = "running".into();
            }
            Payload::ModelDelta(delta) => quote(&mut turn.answer, &delta.text),
            Payload::ToolStarted(started) => turn.tools.entry(started.name.clone()).or_default().calls += 1,
            Payload::ToolFailed(failed) => turn.tools.entry(failed.name.clone()).or_default().failed += 1,
            Payload::ActionRequired(required) => turn.approvals.push(Question {
                action_id: event.fact.ids.action().cloned(),
                prompt: required.prompt.clone(),
                asked_at: at,
                decision: None,
                by: None,
                reason: None,
            }),
            Payload::ActionResolved(resolved) => {
                let action = event.fact.ids.action();
                let asked = turn.approvals.iter_mut().find(|asked| asked.action_id.as_ref() == action);
                let Some(asked) = asked else { return };
                asked.decision = Some(resolved.decision.clone());
                asked.by.clone_from(&resolved.by);
                asked.reason.clone_from(&resolved.reason);
            }
            Payload::TurnCompleted(completed) => {
                turn.outcome = completed.status.to_string();
                turn.ended_at = Some(at);
                turn.outputs.clone_from(&completed.output_refs);
                if let Some(summary) = completed.summary.as_ref().filter(|_| turn.answer.is_empty()) {
                    quote(&mut turn.answer, summary);
                }
            }
            Payload::TurnFailed(failed) => {
                turn.outcome = failed.status.to_string();
                turn.ended_at = Some(at);
                turn.error = Some(failed.error.clone());
            }
            _ => {}
        }
    }

    fn in_task(&mut self, event: &Event) {
        let Some(task) = self.task(event) else { return };
        let run_id = event.fact.ids.run().cloned();
        match &event.fact.payload {
            Payload::TaskCreated(created) => {
                task.title.clone_from(&created.title);
                quote(&mut task.objective, &created.objective);
                task.outcome = created.status.to_string();
            }
            Payload::TaskAttemptCompleted(_) => {
                task.attempts.push(AttemptReview { run_id, outcome: "completed", error: None });
            }
            Payload::TaskAttemptFailed(failed) => {
                let error = failed.error.clone();
                task.attempts.push(AttemptReview { run_id, outcome: "failed", error });
            }
            Payload::TaskCompleted(completed) => {
                task.outcome = completed.status.to_string();
                task.summary.clone_from(&completed.summary);
                task.artifacts.clone_from(&completed.artifacts);
                task.evidence_refs.clone_from(&completed.evidence_refs);
            }
            Payload::TaskFailed(ended) => task.outcome = ended.status.to_string(),
            Payload::TaskCancelled(ended) => task.outcome = ended.status.to_string(),
            Payload::TaskTimedOut(ended) => task.outcome = ended.status.to_string(),
            Payload::TaskLost(ended) => task.outcome = ended.status.to_string(),
            Payload::TaskStarted(started) => task.outcome = started.status.to_string(),
            Payload::TaskRetrying(retrying) => task.outcome = retrying.status.to_string(),
            _ => {}
        }
    }
}

impl Pack for Review {
    fn take(&mut self, event: &Event) -> Result<(), Full> {
        self.span.take(event);
        self.costs.take(&event.fact.payload);
        self.standing.take(event);
        self.in_turn(event);
        self.in_task(event);
        if let Payload::ArtifactChanged(changed) = &event.fact.payload {
            self.changes.push(Changed {
                artifact_ref: changed.artifact_ref.clone(),
                title: changed.title.clone(),
                change: changed.change.clone(),
                diff_ref: changed.diff_ref.clone(),
            });
        }
        Ok(())
    }

    fn finish(self: Box<Self>, closing: Closing) -> Result<Vec<u8>, Full> {
        let mut gaps = closing.gaps;
        let lists =
            [("turns", self.turns.omitted), ("tasks", self.tasks.omitted), ("changes", self.changes.omitted)];
        for (what, omitted) in lists.into_iter().filter(|(_, omitted)| *omitted > 0) {
            gaps.push(KnownGap::unavailable(what, format!("{omitted} more are in the feed only")));
        }
        let asked = self.turns.entries.iter().filter(|turn| turn.ended_at.is_none());
        let asked = asked.flat_map(|turn| &turn.approvals);
        let mut sink = Sink::default();
        sink.json(&Written {
            about: &self.about,
            scope: closing.selection.scope(),
            span: self.span,
            outcomes: self.standing.counts(),
            open_questions: asked.filter(|asked| asked.decision.is_none()).collect(),
            turns: &self.turns,
            tasks: &self.tasks,
            changes: &self.changes,
            costs: &self.costs,
            verification: &closing.verification,
            known_gaps: &gaps,
            missing: &closing.missing,
        })?;
        Ok(sink.into_bytes())
    }
}

/// The words of an input.
fn words(input: &[Part]) -> String {
    let mut text = String::new();
    for part in input {
        match part {
            Part::Text { text: more } => quote(&mut text, more),
            Part::Blob { blob, media_type } => quote(&mut text, &format!("[{media_type} {blob}]")),
        }
    }
    text
}

/// Adds to a quotation, up to its bound.
fn quote(quoted: &mut String, more: &str) {
    if quoted.ends_with('…') {
        return;
    }
    let room = QUOTED_MAX.saturating_sub(quoted.chars().count());
    quoted.extend(more.chars().take(room));
    if more.chars().count() > room {
        quoted.push('…');
    }
}
