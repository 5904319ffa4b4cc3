//! Attempts: tried again, timed out, paused, lost.

use super::*;

#[tokio::test]
async fn what_a_task_asks_of_its_models_is_told_once_before_its_first_attempt() {
    let rig = Rig::start().await;
    rig.session().await;
    let profile = json!({ "capabilities": ["vision"], "tier": "small" });
    rig.outside("task_a", json!({ "autoStart": false, "taskKind": "look", "profile": profile })).await;
    let changed = json!({ "capabilities": ["vision", "tools"], "tier": "large" });
    rig.call("update_task", json!({ "taskId": "task_a", "profile": changed })).await;
    rig.tell("start_task", "task_a").await;
    rig.fail("task_a", false).await;
    rig.tell("retry_task", "task_a").await;
    rig.outside("task_b", json!({})).await;
    let events = rig.checked("sess_a").await;
    let told: Vec<_> = events.iter().filter(|event| event["type"] == "task.profile.resolved").collect();
    let [told] = told.as_slice() else { panic!("{told:#?}") };
    assert_eq!(
        told["payload"],
        json!({ "taskKind": "look", "capabilities": ["vision", "tools"], "source": "request", "profile": changed })
    );
    let started = events.iter().find(|event| event["type"] == "task.started").unwrap();
    assert_eq!(told["taskId"], "task_a");
    assert!(told["sequence"].as_u64() < started["sequence"].as_u64(), "before it begins");
    assert_eq!(rig.task("task_a").await["taskProfile"], changed);
    rig.stop().await;
}

#[tokio::test]
async fn a_retry_keeps_the_failed_attempt_and_the_edges_and_survives_a_crash() {
    let rig = Rig::start().await;
    rig.session().await;
    rig.task_at("task_need", "completed").await;
    rig.outside("task_a", json!({ "dependsOn": ["task_need"] })).await;
    rig.task_is("task_a", "running").await;
    rig.fail("task_a", false).await;
    let rig = rig.crash().await;
    let before = rig.task("task_a").await;
    assert_eq!(before["status"], "failed");
    let retried = rig.call("retry_task", json!({ "taskId": "task_a", "reason": "once more" })).await;
    assert_eq!(retried["status"], "running");
    rig.tell("complete_task", "task_a").await;
    let task = rig.task("task_a").await;
    let attempts = task["attempts"].as_array().unwrap_or_else(|| panic!("{task:#}"));
    assert_eq!(attempts.len(), 2, "{task:#}");
    assert_eq!((&attempts[0]["status"], &attempts[1]["status"]), (&json!("failed"), &json!("completed")));
    assert_eq!(attempts[0]["runId"], before["attempts"][0]["runId"]);
    assert_eq!(task["relationships"], before["relationships"], "the edges are kept");
    let refused = rig.refused("retry_task", json!({ "taskId": "task_a" })).await;
    assert_eq!((&refused["code"], &refused["details"]["status"]), (&json!("conflict"), &json!("completed")));
    rig.checked("sess_a").await;
    rig.stop().await;
}

#[tokio::test]
async fn a_retry_policy_tries_again_after_waits_that_double_and_then_gives_up() {
    let rig = Rig::start().await;
    rig.session().await;
    let policy = json!({ "maxAttempts": 3, "backoffMs": 100, "maxBackoffMs": 1000 });
    let script = json!([{ "say": "try {{attempt}}" }, { "fail": { "message": "no", "times": 2 } }, { "say": "worked" }]);
    rig.scripted("task_a", script, json!({ "retryPolicy": policy })).await;
    rig.task_is("task_a", "completed").await;
    let fails = json!([{ "fail": { "message": "never" } }]);
    rig.scripted("task_b", fails.clone(), json!({ "retryPolicy": policy })).await;
    let failed = rig.task_is("task_b", "failed").await;
    assert_eq!(failed["attempts"].as_array().unwrap().len(), 3, "{failed:#}");
    let final_error = json!([{ "fail": { "message": "never", "retryable": false } }]);
    rig.scripted("task_c", final_error, json!({ "retryPolicy": policy })).await;
    let failed = rig.task_is("task_c", "failed").await;
    assert_eq!(failed["attempts"].as_array().unwrap().len(), 1, "what is not retryable is not retried");
    rig.scripted("task_d", fails, json!({})).await;
    let failed = rig.task_is("task_d", "failed").await;
    assert_eq!(failed["attempts"].as_array().unwrap().len(), 1);
    let events = rig.checked("sess_a").await;
    let of = |task: &str, class: &str| -> Vec<i64> {
        let found = events.iter().filter(|event| event["taskId"] == task && event["type"] == class);
        found
            .map(|event| {
                chrono::DateTime::parse_from_rfc3339(event["timestamp"].as_str().unwrap())
                    .unwrap()
                    .timestamp_millis()
            })
            .collect()
    };
    let (failed, started) = (of("task_b", "task.attempt.failed"), of("task_b", "task.attempt.started"));
    assert!(
        started[1] - failed[0] >= 100 && started[2] - failed[1] >= 200,
        "P6: never early: {started:?} {failed:?}"
    );
    assert_eq!(events.iter().filter(|event| event["payload"]["text"] == "worked").count(), 1);
    assert_eq!(
        events.iter().filter(|event| event["taskId"] == "task_b" && event["type"] == "task.retrying").count(),
        2
    );
    rig.stop().await;
}

#[tokio::test]
async fn an_attempt_that_takes_too_long_is_timed_out_with_everything_it_started() {
    let rig = Rig::start().await;
    rig.session().await;
    let script = json!([{ "spawn": { "count": 3, "script": [{ "sleep": FOREVER }] } }]);
    rig.scripted("task_a", script.clone(), json!({ "timeoutMs": 150 })).await;
    rig.task_is("task_a", "timed_out").await;
    let policy = json!({ "maxAttempts": 2, "backoffMs": 10, "maxBackoffMs": 10 });
    rig.scripted("task_b", script, json!({ "timeoutMs": 150, "retryPolicy": policy })).await;
    let task = rig.task_is("task_b", "timed_out").await;
    assert_eq!(task["attempts"].as_array().unwrap().len(), 2);
    let events = rig.checked("sess_a").await;
    assert_eq!(count(&events, "subagent.closed"), 9);
    assert_eq!(count(&events, "task.timed_out"), 2);
    rig.stop().await;
}

#[tokio::test]
async fn p7_a_worker_outside_that_gives_no_sign_of_life_is_lost_not_failed() {
    let rig = Rig::start().await;
    rig.session().await;
    let policy = json!({ "maxAttempts": 5, "backoffMs": 1, "maxBackoffMs": 1 });
    rig.outside("task_a", json!({ "constraints": { "heartbeatMs": 150 }, "retryPolicy": policy })).await;
    rig.task_is("task_a", "lost").await;
    let late = rig.refused("complete_task", json!({ "taskId": "task_a" })).await;
    assert_eq!(late["details"]["status"], "lost");
    rig.outside("task_b", json!({ "constraints": { "heartbeatMs": 150 } })).await;
    rig.tell("pause_task", "task_b").await;
    // Another worker is lost in the meantime: nobody expects a paused one to show life.
    rig.outside("task_c", json!({ "constraints": { "heartbeatMs": 300 } })).await;
    rig.task_is("task_c", "lost").await;
    assert_eq!(rig.task("task_b").await["status"], "paused");
    rig.tell("resume_task", "task_b").await;
    rig.task_is("task_b", "lost").await;
    let again = rig.tell("retry_task", "task_b").await;
    assert_eq!(again["status"], "running", "a human decides");
    rig.tell("complete_task", "task_b").await;
    rig.checked("sess_a").await;
    rig.stop().await;
}

#[tokio::test]
async fn a_paused_attempt_makes_no_further_step_until_it_is_resumed() {
    let rig = Rig::start().await;
    rig.session().await;
    let script = json!([{ "say": "one" }, { "tool": "sleep", "args": { "ms": 200 } }, { "say": "two" }]);
    rig.scripted("task_a", script, json!({})).await;
    rig.until("sess_a", |event| event["type"] == "tool.started").await;
    rig.tell("pause_task", "task_a").await;
    rig.until("sess_a", |event| event["type"] == "tool.result").await;
    let rig = rig.crash().await;
    assert_eq!(rig.task("task_a").await["status"], "paused");
    assert!(!rig.served("sess_a").await.iter().any(|event| event["payload"]["text"] == "two"));
    let resumed = rig.tell("resume_task", "task_a").await;
    assert!(["running", "completed"].contains(&resumed["status"].as_str().unwrap()));
    rig.task_is("task_a", "completed").await;
    let events = rig.checked("sess_a").await;
    assert_eq!(events.iter().filter(|event| event["payload"]["text"] == "two").count(), 1);
    rig.stop().await;
}

#[tokio::test]
async fn a_paused_task_whose_attempt_runs_out_of_time_is_tried_again_when_it_is_resumed() {
    let rig = Rig::start().await;
    rig.session().await;
    let policy = json!({ "maxAttempts": 2, "backoffMs": 1, "maxBackoffMs": 1 });
    let script = json!([{ "sleep": 20 }, { "tool": "echo", "args": {} }]);
    rig.scripted("task_a", script, json!({ "timeoutMs": 300, "retryPolicy": policy })).await;
    rig.tell("pause_task", "task_a").await;
    rig.until("sess_a", |event| event["type"] == "task.attempt.failed").await;
    // Long enough for the pause between attempts, many times over.
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    let paused = rig.call("get_task", json!({ "taskId": "task_a" })).await["task"].clone();
    assert_eq!((&paused["status"], &paused["attemptsTotal"]), (&json!("paused"), &json!(1)), "{paused}");
    rig.tell("resume_task", "task_a").await;
    rig.task_is("task_a", "completed").await;
    let events = rig.checked("sess_a").await;
    assert_eq!(count(&events, "task.attempt.started"), 2);
    rig.stop().await;
}

#[tokio::test]
async fn a_task_says_that_it_waits_for_a_decision_and_for_which() {
    let rig = Rig::start().await;
    rig.session().await;
    let ask = |prompt: &str| json!({ "approve": { "prompt": prompt, "decisions": ["allow", "deny"] } });
    rig.scripted("task_a", json!([ask("one?"), { "sleep": 1 }, ask("two?")]), json!({})).await;
    for number in 1..=2 {
        let waiting = rig
            .eventually("it waits for the next decision", async || {
                let task = rig.call("get_task", json!({ "taskId": "task_a" })).await["task"].clone();
                let asked = count(&rig.served("sess_a").await, "action.required");
                (task["status"] == "waiting_input" && asked == number).then_some(task)
            })
            .await;
        let action = &waiting["actionId"];
        assert!(action.is_string(), "{waiting}");
        let listed =
            rig.call("list_tasks", json!({ "sessionId": "sess_a", "status": "waiting_input" })).await;
        assert_eq!(listed["tasks"][0]["taskId"], "task_a");
        let snapshot = rig.call("get_session", json!({ "sessionId": "sess_a" })).await;
        assert_eq!(snapshot["taskSummary"]["waiting"], 1, "{}", snapshot["taskSummary"]);
        // What was paused waits for the same when it is resumed.
        rig.tell("pause_task", "task_a").await;
        rig.tell("resume_task", "task_a").await;
        let again = rig.call("get_task", json!({ "taskId": "task_a" })).await["task"].clone();
        assert_eq!((&again["status"], &again["actionId"]), (&json!("waiting_input"), action));
        rig.call("respond_action", json!({ "actionId": action, "decision": "allow" })).await;
    }
    let over = rig.task_is("task_a", "completed").await;
    assert!(over["actionId"].is_null());
    rig.checked("sess_a").await;
    rig.stop().await;
}

#[tokio::test]
async fn an_answer_says_which_attempt_it_is_about_and_where_that_runs() {
    let rig = Rig::start().await;
    rig.session().await;
    let script = json!([{ "approve": { "prompt": "?", "decisions": ["allow", "deny"] } }]);
    let task = json!({ "taskId": "task_1", "sessionId": "sess_a", "objective": "o", "agent": "scripted",
        "input": input(&script) });
    rig.call("create_task", task).await;
    let asked = rig.until("sess_a", |event| event["type"] == "action.required").await;
    let paused = rig.call("pause_task", json!({ "taskId": "task_1" })).await;
    assert_eq!((&paused["sessionId"], &paused["attempt"]), (&json!("sess_a"), &json!(1)), "{paused}");
    assert_eq!((&paused["threadId"], &paused["turnId"]), (&asked["threadId"], &asked["turnId"]));
    rig.call("resume_task", json!({ "taskId": "task_1" })).await;
    let answer = json!({ "actionId": asked["actionId"], "decision": "allow" });
    assert_eq!(rig.call("respond_action", answer).await["sessionId"], "sess_a");
    rig.task_is("task_1", "completed").await;
    let spawn = json!({ "subagentId": "sub_1", "sessionId": "sess_a", "input": input(&json!([{ "say": "it is done" }])) });
    rig.call("spawn_subagent", spawn).await;
    let wait = json!({ "subagentIds": ["sub_1"], "mode": "all", "timeoutMs": 10_000 });
    rig.call("wait_subagents", wait).await;
    let closed = rig.call("close_subagent", json!({ "subagentId": "sub_1" })).await;
    assert_eq!((&closed["sessionId"], &closed["attempt"]), (&json!("sess_a"), &json!(1)), "{closed}");
    rig.stop().await;
}
