//! Places in lists and in the history of a session.

use super::*;

#[tokio::test]
async fn what_is_no_place_in_a_list_is_refused_by_its_field_and_any_place_is_safe() {
    let rig = Rig::start().await;
    let ids = rig.everything().await;
    let lists = [
        ("list_sessions", json!({}), "after"),
        ("list_tasks", json!({}), "after"),
        ("list_tasks", json!({ "sessionId": "sess_mine" }), "after"),
        ("list_tasks", json!({ "parentTaskId": ids["task"] }), "after"),
        ("list_subagents", json!({ "sessionId": "sess_mine" }), "after"),
        ("list_jobs", json!({}), "after"),
        ("get_job", json!({ "jobId": ids["job"] }), "itemsAfter"),
        ("get_session", json!({ "sessionId": "sess_mine" }), "before"),
    ];
    for (name, args, field) in &lists {
        for bad in ["", " ", "zz", "!", "a/b", "abc", "-1", "é", "0x10", "1..2", &"0".repeat(3_000)] {
            let mut args = args.clone();
            args[*field] = json!(bad);
            let refused = match rig.try_call(name, args).await {
                Err(error) => error.to_json()["error"].clone(),
                Ok(answer) => panic!("{name} took {bad:?}: {}", answer.result),
            };
            assert_eq!(
                (&refused["code"], &refused["details"]["field"]),
                (&json!("invalid_argument"), &json!(field)),
                "{name} {bad:?}: {refused}"
            );
        }
        for (bad, good) in [
            (json!(0), json!(1)),
            (json!(-3), json!(1_000)),
            (json!("5"), json!(u64::MAX)),
            (json!(0.5), json!(7)),
        ] {
            let mut args = args.clone();
            args["limit"] = bad;
            assert_eq!(rig.refused(name, args.clone()).await["details"]["field"], "limit", "{name}");
            args["limit"] = good;
            rig.call(name, args).await;
        }
    }
    // A place of another list, or one that nobody has given, is a place or is refused; it is never a crash.
    for (name, args, field) in &lists {
        for strange in [
            "00",
            "ff",
            "ffffffffffffffff",
            "02",
            "3",
            "0.0.0",
            "99999999999999999999",
            "sub_mine",
            "sub_mine!",
        ] {
            let mut args = args.clone();
            args[*field] = json!(strange);
            if let Err(error) = rig.try_call(name, args).await {
                assert_eq!(error.to_json()["error"]["details"]["field"], **field, "{name} {strange}");
            }
        }
    }
    rig.stop().await;
}

#[tokio::test]
async fn an_old_session_is_loaded_by_window_and_cursor_and_every_turn_comes_once() {
    let rig = Rig::start().await;
    let mut submitted = Vec::new();
    for at in 0..23 {
        let args = json!({ "sessionId": "sess_a", "turnId": format!("turn_{at:02}"), "agent": "scripted", "input": input(&json!([{ "say": format!("{at}") }])) });
        rig.call("submit_turn", args).await;
        submitted.push(format!("turn_{at:02}"));
    }
    rig.turn_over("sess_a", "turn_22").await;
    let rig = rig.crash().await;
    let (mut seen, mut before, mut pages) = (Vec::new(), Value::Null, 0);
    loop {
        let mut args = json!({ "sessionId": "sess_a", "limit": 5 });
        if before.is_string() {
            args["before"] = before.clone();
        }
        let snapshot = rig.call("get_session", args).await;
        let threads = snapshot["threads"].as_array().unwrap().iter();
        let turns = threads.flat_map(|thread| thread["turns"].as_array().unwrap());
        let page: Vec<_> = turns.map(|turn| turn["turnId"].as_str().unwrap().to_owned()).collect();
        assert!(page.len() <= 5, "{page:?}");
        pages += 1;
        // Pages go back in time, and each begins with its oldest.
        seen.splice(0..0, page);
        before = snapshot["history"]["before"].clone();
        if snapshot["history"]["hasMore"] != true {
            break;
        }
        assert!(pages < 20, "it has no end: {snapshot:#}");
        assert!(before.is_string(), "{snapshot:#}");
    }
    assert_eq!(seen, submitted, "in order, each once");
    assert_eq!(pages, 5, "of five turns each, the last of three");
    rig.stop().await;
}
