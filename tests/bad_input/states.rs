//! What is in the wrong state for what is asked.

use super::*;

#[tokio::test]
async fn an_archived_session_refuses_all_new_work_and_lets_what_runs_be_controlled_and_read() {
    let rig = Rig::start().await;
    let ids = rig.everything().await;
    rig.call(
        "create_task",
        json!({ "taskId": "task_later", "sessionId": "sess_mine", "objective": "o", "autoStart": false }),
    )
    .await;
    rig.call("create_task", json!({ "taskId": "task_over", "sessionId": "sess_mine", "objective": "o" }))
        .await;
    rig.call("cancel_task", json!({ "taskId": "task_over" })).await;
    rig.call(
        "spawn_subagent",
        json!({ "subagentId": "sub_over", "sessionId": "sess_mine", "input": sleeper() }),
    )
    .await;
    rig.call("close_subagent", json!({ "subagentId": "sub_over" })).await;
    rig.call("archive_session", json!({ "sessionId": "sess_mine" })).await;
    let refused: BTreeSet<&str> = [
        "submit_turn",
        "resume_thread",
        "update_session",
        "rollback_thread",
        "compact_context",
        "create_task",
        "start_task",
        "retry_task",
        "spawn_subagent",
        "send_subagent_input",
        "resume_subagent",
        "create_job",
        "retry_job_item",
        "start_benchmark_trial",
    ]
    .into();
    let mut commands = about(&ids);
    commands.insert(0, ("submit_turn", json!({ "sessionId": "sess_mine", "input": sleeper() })));
    for (name, args) in &mut commands {
        match *name {
            "start_task" => args["taskId"] = json!("task_later"),
            "retry_task" => args["taskId"] = json!("task_over"),
            "resume_subagent" => args["subagentId"] = json!("sub_over"),
            "create_task" if args.get("dependsOn").is_some() => args["sessionId"] = json!("sess_mine"),
            _ => {}
        }
    }
    for (name, args) in commands.iter().filter(|(name, _)| refused.contains(name)) {
        let error = rig.refused(name, args.clone()).await;
        assert_eq!(
            (&error["code"], &error["details"]["status"]),
            (&json!("conflict"), &json!("archived")),
            "{name} {args}: {error}"
        );
    }
    // The rest is taken, or refused for another reason than that.
    let (ends, others): (Vec<_>, Vec<_>) =
        commands.iter().filter(|(name, _)| !refused.contains(name)).partition(|(name, _)| {
            ["cancel_task", "close_subagent", "cancel_job", "interrupt_turn", "complete_task", "fail_task"]
                .contains(name)
        });
    for (name, args) in others.into_iter().chain(ends) {
        if let Err(error) = rig.try_call(name, args.clone()).await {
            let error = error.to_json()["error"].clone();
            assert_ne!(error["details"]["status"], "archived", "{name}: {error}");
            assert!(["conflict", "not_found"].contains(&error["code"].as_str().unwrap()), "{name}: {error}");
        }
    }
    assert_eq!(rig.call("get_session", json!({ "sessionId": "sess_mine" })).await["status"], "archived");
    rig.checked("sess_mine").await;
    rig.stop().await;
}

#[tokio::test]
async fn a_decision_is_taken_once_in_time_and_among_what_was_offered() {
    let rig = Rig::start().await;
    let ask = |more: Value| {
        let mut approve = json!({ "prompt": "?", "decisions": ["allow", "deny"] });
        approve.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!([{ "approve": approve }])
    };
    let asked = async |session: &str, more: Value| {
        let submitted = rig.submit(session, ask(more)).await;
        let asked = rig.until(session, |event| event["type"] == "action.required").await;
        (asked["actionId"].clone(), submitted["turnId"].clone())
    };
    let (action, turn) = asked("sess_resolved", json!({})).await;
    for wrong in ["yes", "ALLOW", "expired", "cancelled"] {
        let refused = rig.refused("respond_action", json!({ "actionId": action, "decision": wrong })).await;
        assert_eq!(
            (&refused["code"], &refused["details"]["field"]),
            (&json!("invalid_argument"), &json!("decision"))
        );
    }
    assert_eq!(
        count(&rig.served("sess_resolved").await, "action.resolved"),
        0,
        "P10: a wrong answer decides nothing"
    );
    let allow = json!({ "actionId": action, "decision": "allow" });
    // Two answers at the same moment: one of them counts.
    let (one, two) = tokio::join!(
        rig.try_call("respond_action", allow.clone()),
        rig.try_call("respond_action", json!({ "actionId": action, "decision": "deny" }))
    );
    assert_eq!(usize::from(one.is_ok()) + usize::from(two.is_ok()), 1);
    rig.turn_over("sess_resolved", turn.as_str().unwrap()).await;
    assert_eq!(count(&rig.checked("sess_resolved").await, "action.resolved"), 1);
    let (expired, turn) = asked("sess_expired", json!({ "expiresMs": 80 })).await;
    rig.turn_over("sess_expired", turn.as_str().unwrap()).await;
    let (cancelled, _) = asked("sess_cancelled", json!({})).await;
    rig.call("interrupt_turn", json!({ "sessionId": "sess_cancelled" })).await;
    let rig = rig.crash().await;
    for (action, status) in [(action, "resolved"), (expired, "expired"), (cancelled, "cancelled")] {
        for command in ["respond_action", "resolve_permission"] {
            let late = rig.refused(command, json!({ "actionId": action, "decision": "allow" })).await;
            assert_eq!(
                (&late["code"], &late["details"]["status"]),
                (&json!("conflict"), &json!(status)),
                "{command}: {late}"
            );
        }
    }
    for session in ["sess_expired", "sess_cancelled"] {
        let events = rig.checked(session).await;
        assert_eq!((count(&events, "action.resolved"), count(&events, "model.delta")), (1, 0), "{session}");
    }
    rig.stop().await;
}

#[tokio::test]
async fn what_is_in_the_wrong_state_says_which_state_that_is() {
    let rig = Rig::start().await;
    rig.everything().await;
    let done = rig.run("sess_mine_too", json!([{ "say": "x" }])).await;
    let of = |turn: &str| json!({ "sessionId": "sess_mine", "threadId": "thrd_mine", "turnId": turn });
    let busy = json!({ "sessionId": "sess_mine", "threadId": "thrd_mine", "input": sleeper(), "options": { "whenBusy": "reject" } });
    let spawn = json!({ "sessionId": "sess_mine_too", "turnId": done["turnId"], "input": sleeper() });
    let waiting = json!({ "sessionId": "sess_mine", "turnId": "turn_queued", "input": sleeper() });
    for (name, args, status) in [
        ("submit_turn", busy, "running"),
        ("promote_queued_turn", of("turn_asking"), "running"),
        ("remove_queued_turn", of("turn_asking"), "running"),
        ("spawn_subagent", spawn, "completed"),
        ("spawn_subagent", waiting, "queued"),
        (
            "rollback_thread",
            json!({ "sessionId": "sess_mine", "threadId": "thrd_mine", "turns": 1 }),
            "blocked",
        ),
        (
            "compact_context",
            json!({ "sessionId": "sess_mine", "threadId": "thrd_mine", "summary": "s" }),
            "blocked",
        ),
        ("resume_subagent", json!({ "subagentId": "sub_mine" }), "running"),
        ("retry_job_item", json!({ "jobId": "job_mine", "itemId": "item_mine" }), "running"),
        ("start_task", json!({ "taskId": "task_mine" }), "running"),
        ("resume_task", json!({ "taskId": "task_mine" }), "running"),
        ("retry_task", json!({ "taskId": "task_mine" }), "running"),
    ] {
        let refused = rig.refused(name, args).await;
        assert_eq!(
            (&refused["code"], &refused["details"]["status"]),
            (&json!("conflict"), &json!(status)),
            "{name}: {refused}"
        );
        assert!(!refused["message"].as_str().unwrap().is_empty());
    }
    rig.call("close_subagent", json!({ "subagentId": "sub_mine" })).await;
    rig.call("cancel_job", json!({ "jobId": "job_mine" })).await;
    let told = json!({ "subagentId": "sub_mine", "input": sleeper() });
    let refused = rig.refused("send_subagent_input", told).await;
    assert_eq!(refused["details"]["status"], "cancelled");
    for (name, args, status) in [
        ("close_subagent", json!({ "subagentId": "sub_mine" }), "cancelled"),
        ("cancel_job", json!({ "jobId": "job_mine" }), "cancelled"),
        ("interrupt_turn", json!({ "sessionId": "sess_mine_too", "turnId": done["turnId"] }), "completed"),
        ("archive_session", json!({ "sessionId": "sess_mine_too" }), "archived"),
        ("archive_session", json!({ "sessionId": "sess_mine_too" }), "archived"),
    ] {
        assert_eq!(rig.call(name, args).await["status"], status, "{name}: what is over stays what it is");
    }
    rig.checked("sess_mine").await;
    rig.stop().await;
}

#[tokio::test]
async fn what_is_damaged_is_not_advised_to_be_tried_again() {
    let rig = Rig::start().await;
    rig.call("create_session", json!({ "sessionId": "sess_a" })).await;
    rig.call("create_task", json!({ "taskId": "task_1", "sessionId": "sess_a", "objective": "o" })).await;
    let address = cadre_cluster::address::Address::new("local", "task", "task_1").unwrap();
    let mut tx = rig.store().begin();
    tx.set(cadre_cluster::keys::state(&address), &b"\x01no state"[..]);
    tx.commit().await.unwrap();
    let mut incidents = BTreeSet::new();
    for _ in 0..2 {
        let refused = rig.refused("get_task", json!({ "taskId": "task_1" })).await;
        assert_eq!((&refused["code"], &refused["retryable"]), (&json!("internal"), &json!(false)));
        incidents.insert(refused["details"]["incidentId"].as_str().unwrap().to_owned());
    }
    assert_eq!(incidents.len(), 2, "each has its own in the log");
    rig.stop().await;
}
