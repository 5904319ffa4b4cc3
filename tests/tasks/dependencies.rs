//! Tasks that wait for others, and circles of them.

use super::*;

#[tokio::test]
async fn a_task_waits_for_what_it_depends_on_and_says_for_what() {
    let rig = Rig::start().await;
    rig.session().await;
    rig.outside("task_1", json!({})).await;
    rig.outside("task_2", json!({})).await;
    let made = rig.outside("task_a", json!({ "dependsOn": ["task_1", "task_2"] })).await;
    assert_eq!(made["status"], "blocked");
    rig.tell("complete_task", "task_1").await;
    rig.fail("task_2", false).await;
    let blocked = rig
        .until("sess_a", |event| {
            event["type"] == "task.blocked"
                && event["payload"]["reason"].as_str().unwrap().contains("task_2 is failed")
        })
        .await;
    assert_eq!(blocked["payload"]["waitingFor"], json!(["task_2"]));
    assert_eq!(rig.task("task_a").await["status"], "blocked", "a failed dependency does not unblock");
    rig.tell("retry_task", "task_2").await;
    rig.tell("complete_task", "task_2").await;
    rig.task_is("task_a", "running").await;

    // One that does not start by itself is accepted when it could, and one that was started meanwhile starts.
    rig.outside("task_3", json!({})).await;
    rig.outside("task_b", json!({ "dependsOn": ["task_3"], "autoStart": false })).await;
    rig.outside("task_c", json!({ "dependsOn": ["task_3"], "autoStart": false })).await;
    let started = rig.tell("start_task", "task_c").await;
    assert_eq!(started["status"], "blocked", "it still waits for what it depends on");
    rig.outside("task_d", json!({ "dependsOn": ["task_3"], "autoStart": false })).await;
    rig.tell("pause_task", "task_d").await;
    rig.tell("complete_task", "task_3").await;
    rig.task_is("task_b", "accepted").await;
    rig.task_is("task_c", "running").await;
    assert_eq!(
        rig.tell("resume_task", "task_d").await["status"],
        "accepted",
        "what it waited for ended while it was paused"
    );
    assert_eq!(rig.tell("start_task", "task_d").await["status"], "running");

    let unknown = rig
        .refused(
            "create_task",
            json!({ "sessionId": "sess_a", "objective": "o", "dependsOn": ["task_none"] }),
        )
        .await;
    assert_eq!((&unknown["code"], &unknown["details"]["field"]), (&json!("not_found"), &json!("dependsOn")));
    rig.checked("sess_a").await;
    rig.stop().await;
}

#[tokio::test]
async fn links_block_and_unlinking_lets_go() {
    let rig = Rig::start().await;
    rig.session().await;
    rig.outside("task_1", json!({})).await;
    rig.outside("task_a", json!({ "autoStart": false })).await;
    let link = json!({ "from": "task_1", "to": "task_a", "kind": "blocks", "reason": "first things first" });
    let linked = rig.call("link_tasks", link.clone()).await;
    assert_eq!((&linked["linked"], &linked["status"]), (&json!(true), &json!("blocked")), "{linked:#}");
    assert_eq!(rig.call("link_tasks", link.clone()).await["linked"], true, "the same link twice is one link");
    rig.tell("start_task", "task_a").await;
    rig.call("unlink_tasks", json!({ "from": "task_1", "to": "task_a", "kind": "blocks" })).await;
    rig.task_is("task_a", "running").await;
    let late = rig.refused("link_tasks", link).await;
    assert_eq!((&late["code"], &late["details"]["status"]), (&json!("conflict"), &json!("running")));
    let other = rig.call("link_tasks", json!({ "from": "task_a", "to": "task_1", "kind": "source" })).await;
    assert_eq!(other["linked"], true, "edges of other kinds block nobody");
    let removed = async || {
        let told = rig.served("sess_a").await;
        told.iter().filter(|event| event["payload"]["removed"] == true).count()
    };
    let before = removed().await;
    rig.call("unlink_tasks", json!({ "from": "task_a", "to": "task_1", "kind": "seen" })).await;
    assert_eq!(removed().await, before, "there was no such edge, so nothing happens");
    rig.call("unlink_tasks", json!({ "from": "task_a", "to": "task_1", "kind": "source" })).await;
    assert_eq!(removed().await, before + 1);
    rig.checked("sess_a").await;
    rig.stop().await;
}

#[tokio::test]
async fn a_cycle_is_refused_however_it_would_close() {
    let rig = Rig::start().await;
    rig.session().await;
    rig.outside("task_1", json!({ "autoStart": false })).await;
    rig.outside("task_2", json!({ "dependsOn": ["task_1"] })).await;
    rig.outside("task_3", json!({ "dependsOn": ["task_2"] })).await;
    for (from, to, kind) in
        [("task_3", "task_1", "blocks"), ("task_2", "task_1", "blocks"), ("task_1", "task_3", "depends_on")]
    {
        let refused = rig.refused("link_tasks", json!({ "from": from, "to": to, "kind": kind })).await;
        assert_eq!(
            (&refused["code"], &refused["details"]["status"]),
            (&json!("conflict"), &json!("cycle")),
            "{from} {kind} {to}"
        );
    }
    // Two halves of a cycle at the same moment: one of them is refused.
    for round in 0..20 {
        let (a, b) = (format!("task_a{round}"), format!("task_b{round}"));
        rig.outside(&a, json!({ "autoStart": false })).await;
        rig.outside(&b, json!({ "autoStart": false })).await;
        let half = |from: &str, to: &str| json!({ "from": from, "to": to, "kind": "blocks" });
        let (one, two) =
            tokio::join!(rig.try_call("link_tasks", half(&a, &b)), rig.try_call("link_tasks", half(&b, &a)));
        assert_eq!(usize::from(one.is_ok()) + usize::from(two.is_ok()), 1, "round {round}");
    }
    // A dependency given at creation counts from the moment that is answered.
    for round in 0..20 {
        let (a, b) = (format!("task_c{round}"), format!("task_d{round}"));
        rig.outside(&a, json!({ "autoStart": false })).await;
        rig.outside(&b, json!({ "dependsOn": [&a] })).await;
        let refused = rig.refused("link_tasks", json!({ "from": b, "to": a, "kind": "blocks" })).await;
        assert_eq!(refused["details"]["status"], "cycle", "round {round}");
    }
    // An edge that is gone closes nothing.
    rig.call("unlink_tasks", json!({ "from": "task_1", "to": "task_2", "kind": "blocks" })).await;
    rig.call("link_tasks", json!({ "from": "task_3", "to": "task_1", "kind": "blocks" })).await;
    rig.stop().await;
}

#[tokio::test]
async fn p7_tasks_of_a_script_that_would_wait_for_each_other_fail_instead() {
    let rig = Rig::start().await;
    let waits = |task: &str, needs: &str| json!({ "task": { "taskId": task, "objective": "o", "dependsOn": [needs], "script": [], "join": false } });
    let script = json!([
        waits("task_1", "task_2"),
        waits("task_2", "task_3"),
        waits("task_3", "task_1"),
        { "task": { "taskId": "task_whole", "objective": "o", "script": [waits("task_part", "task_whole")], "join": false } },
        waits("task_early", "task_late"),
    ]);
    let submitted = rig.submit("sess_a", script).await;
    rig.turn_over("sess_a", submitted["turnId"].as_str().unwrap()).await;
    // Whoever looks last sees the whole circle; the others may see it, too, or say what became of those they wait for.
    let is_broken =
        |event: &Value| event["type"] == "task.failed" && event["payload"]["error"]["code"] == "cycle";
    let is_of_three = |event: &Value| is_broken(event) && event["taskId"] != "task_part";
    rig.until("sess_a", is_of_three).await;
    for task in ["task_1", "task_2", "task_3"] {
        let task = rig.task(task).await;
        assert!(task["status"] == "failed" || task["status"] == "blocked", "{task:#}");
    }
    // A whole waits for its parts, so a part that waits for it closes a circle.
    rig.until("sess_a", |event| is_broken(event) && event["taskId"] == "task_part").await;
    rig.task_is("task_whole", "completed").await;
    // And a command that would close one is refused, although nobody of that name was there before.
    let late = json!({ "taskId": "task_late", "sessionId": "sess_a", "objective": "o", "dependsOn": ["task_early"] });
    let refused = rig.refused("create_task", late).await;
    assert_eq!(
        (&refused["details"]["status"], &refused["details"]["field"]),
        (&json!("cycle"), &json!("dependsOn"))
    );
    let blocked = rig.task_is("task_early", "blocked").await;
    assert!(
        blocked["statusReason"].as_str().unwrap().contains("task_late does not exist yet"),
        "{blocked:#}"
    );
    rig.stop().await;
}

#[tokio::test]
async fn p7_a_part_cannot_wait_for_what_it_is_a_part_of() {
    let rig = Rig::start().await;
    rig.session().await;
    rig.outside("task_whole", json!({})).await;
    rig.outside("task_part", json!({ "parentTaskId": "task_whole" })).await;
    rig.outside("task_after", json!({ "dependsOn": ["task_whole"] })).await;
    for (name, task) in [
        ("task_a", json!({ "parentTaskId": "task_whole", "dependsOn": ["task_whole"] })),
        ("task_b", json!({ "parentTaskId": "task_part", "dependsOn": ["task_whole"] })),
        ("task_c", json!({ "parentTaskId": "task_part", "dependsOn": ["task_after"] })),
    ] {
        let mut task = task;
        task["taskId"] = name.into();
        task["sessionId"] = "sess_a".into();
        task["objective"] = "o".into();
        let refused = rig.refused("create_task", task).await;
        assert_eq!(refused["details"]["status"], "cycle", "{name}: {refused}");
    }
    let link = json!({ "from": "task_after", "to": "task_part", "kind": "blocks" });
    let refused = rig.refused("link_tasks", link).await;
    assert_eq!(refused["details"]["status"], "cycle", "{refused}");
    // The whole may wait for a part before it starts: the part does not wait for it.
    rig.outside("task_later", json!({ "autoStart": false })).await;
    rig.outside("task_first", json!({ "parentTaskId": "task_later" })).await;
    rig.call("link_tasks", json!({ "from": "task_first", "to": "task_later", "kind": "blocks" })).await;
    rig.stop().await;
}

#[tokio::test]
async fn p7_a_link_that_is_refused_takes_nothing_away_that_holds() {
    let rig = Rig::start().await;
    rig.session().await;
    rig.outside("task_a", json!({ "autoStart": false })).await;
    rig.outside("task_b", json!({ "dependsOn": ["task_a"] })).await;
    rig.tell("cancel_task", "task_b").await;
    let link = |from: &str, to: &str| json!({ "from": from, "to": to, "kind": "depends_on" });
    let refused = rig.refused("link_tasks", link("task_b", "task_a")).await;
    assert_eq!(refused["details"]["status"], "cancelled");
    rig.tell("retry_task", "task_b").await;
    rig.task_is("task_b", "blocked").await;
    let refused = rig.refused("link_tasks", link("task_a", "task_b")).await;
    assert_eq!(refused["details"]["status"], "cycle", "{refused}");
    // One that was never taken on is not in the way of its contrary.
    rig.outside("task_c", json!({})).await;
    rig.tell("complete_task", "task_c").await;
    rig.outside("task_d", json!({ "autoStart": false })).await;
    assert_eq!(rig.refused("link_tasks", link("task_c", "task_d")).await["details"]["status"], "completed");
    rig.call("link_tasks", link("task_d", "task_c")).await;
    let accepted = |event: &&Value| event["type"] == "task.accepted" && event["taskId"] == "task_d";
    rig.eventually("task_d waits for nothing any more", async || {
        (rig.served("sess_a").await.iter().filter(accepted).count() == 2).then_some(())
    })
    .await;
    // And one that is not there is taken away without a fact.
    let before = rig.served("sess_a").await.len();
    rig.call("unlink_tasks", link("task_a", "task_d")).await;
    assert_eq!(rig.served("sess_a").await.len(), before);
    rig.stop().await;
}

#[tokio::test]
async fn a_task_may_wait_for_one_that_is_created_after_it() {
    let rig = Rig::start().await;
    let script = json!([
        { "task": { "taskId": "task_second", "objective": "o", "dependsOn": ["task_first"], "script": [], "join": false } },
        { "sleep": 20 },
        { "task": { "taskId": "task_first", "objective": "o", "script": [{ "sleep": 20 }], "join": false } },
    ]);
    rig.submit("sess_a", script).await;
    rig.task_is("task_second", "completed").await;
    let events = rig.checked("sess_a").await;
    let at = |class: &str, task: &str| {
        events.iter().position(|event| event["type"] == class && event["taskId"] == task).unwrap()
    };
    assert!(at("task.completed", "task_first") < at("task.started", "task_second"));
    rig.stop().await;
}
