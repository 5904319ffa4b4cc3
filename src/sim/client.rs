//! A client: asks under a key until it is answered, now and then once more, and writes down what it was told.

use std::time::Duration;

use cadre_cluster::sim::Dice;
use serde_json::Value;

use super::{
    door::Door,
    known::Known,
    log::{Log, Told},
};
use crate::{
    control::{Code, Error, result::Answer},
    runtime::Caller,
};

/// One client.
#[derive(Clone)]
pub(super) struct Client {
    pub name: String,
    pub caller: Caller,
    pub door: Door,
    pub dice: Dice,
    pub log: Log,
    pub known: Known,
}

impl Client {
    /// How often a command is sent before its client gives up: far more often than the worst weather takes.
    const TRIES_MAX: u32 = 400;

    /// Sends a command until it is answered, and perhaps again later.
    pub async fn tell(&self, name: &'static str, args: Value) -> Option<Value> {
        let key = format!("{}-{}", self.name, self.known.number());
        let since = self.log.end();
        let answer = self.ask(name, &args, &key).await?;
        let until = self.log.end();
        let mut told = Told { name, args, key, since, until, answer, again: None };
        if self.dice.chance(0.25) {
            self.pause(0..=3_000).await;
            told.again = self.ask(name, &told.args, &told.key).await;
        }
        let result = told.result().cloned();
        self.log.notes().told.push(told);
        result
    }

    /// Sends a command until it is answered.
    async fn ask(&self, name: &str, args: &Value, key: &str) -> Option<Result<Answer, Error>> {
        for _ in 0..Self::TRIES_MAX {
            let deadline = Duration::from_millis(*self.dice.pick(&[400, 2_000, 8_000]));
            match self.door.call(&self.caller, name, args, Some(key), deadline).await {
                None => self.log.notes().unknown += 1,
                Some(Err(error)) if error.code.is_retryable() => {
                    self.log.notes().unknown += u64::from(error.code == Code::DeadlineExceeded);
                }
                Some(answer) => {
                    self.note(name, key, &answer);
                    return Some(answer);
                }
            }
            self.pause(50..=300).await;
        }
        self.log.broken(7, format!("{name} {args} is never answered"));
        None
    }

    fn note(&self, name: &str, key: &str, answer: &Result<Answer, Error>) {
        match answer {
            Ok(answer) => self.log.trace.note(format_args!("{key}: {name}: {}", answer.result)),
            Err(error) => {
                self.log.trace.note(format_args!("{key}: {name}: {}", error.message));
                if error.code == Code::Internal {
                    self.log.broken(7, format!("{key}: {name} is an internal error: {error:?}"));
                }
            }
        }
    }

    pub async fn pause(&self, ms: std::ops::RangeInclusive<u64>) {
        tokio::time::sleep(Duration::from_millis(self.dice.between(ms))).await;
    }
}
