//! Exports: made from the facts of a session, and from nothing else.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use cadre::{
    fact::id::BlobRef,
    replay::{ReplayCase, Verdict, fold},
    runtime::Caller,
};
use common::{PATIENCE, Rig, count};
use serde_json::{Value, json};

/// The content of an export.
async fn content(rig: &Rig, exported: &Value) -> Vec<u8> {
    let blob = BlobRef::parse(exported["ref"].as_str().unwrap()).unwrap();
    let (content, meta) = rig.runtime.blobs().read_all("local", &blob).await.unwrap();
    assert_eq!(exported["sizeBytes"], meta.size_bytes);
    assert_eq!(exported["hash"], format!("sha256:{}", meta.hash));
    assert_eq!(exported["mediaType"], "application/json");
    content.to_vec()
}

async fn pack(rig: &Rig, command: &str, args: Value) -> (Value, Value) {
    let exported = rig.call(command, args).await;
    let content = content(rig, &exported).await;
    (exported, serde_json::from_slice(&content).unwrap())
}

async fn case(rig: &Rig, args: Value) -> ReplayCase {
    let exported = rig.call("export_replay", args).await;
    ReplayCase::parse(&content(rig, &exported).await).unwrap()
}

/// A session in which much has happened: tools, an approval, subagents of subagents, a task with a failed attempt.
async fn busy(rig: &Rig, session: &str) -> Vec<Value> {
    let script = json!([
        { "say": "I will look first", "chunks": 3 },
        { "tool": "echo", "args": { "a": 1 } },
        { "tool": "big", "args": { "bytes": 100_000 } },
        { "tool": "fail", "args": { "message": "no" } },
        { "approve": { "prompt": "go on?", "decisions": ["allow", "deny"] } },
        { "spawn": { "count": 5, "script": [{ "say": "child" }, { "tool": "echo", "args": {} },
            { "spawn": { "count": 2, "script": [{ "say": "grandchild" }], "join": "all" } }], "join": "all" } },
        { "task": { "objective": "try twice", "retryPolicy": { "maxAttempts": 2, "backoffMs": 1, "maxBackoffMs": 1 },
            "script": [{ "fail": { "message": "not yet", "retryable": true, "times": 1 } }, { "say": "done" }],
            "join": true } },
        { "say": "all done" }
    ]);
    let first = rig.submit(session, script).await;
    let asked = rig.until(session, |event| event["type"] == "action.required").await;
    let answer = json!({ "actionId": asked["actionId"], "decision": "allow", "reason": "looks fine" });
    rig.call("respond_action", answer).await;
    rig.turn_over(session, first["turnId"].as_str().unwrap()).await;
    let second = rig.submit(session, json!([{ "say": "again" }, { "tool": "unknown" }])).await;
    rig.turn_over(session, second["turnId"].as_str().unwrap()).await;
    let third = rig.submit(session, json!([{ "fail": { "message": "broken", "retryable": false } }])).await;
    rig.turn_over(session, third["turnId"].as_str().unwrap()).await;
    vec![first, second, third]
}

#[tokio::test]
async fn a_replay_folds_to_what_was_served() {
    let rig = Rig::start().await;
    let turns = busy(&rig, "sess_r").await;
    let whole = case(&rig, json!({ "sessionId": "sess_r" })).await;
    let report = fold(&whole);
    println!("{report}");
    assert_eq!(report.verdict, Verdict::Equal, "{report}");
    assert_eq!((report.turns, report.tasks, report.subagents), (3, 1, 15));
    assert!(report.differences.compared > 500, "{report}");

    // What was told about the export is folded by the next one.
    let again = fold(&case(&rig, json!({ "sessionId": "sess_r" })).await);
    assert_eq!((again.verdict, again.span.events), (Verdict::Equal, report.span.events + 1), "{again}");

    let turn = fold(&case(&rig, json!({ "sessionId": "sess_r", "turnId": turns[0]["turnId"] })).await);
    assert_eq!((turn.verdict, turn.turns, turn.subagents), (Verdict::Equal, 1, 15), "{turn}");
    let task = whole.models.tasks.keys().next().unwrap().clone();
    let task = fold(&case(&rig, json!({ "sessionId": "sess_r", "taskId": task })).await);
    assert_eq!((task.verdict, task.turns, task.tasks), (Verdict::Equal, 0, 1), "{task}");
    assert!(task.differences.compared > 10, "{task}");
    rig.stop().await;
}

#[tokio::test]
async fn a_replay_of_what_still_runs_folds_to_what_was_served() {
    let rig = Rig::start().await;
    let script = json!([{ "spawn": { "count": 3, "script": [{ "sleep": 60_000 }], "join": "none" } },
        { "approve": { "prompt": "ok?", "decisions": ["yes"] } }]);
    rig.submit("sess_o", script).await;
    rig.submit("sess_o", json!([{ "say": "later" }])).await;
    rig.until("sess_o", |event| event["type"] == "action.required").await;
    let report = fold(&case(&rig, json!({ "sessionId": "sess_o" })).await);
    assert_eq!((report.verdict, report.turns), (Verdict::Equal, 2), "{report}");
    rig.stop().await;
}

#[tokio::test]
async fn a_case_that_was_changed_is_noticed() {
    let rig = Rig::start().await;
    busy(&rig, "sess_t").await;
    let exported = rig.call("export_replay", json!({ "sessionId": "sess_t" })).await;
    let original: Value = serde_json::from_slice(&content(&rig, &exported).await).unwrap();
    let replay = |case: &Value| fold(&ReplayCase::parse(case.to_string().as_bytes()).unwrap());
    assert_eq!(replay(&original).verdict, Verdict::Equal);

    let mut case = original.clone();
    let events = case["events"].as_array_mut().unwrap();
    let failed = events.iter_mut().find(|event| event["type"] == "task.attempt.failed").unwrap();
    failed["payload"]["error"]["message"] = "nothing happened".into();
    let report = replay(&case);
    assert_eq!(report.verdict, Verdict::Different);
    assert!(report.differences.listed.iter().any(|found| found.path.starts_with("tasks.task_")), "{report}");

    let mut case = original.clone();
    let events = case["events"].as_array_mut().unwrap();
    let at = events.iter().position(|event| event["type"] == "tool.failed").unwrap();
    events.remove(at);
    assert_eq!(replay(&case).verdict, Verdict::Different);

    let mut case = original.clone();
    case["events"].as_array_mut().unwrap().swap(10, 11);
    assert_eq!(replay(&case).verdict, Verdict::Different);

    let mut case = original.clone();
    case["models"]["snapshot"]["title"] = "another".into();
    let report = replay(&case);
    assert_eq!(report.differences.listed[0].path, "snapshot.title");
    rig.stop().await;
}

#[tokio::test]
async fn evidence_says_what_the_facts_say() {
    let rig = Rig::start().await;
    busy(&rig, "sess_e").await;
    let events = rig.served("sess_e").await;
    let (exported, evidence) = pack(&rig, "export_evidence", json!({ "sessionId": "sess_e" })).await;
    assert_eq!(evidence["format"], "cadre-evidence/1");
    assert_eq!(evidence["span"]["events"], events.len());
    let of_type = |name: &str| events.iter().filter(|event| event["type"] == name).collect::<Vec<_>>();
    let distinct = |name: &str| {
        let ids = events.iter().filter_map(|event| event[name].as_str());
        ids.collect::<std::collections::BTreeSet<_>>().len()
    };
    for (kind, id) in [
        ("threads", "threadId"),
        ("turns", "turnId"),
        ("runs", "runId"),
        ("subagents", "subagentId"),
        ("toolCalls", "toolCallId"),
        ("actions", "actionId"),
        ("modelRequests", "modelRequestId"),
    ] {
        assert_eq!(evidence["correlation"][kind]["count"], distinct(id), "{kind}");
    }
    let calls = evidence["toolCalls"]["entries"].as_array().unwrap();
    assert_eq!(calls.len(), of_type("tool.started").len().max(calls.len()));
    let big = calls.iter().find(|call| call["name"] == "big").unwrap();
    let spilled = of_type("output.spilled")[0];
    assert_eq!(big["resultRef"], spilled["outputRef"]);
    assert_eq!(big["resultHash"], spilled["payload"]["hash"]);
    let decision = evidence["decisions"]["entries"].as_array().unwrap();
    let approved = decision.iter().find(|decision| decision["kind"] == "action").unwrap();
    assert_eq!((&approved["decision"], &approved["by"]), (&json!("allow"), &json!("local")));
    assert_eq!(approved["reason"], "looks fine");
    for outcome in evidence["verification"].as_array().unwrap() {
        assert_eq!(outcome["status"], "passed", "{outcome}");
    }
    assert_eq!(evidence["outcomes"]["turns"]["failed"], 2, "{:#}", evidence["outcomes"]);
    assert_eq!(evidence["outcomes"]["tasks"], json!({ "completed": 1 }));
    assert_eq!(evidence["missing"], json!([]));

    // The session knows of it.
    let told = rig.served("sess_e").await;
    let told = told.last().unwrap();
    assert_eq!((&told["type"], &told["evidenceId"]), (&json!("evidence.changed"), &exported["evidenceId"]));
    assert_eq!(told["payload"]["packRef"], exported["ref"]);
    assert_eq!(told["payload"]["verificationOutcomes"], evidence["verification"]);
    let snapshot = rig.call("get_session", json!({ "sessionId": "sess_e" })).await;
    assert_eq!(snapshot["evidenceRefs"], json!([exported["evidenceId"]]));
    rig.stop().await;
}

#[tokio::test]
async fn evidence_is_joined_with_telemetry_by_traces_and_requests_where_facts_carry_them() {
    let rig = Rig::start().await;
    let trace = |number: u32| format!("{number:032x}");
    let header = |number: u32| format!("00-{}-{number:016x}-01", trace(number));
    let script = json!([{ "say": "x" }, { "tool": "echo", "args": {} },
        { "spawn": { "count": 1, "script": [{ "say": "child" }], "join": "all" } },
        { "fail": { "message": "no", "retryable": true, "times": 1 } }, { "say": "y" }]);
    let traced = async |number: u32, session: &str| {
        let submit = rig.submit(session, script.clone());
        let turn = cadre_cluster::trace::within(Some(header(number)), submit).await;
        rig.turn_over(session, turn["turnId"].as_str().unwrap()).await;
        turn["turnId"].clone()
    };
    let first = traced(1, "sess_t").await;
    let second = traced(2, "sess_t").await;
    let plain = rig.submit("sess_t", json!([{ "say": "untraced" }])).await;
    rig.turn_over("sess_t", plain["turnId"].as_str().unwrap()).await;
    let events = rig.checked("sess_t").await;
    let (_, evidence) = pack(&rig, "export_evidence", json!({ "sessionId": "sess_t" })).await;
    let telemetry = &evidence["telemetry"];
    let carries = |event: &&Value| event["traceId"].is_string();
    assert_eq!(telemetry["facts"], events.len());
    assert_eq!(telemetry["tracedFacts"], events.iter().filter(carries).count());
    assert_eq!(telemetry["traces"]["total"], 2, "{telemetry:#}");
    for (number, turn) in [(1, &first), (2, &second)] {
        let entries = telemetry["traces"]["entries"].as_array().unwrap();
        let entry = entries.iter().find(|entry| entry["traceId"] == trace(number)).unwrap();
        let mine: Vec<_> = events.iter().filter(|event| event["traceId"] == trace(number)).collect();
        assert_eq!(entry["span"]["events"], mine.len());
        assert_eq!(entry["spanIds"], json!([format!("{number:016x}")]));
        for (kind, id) in
            [("toolCalls", "toolCallId"), ("turns", "turnId"), ("modelRequests", "modelRequestId")]
        {
            let ids: std::collections::BTreeSet<_> =
                mine.iter().filter_map(|event| event[id].as_str()).collect();
            assert_eq!(entry["correlation"][kind]["count"], ids.len(), "{kind}");
        }
        assert_eq!(entry["correlation"]["subagents"]["count"], 1, "what was started within it, too");
        assert!(entry["correlation"]["turns"]["ids"].as_array().unwrap().contains(turn));
    }
    let requests = telemetry["modelRequests"]["entries"].as_array().unwrap();
    let distinct: std::collections::BTreeSet<_> =
        events.iter().filter_map(|event| event["modelRequestId"].as_str()).collect();
    assert_eq!(telemetry["modelRequests"]["total"], distinct.len());
    for request in requests {
        let id = &request["modelRequestId"];
        let mine: Vec<_> = events.iter().filter(|event| event["modelRequestId"] == *id).collect();
        let asked = mine.iter().find(|event| event["type"] == "model.requested").unwrap();
        for field in ["turnId", "subagentId", "traceId"] {
            assert_eq!(request[field], asked[field], "{field}");
        }
        assert_eq!((&request["startedAt"], &request["model"]), (&asked["timestamp"], &json!("scripted")));
        let ends = ["model.completed", "model.failed"];
        let ended = mine.iter().rfind(|event| ends.contains(&event["type"].as_str().unwrap())).unwrap();
        assert_eq!(request["endedAt"], ended["timestamp"]);
        let status = if ended["type"] == "model.completed" { "completed" } else { "retrying" };
        assert_eq!((&request["status"], &request["attempt"]), (&json!(status), &asked["payload"]["attempt"]));
        assert_eq!(request["error"].is_object(), status == "retrying", "{request:#}");
    }
    let failed = requests.iter().filter(|request| request["status"] == "retrying").count();
    assert_eq!(failed, count(&events, "model.failed"));
    assert!(failed >= 2, "one in each of the traced turns");
    let gap = |evidence: &Value| {
        let gaps = evidence["knownGaps"].as_array().unwrap().clone();
        gaps.into_iter().find(|gap| gap["what"] == "traces")
    };
    assert_eq!(gap(&evidence), None);

    let scope = json!({ "sessionId": "sess_t", "turnId": plain["turnId"] });
    let (_, evidence) = pack(&rig, "export_evidence", scope).await;
    assert_eq!(evidence["telemetry"]["traces"]["state"], "not_applicable");
    assert_eq!(evidence["telemetry"]["tracedFacts"], 0);
    assert_eq!(evidence["telemetry"]["modelRequests"]["total"], 1, "{:#}", evidence["telemetry"]);
    let gap = gap(&evidence).unwrap();
    assert_eq!(
        (&gap["state"], &gap["reason"]),
        (&json!("not_applicable"), &evidence["telemetry"]["traces"]["reason"])
    );
    rig.stop().await;
}

#[tokio::test]
async fn a_review_tells_people_what_was_done() {
    let rig = Rig::start().await;
    let turns = busy(&rig, "sess_v").await;
    let open = json!([{ "approve": { "prompt": "and now?", "decisions": ["yes", "no"] } }]);
    let open = rig.submit("sess_v", open).await;
    rig.until("sess_v", |event| event["type"] == "action.required" && event["turnId"] == open["turnId"])
        .await;
    let (_, review) = pack(&rig, "export_review", json!({ "sessionId": "sess_v" })).await;
    let told = review["turns"]["entries"].as_array().unwrap();
    let first = told.iter().find(|turn| turn["turnId"] == turns[0]["turnId"]).unwrap();
    assert_eq!(first["outcome"], "completed");
    assert!(first["answer"].as_str().unwrap().starts_with("I will look first"));
    assert!(first["objective"].as_str().unwrap().contains("go on?"));
    assert_eq!(first["tools"]["fail"], json!({ "calls": 1, "failed": 1 }));
    assert_eq!(first["approvals"][0]["decision"], "allow");
    let task = &review["tasks"]["entries"][0];
    assert_eq!((&task["objective"], &task["outcome"]), (&json!("try twice"), &json!("completed")));
    assert_eq!(task["attempts"][0]["outcome"], "failed");
    assert_eq!(task["attempts"][1]["outcome"], "completed");
    assert_eq!(review["openQuestions"][0]["prompt"], "and now?");
    assert_eq!(review["knownGaps"][0]["state"], "stale");

    let one = json!({ "sessionId": "sess_v", "turnId": turns[1]["turnId"] });
    let (exported, review) = pack(&rig, "export_review", one).await;
    assert_eq!(review["turns"]["total"], 1);
    assert_eq!(review["scope"]["threadId"], turns[1]["threadId"]);
    let told = rig.until("sess_v", |event| event["evidenceId"] == exported["evidenceId"]).await;
    assert_eq!((&told["turnId"], &told["threadId"]), (&turns[1]["turnId"], &turns[1]["threadId"]));
    rig.stop().await;
}

#[tokio::test]
async fn an_export_under_a_key_is_one_export() {
    let rig = Rig::start().await;
    let turn = rig.submit("sess_k", json!([{ "say": "hello" }])).await;
    rig.turn_over("sess_k", turn["turnId"].as_str().unwrap()).await;
    let ask = async || {
        let args = json!({ "sessionId": "sess_k" });
        rig.runtime.call(&Caller::local(), "export_evidence", args, Some("key-of-mine"), PATIENCE).await
    };
    let first = ask().await.unwrap();
    let turn = rig.submit("sess_k", json!([{ "say": "more" }])).await;
    rig.turn_over("sess_k", turn["turnId"].as_str().unwrap()).await;
    let again = ask().await.unwrap();
    assert_eq!(first, again);
    let types = rig.types("sess_k").await;
    assert_eq!(types.iter().filter(|name| *name == "evidence.changed").count(), 1);
    let other = rig.call("export_evidence", json!({ "sessionId": "sess_k" })).await;
    assert_ne!(other["ref"], first.result["ref"]);
    rig.stop().await;
}

#[tokio::test]
async fn what_does_not_exist_cannot_be_exported() {
    let rig = Rig::start().await;
    rig.call("create_session", json!({ "sessionId": "sess_n" })).await;
    for command in ["export_evidence", "export_replay", "export_review"] {
        let refused = rig.refused(command, json!({ "sessionId": "sess_missing" })).await;
        assert_eq!(refused["code"], "not_found");
        for field in ["threadId", "turnId", "taskId"] {
            let refused = rig.refused(command, json!({ "sessionId": "sess_n", field: "nobody" })).await;
            assert_eq!(
                (&refused["code"], &refused["details"]["field"]),
                (&json!("not_found"), &json!(field))
            );
        }
        let refused = rig.refused(command, json!({})).await;
        assert_eq!(refused["code"], "invalid_argument");
        let refused = rig.refused(command, json!({ "sessionId": "sess_n", "turnId": 7 })).await;
        assert_eq!(refused["code"], "invalid_argument");
        // An empty session has evidence too: that nothing happened in it.
        let (_, pack) = pack(&rig, command, json!({ "sessionId": "sess_n" })).await;
        assert_eq!(pack["sessionId"], "sess_n");
    }
    assert_eq!(rig.types("sess_n").await.iter().filter(|name| *name == "evidence.changed").count(), 3);
    rig.stop().await;
}

#[tokio::test]
async fn p3_two_tries_of_one_keyed_export_at_once_have_one_answer_one_fact_and_one_pack() {
    let rig = Rig::start().await;
    rig.run("sess_a", json!([{ "say": "x" }, { "tool": "big", "args": { "bytes": 50_000 } }])).await;
    trial(&rig, "tria_1", "candidate", json!([{ "say": "hello" }]), 1.0).await;
    trial(&rig, "tria_0", "baseline", json!([{ "say": "hm" }]), 0.5).await;
    let tries = [
        ("export_evidence", json!({ "sessionId": "sess_a" })),
        ("export_review", json!({ "sessionId": "sess_a" })),
        ("export_replay", json!({ "sessionId": "sess_a" })),
        ("export_benchmark_trial", json!({ "trialId": "tria_1" })),
        ("compare_benchmark_runs", json!({ "baseline": ["tria_0"], "candidate": ["tria_1"] })),
    ];
    for (name, args) in tries {
        for round in 0..8 {
            let key = format!("key-of-{name}-{round}");
            let call = || rig.keyed(&key, name, args.clone());
            let (one, two) = tokio::join!(call(), call());
            let (one, two) = (one.unwrap(), two.unwrap());
            assert_eq!((&one.result, one.cursor), (&two.result, two.cursor), "{name}");
            if name.starts_with("export") {
                content(&rig, &one.result).await;
            }
        }
    }
    let events = rig.checked("sess_a").await;
    let told = events.iter().filter(|event| event["payload"]["kind"] == "evidence");
    assert_eq!(told.count(), 8, "one fact for each key");
    rig.stop().await;
}

/// A trial that runs a script as its own turn and gets a reward.
async fn trial(rig: &Rig, id: &str, role: &str, script: Value, reward: f64) -> Value {
    let started = rig.call("start_benchmark_trial", trial_args(id, role)).await;
    assert_eq!(started["status"], "running");
    let session = started["sessionId"].as_str().unwrap();
    let turn = id.replace("tria_", "turn_");
    let mut submit = common::turn(session, script);
    submit["turnId"] = turn.as_str().into();
    rig.call("submit_turn", submit).await;
    rig.turn_over(session, &turn).await;
    let args =
        json!({ "trialId": id, "value": reward, "criteria": ["says hello"], "detailsRef": "rewards/1.json" });
    rig.call("record_benchmark_reward", args).await
}

fn trial_args(id: &str, role: &str) -> Value {
    json!({ "datasetId": "tasks", "datasetVersion": "1", "taskId": "greet", "configurationId": role,
        "role": role, "trialId": id, "refs": { "datasetRef": "benchmarks/tasks" } })
}

#[tokio::test]
async fn trials_are_run_rewarded_packed_and_compared() {
    let rig = Rig::start().await;
    let script = json!([{ "say": "hello" }, { "tool": "echo", "args": { "a": 1 } }]);
    let before = trial(&rig, "tria_b", "baseline", json!([{ "say": "hm" }]), 0.25).await;
    assert_eq!((&before["status"], &before["value"]), (&json!("completed"), &json!(0.25)));
    let after = trial(&rig, "tria_c", "candidate", script, 1.0).await;
    let session = after["sessionId"].as_str().unwrap();
    assert_ne!(after["sessionId"], before["sessionId"]);

    let (exported, packed) = pack(&rig, "export_benchmark_trial", json!({ "trialId": "tria_c" })).await;
    assert_eq!((&exported["kind"], &exported["trialId"]), (&json!("trial"), &json!("tria_c")));
    assert_eq!(exported.get("missing"), None);
    let fixture_fields =
        ["benchmark", "runtimeCorrelation", "refs", "metrics", "decisionInputs", "trajectory", "reward"];
    for field in fixture_fields {
        assert!(packed[field].is_object(), "{field}: {packed:#}");
    }
    assert_eq!(packed["runtimeCorrelation"]["turnId"], "turn_c");
    assert_eq!(packed["metrics"]["reward"], 1.0);
    assert_eq!(packed["metrics"]["evidenceComplete"], true);
    assert_eq!(packed["metrics"]["toolCallCount"], 1);
    assert_eq!(packed["decisionInputs"]["promotionEligible"], true);
    assert_eq!(packed["reward"]["detailsRef"], "rewards/1.json");
    let required = packed["trajectory"]["requiredFieldStatus"].as_object().unwrap();
    assert!(required.len() == 7 && required.values().all(|there| there == true), "{packed:#}");
    let blob = BlobRef::parse(packed["trajectory"]["ref"].as_str().unwrap()).unwrap();
    let (trajectory, _) = rig.runtime.blobs().read_all("local", &blob).await.unwrap();
    let trajectory: Value = serde_json::from_slice(&trajectory).unwrap();
    let steps = trajectory["steps"].as_array().unwrap();
    assert_eq!((&steps[0]["source"], &steps[1]["message"]), (&json!("user"), &json!("hello")));
    let called = steps.iter().find(|step| step["tool_calls"].is_array()).unwrap();
    assert_eq!(called["tool_calls"][0]["function_name"], "echo");
    assert_eq!(
        called["observation"]["results"][0]["source_call_id"],
        called["tool_calls"][0]["tool_call_id"]
    );

    let runs = json!({ "baseline": ["tria_b"], "candidate": ["tria_c"] });
    let compared = rig.call("compare_benchmark_runs", runs).await;
    assert_eq!((&compared["decision"], &compared["meanRewardDelta"]), (&json!("promote"), &json!(0.75)));
    assert_eq!(compared["evidenceCompletenessRate"], 1.0);
    let types = rig.types(session).await;
    let benchmark: Vec<_> = types.iter().filter(|name| name.starts_with("benchmark.")).collect();
    assert_eq!(
        benchmark,
        [
            "benchmark.dataset.resolved",
            "benchmark.configuration.resolved",
            "benchmark.trial.started",
            "benchmark.reward.recorded",
            "benchmark.trial.completed",
            "benchmark.comparison.completed"
        ]
    );
    let snapshot = rig.call("get_session", json!({ "sessionId": session })).await;
    assert_eq!(snapshot["benchmarkSummary"]["decision"], "promote");
    let report = fold(&case(&rig, json!({ "sessionId": session })).await);
    assert_eq!(report.verdict, Verdict::Equal, "{report}");
    conform(&rig, session).await;
    rig.stop().await;
}

#[tokio::test]
async fn a_trial_is_rewarded_once_and_says_what_is_pending() {
    let rig = Rig::start().await;
    let started = rig.call("start_benchmark_trial", trial_args("tria_1", "control")).await;
    let again = rig.call("start_benchmark_trial", trial_args("tria_1", "control")).await;
    assert_eq!(started, again);
    let other = rig.refused("start_benchmark_trial", trial_args("tria_1", "baseline")).await;
    assert_eq!((&other["code"], &other["details"]["status"]), (&json!("conflict"), &json!("running")));

    let (exported, packed) = pack(&rig, "export_benchmark_trial", json!({ "trialId": "tria_1" })).await;
    assert_eq!(exported["missing"], json!(["reward"]));
    assert_eq!((&packed["status"], &packed["reward"]["status"]), (&json!("pending"), &json!("pending")));
    let gaps = packed["knownGaps"].as_array().unwrap();
    assert!(gaps.iter().any(|gap| gap["what"] == "reward" && gap["state"] == "stale"), "{packed:#}");

    let reward = |value: f64| json!({ "trialId": "tria_1", "value": value, "failureCategory": "timeout" });
    let first = rig.call("record_benchmark_reward", reward(0.5)).await;
    assert_eq!(first["status"], "timed_out");
    assert_eq!(rig.call("record_benchmark_reward", reward(0.5)).await, first);
    let refused = rig.refused("record_benchmark_reward", reward(0.6)).await;
    assert_eq!((&refused["code"], &refused["details"]["status"]), (&json!("conflict"), &json!("timed_out")));
    let types = rig.types(started["sessionId"].as_str().unwrap()).await;
    let count = |name: &str| types.iter().filter(|found| *found == name).count();
    assert_eq!((count("benchmark.trial.started"), count("benchmark.reward.recorded")), (1, 1));
    assert_eq!((count("benchmark.trial.failed"), count("benchmark.trial.completed")), (1, 0));
    conform(&rig, started["sessionId"].as_str().unwrap()).await;
    rig.stop().await;
}

#[tokio::test]
async fn a_key_of_a_caller_is_none_of_those_that_the_runtime_uses_itself() {
    let rig = Rig::start().await;
    rig.call("create_session", json!({ "sessionId": "sess_t" })).await;
    for key in ["benchmark.started.tria_1", "benchmark.ended.tria_1"] {
        let update = json!({ "sessionId": "sess_t", "title": key });
        rig.keyed(key, "update_session", update).await.unwrap();
    }
    let mut start = trial_args("tria_1", "control");
    start["sessionId"] = json!("sess_t");
    rig.call("start_benchmark_trial", start).await;
    rig.call("record_benchmark_reward", json!({ "trialId": "tria_1", "value": 1.0 })).await;
    let types = rig.types("sess_t").await;
    for class in ["benchmark.trial.started", "benchmark.reward.recorded"] {
        assert_eq!(types.iter().filter(|name| *name == class).count(), 1, "{class}");
    }
    let mut control = "key-with-\u{1}".to_owned();
    control.insert(0, '\u{1}');
    let refused = rig.keyed(&control, "update_session", json!({ "sessionId": "sess_t" })).await.unwrap_err();
    assert_eq!(refused.field(), Some("Idempotency-Key"));
    rig.stop().await;
}

#[tokio::test]
async fn bad_benchmark_commands_are_refused() {
    let rig = Rig::start().await;
    for (command, args) in [
        ("record_benchmark_reward", json!({ "trialId": "tria_no", "value": 1 })),
        ("export_benchmark_trial", json!({ "trialId": "tria_no" })),
        ("compare_benchmark_runs", json!({ "baseline": ["tria_no"], "candidate": ["tria_nor"] })),
    ] {
        let refused = rig.refused(command, args).await;
        assert_eq!(refused["code"], "not_found", "{refused}");
    }
    let mut args = trial_args("tria_x", "baseline");
    args["sessionId"] = "sess_missing".into();
    let refused = rig.refused("start_benchmark_trial", args).await;
    assert_eq!((&refused["code"], &refused["details"]["field"]), (&json!("not_found"), &json!("sessionId")));
    rig.call("start_benchmark_trial", trial_args("tria_x", "baseline")).await;
    rig.call("start_benchmark_trial", trial_args("tria_y", "candidate")).await;
    let compared = json!({ "baseline": ["tria_x"], "candidate": ["tria_y"] });
    let compared = rig.call("compare_benchmark_runs", compared).await;
    assert_eq!((&compared["decision"], &compared["baseline"]), (&json!("inconclusive"), &json!(0)));
    let mut args = trial_args("tria_z", "candidate");
    args["datasetVersion"] = "2".into();
    rig.call("start_benchmark_trial", args).await;
    for (args, field) in [
        (json!({ "baseline": ["tria_x"], "candidate": ["tria_x"] }), "candidate[0]"),
        (json!({ "baseline": ["tria_x"], "candidate": ["tria_y", "tria_z"] }), "candidate[1]"),
        (json!({ "baseline": [], "candidate": ["tria_y"] }), "baseline"),
    ] {
        let refused = rig.refused("compare_benchmark_runs", args).await;
        assert_eq!(
            (&refused["code"], &refused["details"]["field"]),
            (&json!("invalid_argument"), &json!(field))
        );
    }
    let refused =
        rig.refused("record_benchmark_reward", json!({ "trialId": "tria_x", "value": "much" })).await;
    assert_eq!(refused["code"], "invalid_argument");
    rig.stop().await;
}

/// Every event of a session is what the published schemas say, when they are at hand.
async fn conform(rig: &Rig, session: &str) {
    let Some(folder) = std::env::var_os("CADRE_CONFORMANCE_DIR") else { return };
    let read = |name: &str| -> Value {
        let path = std::path::Path::new(&folder).join("agentruntime").join(name);
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    };
    let public = read("agentruntime-event.schema.json");
    let base = "https://limecloud.github.io/agentruntime/schemas/agentruntime-event.schema.json";
    let options = jsonschema::options()
        .should_validate_formats(true)
        .with_resource(base, jsonschema::Resource::from_contents(public));
    let profile = options.build(&read("agentruntime-lime-profile-event.schema.json")).unwrap();
    for event in rig.served(session).await {
        let faults: Vec<_> = profile.iter_errors(&event).map(|fault| fault.to_string()).collect();
        assert!(faults.is_empty(), "{faults:#?}\n{event:#}");
    }
}

#[test]
fn files_that_are_no_case_are_refused_with_words_that_help() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("case.json");
    let missing = cadre::replay::run(&path, false, || ()).unwrap_err();
    assert!(missing.to_string().contains("case.json"), "{missing}");
    for (text, word) in [
        ("", "EOF"),
        ("{}", "format"),
        (r#"{"format":"cadre-evidence/1"}"#, "cadre-replay/1"),
        (r#"{"format":"cadre-replay/1"}"#, "missing field"),
        ("\u{0}\u{1}", "no replay case"),
    ] {
        std::fs::write(&path, text).unwrap();
        let refused = cadre::replay::run(&path, false, || ()).unwrap_err();
        assert!(refused.to_string().contains(word), "{text}: {refused}");
    }
}

/// A small case, as a file has it.
fn small_case() -> Value {
    let cursor = |place: u32| format!("{:032x}", place);
    let event = |place: u32, class: &str, payload: Value| {
        json!({ "type": class, "eventId": format!("evt_{place}"), "timestamp": "2026-05-11T10:05:00.000Z",
            "schemaVersion": "lime-profile-0.4.0", "runtimeId": "cadre", "sessionId": "sess_1",
            "threadId": "thrd_1", "turnId": "turn_1", "sequence": place, "streamId": "session:sess_1",
            "cursor": cursor(place), "payload": payload })
    };
    json!({ "format": "cadre-replay/1", "schemaVersion": "lime-profile-0.4.0", "runtimeId": "cadre",
        "sessionId": "sess_1", "cursor": cursor(9), "scope": {}, "events": [
            event(1, "turn.submitted", json!({ "status": "accepted", "source": "api" })),
            event(2, "turn.started", json!({ "agent": "scripted", "attempt": 1 })),
            event(3, "turn.completed", json!({ "status": "completed", "steps": 1 }))],
        "models": { "window": { "turns": 20, "tasks": 50, "jobs": 20 },
            "turns": { "thrd_1": [{ "turnId": "turn_1", "status": "completed" }] } } })
}

proptest::proptest! {
    #[test]
    fn no_file_makes_a_replay_panic(cut in 0_usize..1_600, byte: u8, at in 0_usize..1_600, junk: Vec<u8>) {
        let text = small_case().to_string().into_bytes();
        let replay = |text: &[u8]| ReplayCase::parse(text).map(|case| fold(&case).to_string());
        proptest::prop_assert!(replay(&text).is_ok());
        let _ = replay(&text[..cut.min(text.len())]);
        let mut changed = text.clone();
        let at = at.min(text.len() - 1);
        changed[at] = byte;
        let _ = replay(&changed);
        let _ = replay(&junk);
    }
}
