//! Reading a script: what each step looks like on the wire, and its bounds.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::script::{Approve, Fail, Join, Limits, Say, ScriptError, Spawn, Step, TaskStep, ToolCall, check};
use crate::{
    control::{args::CreateTask, parse},
    exec::Used,
};

/// What names a step.
const KINDS: [&str; 10] =
    ["say", "tool", "tools", "approve", "spawn", "task", "sleep", "fail", "usage", "repeat"];
/// The longest wait: as long as a command may ask for.
const WAIT_MS_MAX: u64 = 30 * 24 * 60 * 60 * 1000;
/// What is asked of people, and what errors say, in bytes.
const PROSE_BYTES_MAX: usize = 2 * 1024;
/// Names of tools and decisions, in characters.
const NAME_CHARS_MAX: usize = 128;
/// Tools that are called side by side: each is an effect of its owner, which has a bounded number of them.
const TOOLS_MAX: usize = 16;
/// What may be decided about one question.
const DECISIONS_MAX: usize = 16;
/// What one `usage` reports at most: sums of it stay numbers.
const TOKENS_MAX: u64 = 1_000_000_000_000;
const COST_USD_MAX: f64 = 1_000_000.0;

/// See [`Step::Usage`].
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct Usage {
    input_tokens: u64,
    output_tokens: u64,
    cost_usd: f64,
}

/// Reads the steps of a script.
pub(super) struct Reader<'a> {
    limits: &'a Limits,
}

impl<'a> Reader<'a> {
    /// No larger than this.
    pub fn within(limits: &'a Limits) -> Self {
        Self { limits }
    }

    /// A list of steps, so deep in others.
    pub fn steps(&self, value: &Value, path: &str, depth: usize) -> Result<Vec<Step>, ScriptError> {
        check("a depth", depth as u64, self.limits.depth as u64)?;
        let list = value.as_array().ok_or_else(|| wrong(path, "must be an array of steps"))?;
        list.iter()
            .enumerate()
            .map(|(index, step)| self.step(step, &format!("{path}[{index}]"), depth))
            .collect()
    }

    fn step(&self, value: &Value, path: &str, depth: usize) -> Result<Step, ScriptError> {
        let object = value.as_object().ok_or_else(|| wrong(path, "must be an object"))?;
        one_kind(object, path)?;
        let has = |name: &str| object.get(name);
        if let Some(text) = has("say") {
            let text = text.as_str().ok_or_else(|| wrong(path, "say must be a string"))?;
            let chunks =
                whole(object, "chunks", path)?.unwrap_or(1).clamp(1, 10_000).max(Say::pieces_min(text));
            let delay_ms = wait(object, "delayMs", path)?.unwrap_or(0);
            return Ok(Step::Say(Say { text: text.to_owned(), chunks: chunks as u32, delay_ms }));
        }
        if let Some(name) = has("tool") {
            return Ok(Step::Tool(tool(name, object, path)?));
        }
        if let Some(calls) = has("tools") {
            let calls = calls.as_array().ok_or_else(|| wrong(path, "tools must be an array"))?;
            let calls = calls.iter().map(|call| {
                let object = call.as_object().ok_or_else(|| wrong(path, "tools must hold tool steps"))?;
                let name = object.get("tool").ok_or_else(|| wrong(path, "tools must hold tool steps"))?;
                one_kind(object, path)?;
                tool(name, object, path)
            });
            let calls = calls.collect::<Result<Vec<_>, _>>()?;
            if calls.is_empty() || calls.len() > TOOLS_MAX {
                return Err(wrong(path, format!("tools must hold 1 to {TOOLS_MAX} tool steps")));
            }
            return Ok(Step::Tools(calls));
        }
        if let Some(approve) = has("approve") {
            return Ok(Step::Approve(approve_of(approve, path)?));
        }
        if let Some(spawn) = has("spawn") {
            return self.spawn(spawn, &format!("{path}.spawn"), depth).map(Step::Spawn);
        }
        if let Some(task) = has("task") {
            return self.task(task, &format!("{path}.task"), depth).map(Step::Task);
        }
        if has("sleep").is_some() {
            let ms = wait(object, "sleep", path)?.unwrap_or(0);
            return Ok(Step::Sleep(ms));
        }
        if let Some(fail) = has("fail") {
            let fail: Fail = typed(fail, path, "fail")?;
            prose(&fail.message, path, "fail.message")?;
            return Ok(Step::Fail(fail));
        }
        if let Some(usage) = has("usage") {
            return Ok(Step::Usage(usage_of(usage, path)?));
        }
        if has("repeat").is_some() {
            let times = whole(object, "repeat", path)?.unwrap_or(0);
            let times = u32::try_from(times).map_err(|_| wrong(path, "repeat is too large"))?;
            let steps = object.get("steps").ok_or_else(|| wrong(path, "repeat needs steps"))?;
            return Ok(Step::Repeat {
                times,
                steps: self.steps(steps, &format!("{path}.steps"), depth + 1)?,
            });
        }
        let names = KINDS.join(", ");
        Err(wrong(path, format!("is none of the known steps: {names}")))
    }

    fn spawn(&self, value: &Value, path: &str, depth: usize) -> Result<Spawn, ScriptError> {
        let object = value.as_object().ok_or_else(|| wrong(path, "must be an object"))?;
        let count = whole(object, "count", path)?.unwrap_or(1);
        let script = object.get("script").ok_or_else(|| wrong(path, "needs a script"))?;
        let join = object.get("join").map_or(Ok(Join::All), |join| typed(join, path, "join"))?;
        Ok(Spawn {
            count: u32::try_from(count).map_err(|_| wrong(path, "count is too large"))?,
            script: self.steps(script, &format!("{path}.script"), depth + 1)?,
            text: script.to_string(),
            join,
        })
    }

    fn task(&self, value: &Value, path: &str, depth: usize) -> Result<TaskStep, ScriptError> {
        let mut args = value.as_object().ok_or_else(|| wrong(path, "must be an object"))?.clone();
        let script = args.remove("script").ok_or_else(|| wrong(path, "needs a script"))?;
        let join = args.remove("join").map_or(Ok(true), |join| {
            join.as_bool().ok_or_else(|| wrong(path, "join must be true or false"))
        })?;
        // What can be known to be no task is known before anything runs.
        parse::<CreateTask>(Value::Object(args.clone())).map_err(|error| wrong(path, error.message))?;
        Ok(TaskStep {
            args,
            script: self.steps(&script, &format!("{path}.script"), depth + 1)?,
            text: script.to_string(),
            join,
        })
    }
}

/// A step does one thing. Of two, one would be lost without a word, be it the question whether the other may be done.
fn one_kind(object: &Map<String, Value>, path: &str) -> Result<(), ScriptError> {
    let kinds: Vec<&str> = KINDS.into_iter().filter(|kind| object.contains_key(*kind)).collect();
    match kinds[..] {
        [] | [_] => Ok(()),
        _ => Err(wrong(path, format!("is {} at once: make that steps of their own", kinds.join(" and ")))),
    }
}

fn tool(name: &Value, object: &Map<String, Value>, path: &str) -> Result<ToolCall, ScriptError> {
    let name = name.as_str().ok_or_else(|| wrong(path, "tool must be a string"))?.to_owned();
    if name.is_empty() || name.chars().count() > NAME_CHARS_MAX {
        return Err(wrong(path, format!("tool must have 1 to {NAME_CHARS_MAX} characters")));
    }
    let args = object.get("args").cloned().unwrap_or_else(|| Value::Object(Map::new()));
    if !args.is_object() {
        return Err(wrong(path, "args must be an object"));
    }
    Ok(ToolCall { name, args })
}

fn approve_of(value: &Value, path: &str) -> Result<Approve, ScriptError> {
    let approve: Approve = typed(value, path, "approve")?;
    prose(&approve.prompt, path, "approve.prompt")?;
    if approve.decisions.is_empty() {
        return Err(wrong(path, "approve.decisions must not be empty"));
    }
    let named = |decision: &String| (1..=NAME_CHARS_MAX).contains(&decision.chars().count());
    if approve.decisions.len() > DECISIONS_MAX || !approve.decisions.iter().all(named) {
        let limits = format!("at most {DECISIONS_MAX} of 1 to {NAME_CHARS_MAX} characters each");
        return Err(wrong(path, format!("approve.decisions must be {limits}")));
    }
    if approve.expires_ms.is_some_and(|ms| ms > WAIT_MS_MAX) {
        return Err(wrong(path, format!("approve.expiresMs must be at most {WAIT_MS_MAX}")));
    }
    Ok(approve)
}

fn usage_of(value: &Value, path: &str) -> Result<Used, ScriptError> {
    let usage: Usage = typed(value, path, "usage")?;
    if usage.input_tokens.max(usage.output_tokens) > TOKENS_MAX {
        return Err(wrong(path, format!("usage must have at most {TOKENS_MAX} tokens")));
    }
    if !(0.0..=COST_USD_MAX).contains(&usage.cost_usd) {
        return Err(wrong(path, format!("usage.costUsd must be 0 to {COST_USD_MAX}")));
    }
    let Usage { input_tokens, output_tokens, cost_usd } = usage;
    Ok(Used { steps: 0, input_tokens, output_tokens, cost_usd })
}

fn prose(text: &str, path: &str, name: &str) -> Result<(), ScriptError> {
    if text.len() > PROSE_BYTES_MAX {
        return Err(wrong(path, format!("{name} must have at most {PROSE_BYTES_MAX} bytes")));
    }
    Ok(())
}

fn typed<T: serde::de::DeserializeOwned>(value: &Value, path: &str, name: &str) -> Result<T, ScriptError> {
    T::deserialize(value).map_err(|error| wrong(path, format!("{name}: {error}")))
}

fn whole(object: &Map<String, Value>, name: &str, path: &str) -> Result<Option<u64>, ScriptError> {
    match object.get(name) {
        None => Ok(None),
        Some(value) => match value.as_u64() {
            Some(number) => Ok(Some(number)),
            None => Err(wrong(path, format!("{name} must be a whole number that is not negative"))),
        },
    }
}

/// A time in milliseconds.
fn wait(object: &Map<String, Value>, name: &str, path: &str) -> Result<Option<u64>, ScriptError> {
    match whole(object, name, path)? {
        Some(ms) if ms > WAIT_MS_MAX => Err(wrong(path, format!("{name} must be at most {WAIT_MS_MAX}"))),
        found => Ok(found),
    }
}

fn wrong(path: &str, reason: impl Into<String>) -> ScriptError {
    ScriptError::Step { path: path.to_owned(), reason: reason.into() }
}
