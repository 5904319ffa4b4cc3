//! What a setting can be, and how a text becomes one.

use std::{net::SocketAddr, time};

use super::duration;

/// What a key takes.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// Any text.
    Text,
    /// `true` or `false`.
    Flag,
    /// A whole number within bounds.
    Count(u64, u64),
    /// A duration within bounds, which are in seconds.
    Duration(u64, u64),
    /// From 0 to 1.
    Ratio,
    /// Where to listen.
    Address,
    /// One of these.
    Choice(&'static [&'static str]),
    /// Some of these, at least one.
    Choices(&'static [&'static str]),
    /// A list of texts; in the environment with commas in between.
    Texts,
}

/// What a key is set to.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A text, also an address or a choice.
    Text(String),
    /// Yes or no.
    Flag(bool),
    /// A number.
    Count(u64),
    /// A duration, with how it was written.
    Duration(time::Duration, String),
    /// A part of one.
    Ratio(f64),
    /// A list.
    Texts(Vec<String>),
}

impl Kind {
    /// What a text says, or why it is not one of these.
    pub fn parse(self, text: &str) -> Result<Value, String> {
        let text = text.trim();
        match self {
            Self::Text => Ok(Value::Text(text.into())),
            Self::Flag => match text {
                "true" | "1" => Ok(Value::Flag(true)),
                "false" | "0" => Ok(Value::Flag(false)),
                _ => Err(format!("{} is neither true nor false", shown(text))),
            },
            Self::Count(least, most) => {
                let number = text.replace('_', "").parse::<u64>();
                let number = number.map_err(|_| format!("{} is not a whole number", shown(text)))?;
                if (least..=most).contains(&number) {
                    return Ok(Value::Count(number));
                }
                Err(format!("{number} is out of bounds: {least} to {most}"))
            }
            Self::Duration(least, most) => {
                let span = duration::parse(text).map_err(|error| error.to_string())?;
                if (least..=most).contains(&span.as_secs()) {
                    return Ok(Value::Duration(span, text.into()));
                }
                Err(format!("{} is out of bounds: {} to {}", shown(text), said(least), said(most)))
            }
            Self::Ratio => match text.parse::<f64>() {
                Ok(ratio) if (0.0..=1.0).contains(&ratio) => Ok(Value::Ratio(ratio)),
                _ => Err(format!("{} is not a number from 0 to 1", shown(text))),
            },
            Self::Address => match text.parse::<SocketAddr>() {
                Ok(_) => Ok(Value::Text(text.into())),
                Err(_) => {
                    Err(format!("{} is not an address and a port, such as 127.0.0.1:7600", shown(text)))
                }
            },
            Self::Choice(choices) => match choices.iter().find(|choice| **choice == text) {
                Some(choice) => Ok(Value::Text((*choice).into())),
                None => Err(format!("{} is not one of {}", shown(text), choices.join(", "))),
            },
            Self::Choices(choices) => {
                let chosen = list(text);
                if let Some(other) = chosen.iter().find(|chosen| !choices.contains(&chosen.as_str())) {
                    return Err(format!("{} is not one of {}", shown(other), choices.join(", ")));
                }
                if chosen.is_empty() {
                    return Err(format!("at least one of {} is needed", choices.join(", ")));
                }
                Ok(Value::Texts(chosen))
            }
            Self::Texts => Ok(Value::Texts(list(text))),
        }
    }

    /// What a value of the file says. A number may be written as a text, and a list as one text with commas.
    pub(super) fn of_toml(self, value: &toml::Value) -> Result<Value, String> {
        match (self, value) {
            (_, toml::Value::String(text)) => self.parse(text),
            (Self::Flag, toml::Value::Boolean(flag)) => Ok(Value::Flag(*flag)),
            (Self::Count(..), toml::Value::Integer(number)) => self.parse(&number.to_string()),
            (Self::Ratio, toml::Value::Integer(number)) => self.parse(&number.to_string()),
            (Self::Ratio, toml::Value::Float(number)) => self.parse(&number.to_string()),
            (Self::Choices(_) | Self::Texts, toml::Value::Array(items)) => {
                let texts = items.iter().map(|item| item.as_str().map(str::trim));
                let texts: Option<Vec<_>> = texts.collect();
                match texts {
                    Some(texts) if texts.iter().any(|text| text.contains(',')) => {
                        Err("an item has a comma in it; write one item for each".into())
                    }
                    Some(texts) => self.parse(&texts.join(",")),
                    None => Err("a list of texts is needed".into()),
                }
            }
            (_, other) => Err(format!("a {} is not {}", other.type_str(), self.wanted())),
        }
    }

    /// What it takes, for people.
    pub fn wanted(self) -> String {
        match self {
            Self::Text => "a text".into(),
            Self::Flag => "true or false".into(),
            Self::Count(least, most) => format!("a number from {least} to {most}"),
            Self::Duration(least, most) => format!("a duration from {} to {}", said(least), said(most)),
            Self::Ratio => "a number from 0 to 1".into(),
            Self::Address => "an address and a port".into(),
            Self::Choice(choices) => format!("one of {}", choices.join(", ")),
            Self::Choices(choices) => format!("some of {}", choices.join(", ")),
            Self::Texts => "a list of texts".into(),
        }
    }
}

fn list(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect()
}

/// A value in a message: whoever wrote it should find it, and nobody reads a page of it.
fn shown(text: &str) -> String {
    format!("{:?}", text.chars().take(60).collect::<String>())
}

fn said(seconds: u64) -> String {
    match seconds {
        _ if seconds.is_multiple_of(86_400) => format!("{}d", seconds / 86_400),
        _ if seconds.is_multiple_of(3_600) => format!("{}h", seconds / 3_600),
        _ if seconds.is_multiple_of(60) => format!("{}m", seconds / 60),
        _ => format!("{seconds}s"),
    }
}

impl Value {
    /// As it is written in the file, and read again from there.
    pub(super) fn to_toml(&self) -> toml::Value {
        match self {
            Self::Text(text) | Self::Duration(_, text) => toml::Value::String(text.clone()),
            Self::Flag(flag) => toml::Value::Boolean(*flag),
            // Bounds keep it far below.
            Self::Count(number) => toml::Value::Integer(i64::try_from(*number).unwrap_or(i64::MAX)),
            Self::Ratio(ratio) => toml::Value::Float(*ratio),
            Self::Texts(texts) => {
                toml::Value::Array(texts.iter().map(|text| toml::Value::String(text.clone())).collect())
            }
        }
    }

    /// Whether there is nothing.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Text(text) => text.is_empty(),
            Self::Texts(texts) => texts.is_empty(),
            _ => false,
        }
    }
}
