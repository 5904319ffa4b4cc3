//! What a script may say, and how much of it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::read::Reader;
use crate::exec::Used;

/// A list of steps, run in order.
#[derive(Debug, Clone, PartialEq)]
pub struct Script {
    /// What to do, one after the other.
    pub steps: Vec<Step>,
}

/// One step. On the wire an object whose first key names it: `{"say": "hello"}`.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Streams text, in chunks, some time apart.
    Say(Say),
    /// Calls one tool.
    Tool(ToolCall),
    /// Calls several tools in one answer: those that may run side by side do.
    Tools(Vec<ToolCall>),
    /// Asks somebody, and goes on when the first decision is taken.
    Approve(Approve),
    /// Starts subagents.
    Spawn(Spawn),
    /// Creates a task.
    Task(TaskStep),
    /// Waits, durably.
    Sleep(u64),
    /// Fails, some times or always.
    Fail(Fail),
    /// Reports what this and the next step have used up, as a model does with its answer.
    Usage(Used),
    /// Runs steps several times.
    Repeat {
        /// How often.
        times: u32,
        /// What.
        steps: Vec<Step>,
    },
}

/// See [`Step::Say`].
#[derive(Debug, Clone, PartialEq)]
pub struct Say {
    /// `{{turn}}` and `{{attempt}}` are replaced.
    pub text: String,
    /// Into how many deltas it is cut.
    pub chunks: u32,
    /// The time between two of them.
    pub delay_ms: u64,
}

impl Say {
    /// A delta is a fact, and facts are small.
    pub const PIECE_BYTES_MAX: usize = 8 * 1024;

    /// Into how many pieces a text is cut at least, so that each is small whatever it is made of: a character has up to
    /// four bytes, and of what is replaced an id is the longest.
    pub(super) fn pieces_min(text: &str) -> u64 {
        let grows = text.matches("{{turn}}").count() * 128;
        (4 * (text.chars().count() + grows)).div_ceil(Self::PIECE_BYTES_MAX) as u64
    }
}

/// See [`Step::Tool`].
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// Which tool.
    pub name: String,
    /// Its arguments.
    pub args: Value,
}

/// See [`Step::Approve`].
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Approve {
    /// What is asked.
    pub prompt: String,
    /// What may be answered; the first one means yes.
    #[serde(default = "allow_or_deny")]
    pub decisions: Vec<String>,
    /// How long the question stands.
    #[serde(default)]
    pub expires_ms: Option<u64>,
}

fn allow_or_deny() -> Vec<String> {
    vec!["allow".into(), "deny".into()]
}

/// See [`Step::Spawn`].
#[derive(Debug, Clone, PartialEq)]
pub struct Spawn {
    /// How many.
    pub count: u32,
    /// What each of them runs.
    pub script: Vec<Step>,
    /// The same as JSON text, which is their input.
    pub text: String,
    /// What to wait for.
    pub join: Join,
}

/// What a parent waits for after it has started children.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Join {
    /// Until all of them have ended.
    #[default]
    All,
    /// Until one of them has; the others go on until the turn ends, and are closed then.
    Any,
    /// For nothing.
    None,
}

/// See [`Step::Task`].
#[derive(Debug, Clone, PartialEq)]
pub struct TaskStep {
    /// The arguments of `create_task`.
    pub args: Map<String, Value>,
    /// What each attempt runs.
    pub script: Vec<Step>,
    /// The same as JSON text, which is its input.
    pub text: String,
    /// Whether to wait for its end.
    pub join: bool,
}

/// See [`Step::Fail`].
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Fail {
    /// The error's message.
    #[serde(default = "no_message")]
    pub message: String,
    /// Whether trying again makes sense.
    #[serde(default = "yes")]
    pub retryable: bool,
    /// How often it fails before it does not; always when absent.
    #[serde(default)]
    pub times: Option<u32>,
}

fn no_message() -> String {
    "the script says so".into()
}

fn yes() -> bool {
    true
}

/// How large a script may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How deep lists of steps may be nested.
    pub depth: usize,
    /// How many steps one run makes, repeats counted as often as they run.
    pub steps: u64,
    /// How many subagents and tasks there may be in all.
    pub descendants: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { depth: 16, steps: 10_000, descendants: 1_000_000 }
    }
}

/// Why a text is not a script.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScriptError {
    /// There are blobs, at most, and those are not read.
    #[error("the script is missing: the input has no text part, and blobs are not read as scripts")]
    Missing,
    /// Not JSON at all.
    #[error("the script is not JSON: {reason}")]
    Json {
        /// What the parser said.
        reason: String,
    },
    /// JSON that is not a step.
    #[error("{path}: {reason}")]
    Step {
        /// Where: `steps[2].spawn.script[0]`.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// More than is allowed.
    #[error("the script has {what} of {actual}, the limit is {limit}")]
    TooLarge {
        /// `a depth`, `a number of steps`, `a number of descendants`.
        what: &'static str,
        /// What it has.
        actual: u64,
        /// What it may have.
        limit: u64,
    },
}

impl Script {
    /// Reads and measures a script. Nothing of a script that is refused is run.
    pub fn parse(text: &str, limits: &Limits) -> Result<Self, ScriptError> {
        let value: Value =
            serde_json::from_str(text).map_err(|error| ScriptError::Json { reason: error.to_string() })?;
        let steps = Reader::within(limits).steps(&value, "steps", 1)?;
        let script = Self { steps };
        let size = measure(&script.steps);
        check("a number of steps", size.steps, limits.steps)?;
        check("a number of steps", size.steps_below, limits.steps)?;
        check("a number of descendants", size.descendants, limits.descendants)?;
        Ok(script)
    }
}

pub(super) fn check(what: &'static str, actual: u64, limit: u64) -> Result<(), ScriptError> {
    if actual > limit { Err(ScriptError::TooLarge { what, actual, limit }) } else { Ok(()) }
}

/// What a list of steps comes to.
#[derive(Debug, Clone, Copy, Default)]
struct Size {
    /// Of this run.
    steps: u64,
    /// Of the largest run below it.
    steps_below: u64,
    descendants: u64,
}

fn measure(steps: &[Step]) -> Size {
    let mut size = Size::default();
    for step in steps {
        let (times, inner) = match step {
            // What repeats nothing is a step as well: going round costs time, too.
            Step::Repeat { times, steps } if *times == 0 || steps.is_empty() => {
                (1, Size { steps: 1, ..Size::default() })
            }
            Step::Repeat { times, steps } => (u64::from(*times), measure(steps)),
            Step::Spawn(spawn) => {
                let child = measure(&spawn.script);
                (1, delegated(u64::from(spawn.count), child))
            }
            Step::Task(task) => (1, delegated(1, measure(&task.script))),
            _ => (1, Size { steps: 1, ..Size::default() }),
        };
        size.steps = size.steps.saturating_add(inner.steps.saturating_mul(times));
        size.steps_below = size.steps_below.max(inner.steps_below);
        size.descendants = size.descendants.saturating_add(inner.descendants.saturating_mul(times));
    }
    size
}

fn delegated(count: u64, child: Size) -> Size {
    Size {
        steps: 1,
        steps_below: child.steps.max(child.steps_below),
        descendants: count.saturating_mul(child.descendants.saturating_add(1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Script, ScriptError> {
        Script::parse(text, &Limits::default())
    }

    #[test]
    fn every_step_of_the_contract_is_read() {
        let script = parse(
            r#"[{"say":"hi {{turn}}","chunks":3,"delayMs":5},{"tool":"echo","args":{"a":1}},
            {"tools":[{"tool":"echo"},{"tool":"echo"}]},
            {"approve":{"prompt":"ok?","decisions":["yes","no"]}},{"spawn":{"count":2,"script":[{"say":"x"}]}},
            {"spawn":{"count":1,"script":[],"join":"none"}},{"task":{"objective":"o","script":[],"join":false}},
            {"sleep":10},{"fail":{"message":"m","retryable":true,"times":2}},{"repeat":3,"steps":[{"say":"y"}]}]"#,
        )
        .unwrap();
        assert_eq!(script.steps.len(), 10);
        assert!(
            matches!(&script.steps[4], Step::Spawn(Spawn { join: Join::All, text, .. }) if text == r#"[{"say":"x"}]"#)
        );
        assert!(matches!(&script.steps[6], Step::Task(task) if !task.join && task.args["objective"] == "o"));
    }

    #[test]
    fn what_is_not_a_script_is_refused_with_its_place() {
        for (text, part) in [
            ("nonsense", "not JSON"),
            ("{}", "steps: must be an array"),
            ("[1]", "steps[0]: must be an object"),
            (r#"[{"dance":1}]"#, "none of the known steps"),
            (r#"[{"say":1}]"#, "say must be a string"),
            (r#"[{"say":"a","chunks":-1}]"#, "chunks must be a whole number"),
            (r#"[{"tool":"echo","args":[]}]"#, "args must be an object"),
            (r#"[{"spawn":{"count":2}}]"#, "needs a script"),
            (r#"[{"spawn":{"count":2,"script":[{"x":1}]}}]"#, "steps[0].spawn.script[0]"),
            (r#"[{"spawn":{"count":1,"script":[],"join":"some"}}]"#, "join"),
            (r#"[{"approve":{"prompt":"x","decisions":[]}}]"#, "must not be empty"),
            (r#"[{"repeat":2}]"#, "needs steps"),
            (r#"[{"sleep":"long"}]"#, "sleep must be a whole number"),
            (r#"[{"sleep":18446744073709551615}]"#, "sleep must be at most"),
            (r#"[{"say":"a","chunks":2,"delayMs":2592000001}]"#, "delayMs must be at most"),
            (r#"[{"approve":{"prompt":"x","expiresMs":18446744073709551615}}]"#, "expiresMs must be at most"),
            (r#"[{"approve":{"prompt":"x","decisions":[""]}}]"#, "approve.decisions must be at most"),
            (r#"[{"approve":{}}]"#, "prompt"),
            (r#"[{"tool":""}]"#, "tool must have 1 to 128"),
            (r#"[{"tools":[]}]"#, "1 to 16"),
            (r#"[{"repeat":-1,"steps":[]}]"#, "repeat must be a whole number"),
            (r#"[{"repeat":5000000000,"steps":[]}]"#, "repeat is too large"),
            (r#"[{"spawn":{"count":5000000000,"script":[]}}]"#, "count is too large"),
            (r#"[{"task":{"objective":"o"}}]"#, "needs a script"),
            (r#"[{"task":{"objective":"o","script":[],"join":"all"}}]"#, "join must be true or false"),
            (r#"[{"fail":{"times":-1}}]"#, "fail"),
            (r#"[{"fail":"now"}]"#, "fail"),
            (r#"[{"usage":{"costUsd":-1}}]"#, "usage.costUsd must be 0 to"),
            (r#"[{"usage":{"inputTokens":-1}}]"#, "usage"),
            (r#"[{"usage":{"outputTokens":1000000000001}}]"#, "usage must have at most"),
            (r#"[{"usage":{"cost":1}}]"#, "usage"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn p9_a_script_past_a_limit_is_refused() {
        let deep = (0..16).fold("[]".to_owned(), |inner, _| format!(r#"[{{"repeat":1,"steps":{inner}}}]"#));
        assert!(matches!(parse(&deep), Err(ScriptError::TooLarge { what: "a depth", .. })));
        let long = r#"[{"repeat":10001,"steps":[{"say":"x"}]}]"#;
        assert!(matches!(parse(long), Err(ScriptError::TooLarge { what: "a number of steps", .. })));
        assert!(parse(r#"[{"repeat":10000,"steps":[{"say":"x"}]}]"#).is_ok());
        // Going round for nothing is work, too, and there is none without an end.
        let idle = r#"[{"repeat":4000000000,"steps":[{"repeat":4000000000,"steps":[]}]}]"#;
        assert!(matches!(parse(idle), Err(ScriptError::TooLarge { what: "a number of steps", .. })));
        let never = r#"[{"repeat":4000000000,"steps":[{"repeat":0,"steps":[{"say":"x"}]}]}]"#;
        assert!(matches!(parse(never), Err(ScriptError::TooLarge { what: "a number of steps", .. })));
        assert!(parse(r#"[{"repeat":4000000000,"steps":[]}]"#).is_ok(), "nothing, however often, is nothing");
        let wide = r#"[{"spawn":{"count":1000001,"script":[]}}]"#;
        assert!(matches!(parse(wide), Err(ScriptError::TooLarge { what: "a number of descendants", .. })));
        let product = r#"[{"spawn":{"count":1000,"script":[{"spawn":{"count":1000,"script":[]}}]}}]"#;
        assert!(parse(product).is_err());
        let tree = r#"[{"spawn":{"count":10,"script":[{"spawn":{"count":100,"script":[{"spawn":{"count":100,"script":[]}}]}}]}}]"#;
        assert!(parse(tree).is_ok());
        let below = r#"[{"spawn":{"count":1,"script":[{"repeat":10001,"steps":[{"say":"x"}]}]}}]"#;
        assert!(parse(below).is_err(), "a child's script has the same limits");
    }
}
