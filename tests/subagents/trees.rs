//! Trees of thousands: closed and joined.

use super::*;

#[tokio::test]
async fn p11_a_tree_of_thousands_is_closed_whoever_else_closes_spawns_or_completes_meanwhile() {
    let rig = Rig::start().await;
    // Some end by themselves while the tree is being closed, some start then.
    let leaf = json!([{ "sleep": 300 }, { "say": "x" }]);
    let scripts = [
        tree(&[50, 40], json!([{ "sleep": FOREVER }])),
        tree(&[50, 40], leaf),
        tree(&[10, 10, 20], json!([])),
    ];
    for (round, script) in scripts.into_iter().enumerate() {
        let session = format!("sess_{round}");
        rig.call("create_session", json!({ "sessionId": session })).await;
        let root = format!("sub_root{round}");
        let args = json!({ "subagentId": root, "sessionId": session, "input": input(&script) });
        rig.call("spawn_subagent", args).await;
        rig.began(&session, 200).await;
        let close = || rig.answer("close_subagent", json!({ "subagentId": root, "reason": "enough" }));
        let spawn = |number: usize| {
            let args = json!({ "subagentId": format!("sub_extra{round}_{number}"), "sessionId": session, "parentSubagentId": root, "input": sleeper() });
            rig.try_call("spawn_subagent", args)
        };
        let (one, extra, two, other, three) = tokio::join!(close(), spawn(1), close(), spawn(2), close());
        for answer in [&one, &two, &three] {
            let status = answer.result["status"].as_str().unwrap();
            assert!(["cancelled", "completed"].contains(&status), "{status}");
            assert_eq!(answer.result["status"], one.result["status"], "all are told the same");
        }
        for made in [extra, other] {
            assert!(made.is_ok() || made.unwrap_err().to_json()["error"]["code"] == "conflict");
        }
        let running =
            rig.subagents(json!({ "sessionId": session, "status": "running", "limit": 1000 })).await;
        assert!(running.is_empty(), "round {round}: {running:#?}");
        let events = rig.checked(&session).await;
        // Whoever comes when it is closed has nothing to tell.
        for cursor in [&one, &two, &three].into_iter().filter_map(|answer| answer.cursor) {
            let last = events.last().unwrap();
            assert_eq!(last["cursor"], cursor.to_string(), "nothing of the tree appears later");
        }
        let spawned = count(&events, "subagent.spawned");
        let ended =
            ["subagent.closed", "subagent.completed", "subagent.failed"].map(|class| count(&events, class));
        assert_eq!(ended.iter().sum::<usize>(), spawned, "one terminal fact each: {ended:?}");
    }
    rig.stop().await;
}

#[tokio::test]
async fn p11_closing_a_tree_of_thousands_goes_on_after_its_owner_died() {
    let mut rig = Rig::start().await;
    for round in 0..3 {
        let session = format!("sess_{round}");
        rig.call("create_session", json!({ "sessionId": session })).await;
        let root = format!("sub_root{round}");
        let script = tree(&[20, 50], json!([{ "sleep": FOREVER }]));
        let args = json!({ "subagentId": root, "sessionId": session, "input": input(&script) });
        rig.call("spawn_subagent", args).await;
        rig.began(&session, [1021, 300, 1][round]).await;
        {
            let until = rig.until(&session, |event| event["type"] == "subagent.closed");
            tokio::select! {
                _ = rig.try_call("close_subagent", json!({ "subagentId": root })) => {}
                _ = until => {}
            }
        }
        rig = rig.crash().await;
        // Nobody asks again: what was begun goes on by itself.
        let root_closed =
            |event: &Value| event["type"] == "subagent.closed" && event["subagentId"] == root.as_str();
        rig.until(&session, root_closed).await;
        let answer = rig.answer("close_subagent", json!({ "subagentId": root })).await;
        assert_eq!(answer.result["status"], "cancelled");
        let events = rig.checked(&session).await;
        assert_eq!(count(&events, "subagent.closed"), count(&events, "subagent.spawned"));
        assert_eq!(events.last().unwrap()["subagentId"], root.as_str());
    }
    rig.stop().await;
}

#[tokio::test]
async fn a_join_of_thousands_is_one_fact_of_its_parent() {
    let rig = Rig::start().await;
    let over = rig.run("sess_a", tree(&[3_000], json!([]))).await;
    assert_eq!(over["type"], "turn.completed");
    let events = rig.checked("sess_a").await;
    let own: Vec<&str> = events
        .iter()
        .filter(|event| event["streamId"] == "session:sess_a")
        .map(|event| event["type"].as_str().unwrap())
        .collect();
    assert!(own.len() < 16, "the parent says little, whatever the number of children: {own:?}");
    assert_eq!(own.iter().filter(|class| **class == "tool.result").count(), 1);
    let join = events.iter().position(|event| event["type"] == "tool.result").unwrap();
    let last = events.iter().rposition(|event| event["type"] == "subagent.completed").unwrap();
    assert!(join > last, "P11: after all that it waits for are terminal");
    let counts =
        rig.call("get_session", json!({ "sessionId": "sess_a" })).await["subagentJobSummary"].clone();
    assert!(counts.to_string().contains("3000"), "{counts:#}");
    rig.stop().await;
}
