//! Where two JSON values differ.

use serde::Serialize;
use serde_json::Value;

/// How many differences are listed; beyond it they are counted.
const LISTED_MAX: usize = 1_000;
/// How much of a value is quoted, in characters.
const QUOTED_MAX: usize = 400;

/// One field that differs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Difference {
    /// Where: `tasks.task_1.status`, `snapshot.threads[0].turns[2].text`.
    pub path: String,
    /// What was served; absent when nothing was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<Value>,
    /// What the fold gives; absent when it gives nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub got: Option<Value>,
}

/// All fields that differ.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Differences {
    /// How many.
    pub total: u64,
    /// The first of them.
    pub listed: Vec<Difference>,
    /// How many fields were compared.
    pub compared: u64,
}

impl Differences {
    /// Compares what was served with what a fold gives, field by field.
    pub fn compare(&mut self, path: &str, expected: Option<&Value>, got: Option<&Value>) {
        match (expected, got) {
            (None, None) => {}
            (Some(Value::Object(expected)), Some(Value::Object(got))) => {
                for (name, value) in expected {
                    self.compare(&format!("{path}.{name}"), Some(value), got.get(name));
                }
                for (name, value) in got.iter().filter(|(name, _)| !expected.contains_key(*name)) {
                    self.compare(&format!("{path}.{name}"), None, Some(value));
                }
            }
            (Some(Value::Array(expected)), Some(Value::Array(got))) => {
                for index in 0..expected.len().max(got.len()) {
                    self.compare(&format!("{path}[{index}]"), expected.get(index), got.get(index));
                }
            }
            (expected, got) => {
                self.compared += 1;
                if expected != got {
                    self.add(path, expected, got);
                }
            }
        }
    }

    fn add(&mut self, path: &str, expected: Option<&Value>, got: Option<&Value>) {
        self.total += 1;
        if self.listed.len() < LISTED_MAX {
            let path = path.trim_start_matches('.').to_owned();
            self.listed.push(Difference { path, expected: expected.map(quoted), got: got.map(quoted) });
        }
    }
}

fn quoted(value: &Value) -> Value {
    match value {
        Value::Array(_) | Value::Object(_) | Value::String(_) => {
            let text = value.to_string();
            if text.chars().count() <= QUOTED_MAX {
                return value.clone();
            }
            Value::String(text.chars().take(QUOTED_MAX).chain(['…']).collect())
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_field_that_differs_is_named_once_and_equal_ones_are_not() {
        let served = json!({ "a": { "b": [1, 2, 3], "c": "x" }, "d": null });
        let folded = json!({ "a": { "b": [1, 5], "c": "x", "e": true }, "d": null });
        let mut differences = Differences::default();
        differences.compare("", Some(&served), Some(&folded));
        let paths: Vec<_> = differences.listed.iter().map(|found| found.path.as_str()).collect();
        assert_eq!(paths, ["a.b[1]", "a.b[2]", "a.e"]);
        assert_eq!((differences.total, differences.compared), (3, 6));
        let mut differences = Differences::default();
        differences.compare("", Some(&served), Some(&served));
        assert_eq!(differences.total, 0);
    }
}
