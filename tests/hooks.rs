//! Hooks: governance that is plugged in, as the library lets its users do.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use cadre::{
    exec::{Hook, HookPoint, HookRequest, Verdict},
    fact::{Failure, payload::FailurePolicy},
};
use common::{Rig, count};
use serde_json::{Value, json};

type Says = fn(&HookRequest<'_>) -> Result<Verdict, Failure>;

/// A hook for some points.
struct Plugged {
    name: &'static str,
    points: &'static [HookPoint],
    policy: FailurePolicy,
    says: Says,
}

impl Hook for Plugged {
    fn name(&self) -> &str {
        self.name
    }

    fn is_for(&self, point: HookPoint) -> bool {
        self.points.contains(&point)
    }

    fn failure_policy(&self) -> FailurePolicy {
        self.policy
    }

    fn run(&self, request: &HookRequest<'_>) -> Result<Verdict, Failure> {
        (self.says)(request)
    }
}

fn hook(name: &'static str, points: &'static [HookPoint], says: Says) -> Plugged {
    Plugged { name, points, policy: FailurePolicy::Closed, says }
}

async fn rig(hooks: Vec<Plugged>) -> Rig {
    Rig::start_with(|engine| {
        for hook in hooks {
            engine.hooks.push(Box::new(hook));
        }
    })
    .await
}

fn block(reason: &str) -> Result<Verdict, Failure> {
    Ok(Verdict::Block { reason: reason.into() })
}

fn of<'e>(events: &'e [Value], class: &str) -> Vec<&'e Value> {
    events.iter().filter(|event| event["type"] == class).collect()
}

fn at(events: &[Value], class: &str) -> usize {
    events.iter().position(|event| event["type"] == class).unwrap_or_else(|| panic!("no {class}"))
}

#[tokio::test]
async fn p10_a_block_at_the_start_ends_the_run_before_its_model_is_asked() {
    let rig = rig(vec![
        hook("curfew", &[HookPoint::RunStart], |_| block("not at night")),
        hook("unasked", &[HookPoint::RunStart], |_| Ok(Verdict::Pass)),
    ])
    .await;
    let ended = rig.run("sess_a", json!([{ "say": "never" }])).await;
    let error = &ended["payload"]["error"];
    assert_eq!(
        (&ended["payload"]["status"], &error["code"], &error["message"], &error["retryable"]),
        (&json!("failed"), &json!("policy_blocked"), &json!("not at night"), &json!(false)),
        "{ended:#}"
    );
    rig.call(
        "spawn_subagent",
        json!({ "sessionId": "sess_a", "subagentId": "sub_a", "input": common::input(&json!([])) }),
    )
    .await;
    rig.subagent_is("sess_a", "sub_a", "failed").await;
    let events = rig.checked("sess_a").await;
    assert_eq!((count(&events, "model.requested"), count(&events, "routing.single_candidate")), (0, 0));
    let (started, completed) = (of(&events, "hook.started"), of(&events, "hook.completed"));
    assert_eq!((started.len(), completed.len()), (2, 2), "after a block nobody else is asked");
    assert_eq!(
        (&started[0]["payload"]["hook"], &started[0]["payload"]["point"]),
        (&json!("curfew"), &json!("run_start"))
    );
    assert_eq!(started[0]["payload"]["subject"], "scripted");
    let completed = &completed[0]["payload"];
    assert_eq!((&completed["outcome"], &completed["reason"]), (&json!("block"), &json!("not at night")));
    rig.stop().await;
}

#[tokio::test]
async fn p10_a_block_before_a_tool_denies_that_call_and_no_other() {
    let rig = rig(vec![hook("guard", &[HookPoint::BeforeTool], |request| {
        let args: Value = serde_json::from_str(request.args.unwrap()).unwrap();
        if args["secret"] == true { block("no secrets") } else { Ok(Verdict::Pass) }
    })])
    .await;
    let script = json!([{ "tool": "echo", "args": { "secret": true } }, { "tool": "echo", "args": { "a": 1 } }, { "say": "went on" }]);
    let ended = rig.run("sess_a", script).await;
    assert_eq!(ended["type"], "turn.completed");
    let events = rig.checked("sess_a").await;
    let failed = of(&events, "tool.failed");
    assert_eq!((failed.len(), &failed[0]["payload"]["error"]["code"]), (1, &json!("policy_blocked")));
    let results = of(&events, "tool.result");
    assert_eq!((results.len(), &results[0]["payload"]["structured"]), (1, &json!({ "a": 1 })));
    let completed = of(&events, "hook.completed");
    let outcomes: Vec<_> = completed.iter().map(|event| &event["payload"]["outcome"]).collect();
    assert_eq!(outcomes, ["block", "pass"]);
    assert!(failed[0]["toolCallId"].is_string(), "{:#}", failed[0]);
    assert_eq!(
        completed[0]["toolCallId"], failed[0]["toolCallId"],
        "the fact says which call: {:#}",
        completed[0]
    );
    assert_eq!(count(&events, "permission.evaluated"), 1, "what a hook denies is not judged any more");
    let judged = async |args: Value| {
        rig.call("evaluate_permission", json!({ "sessionId": "sess_a", "tool": "echo", "args": args })).await
    };
    let verdict = judged(json!({ "secret": true })).await;
    assert_eq!((&verdict["decision"], &verdict["source"]), (&json!("deny"), &json!("hook")), "{verdict}");
    assert_eq!((&verdict["reason"], &verdict["rules"][0]["decisive"]), (&json!("no secrets"), &json!(false)));
    assert_eq!(judged(json!({ "a": 1 })).await["decision"], "allow");
    let judged = rig.checked("sess_a").await.split_off(events.len());
    assert_eq!(
        (judged.len(), count(&judged, "permission.evaluated")),
        (2, 2),
        "a hook that is asked is not run"
    );
    rig.stop().await;
}

#[tokio::test]
async fn after_a_tool_a_hook_replaces_or_withholds_what_the_model_reads() {
    let rig = rig(vec![
        hook("redact", &[HookPoint::AfterTool], |request| {
            match (request.tool.unwrap(), request.result.unwrap()) {
                ("echo", Ok(output)) => {
                    assert!(output.structured.as_ref().unwrap().contains("hunter2"));
                    Ok(Verdict::Replace { text: "a password".into(), reason: "it has a secret".into() })
                }
                ("big" | "fail", _) => block("too much to know"),
                _ => Ok(Verdict::Pass),
            }
        }),
        hook("second", &[HookPoint::AfterTool], |request| match request.result.unwrap() {
            Ok(output) if request.tool == Some("echo") => {
                assert_eq!((output.preview.as_deref(), &output.structured), (Some("a password"), &None));
                Ok(Verdict::Pass)
            }
            _ => Ok(Verdict::Pass),
        }),
    ])
    .await;
    let script = json!([{ "tool": "echo", "args": { "password": "hunter2" } }, { "tool": "big", "args": { "bytes": 100_000 } },
        { "tool": "fail", "args": { "message": "secret" } }, { "tool": "sleep", "args": { "ms": 1 } }]);
    let ended = rig.run("sess_a", script).await;
    assert_eq!(ended["type"], "turn.completed");
    let events = rig.checked("sess_a").await;
    let results = of(&events, "tool.result");
    let seen: Vec<_> = results.iter().map(|event| &event["payload"]["preview"]).collect();
    assert_eq!(seen, [&json!("a password"), &json!("withheld: too much to know"), &Value::Null]);
    assert!(
        results[..2]
            .iter()
            .all(|event| event["payload"]["structured"].is_null() && event["outputRef"].is_null())
    );
    assert_eq!(results[2]["payload"]["structured"], json!({ "sleptMs": 1 }));
    assert_eq!(count(&events, "output.spilled"), 0, "nobody is told where the whole is");
    let failed = &of(&events, "tool.failed")[0]["payload"]["error"];
    assert_eq!((&failed["code"], &failed["message"]), (&json!("policy_blocked"), &json!("too much to know")));
    let completed = of(&events, "hook.completed");
    let said: Vec<_> = completed.iter().filter(|event| event["payload"]["hook"] == "redact").collect();
    let said: Vec<_> =
        said.iter().map(|event| (&event["payload"]["outcome"], &event["payload"]["reason"])).collect();
    assert_eq!(said[0], (&json!("replace"), &json!("it has a secret")));
    assert_eq!((said[1].0, said[2].0, said[3].0), (&json!("block"), &json!("block"), &json!("pass")));
    rig.stop().await;
}

#[tokio::test]
async fn p11_a_block_at_the_end_is_recorded_before_the_last_fact_and_changes_nothing() {
    let rig = rig(vec![hook("auditor", &[HookPoint::RunEnd], |request| {
        let ending = request.ending.unwrap();
        block(&format!("it is {}", ending.status))
    })])
    .await;
    assert_eq!(rig.run("sess_a", json!([{ "say": "x" }])).await["type"], "turn.completed");
    let events = rig.checked("sess_a").await;
    assert_eq!(at(&events, "hook.completed") + 1, at(&events, "turn.completed"));
    assert_eq!(events[at(&events, "hook.completed")]["payload"]["reason"], "it is completed");
    let ended = rig.run("sess_b", json!([{ "fail": { "retryable": false, "message": "broken" } }])).await;
    assert_eq!(ended["payload"]["error"]["message"], "broken");
    let events = rig.checked("sess_b").await;
    assert_eq!(events[at(&events, "hook.completed")]["payload"]["reason"], "it is failed");
    rig.stop().await;
}

#[tokio::test]
async fn p10_a_hook_that_fails_is_told_and_its_policy_says_what_follows() {
    let broken: Says = |_| Err(Failure::new("unavailable", "no answer"));
    let before = &[HookPoint::BeforeTool];
    let with = |policy, says: Says| Plugged { policy, ..hook("shaky", before, says) };
    let script = json!([{ "tool": "echo", "args": { "a": 1 } }]);
    let panics: Says = |_| panic!("a hook that is broken");
    let replaces: Says = |_| Ok(Verdict::Replace { text: "x".into(), reason: "x".into() });
    for (policy, says, code) in [
        (FailurePolicy::Closed, broken, "unavailable"),
        (FailurePolicy::Closed, panics, "internal"),
        (FailurePolicy::Closed, replaces, "invalid_argument"),
        (FailurePolicy::Open, broken, "unavailable"),
        (FailurePolicy::Open, panics, "internal"),
    ] {
        let rig = rig(vec![with(policy, says)]).await;
        assert_eq!(rig.run("sess_a", script.clone()).await["type"], "turn.completed");
        let events = rig.checked("sess_a").await;
        let failed = &of(&events, "hook.failed")[0]["payload"];
        assert_eq!(failed["error"]["code"], code);
        assert_eq!(count(&events, "hook.completed"), 0);
        let is_open = policy == FailurePolicy::Open;
        assert_eq!(
            (count(&events, "tool.result"), count(&events, "tool.failed")),
            if is_open { (1, 0) } else { (0, 1) }
        );
        rig.stop().await;
    }
    let rig = rig(vec![with(FailurePolicy::Ask, broken)]).await;
    let submitted = rig.submit("sess_a", script).await;
    let asked = rig.until("sess_a", |event| event["type"] == "action.required").await;
    assert_eq!(asked["payload"]["prompt"], "Allow echo? (the hook shaky failed: no answer)");
    assert_eq!(count(&rig.served("sess_a").await, "tool.started"), 0);
    rig.call("respond_action", json!({ "actionId": asked["actionId"], "decision": "allow" })).await;
    rig.turn_over("sess_a", submitted["turnId"].as_str().unwrap()).await;
    assert_eq!(count(&rig.checked("sess_a").await, "tool.result"), 1);
    rig.stop().await;
}

#[tokio::test]
async fn a_hook_that_is_not_for_a_point_leaves_nothing_there() {
    let rig = rig(vec![
        hook("tools", &[HookPoint::BeforeTool, HookPoint::AfterTool], |_| panic!("nobody calls a tool")),
        hook("nothing", &[], |_| panic!("it is for nothing")),
    ])
    .await;
    let script = json!([{ "spawn": { "count": 5, "script": [{ "say": "x" }] } }, { "say": "done" }]);
    assert_eq!(rig.run("sess_a", script).await["type"], "turn.completed");
    let events = rig.checked("sess_a").await;
    let told = events.iter().filter(|event| event["type"].as_str().unwrap().starts_with("hook."));
    assert_eq!(told.count(), 0);
    rig.stop().await;
}
