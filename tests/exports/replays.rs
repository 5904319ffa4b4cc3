//! Replay cases, and what folding them again gives.

use super::*;

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
async fn a_replay_of_the_thread_of_a_subagent_or_an_attempt_compares_that_as_a_whole() {
    let rig = Rig::start().await;
    busy(&rig, "sess_w").await;
    let events = rig.served("sess_w").await;
    let first = |class: &str| events.iter().find(|event| event["type"] == class).unwrap();
    let (spawned, attempt) = (first("subagent.spawned"), first("task.attempt.started"));
    for field in ["threadId", "turnId"] {
        let case = case(&rig, json!({ "sessionId": "sess_w", field: spawned[field] })).await;
        let child = spawned["subagentId"].as_str().unwrap();
        assert!(case.models.subagents.contains_key(child), "{:?}", case.models);
        let report = fold(&case);
        assert_eq!((report.verdict, report.tasks), (Verdict::Equal, 0), "{report}");
        assert_eq!(report.subagents, case.models.subagents.len(), "it and what it has started");
        assert!(report.differences.compared > 10, "{report}");
    }
    for field in ["threadId", "turnId"] {
        let report = fold(&case(&rig, json!({ "sessionId": "sess_w", field: attempt[field] })).await);
        assert_eq!((report.verdict, report.tasks, report.subagents), (Verdict::Equal, 1, 0), "{report}");
        assert!(report.differences.compared > 10, "{report}");
    }
    rig.stop().await;
}

#[tokio::test]
async fn a_case_of_which_nothing_can_be_compared_is_not_equal() {
    let rig = Rig::start().await;
    rig.call("create_session", json!({ "sessionId": "sess_i", "agent": "scripted" })).await;
    let items = json!([{ "itemId": "one", "input": common::input(&json!([{ "say": "one" }])) }]);
    let job = json!({ "sessionId": "sess_i", "jobId": "job_i", "instruction": "say", "agent": "scripted",
        "items": items });
    rig.call("create_job", job).await;
    let item = rig.until("sess_i", |event| event["type"] == "turn.completed").await;
    let report = fold(&case(&rig, json!({ "sessionId": "sess_i", "turnId": item["turnId"] })).await);
    assert_eq!((report.verdict, report.differences.compared), (Verdict::Incomparable, 0), "{report}");
    assert!(report.to_string().contains("cannot be compared: nothing was recorded"), "{report}");
    rig.stop().await;
}

#[tokio::test]
async fn a_replay_folds_the_items_of_jobs_to_what_was_served() {
    let rig = Rig::start().await;
    rig.call("create_session", json!({ "sessionId": "sess_j", "agent": "scripted" })).await;
    let once = json!([{ "fail": { "message": "not yet", "retryable": true, "times": 1 } }, { "say": "now" }]);
    let never = json!([{ "fail": { "message": "never", "retryable": false } }]);
    let scripts = [json!([{ "say": "a" }]), once, never, json!([{ "tool": "echo" }])];
    let item = |(at, script): (usize, &Value)| json!({ "itemId": format!("item-{at}"), "input": common::input(script) });
    let items: Value = scripts.iter().enumerate().map(item).collect();
    let job = json!({ "sessionId": "sess_j", "jobId": "job_j", "instruction": "go", "agent": "scripted",
        "items": items, "concurrency": 2 });
    rig.call("create_job", job).await;
    rig.until("sess_j", |event| event["type"] == "job.failed").await;
    rig.call("retry_job_item", json!({ "jobId": "job_j", "itemId": "item-2" })).await;
    let ended =
        rig.until("sess_j", |event| event["type"] == "job.item.failed" && event["payload"]["attempt"] == 2);
    ended.await;
    let exported = rig.call("export_replay", json!({ "sessionId": "sess_j" })).await;
    let original: Value = serde_json::from_slice(&content(&rig, &exported).await).unwrap();
    let replay = |case: &Value| fold(&ReplayCase::parse(case.to_string().as_bytes()).unwrap());
    let report = replay(&original);
    assert_eq!((report.verdict, report.jobs, report.items), (Verdict::Equal, 1, 4), "{report}");
    assert_eq!(original["models"]["items"]["job_j"].as_array().unwrap().len(), 4);

    let mut case = original.clone();
    case["models"]["items"]["job_j"][1]["attemptsTotal"] = 7.into();
    let report = replay(&case);
    assert_eq!(report.differences.listed[0].path, "items.job_j.item-1.attemptsTotal", "{report}");
    let mut case = original;
    case["models"]["items"]["job_j"].as_array_mut().unwrap().remove(0);
    assert_eq!(replay(&case).verdict, Verdict::Different, "one was not served");
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
