//! What a task was to deliver, held against what was delivered. Only what was given is looked at: whether it is any good,
//! nobody here knows.

use serde_json::Value;

use crate::fact::{Ref, payload::Object, status::AcceptanceOutcome};

/// A criterion that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    /// What came of it.
    pub outcome: AcceptanceOutcome,
    /// Whether the task is not done without it.
    pub required: bool,
    /// What it asks for.
    pub wanted: String,
}

/// Judges criteria, in their order.
pub fn judge(criteria: &[Object], artifacts: &[Ref], evidence: &[Ref]) -> Vec<Judged> {
    criteria.iter().map(|criterion| judge_one(criterion, artifacts, evidence)).collect()
}

fn judge_one(criterion: &Object, artifacts: &[Ref], evidence: &[Ref]) -> Judged {
    let text = |name: &str| criterion.get(name).and_then(Value::as_str);
    let required = criterion.get("required").and_then(Value::as_bool);
    let has = |refs: &[Ref], wanted: &str| refs.iter().any(|reference| reference.as_str() == wanted);
    let judged = |met: bool, required: bool, wanted: &str| {
        let outcome = if met { AcceptanceOutcome::Met } else { AcceptanceOutcome::Unmet };
        Judged { outcome, required, wanted: wanted.to_owned() }
    };
    // What is asked for by name may be delivered as either.
    if let Some(wanted) = text("artifact").or_else(|| text("evidence")) {
        return judged(has(artifacts, wanted) || has(evidence, wanted), required != Some(false), wanted);
    }
    let kind = text("kind").or_else(|| text("type")).unwrap_or_default();
    let given = match kind {
        "artifact" => artifacts,
        "evidence" => evidence,
        _ => {
            let wanted = if kind.is_empty() { "criterion" } else { kind };
            let outcome = AcceptanceOutcome::Unknown;
            return Judged { outcome, required: required == Some(true), wanted: wanted.to_owned() };
        }
    };
    match text("ref") {
        Some(wanted) => judged(has(given, wanted), required == Some(true), wanted),
        None => judged(!given.is_empty(), required == Some(true), kind),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_criterion_is_met_by_what_was_given_and_unknown_when_nobody_can_tell() {
        let criteria = [
            json!({ "artifact": "report" }),
            json!({ "evidence": "log", "required": false }),
            json!({ "kind": "artifact", "required": true }),
            json!({ "kind": "evidence", "ref": "log" }),
            json!({ "kind": "review", "required": true }),
            json!({ "says": "it is good" }),
        ];
        let criteria: Vec<Object> = criteria.iter().map(|it| it.as_object().unwrap().clone()).collect();
        let report: Ref = serde_json::from_value(json!("report")).unwrap();
        let judged = |artifacts: &[Ref]| {
            let all = judge(&criteria, artifacts, &[]);
            all.into_iter().map(|one| (one.outcome, one.required)).collect::<Vec<_>>()
        };
        use AcceptanceOutcome::{Met, Unknown, Unmet};
        let rest = [(Unmet, false), (Unknown, true), (Unknown, false)];
        assert_eq!(judged(&[])[..3], [(Unmet, true), (Unmet, false), (Unmet, true)]);
        assert_eq!(judged(&[report])[..3], [(Met, true), (Unmet, false), (Met, true)]);
        assert_eq!(judged(&[])[3..], rest);
    }
}
