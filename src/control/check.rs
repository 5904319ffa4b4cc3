//! The bounds of arguments, and how they are checked. Each constant is part of the contract: callers may rely on it.

use std::{collections::BTreeSet, ops::RangeInclusive};

use serde::Serialize;

use super::error::Error;
use crate::fact::{Part, RetryPolicy, payload::Object};

/// Titles and other lines that people read, in characters.
pub const LINE_CHARS_MAX: usize = 512;
/// Names that programs compare: agents, models, roles, tools, kinds, phases; in characters.
pub const NAME_CHARS_MAX: usize = 128;
/// Objectives, instructions and summaries, in bytes.
pub const PROSE_BYTES_MAX: usize = 16 * 1024;
/// Reasons, in bytes.
pub const REASON_BYTES_MAX: usize = 2 * 1024;
/// Metadata, constraints, profiles and other objects whose shape is the caller's, in bytes of JSON.
pub const OBJECT_BYTES_MAX: usize = 16 * 1024;
/// What a task is told in one command, its input not counted: it remembers that, beside what becomes of it.
pub const TASK_BYTES_MAX: usize = 40 * 1024;
/// What comes with a decision, or is given to a permission, in bytes of JSON.
pub const PAYLOAD_BYTES_MAX: usize = 64 * 1024;
/// All parts of one input, in bytes. More belongs into a blob.
pub const INPUT_BYTES_MAX: usize = 1024 * 1024;
/// All inputs of one job, in bytes.
pub const JOB_INPUT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// How many parts an input may have.
pub const PARTS_MAX: usize = 1024;
/// What is written to a process at once, in bytes.
pub const STDIN_BYTES_MAX: usize = 64 * 1024;
/// Places in lists and resume tokens, in bytes.
pub const TOKEN_BYTES_MAX: usize = 2 * 1024;
/// Times to wait: a millisecond to thirty days. What takes longer is a schedule.
pub const WAIT_MS: RangeInclusive<u64> = 1..=30 * 24 * 60 * 60 * 1000;
/// Attempts in all.
pub const ATTEMPTS: RangeInclusive<u32> = 1..=100;
/// Items of a job that run at once.
pub const CONCURRENCY: RangeInclusive<u32> = 1..=1_000;
/// Items of a job.
pub const ITEMS: RangeInclusive<usize> = 1..=100_000;
/// Tasks that one task waits for.
pub const DEPENDENCIES_MAX: usize = 256;
/// Subagents that are waited for by name. More have a parent.
pub const WAITED_MAX: usize = 1_000;
/// References, criteria, counters and the like in one command.
pub const ENTRIES_MAX: usize = 256;
/// Trials on one side of a comparison.
pub const TRIALS: RangeInclusive<usize> = 1..=10_000;
/// Turns that are taken back at once. More go in several steps.
pub const ROLLBACK_TURNS: RangeInclusive<u32> = 1..=256;
/// How deep subagents nest.
pub const DEPTH: RangeInclusive<u32> = 1..=64;

/// At most so many characters, and not blank.
pub fn line(field: &str, text: Option<&str>, chars_max: usize) -> Result<(), Error> {
    let Some(text) = text else { return Ok(()) };
    if text.trim().is_empty() {
        return Err(Error::invalid(field, "must not be blank"));
    }
    match text.chars().count() {
        chars if chars > chars_max => {
            Err(Error::invalid(field, format_args!("must have at most {chars_max} characters, not {chars}")))
        }
        _ => Ok(()),
    }
}

/// A name that programs compare.
pub fn name(field: &str, text: Option<&str>) -> Result<(), Error> {
    line(field, text, NAME_CHARS_MAX)
}

/// At most so many bytes. May be empty: it is prose.
pub fn bytes(field: &str, text: Option<&str>, bytes_max: usize) -> Result<(), Error> {
    match text.map_or(0, str::len) {
        len if len > bytes_max => {
            Err(Error::invalid(field, format_args!("must have at most {bytes_max} bytes, not {len}")))
        }
        _ => Ok(()),
    }
}

/// Why something is done.
pub fn reason(text: &Option<String>) -> Result<(), Error> {
    bytes("reason", text.as_deref(), REASON_BYTES_MAX)
}

/// What must be said, at some length.
pub fn prose(field: &str, text: &str) -> Result<(), Error> {
    line(field, Some(text), usize::MAX)?;
    bytes(field, Some(text), PROSE_BYTES_MAX)
}

/// At most so many bytes as JSON.
pub fn json(field: &str, value: &impl Serialize, bytes_max: usize) -> Result<(), Error> {
    let len = serde_json::to_vec(value).map_or(usize::MAX, |json| json.len());
    if len > bytes_max {
        let message = format_args!("must have at most {bytes_max} bytes as JSON, not {len}");
        return Err(Error::invalid(field, message));
    }
    Ok(())
}

/// At most so many bytes as JSON for all arguments but the input, which is kept apart.
pub fn together(all: &impl Serialize, input: &impl Serialize, bytes_max: usize) -> Result<(), Error> {
    let len = |json: serde_json::Result<Vec<u8>>| json.map_or(usize::MAX, |json| json.len());
    let bytes = len(serde_json::to_vec(all)).saturating_sub(len(serde_json::to_vec(input)));
    if bytes > bytes_max {
        return Err(Error::too_large(bytes_max as u64, bytes as u64));
    }
    Ok(())
}

/// An object whose shape is the caller's.
pub fn object(field: &str, object: &Object) -> Result<(), Error> {
    if object.is_empty() { Ok(()) } else { json(field, object, OBJECT_BYTES_MAX) }
}

/// A number within its range.
pub fn range<T: PartialOrd + std::fmt::Display>(
    field: &str,
    number: Option<T>,
    range: RangeInclusive<T>,
) -> Result<(), Error> {
    match number {
        Some(number) if !range.contains(&number) => {
            let message = format!("must be {} to {}, not {number}", range.start(), range.end());
            Err(Error::invalid(field, message))
        }
        _ => Ok(()),
    }
}

/// A list within its length.
pub fn count(field: &str, len: usize, range: RangeInclusive<usize>) -> Result<(), Error> {
    if range.contains(&len) {
        return Ok(());
    }
    let message = match *range.start() {
        least if len < least => format!("must have at least {least}, not {len}"),
        _ => format!("must have at most {}, not {len}", range.end()),
    };
    Err(Error::invalid(field, message))
}

/// A list in which nothing comes twice.
pub fn distinct<T: Ord>(field: &str, values: &[T]) -> Result<(), Error> {
    let mut seen = BTreeSet::new();
    match values.iter().position(|value| !seen.insert(value)) {
        Some(at) => Err(Error::invalid(format!("{field}[{at}]"), "is there twice")),
        None => Ok(()),
    }
}

/// Exactly one of several arguments. The first is the one that is named.
pub fn exactly_one(fields: &[(&str, bool)]) -> Result<(), Error> {
    let named = |all: &[(&str, bool)]| all.iter().map(|(field, _)| *field).collect::<Vec<_>>().join(", ");
    match fields.iter().filter(|(_, given)| *given).count() {
        1 => Ok(()),
        found => {
            let message = format!("exactly one of {} must be there, not {found}", named(fields));
            Err(Error::invalid(fields[0].0, message))
        }
    }
}

/// How something is tried again.
pub fn retry_policy(policy: Option<&RetryPolicy>) -> Result<(), Error> {
    let Some(policy) = policy else { return Ok(()) };
    range("retryPolicy.maxAttempts", Some(policy.max_attempts), ATTEMPTS)?;
    range("retryPolicy.backoffMs", Some(policy.backoff_ms), 0..=*WAIT_MS.end())?;
    range("retryPolicy.maxBackoffMs", Some(policy.max_backoff_ms), 0..=*WAIT_MS.end())
}

/// An input that must be there.
pub fn input(field: &str, parts: &[Part]) -> Result<(), Error> {
    count(field, parts.len(), 1..=PARTS_MAX)?;
    optional_input(field, parts)
}

/// An input that may be empty.
pub fn optional_input(field: &str, parts: &[Part]) -> Result<(), Error> {
    count(field, parts.len(), 0..=PARTS_MAX)?;
    for (index, part) in parts.iter().enumerate() {
        match part {
            Part::Text { text } if text.is_empty() => {
                return Err(Error::invalid(format!("{field}[{index}].text"), "must not be empty"));
            }
            Part::Blob { media_type, .. } => {
                name(&format!("{field}[{index}].mediaType"), Some(media_type))?;
            }
            Part::Text { .. } => {}
        }
    }
    match input_bytes(parts) {
        len if len > INPUT_BYTES_MAX => {
            Err(Error::too_large(INPUT_BYTES_MAX as u64, len as u64).with("field", field))
        }
        _ => Ok(()),
    }
}

/// How large an input is.
pub fn input_bytes(parts: &[Part]) -> usize {
    let bytes = |part: &Part| match part {
        Part::Text { text } => text.len(),
        Part::Blob { blob, media_type } => blob.as_str().len() + media_type.len(),
    };
    parts.iter().map(bytes).sum()
}

/// A place in a list, or a token: opaque, but never empty.
pub fn token(field: &str, text: Option<&str>) -> Result<(), Error> {
    let Some(text) = text else { return Ok(()) };
    let visible = text.bytes().all(|byte| byte.is_ascii_graphic());
    if !(1..=TOKEN_BYTES_MAX).contains(&text.len()) || !visible {
        return Err(Error::invalid(field, "must be what an earlier answer gave, unchanged"));
    }
    Ok(())
}

/// Something cannot be related to itself.
pub fn not_itself(field: &str, same: bool) -> Result<(), Error> {
    if same { Err(Error::invalid(field, "must be another one, not itself")) } else { Ok(()) }
}
