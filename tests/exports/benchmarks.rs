//! Trials: rewarded, packed, compared.

use super::*;

/// A trial that runs a script as its own turn and gets a reward.
pub async fn trial(rig: &Rig, id: &str, role: &str, script: Value, reward: f64) -> Value {
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
    // The session knows where the trajectory is, and that it is no replay case.
    let snapshot = rig.call("get_session", json!({ "sessionId": session })).await;
    assert_eq!(snapshot["benchmarkSummary"]["recentTrials"][0]["trajectoryRef"], packed["trajectory"]["ref"]);
    let evidence = &snapshot["evidenceSummary"]["recent"][0];
    assert_eq!((&evidence["packRef"], evidence.get("replayRef")), (&exported["ref"], None));
    let gaps = packed["knownGaps"].as_array().unwrap();
    assert!(gaps.iter().any(|gap| gap["what"] == "comparison"), "{gaps:#?}");
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
    for trial in ["tria_b", "tria_c"] {
        let (_, packed) = pack(&rig, "export_benchmark_trial", json!({ "trialId": trial })).await;
        let known = &packed["comparison"];
        assert_eq!((&known["decision"], &known["meanRewardDelta"]), (&json!("promote"), &json!(0.75)));
        assert!(known["ref"].as_str().unwrap().starts_with("blob_"), "{known}");
        assert!(packed["knownGaps"].as_array().unwrap().iter().all(|gap| gap["what"] != "comparison"));
    }
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
    rig.checked(session).await;
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
    rig.checked(started["sessionId"].as_str().unwrap()).await;
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
