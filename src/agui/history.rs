//! What was said on one day of a thread.

use cadre_cluster::clock::Timestamp;
use chrono::{DateTime, NaiveDate, NaiveTime};
use serde::Serialize;
use serde_json::Value;

use super::{
    event::{Event, Kind},
    fold::{About, Fold},
};
use crate::{
    control::Error,
    fact::{Fact, Time, id::TurnId},
};

/// The messages of one day.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// Always `history_day`.
    pub scope: &'static str,
    /// Which thread; none when there is none.
    pub thread_id: Option<String>,
    /// Which day, in UTC; none when nothing was said.
    pub day: Option<String>,
    /// Whether something was said on a day before.
    pub has_more: bool,
    /// What was said, in order.
    pub messages: Vec<Message>,
}

impl Snapshot {
    /// A day of a thread. Messages are numbered from 1.
    pub fn of(
        thread: Option<String>,
        day: Option<NaiveDate>,
        has_more: bool,
        mut messages: Vec<Message>,
    ) -> Self {
        for (message, seq) in messages.iter_mut().zip(1..) {
            message.seq = seq;
        }
        Self {
            scope: "history_day",
            thread_id: thread,
            day: day.map(|day| day.to_string()),
            has_more,
            messages,
        }
    }
}

/// One message.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    /// Its id: the client's own for what a user said, else as the stream of the run had it.
    pub id: String,
    /// Which of its day, from 1.
    pub seq: u32,
    /// Who said it, and what only they have.
    #[serde(flatten)]
    pub by: By,
    /// What was said.
    pub content: String,
    /// When.
    pub timestamp: Time,
}

/// Who said it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "role", rename_all = "lowercase", rename_all_fields = "camelCase")]
pub enum By {
    /// The user.
    User {
        /// Where the first image of the message is, for a while.
        url: Option<String>,
    },
    /// A tool.
    Tool {
        /// Nothing compiles such yet.
        ui_schema: Option<Value>,
    },
    /// The agent.
    Assistant {
        /// Nothing compiles such yet.
        ui_schema: Option<Value>,
    },
}

/// The messages of one turn besides the user's, from its facts.
#[derive(Debug, Clone)]
pub struct Told {
    fold: Fold,
    messages: Vec<Message>,
}

impl Told {
    /// Of a turn of which nothing was read yet.
    pub fn new(turn: TurnId) -> Self {
        Self { fold: Fold::new(About::default(), turn), messages: Vec::new() }
    }

    /// Reads on. How much text came in.
    pub fn take(&mut self, fact: &Fact) -> usize {
        let mut bytes = 0;
        for Event { kind, timestamp } in self.fold.take(fact) {
            let message = |id: String, by: By, content: String| Message {
                id,
                seq: 0,
                by,
                content,
                timestamp: Time(Timestamp(timestamp)),
            };
            match kind {
                Kind::TextMessageStart { message_id, .. } => {
                    self.messages.push(message(message_id, By::Assistant { ui_schema: None }, String::new()));
                }
                Kind::TextMessageContent { message_id, delta } => {
                    bytes += delta.len();
                    let open = self.messages.iter_mut().rev().find(|message| message.id == message_id);
                    if let Some(open) = open {
                        open.content.push_str(&delta);
                    }
                }
                Kind::ToolCallResult { message_id, content, .. } => {
                    bytes += content.len();
                    self.messages.push(message(message_id, By::Tool { ui_schema: None }, content));
                }
                _ => {}
            }
        }
        bytes
    }

    /// What was told.
    pub fn messages(self) -> Vec<Message> {
        self.messages
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Whether nothing was told.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }
}

/// The day of a time, in UTC.
pub fn day(at: Timestamp) -> NaiveDate {
    let ms = i64::try_from(at.0).unwrap_or(i64::MAX);
    DateTime::from_timestamp_millis(ms).unwrap_or(DateTime::<chrono::Utc>::MAX_UTC).date_naive()
}

/// The day that a query names.
pub fn parse_day(text: &str) -> Result<NaiveDate, Error> {
    let shape =
        |(at, byte): (usize, u8)| if matches!(at, 4 | 7) { byte == b'-' } else { byte.is_ascii_digit() };
    let invalid = || Error::invalid("before", "must be a date such as 2026-03-15");
    if text.len() != 10 || !text.bytes().enumerate().all(shape) {
        return Err(invalid());
    }
    text.parse().map_err(|_| invalid())
}

/// When a day begins.
pub fn begins(day: NaiveDate) -> Timestamp {
    let ms = day.and_time(NaiveTime::MIN).and_utc().timestamp_millis();
    Timestamp(u64::try_from(ms).unwrap_or(0))
}
