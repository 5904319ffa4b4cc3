//! Scripts for the scripted agent, drawn.

use cadre_cluster::sim::Dice;
use serde_json::{Value, json};

use super::known::Known;

/// What a script that goes on after an approval says, before the question it stands for.
pub(super) const APPROVED: &str = "approved: ";

/// Draws scripts. Each question has words of its own, so that what follows can be traced to it.
#[derive(Clone)]
pub(super) struct Scripts {
    pub dice: Dice,
    pub known: Known,
}

impl Scripts {
    /// How deep scripts start others.
    const DEPTH_MAX: u32 = 2;

    /// A script of an entity at this depth.
    pub fn draw(&self, depth: u32) -> Value {
        if self.dice.chance(0.02) {
            return json!([{ "dance": true }]);
        }
        let steps = if depth == 0 { self.dice.between(0..=4) } else { self.dice.between(0..=2) };
        Value::Array((0..steps).flat_map(|_| self.step(depth)).collect())
    }

    fn step(&self, depth: u32) -> Vec<Value> {
        let dice = &self.dice;
        match dice.between(0..=21) {
            0..=4 => vec![self.say()],
            5..=7 => vec![self.tool()],
            8 => {
                let calls: Vec<Value> = (0..dice.between(1..=3)).map(|_| self.tool()).collect();
                vec![json!({ "tools": calls })]
            }
            9..=10 => vec![json!({ "sleep": dice.between(0..=2_500) })],
            11..=13 => self.approve(),
            14 if depth == 0 && dice.chance(0.7) => vec![self.left_behind(), self.say()],
            14..=17 if depth < Self::DEPTH_MAX => vec![self.spawn(depth), self.say()],
            18..=19 if depth < Self::DEPTH_MAX => vec![self.task(depth), self.say()],
            20 => vec![json!({ "repeat": dice.between(0..=3), "steps": [self.say(), self.tool()] })],
            21 => vec![self.fail()],
            _ => vec![self.say()],
        }
    }

    fn say(&self) -> Value {
        let delay = if self.dice.chance(0.3) { self.dice.between(1..=200) } else { 0 };
        json!({ "say": "hello from {{turn}}, attempt {{attempt}}", "chunks": self.dice.between(1..=3), "delayMs": delay })
    }

    fn tool(&self) -> Value {
        let dice = &self.dice;
        match dice.between(0..=5) {
            0..=1 => json!({ "tool": "echo", "args": { "n": dice.between(0..=9) } }),
            2 => json!({ "tool": "fail", "args": { "message": "as it was told" } }),
            3 => json!({ "tool": "big", "args": { "bytes": dice.between(0..=70_000) } }),
            _ => {
                json!({ "tool": "sleep", "args": { "ms": dice.between(0..=800), "once": dice.chance(0.2) } })
            }
        }
    }

    /// A question, and what is said after a yes.
    fn approve(&self) -> Vec<Value> {
        let prompt = format!("question {}", self.known.number());
        let decisions = *self.dice.pick(&[&["allow", "deny"][..], &["yes", "no", "later"]]);
        let mut approve = json!({ "prompt": prompt, "decisions": decisions });
        if self.dice.chance(0.5) {
            approve["expiresMs"] = self.dice.between(100..=6_000).into();
        }
        vec![json!({ "approve": approve }), json!({ "say": format!("{APPROVED}{prompt}") })]
    }

    fn spawn(&self, depth: u32) -> Value {
        let join = *self.dice.pick(&["all", "all", "any", "none"]);
        let count = self.dice.between(0..=3);
        json!({ "spawn": { "count": count, "script": self.draw(depth + 1), "join": join } })
    }

    /// One that has ended while below it some have failed, who will ask somebody when they are resumed, and others go on.
    fn left_behind(&self) -> Value {
        let fails =
            json!([{ "fail": { "message": "m", "retryable": false, "times": 1 } }, self.approve()[0]]);
        let goes_on =
            json!([{ "spawn": { "count": 3, "script": [{ "sleep": self.dice.between(2_000..=9_000) }] } }]);
        let spawn = |script: Value| json!({ "spawn": { "count": 2, "script": script, "join": "none" } });
        spawn(json!([spawn(fails), spawn(goes_on)]))
    }

    fn task(&self, depth: u32) -> Value {
        let mut task = json!({
            "objective": "a part of it",
            "script": self.draw(depth + 1),
            "join": self.dice.chance(0.7),
        });
        if let Some(policy) = self.retry_policy() {
            task["retryPolicy"] = policy;
        }
        if self.dice.chance(0.3) {
            task["timeoutMs"] = self.dice.between(100..=5_000).into();
        }
        json!({ "task": task })
    }

    fn fail(&self) -> Value {
        let mut fail = json!({ "message": "as it was told", "retryable": self.dice.chance(0.8) });
        if self.dice.chance(0.8) {
            fail["times"] = self.dice.between(1..=3).into();
        }
        json!({ "fail": fail })
    }

    /// How something is tried again, sometimes.
    pub fn retry_policy(&self) -> Option<Value> {
        self.dice.chance(0.5).then(|| {
            let attempts = self.dice.between(1..=3);
            json!({ "maxAttempts": attempts, "backoffMs": self.dice.between(0..=400), "maxBackoffMs": 1_000 })
        })
    }

    /// A script as the input of something.
    pub fn input(&self, depth: u32) -> Value {
        json!([{ "type": "text", "text": self.draw(depth).to_string() }])
    }
}
