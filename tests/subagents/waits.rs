//! Waiting for subagents to end.

use super::*;

#[tokio::test]
async fn a_wait_for_the_children_of_a_turn_finds_any_turn_of_the_session_that_is_named() {
    let rig = Rig::start().await;
    for session in ["sess_a", "sess_b"] {
        let turn = json!({ "sessionId": session, "turnId": "turn_1", "agent": "scripted",
            "input": input(&tree(&[1, 2], json!([]))) });
        rig.call("submit_turn", turn).await;
        rig.turn_over(session, "turn_1").await;
    }
    let wait = |parent: &Value, session: Option<&str>| json!({ "parentId": parent, "mode": "all", "timeoutMs": 1_000, "sessionId": session });
    let turn = json!("turn_1");
    let several = rig.refused("wait_subagents", wait(&turn, None)).await;
    assert_eq!((&several["code"], &several["details"]["status"]), (&json!("conflict"), &json!("ambiguous")));
    assert_eq!(rig.call("wait_subagents", wait(&turn, Some("sess_a"))).await["ended"], 1);
    let child = rig.subagents(json!({ "sessionId": "sess_a", "depth": 1 })).await[0].clone();
    let of_child = rig.call("wait_subagents", wait(&child["turnId"], Some("sess_a"))).await;
    assert_eq!(of_child["ended"], 2, "{of_child}");
    for session in [None, Some("sess_b"), Some("sess_none")] {
        let refused = rig.refused("wait_subagents", wait(&child["turnId"], session)).await;
        assert_eq!(refused["code"], "not_found", "{session:?}");
    }
    let mut mixed = wait(&Value::Null, Some("sess_b"));
    mixed["subagentIds"] = json!([child["subagentId"]]);
    assert_eq!(rig.refused("wait_subagents", mixed).await["details"]["field"], "sessionId");
    rig.stop().await;
}

#[tokio::test]
async fn a_wait_ends_with_all_with_any_or_with_its_time() {
    let rig = Rig::start().await;
    rig.call("create_session", json!({ "sessionId": "sess_a" })).await;
    for id in ["sub_1", "sub_2", "sub_3"] {
        rig.spawn(id, json!({})).await;
    }
    let ids = json!(["sub_1", "sub_2", "sub_3"]);
    for mode in ["all", "any"] {
        let waited =
            rig.call("wait_subagents", json!({ "subagentIds": ids, "mode": mode, "timeoutMs": 50 })).await;
        assert_eq!(
            (&waited["timedOut"], &waited["ended"], &waited["total"]),
            (&json!(true), &json!(0), &json!(3))
        );
        let statuses: Vec<&Value> =
            waited["subagents"].as_array().unwrap().iter().map(|one| &one["status"]).collect();
        assert_eq!(statuses, ["running"; 3], "the statuses so far");
    }
    let args = json!({ "subagentIds": ids, "mode": "any", "timeoutMs": 30_000 });
    let (waited, _) = tokio::join!(
        rig.call("wait_subagents", args),
        rig.call("close_subagent", json!({ "subagentId": "sub_2" }))
    );
    assert_eq!((&waited["timedOut"], &waited["ended"]), (&json!(false), &json!(1)));
    let args = json!({ "parentId": "sess_a", "mode": "all", "timeoutMs": 30_000 });
    let (waited, _, _) = tokio::join!(
        rig.call("wait_subagents", args),
        rig.call("close_subagent", json!({ "subagentId": "sub_1" })),
        rig.call("close_subagent", json!({ "subagentId": "sub_3" })),
    );
    assert_eq!(
        (&waited["timedOut"], &waited["ended"], &waited["total"]),
        (&json!(false), &json!(3), &json!(3))
    );
    rig.spawn("sub_long", json!({})).await;
    let caller = cadre::runtime::Caller::local();
    let args = json!({ "subagentIds": ["sub_long"], "mode": "all", "timeoutMs": 600_000 });
    let shortly = std::time::Duration::from_millis(50);
    let waited = rig.runtime.call(&caller, "wait_subagents", args, None, shortly).await.unwrap();
    assert_eq!(waited.result["timedOut"], true, "nobody waits longer than the caller does");
    let unknown = json!({ "subagentIds": ["sub_1", "sub_none"], "mode": "any", "timeoutMs": 50 });
    assert_eq!(rig.refused("wait_subagents", unknown).await["code"], "not_found", "one of them is nobody");
    let unknown = json!({ "parentId": "sub_none", "mode": "any", "timeoutMs": 50 });
    assert_eq!(rig.refused("wait_subagents", unknown).await["code"], "not_found");
    let nobody =
        rig.call("wait_subagents", json!({ "parentId": "sub_1", "mode": "any", "timeoutMs": 50 })).await;
    assert_eq!((&nobody["timedOut"], &nobody["total"]), (&json!(false), &json!(0)), "nobody is waited for");
    rig.stop().await;
}
