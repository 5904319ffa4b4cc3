//! Evidence packs.

use super::*;

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
    let called = ["tool.started", "tool.result", "tool.failed"].map(of_type).concat();
    let called: std::collections::BTreeSet<_> =
        called.iter().map(|event| event["toolCallId"].as_str()).collect();
    let listed: Vec<_> = calls.iter().map(|call| call["toolCallId"].as_str()).collect();
    assert_eq!(listed.len(), called.len(), "each call once");
    assert_eq!(listed.into_iter().collect::<std::collections::BTreeSet<_>>(), called);
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
    let summary = &snapshot["evidenceSummary"];
    assert_eq!(summary["recent"][0]["packRef"], exported["ref"]);
    let outcomes = summary["verificationOutcomes"].as_array().unwrap();
    assert_eq!(outcomes.len(), evidence["verification"].as_array().unwrap().len());
    assert_eq!(snapshot["threads"][0]["evidenceSummary"]["availability"], "unknown");
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
    assert_eq!(
        evidence["knownGaps"],
        json!([{ "what": "costs", "state": "unknown",
        "reason": "no fact says what the models cost" }])
    );

    let snapshot = rig.call("get_session", json!({ "sessionId": "sess_t" })).await;
    let joined = json!({ "traceIds": [trace(1), trace(2)], "joinStatus": "joined" });
    assert_eq!(snapshot["telemetrySummary"], joined);
    let report = fold(&case(&rig, json!({ "sessionId": "sess_t" })).await);
    assert_eq!(report.verdict, Verdict::Equal, "{report}");

    let scope = json!({ "sessionId": "sess_t", "turnId": plain["turnId"] });
    let (_, evidence) = pack(&rig, "export_evidence", scope).await;
    assert_eq!(evidence["telemetry"]["traces"]["state"], "not_applicable");
    assert_eq!(evidence["telemetry"]["tracedFacts"], 0);
    assert_eq!(evidence["telemetry"]["modelRequests"]["total"], 1, "{:#}", evidence["telemetry"]);
    assert!(evidence["telemetry"]["traces"]["reason"].is_string());
    let gaps = evidence["knownGaps"].as_array().unwrap();
    assert!(gaps.iter().all(|gap| gap["what"] != "traces"), "what does not apply is no gap: {gaps:#?}");
    rig.stop().await;
}

#[tokio::test]
async fn evidence_lists_every_way_to_fail() {
    let rig = Rig::start().await;
    rig.call("create_session", json!({ "sessionId": "sess_f" })).await;
    let slow = json!({ "sessionId": "sess_f", "taskId": "task_slow", "objective": "be slow", "agent": "scripted",
        "timeoutMs": 50, "input": common::input(&json!([{ "sleep": 60_000 }])) });
    rig.call("create_task", slow).await;
    rig.task_is("task_slow", "timed_out").await;
    let turn = rig.submit("sess_f", json!([{ "tool": "fail", "args": { "message": "no" } }])).await;
    rig.turn_over("sess_f", turn["turnId"].as_str().unwrap()).await;
    let (_, evidence) = pack(&rig, "export_evidence", json!({ "sessionId": "sess_f" })).await;
    let failures = evidence["failures"]["entries"].as_array().unwrap();
    let told: Vec<_> = failures.iter().filter_map(|told| told["type"].as_str()).collect();
    for class in ["task.timed_out", "task.attempt.failed", "tool.failed", "turn.failed"] {
        assert!(told.contains(&class), "{class} is not in {told:?}");
    }
    rig.stop().await;
}
