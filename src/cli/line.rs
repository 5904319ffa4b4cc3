//! An event in one line, for people.

use serde_json::Value;

/// Longer texts are cut.
const TEXT_CHARS_MAX: usize = 100;

/// When, what, of whom, and the most telling part of it.
pub fn of(event: &Value) -> String {
    let time = event["timestamp"].as_str().and_then(|time| time.get(11..23)).unwrap_or("");
    let class = event["type"].as_str().unwrap_or("?");
    let whom = ["toolCallId", "actionId", "jobItemId", "subagentId", "taskId", "jobId", "turnId", "threadId"];
    let whom = whom.iter().find_map(|name| event[name].as_str()).unwrap_or("");
    format!("{time} {class:<24} {whom:<31} {}", short(event)).trim_end().to_owned()
}

/// The most telling part of a payload.
fn short(event: &Value) -> String {
    let payload = &event["payload"];
    let text = |name: &str| payload[name].as_str().map(str::to_owned);
    let status = event["status"].as_str().or(payload["status"].as_str());
    let said = match event["type"].as_str().unwrap_or("") {
        "tool.started" => Some(format!("{} {}", payload["name"].as_str().unwrap_or("?"), payload["args"])),
        "action.required" => {
            let decisions: Vec<_> =
                payload["decisions"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            Some(format!("{} [{}]", payload["prompt"].as_str().unwrap_or("?"), decisions.join("|")))
        }
        "action.resolved" => text("decision"),
        _ => None,
    };
    let error = payload["error"]["message"].as_str().map(str::to_owned);
    let said = said.or(error);
    let told =
        ["text", "summary", "preview", "title", "objective", "reason", "name", "model", "agent", "phase"];
    let said = said.or_else(|| told.iter().find_map(|name| text(name)));
    let parts = [status.map(str::to_owned), said];
    cut(&parts.into_iter().flatten().collect::<Vec<_>>().join(" "))
}

/// On one line, and not too long.
pub fn cut(text: &str) -> String {
    let mut chars = text.chars().map(|char| if char.is_control() { ' ' } else { char });
    let cut: String = chars.by_ref().take(TEXT_CHARS_MAX).collect();
    if chars.next().is_some() { cut + "…" } else { cut }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_is_one_line_whatever_it_says() {
        let event = json!({ "type": "model.delta", "timestamp": "2026-05-11T10:00:00.007Z", "turnId": "turn_1",
            "payload": { "text": "two\nlines \u{1b}[2J" } });
        let line = of(&event);
        assert!(line.starts_with("10:00:00.007 model.delta"), "{line}");
        assert!(line.contains("turn_1") && line.ends_with("two lines  [2J"), "{line}");
        assert!(!of(&json!({ "payload": { "text": "x".repeat(500) } })).contains(&"x".repeat(101)));
    }
}
