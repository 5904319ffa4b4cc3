//! Tasks below others: cancelled with them, completed before them.

use super::*;

#[tokio::test]
async fn p11_a_cancel_reaches_the_children_and_sticks() {
    let rig = Rig::start().await;
    rig.session().await;
    rig.outside("task_root", json!({})).await;
    rig.outside("task_child", json!({ "parentTaskId": "task_root" })).await;
    rig.outside("task_done", json!({ "parentTaskId": "task_root" })).await;
    rig.tell("complete_task", "task_done").await;
    rig.tell("cancel_task", "task_root").await;
    assert_eq!(rig.task("task_child").await["status"], "cancelled");
    assert_eq!(rig.task("task_done").await["status"], "completed");
    let refused = rig.refused("create_task", json!({ "parentTaskId": "task_root", "objective": "o" })).await;
    assert_eq!((&refused["code"], &refused["details"]["status"]), (&json!("conflict"), &json!("cancelled")));
    // A child is tried again by itself; another cancel of the parent still reaches it.
    rig.tell("retry_task", "task_child").await;
    rig.task_is("task_child", "running").await;
    rig.tell("cancel_task", "task_root").await;
    assert_eq!(rig.task("task_child").await["status"], "cancelled");

    rig.outside("task_p", json!({})).await;
    rig.outside("task_q", json!({ "parentTaskId": "task_p" })).await;
    let alone = rig
        .call("cancel_task", json!({ "taskId": "task_p", "propagate": false, "reason": "only this" }))
        .await;
    assert_eq!(alone["status"], "cancelled");
    assert_eq!(rig.task("task_q").await["status"], "running");
    rig.tell("complete_task", "task_q").await;
    // Who wants all of it closed gets that, although somebody wanted less before.
    let long = json!([{ "spawn": { "count": 3, "script": [{ "sleep": FOREVER }] } }]);
    rig.scripted("task_r", long, json!({})).await;
    rig.outside("task_s", json!({ "parentTaskId": "task_r" })).await;
    let cancel = |propagate: bool| json!({ "taskId": "task_r", "propagate": propagate });
    let (_, whole) =
        tokio::join!(rig.answer("cancel_task", cancel(false)), rig.answer("cancel_task", cancel(true)));
    assert_eq!(whole.result["status"], "cancelled");
    assert_eq!(rig.task("task_s").await["status"], "cancelled");
    let events = rig.served("sess_a").await;
    let cancelled =
        events.iter().find(|event| event["type"] == "task.cancelled" && event["taskId"] == "task_p").unwrap();
    assert_eq!(cancelled["payload"]["reason"], "only this", "{cancelled:#}");
    rig.stop().await;
}

#[tokio::test]
async fn p11_children_that_race_with_the_cancel_of_their_parent_are_refused_or_cancelled() {
    let rig = Rig::start().await;
    rig.session().await;
    for round in 0..10 {
        let root = format!("task_root{round}");
        rig.outside(&root, json!({})).await;
        let child = |number: usize| json!({ "parentTaskId": root, "taskId": format!("{root}_{number}"), "objective": "o" });
        let (one, two, cancelled, three) = tokio::join!(
            rig.try_call("create_task", child(1)),
            rig.try_call("create_task", child(2)),
            rig.answer("cancel_task", json!({ "taskId": root })),
            rig.try_call("create_task", child(3)),
        );
        assert_eq!(cancelled.result["status"], "cancelled");
        for (number, made) in [(1, one), (2, two), (3, three)] {
            match made {
                Ok(_) => assert_eq!(rig.task(&format!("{root}_{number}")).await["status"], "cancelled"),
                Err(error) => assert_eq!(error.to_json()["error"]["code"], "conflict"),
            }
        }
    }
    rig.checked("sess_a").await;
    rig.stop().await;
}

#[tokio::test]
async fn a_task_completes_after_what_is_below_it_and_with_what_was_promised() {
    let rig = Rig::start().await;
    rig.session().await;
    rig.outside(
        "task_root",
        json!({ "acceptance": [{ "artifact": "artf_plan" }, { "evidence": "evid_test" }] }),
    )
    .await;
    rig.outside("task_child", json!({ "parentTaskId": "task_root" })).await;
    let early =
        rig.refused("complete_task", json!({ "taskId": "task_root", "artifacts": ["artf_plan"] })).await;
    assert_eq!(early["code"], "conflict");
    assert!(early["message"].as_str().unwrap().contains("evid_test"), "{early:#}");
    let args = json!({ "taskId": "task_root", "artifacts": ["artf_plan"], "evidenceRefs": ["evid_test"] });
    let waits = rig.call("complete_task", args).await;
    assert_eq!(waits["status"], "waiting_resource");
    rig.tell("complete_task", "task_child").await;
    rig.task_is("task_root", "completed").await;
    let events = rig.checked("sess_a").await;
    let done: Vec<&Value> = events
        .iter()
        .filter(|event| event["type"] == "task.completed")
        .map(|event| &event["taskId"])
        .collect();
    assert_eq!(done, ["task_child", "task_root"]);
    rig.stop().await;
}

#[tokio::test]
async fn a_script_waits_for_its_tasks_or_does_not() {
    let rig = Rig::start().await;
    let script = json!([
        { "task": { "taskId": "task_joined", "objective": "o", "script": [{ "sleep": 50 }, { "say": "task" }] } },
        { "task": { "taskId": "task_fails", "objective": "o", "script": [{ "fail": { "retryable": false } }] } },
        { "task": { "taskId": "task_alone", "objective": "o", "script": [{ "sleep": FOREVER }], "join": false } },
        { "say": "after" }
    ]);
    let submitted = rig.submit("sess_a", script).await;
    let turn = submitted["turnId"].as_str().unwrap();
    let over = rig.turn_over("sess_a", turn).await;
    assert_eq!(over["type"], "turn.completed", "{over:#}");
    let events = rig.checked("sess_a").await;
    let at = |class: &str, task: &str| {
        events.iter().position(|event| event["type"] == class && event["taskId"] == task)
    };
    let after = events.iter().position(|event| event["payload"]["text"] == "after").unwrap();
    assert!(at("task.completed", "task_joined").unwrap() < after);
    assert!(at("task.failed", "task_fails").unwrap() < after, "a failed child does not end the script");
    assert_eq!(rig.task_is("task_alone", "running").await["sessionId"], "sess_a");
    let interrupted = rig.call("interrupt_turn", json!({ "sessionId": "sess_a", "turnId": turn })).await;
    assert_eq!(interrupted["status"], "completed");
    assert_eq!(rig.task("task_alone").await["status"], "cancelled", "an interrupt still reaches it");
    rig.stop().await;
}

#[tokio::test]
async fn a_task_below_another_belongs_to_the_same_session() {
    let rig = Rig::start().await;
    rig.session().await;
    rig.call("create_session", json!({ "sessionId": "sess_b" })).await;
    rig.outside("task_root", json!({})).await;
    let wrong = rig
        .refused(
            "create_task",
            json!({ "sessionId": "sess_b", "parentTaskId": "task_root", "objective": "o" }),
        )
        .await;
    assert_eq!(
        (&wrong["code"], &wrong["details"]["field"]),
        (&json!("invalid_argument"), &json!("parentTaskId"))
    );
    let body = json!({ "taskId": "task_child", "parentTaskId": "task_root", "objective": "o" });
    let (one, two) =
        tokio::join!(rig.answer("create_task", body.clone()), rig.answer("create_task", body.clone()));
    assert_eq!((&one.result["taskId"], &two.result["taskId"]), (&json!("task_child"), &json!("task_child")));
    let mut other = body;
    other["objective"] = json!("p");
    assert_eq!(rig.refused("create_task", other).await["code"], "conflict");
    let listed = rig.call("list_tasks", json!({ "parentTaskId": "task_root" })).await;
    assert_eq!(listed["tasks"].as_array().unwrap().len(), 1);
    rig.tell("complete_task", "task_child").await;
    rig.tell("complete_task", "task_root").await;
    rig.task_is("task_root", "completed").await;
    rig.stop().await;
}
