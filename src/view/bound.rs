//! Keeping views small: whatever facts say, what is kept of them has a bound.
//!
//! Lengths are those of the JSON text, so that a text of control characters is not six times as large when it is
//! stored as when it was measured.

use std::io;

use cadre_cluster::clock::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::fact::{
    failure::Failure,
    part::{OutputRef, Ref},
    payload::{Object, Usage},
    time::Time,
};

/// Short texts: previews, reasons, messages.
pub(super) const TEXT_MAX: usize = 160;
/// Names that people or programs gave: agents, tools, models, titles of steps.
pub(super) const NAME_MAX: usize = 64;
/// Single words: kinds, codes, sources.
pub(super) const WORD_MAX: usize = 32;
/// A reference that is longer is counted and not kept; half of one would lead nowhere.
pub(super) const REF_MAX: usize = 192;
/// Deeper content is left out: JSON readers give up at 128 levels, and it must be readable within a whole snapshot.
const DEPTH_MAX: usize = 32;
/// The end of the year 9999, the last time that can be written.
const LAST_MS: u64 = 253_402_300_799_999;

/// The first `max` bytes of a text, cut between characters and marked with `…`.
pub(super) fn cut(text: &str, max: usize) -> String {
    let mut kept = String::new();
    append(&mut kept, text, max);
    kept
}

/// The same, of what may be absent.
pub(super) fn cut_some(text: Option<&str>, max: usize) -> Option<String> {
    text.map(|text| cut(text, max))
}

/// Adds to a text up to `max` bytes. A text that was cut stays as it is.
pub(super) fn append(kept: &mut String, more: &str, max: usize) {
    if kept.ends_with('…') {
        return;
    }
    let mut used = escaped(kept);
    let before = kept.len();
    let mut fits = before;
    for (at, character) in more.char_indices() {
        used += width(character);
        if used > max {
            kept.truncate(before);
            kept.push_str(&more[..fits - before]);
            while escaped(kept) + '…'.len_utf8() > max && kept.pop().is_some() {}
            kept.push('…');
            return;
        }
        fits = before + at + character.len_utf8();
    }
    kept.push_str(more);
}

fn width(character: char) -> usize {
    match character {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        _ if (character as u32) < 0x20 => 6,
        _ => character.len_utf8(),
    }
}

fn escaped(text: &str) -> usize {
    text.chars().map(width).sum()
}

/// The beginning of the JSON text of a value.
pub(super) fn preview(value: &Value, max: usize) -> String {
    let mut text = Limited { kept: Vec::new(), max };
    // An error means only that there is more of it.
    let _ = serde_json::to_writer(&mut text, value);
    let valid = match std::str::from_utf8(&text.kept) {
        Ok(valid) => valid,
        Err(error) => std::str::from_utf8(&text.kept[..error.valid_up_to()]).unwrap_or_default(),
    };
    cut(valid, max)
}

struct Limited {
    kept: Vec<u8>,
    max: usize,
}

impl io::Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.kept.len() > self.max {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let room = bytes.len().min(self.max + 1 - self.kept.len());
        self.kept.extend_from_slice(&bytes[..room]);
        Ok(room)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// How long the JSON text of something is.
pub(super) fn json_len(value: &impl Serialize) -> usize {
    struct Length(usize);

    impl io::Write for Length {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    let mut length = Length(0);
    // Views have no keys that are not texts, so that all of it is written.
    let _ = serde_json::to_writer(&mut length, value);
    length.0
}

/// How long the JSON text of a value is; none when that is more than `max` or it is too deep.
fn size(value: &Value, max: usize) -> Option<usize> {
    fn deep(value: &Value, levels: usize) -> bool {
        match value {
            _ if levels == 0 => true,
            Value::Array(items) => items.iter().any(|item| deep(item, levels - 1)),
            Value::Object(fields) => fields.values().any(|field| deep(field, levels - 1)),
            _ => false,
        }
    }
    if deep(value, DEPTH_MAX) {
        return None;
    }
    let mut text = Limited { kept: Vec::new(), max };
    serde_json::to_writer(&mut text, value).ok()?;
    (text.kept.len() <= max).then_some(text.kept.len())
}

/// A value that is not too large. Null is none: that is what it is read back as.
pub(super) fn value(value: &Value, max: usize) -> Option<Value> {
    size(value, max).filter(|_| !value.is_null()).map(|_| value.clone())
}

/// The fields of an object that fit into `max` bytes. `$omitted` says how many did not.
pub(super) fn object(object: &Object, max: usize) -> Object {
    let mut room = max;
    let mut omitted = 0_u64;
    let mut kept = Object::new();
    for (name, value) in object {
        let label = escaped(name) + 4;
        match size(value, room.saturating_sub(label)) {
            Some(len) if label + len <= room => {
                room -= label + len;
                kept.insert(name.clone(), value.clone());
            }
            _ => omitted += 1,
        }
    }
    if omitted > 0 {
        kept.insert("$omitted".into(), omitted.into());
    }
    kept
}

/// Adds to a list that keeps the last `max`.
pub(super) fn push_last<T>(list: &mut Vec<T>, item: T, max: usize) {
    if list.len() >= max {
        list.drain(..=list.len() - max);
    }
    list.push(item);
}

/// Sets what a fact names; what it does not name stays.
pub(super) fn set<T: Clone>(field: &mut Option<T>, from: Option<&T>) {
    if from.is_some() {
        *field = from.cloned();
    }
}

/// The same for texts.
pub(super) fn set_text(field: &mut Option<String>, from: Option<&str>, max: usize) {
    if let Some(text) = from {
        *field = Some(cut(text, max));
    }
}

/// A time that can be written and read back.
pub(super) fn time(at: impl Into<Timestamp>) -> Time {
    Time(Timestamp(at.into().0.min(LAST_MS)))
}

/// A number that can be written and read back: 15 digits, of a size that something real has.
pub(super) fn number(value: f64) -> f64 {
    let size = value.abs();
    if !size.is_finite() || size < 1e-9 {
        return 0.0;
    }
    format!("{:.14e}", value.clamp(-1e15, 1e15)).parse().unwrap_or(0.0)
}

/// A failure in short.
pub(super) fn failure(failure: &Failure) -> Failure {
    Failure {
        code: cut(&failure.code, WORD_MAX),
        message: cut(&failure.message, TEXT_MAX),
        retryable: failure.retryable,
    }
}

/// A reference that is not too long.
pub(super) fn reference(reference: &Ref) -> Option<Ref> {
    (escaped(reference.as_str()) <= REF_MAX).then(|| reference.clone())
}

/// What was produced, in short; none when its reference is too long.
pub(super) fn output(output: &OutputRef) -> Option<OutputRef> {
    Some(OutputRef {
        reference: reference(&output.reference)?,
        media_type: cut_some(output.media_type.as_deref(), NAME_MAX),
        size_bytes: output.size_bytes,
        title: cut_some(output.title.as_deref(), NAME_MAX),
    })
}

/// What was used, as it can be written and read back.
pub(super) fn usage(usage: &Usage) -> Usage {
    Usage { cost_usd: usage.cost_usd.map(number), ..usage.clone() }
}

/// Adds what was used to what was used before.
pub(super) fn add_usage(sum: &mut Option<Usage>, more: &Usage) {
    let sum = sum.get_or_insert_default();
    sum.input_tokens = sum.input_tokens.saturating_add(more.input_tokens);
    sum.output_tokens = sum.output_tokens.saturating_add(more.output_tokens);
    if let Some(cached) = more.cached_tokens {
        sum.cached_tokens = Some(sum.cached_tokens.unwrap_or(0).saturating_add(cached));
    }
    if let Some(cost) = more.cost_usd {
        sum.cost_usd = Some(number(sum.cost_usd.unwrap_or(0.0) + number(cost)));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_text_is_cut_between_characters_and_says_so() {
        assert_eq!(cut("short", 160), "short");
        assert_eq!(cut("ééééé", 8), "éé…");
        assert_eq!(cut("abcdefgh", 8), "abcdefgh");
        assert_eq!(cut("abcdefghi", 8), "abcde…");
        assert_eq!(cut(&"\u{1}".repeat(9), 16), "\u{1}\u{1}…");
    }

    #[test]
    fn a_text_that_grows_stops_at_its_bound() {
        let mut text = String::new();
        for _ in 0..100 {
            append(&mut text, "word ", 20);
        }
        assert_eq!(text, "word word word wo…");
    }

    #[test]
    fn an_object_keeps_the_fields_that_fit_and_counts_the_others() {
        let Value::Object(given) = json!({ "a": 1, "b": "x".repeat(100), "c": [1, 2] }) else {
            unreachable!()
        };
        assert_eq!(Value::Object(object(&given, 40)), json!({ "a": 1, "c": [1, 2], "$omitted": 1 }));
        let deep = (0..200).fold(json!(1), |inner, _| json!([inner]));
        assert_eq!(value(&deep, 10_000), None);
    }

    #[test]
    fn numbers_are_read_back_as_they_were_written() {
        for value in [0.1 + 0.2, 1.0 / 3.0, 1e300, 1e-300, f64::NAN, 123_456_789.123_456_7, -2.5] {
            let kept = number(value);
            let text = serde_json::to_string(&kept).unwrap();
            assert_eq!(serde_json::from_str::<f64>(&text).unwrap(), kept, "{text}");
        }
    }

    #[test]
    fn a_preview_does_not_write_all_of_a_large_value() {
        assert_eq!(preview(&json!({ "a": [1, 2] }), 160), r#"{"a":[1,2]}"#);
        assert!(preview(&json!("é".repeat(10_000)), 160).len() <= 160);
    }
}
