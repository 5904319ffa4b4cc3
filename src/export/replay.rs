//! The replay case: the events themselves, and what was served at the cursor.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    About, Closing, Pack, Span,
    sink::{Full, Sink},
};
use crate::fact::{Event, Publisher};

/// What the format is called.
pub const FORMAT: &str = "cadre-replay/1";

/// Read models as they were served. Views are kept as JSON, which is what was served.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Models {
    /// How much of the session's snapshot was asked for.
    pub window: Window,
    /// The snapshot of the session, when the case is of all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<Value>,
    /// Turns that have ended, by thread, as many as there was room for: the last ones.
    pub turns: BTreeMap<String, Vec<Value>>,
    /// Tasks.
    pub tasks: BTreeMap<String, Value>,
    /// Subagents.
    pub subagents: BTreeMap<String, Value>,
    /// Jobs; absent when they were not recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jobs: Option<BTreeMap<String, Value>>,
    /// Items that ever began, by job; absent when they were not recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub items: Option<BTreeMap<String, Vec<Value>>>,
    /// How many more there are than were recorded, by kind.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub omitted: BTreeMap<String, u64>,
}

/// How much of what there may be much of is in a snapshot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Turns that have ended, of each thread.
    pub turns: usize,
    /// Tasks.
    pub tasks: usize,
    /// Jobs.
    pub jobs: usize,
    /// Subagents; cases that do not say had none.
    #[serde(default)]
    pub subagents: usize,
}

/// A replay case in the making. Events become text as they come, so that it never holds more than that text.
pub struct Replay {
    publisher: Publisher,
    models: Models,
    span: Span,
    sink: Sink,
}

impl Replay {
    /// Without events yet.
    pub fn new(about: &About, publisher: Publisher, models: Models) -> Result<Self, Full> {
        let mut sink = Sink::default();
        sink.json(about)?;
        let mut text = sink.into_bytes();
        // The object goes on.
        text.pop();
        let mut sink = Sink::default();
        sink.text(std::str::from_utf8(&text).expect("JSON is UTF-8"))?;
        sink.text(",\"events\":[")?;
        Ok(Self { publisher, models, span: Span::default(), sink })
    }
}

impl Pack for Replay {
    fn take(&mut self, event: &Event) -> Result<(), Full> {
        self.sink.text(if self.span.events == 0 { "\n" } else { ",\n" })?;
        self.span.take(event);
        self.sink.json(&self.publisher.envelope(event))
    }

    fn finish(self: Box<Self>, closing: Closing) -> Result<Vec<u8>, Full> {
        let Self { mut models, span, mut sink, .. } = *self;
        let scope = closing.selection.scope();
        if !scope.is_all() {
            // Only what was selected as a whole can be told from what was selected.
            models.snapshot = None;
            models.jobs = None;
            models.items = None;
            models.omitted.clear();
            models.tasks.retain(|id, _| closing.selection.tasks.iter().any(|task| task.as_str() == id));
            models
                .subagents
                .retain(|id, _| closing.selection.subagents.iter().any(|known| known.as_str() == id));
            models.turns.retain(|id, _| scope.thread_id.as_ref().is_some_and(|thread| thread.as_str() == id));
            if let Some(turn) = &scope.turn_id {
                let asked = |view: &Value| view["turnId"] == turn.as_str();
                models.turns.values_mut().for_each(|turns| turns.retain(asked));
            }
            if scope.task_id.is_some() {
                models.turns.clear();
            }
        }
        sink.text("\n]")?;
        sink.field(false, "scope", &scope)?;
        sink.field(false, "span", &span)?;
        sink.field(false, "models", &models)?;
        sink.field(false, "verification", &closing.verification)?;
        sink.field(false, "knownGaps", &closing.gaps)?;
        sink.field(false, "missing", &closing.missing)?;
        sink.text("}\n")?;
        Ok(sink.into_bytes())
    }
}
