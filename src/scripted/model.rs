//! The model of the scripted agent: it reads the next lines of its script.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;

use super::{
    AGENT,
    script::{Limits, Say, Script, ScriptError, Step, ToolCall},
};
use crate::{
    exec::{Answer, Call, ModelError, ModelRequest, Provider, Source, Stop, Used},
    fact::{Failure, Part},
};

/// The provider of the scripted agent.
#[derive(Default)]
pub struct Scripted {
    limits: Limits,
    /// Scripts that were read lately: the subagents of one parent all have the same.
    read: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    scripts: HashMap<u128, Arc<Script>>,
    /// What their texts come to.
    bytes: usize,
}

/// A place in a script: which step of which repetition, from the outermost list inwards, and which chunk of it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    /// Index and iteration; the iteration is that of a repeat at this index.
    frames: Vec<(u32, u32)>,
    chunk: u32,
}

impl Place {
    fn of(position: &[u32]) -> Self {
        let Some((chunk, frames)) = position.split_first() else {
            return Self { frames: vec![(0, 0)], chunk: 0 };
        };
        Self { frames: frames.chunks_exact(2).map(|frame| (frame[0], frame[1])).collect(), chunk: *chunk }
    }

    fn position(&self) -> Vec<u32> {
        let frames = self.frames.iter().flat_map(|(index, iteration)| [*index, *iteration]);
        std::iter::once(self.chunk).chain(frames).collect()
    }

    /// The step here. Goes into repeats, and out of lists that are at their end.
    fn step<'s>(&mut self, script: &'s Script) -> Option<&'s Step> {
        loop {
            let mut steps = &script.steps;
            for (index, _) in &self.frames[..self.frames.len() - 1] {
                match steps.get(*index as usize) {
                    Some(Step::Repeat { steps: inner, .. }) => steps = inner,
                    _ => return None,
                }
            }
            match (steps.get(self.frames.last()?.0 as usize), self.frames.len()) {
                (Some(Step::Repeat { times, steps: inner }), _) => {
                    let iteration = self.frames.last()?.1;
                    if iteration < *times && !inner.is_empty() {
                        self.frames.push((0, 0));
                    } else {
                        self.next();
                    }
                }
                (Some(step), _) => return Some(step),
                (None, 1) => return None,
                (None, _) => {
                    self.frames.pop();
                    self.frames.last_mut()?.1 += 1;
                }
            }
        }
    }

    fn next(&mut self) {
        self.chunk = 0;
        if let Some(frame) = self.frames.last_mut() {
            *frame = (frame.0 + 1, 0);
        }
    }
}

impl Scripted {
    /// How much one answer says before it makes room for others.
    const DELTAS_MAX: usize = 64;
    const BYTES_MAX: usize = 32 * 1024;
    const SCRIPTS_KEPT_MAX: usize = 256;
    /// Texts of scripts that are kept in all. What is read of one takes several times as much.
    const TEXT_KEPT_MAX: usize = 4 * 1024 * 1024;

    /// The script in an input: its first text.
    pub fn script(&self, input: &[Part]) -> Result<Arc<Script>, ScriptError> {
        let text = input.iter().find_map(text_of).ok_or(ScriptError::Missing)?;
        let key = xxhash_rust::xxh3::xxh3_128(text.as_bytes());
        let read = || self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(script) = read().scripts.get(&key) {
            return Ok(script.clone());
        }
        let script = Arc::new(Script::parse(text, &self.limits)?);
        let mut kept = read();
        if kept.scripts.len() >= Self::SCRIPTS_KEPT_MAX || kept.bytes + text.len() > Self::TEXT_KEPT_MAX {
            *kept = Kept::default();
        }
        if kept.scripts.insert(key, script.clone()).is_none() {
            kept.bytes += text.len();
        }
        Ok(script)
    }

    fn say(&self, request: &ModelRequest, script: &Script) -> Result<Answer, ModelError> {
        let mut place = Place::of(&request.position);
        let (mut deltas, mut bytes) = (Vec::new(), 0);
        let asked_at = place.clone();
        let mut used = Used::default();
        let (calls, stop) = loop {
            if deltas.len() >= Self::DELTAS_MAX || bytes >= Self::BYTES_MAX {
                break (Vec::new(), Stop::Pause { ms: 0 });
            }
            let call = match place.step(script) {
                None => break (Vec::new(), Stop::End),
                Some(Step::Say(say)) => {
                    let chunk = chunk(say, place.chunk, request);
                    bytes += chunk.len();
                    deltas.push(chunk);
                    place.chunk += 1;
                    if place.chunk >= say.chunks {
                        place.next();
                    } else if say.delay_ms > 0 {
                        break (Vec::new(), Stop::Pause { ms: say.delay_ms });
                    }
                    continue;
                }
                Some(Step::Fail(fail)) => {
                    if !deltas.is_empty() || place != asked_at {
                        // What was said is said; the failure is the next answer. And failures are counted by place: how
                        // often this step has failed is known to a request that is made here.
                        break (Vec::new(), Stop::Pause { ms: 0 });
                    }
                    if fail.times.is_some_and(|times| request.failures >= times) {
                        place.next();
                        continue;
                    }
                    let failure = Failure::new("script_failed", &fail.message);
                    let failure = Failure { retryable: fail.retryable, ..failure };
                    return Err(ModelError { failure });
                }
                Some(Step::Usage(usage)) => {
                    used.add(usage);
                    place.next();
                    continue;
                }
                Some(Step::Repeat { .. }) => unreachable!("a place is never at a repeat itself"),
                Some(Step::Tool(call)) => vec![tool(call)],
                Some(Step::Tools(calls)) => calls.iter().map(tool).collect(),
                Some(Step::Approve(approve)) => vec![Call::Ask {
                    prompt: approve.prompt.clone(),
                    decisions: approve.decisions.clone(),
                    expires_ms: approve.expires_ms,
                }],
                Some(Step::Spawn(spawn)) => vec![Call::Spawn {
                    count: spawn.count,
                    agent: AGENT.into(),
                    input: Source::text(&spawn.text),
                    join: spawn.join,
                }],
                Some(Step::Task(task)) => vec![Call::Task {
                    args: serde_json::Value::Object(task.args.clone()).to_string(),
                    input: Source::text(&task.text),
                    join: task.join,
                }],
                Some(Step::Sleep(ms)) => vec![Call::Sleep { ms: *ms }],
            };
            place.next();
            break (call, Stop::Calls);
        };
        used.output_tokens = used.output_tokens.saturating_add((bytes as u64).div_ceil(4));
        Ok(Answer { deltas, calls, stop, used, position: place.position() })
    }
}

#[async_trait]
impl Provider for Scripted {
    fn name(&self) -> &str {
        AGENT
    }

    fn answer(&self, request: &ModelRequest) -> Option<Result<Answer, ModelError>> {
        Some(match self.script(&request.input) {
            Ok(script) => self.say(request, &script),
            Err(error) => Err(ModelError { failure: Failure::new("invalid_argument", error.to_string()) }),
        })
    }
}

fn text_of(part: &Part) -> Option<&str> {
    match part {
        Part::Text { text } => Some(text),
        Part::Blob { .. } => None,
    }
}

fn tool(call: &ToolCall) -> Call {
    Call::Tool { name: call.name.clone(), args: call.args.to_string() }
}

/// One of the pieces of a text, cut where characters end.
fn chunk(say: &Say, index: u32, request: &ModelRequest) -> String {
    let text = say
        .text
        .replace("{{turn}}", request.turn.as_str())
        .replace("{{attempt}}", &request.attempt.to_string());
    if say.chunks <= 1 {
        return text;
    }
    let characters = text.chars().count();
    let at = |index: u32| characters * index as usize / say.chunks as usize;
    text.chars().skip(at(index)).take(at(index + 1) - at(index)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        fact::id::{Id, TurnId},
        scripted::Join,
    };

    fn ask(script: &str, position: Vec<u32>, failures: u32) -> Result<Answer, ModelError> {
        let request = ModelRequest {
            turn: TurnId::with_suffix("x"),
            model: AGENT.into(),
            input: vec![Part::text(script)],
            stored: None,
            position,
            attempt: 2,
            failures,
            history: None,
        };
        Scripted::default().answer(&request).unwrap()
    }

    /// Everything that a script says and asks for, from beginning to end.
    fn play(script: &str) -> Vec<String> {
        let (mut position, mut seen) = (Vec::new(), Vec::new());
        loop {
            let answer = ask(script, position, 0).unwrap();
            seen.extend(answer.deltas);
            seen.extend(answer.calls.iter().map(|call| format!("<{}>", call.name())));
            position = answer.position;
            if answer.stop == Stop::End {
                return seen;
            }
        }
    }

    #[test]
    fn steps_come_in_order_and_repeats_come_again() {
        let script = r#"[{"say":"a"},{"repeat":2,"steps":[{"say":"b"},{"repeat":2,"steps":[{"tool":"echo"}]}]},
            {"repeat":0,"steps":[{"say":"never"}]},{"repeat":3,"steps":[]},{"say":"c"}]"#;
        assert_eq!(play(script), ["a", "b", "<echo>", "<echo>", "b", "<echo>", "<echo>", "c"]);
        assert_eq!(play("[]"), Vec::<String>::new());
    }

    #[test]
    fn chunks_add_up_to_the_text_and_pause_when_they_are_apart() {
        assert_eq!(play(r#"[{"say":"héllo wörld","chunks":4}]"#).concat(), "héllo wörld");
        assert_eq!(play(r#"[{"say":"ab","chunks":5}]"#).len(), 5);
        let answer = ask(r#"[{"say":"abcd","chunks":2,"delayMs":7}]"#, vec![], 0).unwrap();
        assert_eq!((answer.deltas, answer.stop), (vec!["ab".to_owned()], Stop::Pause { ms: 7 }));
        assert_eq!(play(r#"[{"say":"{{turn}} {{attempt}}"}]"#), ["turn_x 2"]);
    }

    #[test]
    fn p9_one_answer_is_bounded_however_long_the_script() {
        let answer = ask(r#"[{"repeat":10000,"steps":[{"say":"x"}]}]"#, vec![], 0).unwrap();
        assert_eq!((answer.deltas.len(), answer.stop), (64, Stop::Pause { ms: 0 }));
        assert_eq!(play(r#"[{"repeat":200,"steps":[{"say":"x"}]}]"#).len(), 200);
    }

    #[test]
    fn a_failing_step_fails_as_often_as_it_says() {
        let script = r#"[{"fail":{"message":"no","retryable":true,"times":2}},{"say":"yes"}]"#;
        assert_eq!(ask(script, vec![], 0).unwrap_err().failure.message, "no");
        assert!(ask(script, vec![], 1).is_err());
        assert_eq!(ask(script, vec![], 2).unwrap().deltas, ["yes"]);
        assert!(ask(r#"[{"fail":{}}]"#, vec![], 100).is_err(), "without a number, always");
    }

    #[test]
    fn usage_comes_with_the_answer_that_it_stands_before() {
        let script = r#"[{"usage":{"inputTokens":7,"costUsd":0.5}},{"usage":{"outputTokens":2}},{"say":"abcd"},{"tool":"echo"},{"say":"x"}]"#;
        let answer = ask(script, vec![], 0).unwrap();
        assert_eq!(answer.calls.len(), 1);
        assert_eq!(answer.used, Used { steps: 0, input_tokens: 7, output_tokens: 3, cost_usd: 0.5 });
        let answer = ask(script, answer.position, 0).unwrap();
        assert_eq!((answer.used.output_tokens, answer.used.cost_usd), (1, 0.0));
        let before_failure = r#"[{"usage":{"costUsd":1}},{"fail":{}}]"#;
        let answer = ask(before_failure, vec![], 0).unwrap();
        assert_eq!((answer.used.cost_usd, answer.stop), (1.0, Stop::Pause { ms: 0 }));
        assert!(ask(before_failure, answer.position, 0).is_err());
    }

    #[test]
    fn failures_are_those_of_the_step_and_not_of_the_one_before() {
        for script in [
            r#"[{"fail":{"times":1}},{"fail":{"times":1}}]"#,
            r#"[{"repeat":2,"steps":[{"fail":{"times":1}}]}]"#,
            r#"[{"fail":{"times":1}},{"repeat":0,"steps":[{"say":"x"}]},{"fail":{"times":1}}]"#,
        ] {
            let (mut position, mut failures, mut failed) = (Vec::new(), HashMap::<Vec<u32>, u32>::new(), 0);
            loop {
                match ask(script, position.clone(), failures.get(&position).copied().unwrap_or(0)) {
                    Err(_) => {
                        failed += 1;
                        *failures.entry(position.clone()).or_default() += 1;
                    }
                    Ok(answer) if answer.stop == Stop::End => break,
                    Ok(answer) => position = answer.position,
                }
                assert!(failed < 10, "{script}");
            }
            assert_eq!(failed, 2, "{script}");
        }
    }

    #[test]
    fn p9_a_long_text_is_said_in_pieces_that_fit_into_facts() {
        let text = "é".repeat(100_000);
        let script = serde_json::json!([{ "say": text, "chunks": 2 }]).to_string();
        let said = play(&script);
        assert_eq!(said.concat(), text);
        assert!(
            said.len() > 2 && said.iter().all(|piece| piece.len() <= Say::PIECE_BYTES_MAX),
            "{}",
            said.len()
        );
    }

    #[test]
    fn p9_what_is_kept_of_scripts_is_bounded_by_their_texts() {
        let scripted = Scripted::default();
        for number in 0..12 {
            let text = serde_json::json!([{ "say": format!("{number}{}", "x".repeat(1 << 20)) }]).to_string();
            scripted.script(&[Part::text(text)]).unwrap();
            let kept = scripted.read.lock().unwrap();
            assert!(kept.bytes <= Scripted::TEXT_KEPT_MAX && !kept.scripts.is_empty());
        }
    }

    #[test]
    fn what_is_not_a_script_is_an_invalid_argument() {
        assert_eq!(ask("hello", vec![], 0).unwrap_err().failure.code, "invalid_argument");
    }

    #[test]
    fn join_is_all_unless_said_otherwise() {
        let answer = ask(r#"[{"spawn":{"count":2,"script":[]}}]"#, vec![], 0).unwrap();
        assert!(matches!(answer.calls[0], Call::Spawn { count: 2, join: Join::All, .. }));
    }
}
