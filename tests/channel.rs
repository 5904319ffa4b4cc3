//! Channels, as their clients see them: follow, acknowledge, come back, decide.
//!
//! P4 is what most of them are about; `tests/channels_torture.rs` looks at it under fire.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "common/channel.rs"]
mod channel;
mod common;
#[path = "common/server.rs"]
mod server;

use std::time::Duration;

use channel::{Channel, JSON, MSGPACK};
use common::{input, turn};
use serde_json::{Value, json};
use server::Server;

/// Long enough for a frame that should not come.
const MOMENT: Duration = Duration::from_millis(300);

fn is_over(event: &Value) -> bool {
    event["type"] == "turn.completed" || event["type"] == "turn.failed"
}

/// Facts about the channel itself follow the turn, and come when they come.
fn without_channel(events: Vec<Value>) -> Vec<Value> {
    events.into_iter().filter(|event| !event["type"].as_str().unwrap().starts_with("channel.")).collect()
}

#[test]
fn p4_a_new_channel_gets_a_snapshot_and_then_every_event_in_either_encoding() {
    let server = Server::start();
    let before = server.session("watched");
    server.tokio.block_on(async {
        for encoding in [JSON, MSGPACK] {
            let (mut channel, welcome) = Channel::open(&server.url, encoding, json!({})).await;
            assert_eq!((&welcome["resumed"], &welcome["heartbeatMs"]), (&json!(false), &json!(15_000)));
            assert_eq!(welcome["subscriptions"], json!([]));
            assert!(welcome["channelId"].as_str().unwrap().starts_with("chan_"));
            channel.subscribe("watched").await;
            let snapshot = channel.expect("snapshot").await;
            assert_eq!(snapshot["snapshot"]["sessionId"], "watched");
            assert!(snapshot["cursor"].as_str() >= before.last().unwrap()["cursor"].as_str());
            let caught_up = channel.until("caught_up").await;
            assert!(caught_up["cursor"].as_str() >= snapshot["cursor"].as_str());
            let script = json!([{ "say": "again" }]).to_string();
            let args = json!({ "sessionId": "watched", "input": [{ "type": "text", "text": script }] });
            let answer = channel.command("1", "submit_turn", args).await;
            assert!(answer["result"]["turnId"].is_string() && answer["cursor"].is_string(), "{answer}");
            let events = channel.events_until(is_over).await;
            let served = server.rig.served("watched").await;
            let last = events.last().unwrap()["cursor"].as_str().unwrap().to_owned();
            let expected: Vec<_> = served
                .into_iter()
                .filter(|event| {
                    let cursor = event["cursor"].as_str().unwrap();
                    cursor > snapshot["cursor"].as_str().unwrap() && cursor <= last.as_str()
                })
                .collect();
            // The first of them, or all but some, came before the answer.
            assert!(!events.is_empty() && expected.ends_with(&events), "{events:#?}\n{expected:#?}");
        }
    });
    server.stop();
}

#[test]
fn p4_a_channel_that_comes_back_goes_on_after_what_it_acknowledged() {
    let server = Server::start();
    let all = server.session("kept");
    server.tokio.block_on(async {
        let (mut channel, welcome) =
            Channel::open(&server.url, JSON, json!({ "channelId": "chan_mine" })).await;
        assert_eq!(welcome["channelId"], "chan_mine");
        channel.say(&json!({ "op": "subscribe", "sessionId": "kept", "snapshot": false })).await;
        let mut seen = Vec::new();
        for _ in 0..4 {
            seen.push(channel.expect("event").await["event"].take());
        }
        assert_eq!(seen, all[..4]);
        channel.say(&json!({ "op": "ack", "sessionId": "kept", "cursor": seen[2]["cursor"] })).await;
        // An older one is ignored.
        channel.say(&json!({ "op": "ack", "sessionId": "kept", "cursor": seen[0]["cursor"] })).await;
        tokio::time::sleep(Duration::from_millis(600)).await;
        channel.cut().await;

        let hello = json!({ "channelId": "chan_mine", "resumeToken": welcome["resumeToken"] });
        let (mut channel, again) = Channel::open(&server.url, MSGPACK, hello).await;
        assert_eq!(again["resumed"], true);
        let subscriptions = json!([{ "sessionId": "kept", "acked": seen[2]["cursor"] }]);
        assert_eq!(again["subscriptions"], subscriptions);
        assert!(channel.is_silent(MOMENT).await, "nothing is sent before it is asked for");
        channel.subscribe("kept").await;
        let mut rest = Vec::new();
        for _ in 3..all.len() {
            rest.push(channel.expect("event").await["event"].take());
        }
        assert_eq!(rest, all[3..]);
        // The first token is good, too: the second one may have been lost on its way.
        let hello = json!({ "resumeToken": welcome["resumeToken"] });
        let (_, third) = Channel::open(&server.url, JSON, hello).await;
        assert_eq!((&third["channelId"], &third["resumed"]), (&json!("chan_mine"), &json!(true)));
        assert_eq!(channel.bye().await, "taken_over");
    });
    server.stop();
}

#[test]
fn p9_no_more_events_are_sent_than_there_is_credit_for() {
    let server = Server::start();
    server.tokio.block_on(async {
        server.rig.run("long", json!([{ "repeat": 400, "steps": [{ "tool": "echo", "args": {} }] }])).await;
        let all = server.rig.served("long").await;
        assert!(all.len() > 1_000);
        let (mut channel, _) = Channel::open(&server.url, JSON, json!({})).await;
        channel.say(&json!({ "op": "subscribe", "sessionId": "long", "snapshot": false })).await;
        let mut seen = Vec::new();
        for _ in 0..256 {
            seen.push(channel.expect("event").await["event"].take());
        }
        assert!(channel.is_silent(MOMENT).await, "256 is what a connection begins with");
        for (credit, wanted) in [(1, 1), (10, 10)] {
            channel.say(&json!({ "op": "credit", "events": credit })).await;
            for _ in 0..wanted {
                seen.push(channel.expect("event").await["event"].take());
            }
            assert!(channel.is_silent(MOMENT).await);
        }
        channel.say(&json!({ "op": "ping", "t": 7 })).await;
        assert_eq!(channel.expect("pong").await["t"], 7, "other frames need no credit");
        channel.say(&json!({ "op": "credit", "events": 1_000_000 })).await;
        while seen.len() < all.len() {
            seen.push(channel.expect("event").await["event"].take());
        }
        assert_eq!(seen, all);
    });
    server.stop();
}

#[test]
fn p1_who_lost_a_channel_is_told_and_acknowledges_nothing_more() {
    let server = Server::start();
    let all = server.session("mine");
    server.tokio.block_on(async {
        let (mut old, welcome) = Channel::open(&server.url, JSON, json!({})).await;
        old.say(&json!({ "op": "subscribe", "sessionId": "mine", "snapshot": false })).await;
        old.until("caught_up").await;
        let hello = json!({ "resumeToken": welcome["resumeToken"] });
        let (_new, again) = Channel::open(&server.url, JSON, hello).await;
        assert_eq!(again["subscriptions"][0]["acked"], Value::Null);
        let _ = old.try_say(&json!({ "op": "ack", "sessionId": "mine", "cursor": all[3]["cursor"] })).await;
        assert_eq!(old.bye().await, "taken_over");
        let hello = json!({ "resumeToken": again["resumeToken"] });
        let (_third, again) = Channel::open(&server.url, JSON, hello).await;
        assert_eq!(again["subscriptions"][0]["acked"], Value::Null);
    });
    server.stop();
}

#[test]
fn several_sessions_share_a_channel_and_each_is_in_order() {
    let server = Server::start();
    let feeds: Vec<_> = (0..5).map(|n| (format!("sess_{n}"), server.session(&format!("sess_{n}")))).collect();
    server.tokio.block_on(async {
        let (mut channel, _) = Channel::open(&server.url, JSON, json!({})).await;
        for (session, _) in &feeds {
            channel.say(&json!({ "op": "subscribe", "sessionId": session, "snapshot": false })).await;
        }
        let mut seen = std::collections::BTreeMap::<String, Vec<Value>>::new();
        let mut caught_up = 0;
        while caught_up < feeds.len() {
            let mut frame = channel.hear().await;
            let session = frame["sessionId"].as_str().unwrap().to_owned();
            match frame["op"].as_str().unwrap() {
                "event" => seen.entry(session).or_default().push(frame["event"].take()),
                "caught_up" => caught_up += 1,
                other => panic!("{other}"),
            }
        }
        for (session, all) in &feeds {
            assert!(seen[session].starts_with(all), "{session}");
        }
        channel.say(&json!({ "op": "unsubscribe", "sessionId": "sess_0" })).await;
        channel.command("c", "update_session", json!({ "sessionId": "sess_0", "title": "unheard" })).await;
        channel.command("d", "update_session", json!({ "sessionId": "sess_1", "title": "heard" })).await;
        let heard = channel.events_until(|event| event["type"] == "session.updated").await;
        assert_eq!(heard.last().unwrap()["sessionId"], "sess_1");
    });
    server.stop();
}

#[test]
fn only_classes_that_are_asked_for_are_sent() {
    let server = Server::start();
    let all = server.session("classes");
    server.tokio.block_on(async {
        let (mut channel, _) = Channel::open(&server.url, JSON, json!({})).await;
        let types = ["turn.*", "session.created"];
        let subscribe =
            json!({ "op": "subscribe", "sessionId": "classes", "snapshot": false, "types": types });
        channel.say(&subscribe).await;
        let mut seen = Vec::new();
        let caught_up = loop {
            let mut frame = channel.hear().await;
            if frame["op"] == "caught_up" {
                break frame;
            }
            seen.push(frame["event"].take());
        };
        let wanted = |event: &&Value| {
            let class = event["type"].as_str().unwrap();
            class.starts_with("turn.") || class == "session.created"
        };
        assert_eq!(seen.iter().collect::<Vec<_>>(), all.iter().filter(wanted).collect::<Vec<_>>());
        // What was left out counts as arrived.
        let ack = json!({ "op": "ack", "sessionId": "classes", "cursor": caught_up["cursor"] });
        channel.say(&ack).await;
        channel.say(&json!({ "op": "ping" })).await;
        channel.expect("pong").await;
    });
    server.stop();
}

#[test]
fn sessions_are_told_who_listens_and_who_has_gone() {
    let server = Server::start();
    server.session("told");
    server.tokio.block_on(async {
        let hello = json!({ "peerRole": "ui", "capabilities": ["x"] });
        let (mut channel, welcome) = Channel::open(&server.url, JSON, hello).await;
        channel.subscribe("told").await;
        let connected = server.rig.until("told", |event| event["type"] == "channel.connected").await;
        assert_eq!(connected["channelId"], welcome["channelId"]);
        assert_eq!(
            (&connected["payload"]["peerRole"], &connected["payload"]["transport"]),
            (&json!("ui"), &json!("websocket"))
        );
        // Following it anew is no other connection.
        channel.subscribe("told").await;
        channel.until("caught_up").await;
        channel.cut().await;
        let gone = server.rig.until("told", |event| event["type"] == "channel.disconnected").await;
        assert_eq!(gone["payload"]["reason"], "closed");
        let hello = json!({ "resumeToken": welcome["resumeToken"] });
        let (mut channel, _) = Channel::open(&server.url, JSON, hello).await;
        channel.subscribe("told").await;
        let resumed = server.rig.until("told", |event| event["type"] == "channel.resumed").await;
        assert!(resumed["payload"]["awayMs"].is_u64(), "{resumed}");
        channel.until("caught_up").await;
        // Taken over while it is connected: the one that comes says what the one that goes cannot.
        let hello = json!({ "resumeToken": welcome["resumeToken"] });
        let (mut third, _) = Channel::open(&server.url, JSON, hello).await;
        third.subscribe("told").await;
        server.rig.until("told", |event| event["payload"]["reason"] == "taken_over").await;
        third.until("caught_up").await;
        channel.bye().await;
        drop(third);
        let closed = |event: &Value| {
            event["payload"]["reason"] == "closed" && event["sequence"].as_u64() > gone["sequence"].as_u64()
        };
        server.rig.until("told", closed).await;
        let classes: Vec<_> = server
            .rig
            .checked("told")
            .await
            .into_iter()
            .filter(|event| event["type"].as_str().unwrap().starts_with("channel."))
            .map(|event| event["type"].clone())
            .collect();
        let expected = ["connected", "disconnected", "resumed", "disconnected", "resumed", "disconnected"];
        assert_eq!(classes, expected.map(|word| json!(format!("channel.{word}"))));
    });
    server.stop();
}

#[test]
fn p10_a_decision_is_asked_for_and_given_through_the_channel_and_both_are_facts() {
    let server = Server::start();
    server.tokio.block_on(async {
        let ask = json!([{ "approve": { "prompt": "Deploy?", "decisions": ["allow", "deny"] } }, { "say": "done" }]);
        let first = server.rig.submit("asks", ask.clone()).await;
        server.rig.until("asks", |event| event["type"] == "action.required").await;
        let hello = json!({ "capabilities": ["permissions"] });
        let (mut channel, welcome) = Channel::open(&server.url, JSON, hello).await;
        channel.subscribe("asks").await;
        let asked = channel.until("permission").await;
        assert_eq!(asked["request"]["prompt"], "Deploy?");
        let action = asked["actionId"].clone();
        let answer = channel.command("a", "respond_action", json!({ "actionId": action, "decision": "allow" })).await;
        assert!(answer["error"].is_null(), "{answer}");
        server.rig.turn_over("asks", first["turnId"].as_str().unwrap()).await;
        let again = channel.command("b", "respond_action", json!({ "actionId": action, "decision": "deny" })).await;
        assert_eq!(again["error"]["code"], "conflict");
        // One that comes while the channel listens, and one that was decided before it listens again.
        server.rig.submit("asks", ask).await;
        let second = channel.until("permission").await;
        assert_ne!(second["actionId"], action);
        channel.cut().await;
        server.rig.call("respond_action", json!({ "actionId": second["actionId"], "decision": "deny" })).await;
        let hello = json!({ "resumeToken": welcome["resumeToken"], "capabilities": ["permissions"] });
        let (mut channel, _) = Channel::open(&server.url, JSON, hello).await;
        channel.say(&json!({ "op": "subscribe", "sessionId": "asks", "after": "0".repeat(32) })).await;
        loop {
            let frame = channel.hear().await;
            assert_ne!(frame["op"], "permission", "it was decided");
            if frame["op"] == "caught_up" {
                break;
            }
        }
        let events = server.rig.checked("asks").await;
        let of = |class: &str| events.iter().filter(|event| event["type"] == class).collect::<Vec<_>>();
        assert_eq!(of("channel.permission_forwarded").len(), 2);
        let returned = of("channel.permission_returned");
        let said: Vec<_> = returned.iter().map(|event| (&event["payload"]["decision"], event["payload"]["accepted"] == true)).collect();
        assert_eq!(said, [(&json!("allow"), true), (&json!("deny"), false)]);
    });
    server.stop();
}

#[test]
fn what_must_not_be_said_closes_the_channel_with_a_reason() {
    let server = Server::start();
    server.session("s");
    server.tokio.block_on(async {
        use tokio_tungstenite::tungstenite::Message;
        let text = |text: &str| Message::Text(text.into());
        let before_hello = [
            (text(r#"{"op":"subscribe","sessionId":"s"}"#), "the first frame is hello"),
            (text("{"), "not JSON"),
            (text("[]"), "object"),
            (Message::Binary(vec![0x80].into()), "binary frame"),
            (text(r#"{"op":"hello","heartbeatMs":999}"#), "1000 to 120000"),
            (text(r#"{"op":"hello","heartbeatMs":-5}"#), "heartbeatMs"),
            (text(r#"{"op":"hello","channelId":"a b"}"#), ""),
            (text(r#"{"op":"hello","resumeToken":"v1.made.up"}"#), "resume token"),
            (text(&json!({ "op": "hello", "capabilities": vec!["x"; 33] }).to_string()), ""),
            (
                text(&json!({ "op": "hello", "peerRole": "x".repeat(3 << 20) }).to_string()),
                "payload_too_large",
            ),
        ];
        for (message, reason) in before_hello {
            let shown: String = format!("{message:?}").chars().take(100).collect();
            let mut channel = Channel::connect(&server.url, JSON).await;
            channel.send(message).await.unwrap();
            let (mut said, mut closed) = (String::new(), false);
            while let Some(frame) = channel.try_hear().await {
                assert!(["error", "bye"].contains(&frame["op"].as_str().unwrap()), "{shown}: {frame}");
                said += &frame.to_string();
                closed |= frame["op"] == "bye";
            }
            assert!(closed && said.contains(reason), "{shown}: {said}");
        }
        let mut channel = Channel::connect(&server.url, MSGPACK).await;
        channel.send(Message::Binary(vec![0xc1].into())).await.unwrap();
        assert!(channel.bye().await.contains("MessagePack"));
        for message in [text(r#"{"op":"hello"}"#), text("nonsense"), Message::Binary(vec![1].into())] {
            let (mut channel, _) = Channel::open(&server.url, JSON, json!({})).await;
            channel.send(message).await.unwrap();
            assert!(channel.bye().await.starts_with("protocol: "));
        }
        let refused = Channel::try_connect(&server.url, Some("cadre.v9")).await;
        assert!(refused.is_err_and(|error| error.to_string().contains("400")));
    });
    let (status, body) = server.get("/v1/channel");
    assert_eq!((status, &body["error"]["code"]), (400, &json!("invalid_argument")));
    server.stop();
}

#[test]
fn what_is_malformed_is_refused_and_the_channel_goes_on() {
    let server = Server::start();
    let all = server.session("s");
    server.tokio.block_on(async {
        let (mut channel, welcome) = Channel::open(&server.url, JSON, json!({})).await;
        channel.say(&json!({ "op": "subscribe", "sessionId": "s", "snapshot": false })).await;
        channel.until("caught_up").await;
        let beyond = "f".repeat(32);
        let bad = [
            (json!({ "op": "shout" }), "invalid_argument", json!("op")),
            (json!({ "no": "op" }), "invalid_argument", json!("op")),
            (json!({ "op": "subscribe", "sessionId": "s", "after": "zz" }), "invalid_argument", json!("after")),
            (json!({ "op": "subscribe", "sessionId": "s", "types": ["NO"] }), "invalid_argument", json!("types")),
            (json!({ "op": "subscribe", "sessionId": "nobody" }), "not_found", Value::Null),
            (json!({ "op": "credit", "events": 0 }), "invalid_argument", json!("events")),
            (json!({ "op": "credit", "events": u64::MAX }), "invalid_argument", json!("events")),
            (json!({ "op": "credit", "events": -1 }), "invalid_argument", json!("events")),
            (json!({ "op": "ack", "sessionId": "s", "cursor": "?" }), "invalid_argument", json!("cursor")),
            (json!({ "op": "ack", "sessionId": "s", "cursor": beyond }), "invalid_argument", json!("cursor")),
            (json!({ "op": "ack", "sessionId": "nobody", "cursor": all[0]["cursor"] }), "conflict", Value::Null),
        ];
        for (frame, code, field) in bad {
            channel.say(&frame).await;
            let answer = channel.until("error").await;
            assert_eq!((&answer["error"]["code"], &answer["error"]["details"]["field"]), (&json!(code), &field), "{frame}: {answer}");
        }
        let bad = [
            ("no_such_command", json!({}), "not_found"),
            ("get_session", json!({ "sessionId": 1 }), "invalid_argument"),
            ("get_session", json!([]), "invalid_argument"),
            ("get_session", json!({ "sessionId": "nobody" }), "not_found"),
        ];
        for (name, args, code) in bad {
            let answer = channel.command("x", name, args).await;
            assert_eq!(answer["error"]["code"], code, "{answer}");
            assert!(answer["result"].is_null());
        }
        channel.say(&json!({ "op": "command", "id": "k", "name": "get_session", "args": {}, "idempotencyKey": "short" })).await;
        assert_eq!(channel.until("result").await["error"]["details"]["field"], "Idempotency-Key");
        // Somebody without the token does not get the channel.
        let mut other = Channel::connect(&server.url, JSON).await;
        let refused = other.hello(json!({ "channelId": welcome["channelId"] })).await;
        assert_eq!(refused["error"]["code"], "conflict");
        let mut other = Channel::connect(&server.url, JSON).await;
        let hello = json!({ "channelId": "chan_other", "resumeToken": welcome["resumeToken"] });
        assert_eq!(other.hello(hello).await["error"]["code"], "unauthorized");
        channel.say(&json!({ "op": "ping" })).await;
        channel.until("pong").await;
    });
    server.stop();
}

#[test]
fn p3_a_command_over_a_channel_under_a_key_has_one_effect() {
    let server = Server::start();
    server.session("s");
    server.tokio.block_on(async {
        let (mut channel, _) = Channel::open(&server.url, JSON, json!({})).await;
        let args = json!({ "sessionId": "s", "input": input(&json!([{ "say": "once" }])) });
        let frame = json!({ "op": "command", "id": "a", "name": "submit_turn", "args": args, "idempotencyKey": "key-0001" });
        channel.say(&frame).await;
        let first = channel.until("result").await;
        channel.cut().await;
        let (mut channel, _) = Channel::open(&server.url, MSGPACK, json!({})).await;
        channel.say(&frame).await;
        assert_eq!(channel.until("result").await, first);
    });
    server.stop();
}

#[test]
fn a_client_that_gives_no_sign_of_life_is_let_go() {
    let server = Server::start();
    server.session("s");
    server.tokio.block_on(async {
        let (mut silent, _) = Channel::open(&server.url, JSON, json!({ "heartbeatMs": 1_000 })).await;
        let (mut alive, _) = Channel::open(&server.url, JSON, json!({ "heartbeatMs": 1_000 })).await;
        let begun = tokio::time::Instant::now();
        while begun.elapsed() < Duration::from_millis(3_500) {
            alive.say(&json!({ "op": "ping" })).await;
            alive.expect("pong").await;
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        assert_eq!(silent.bye().await, "heartbeat");
        alive.say(&json!({ "op": "ping" })).await;
        alive.expect("pong").await;
    });
    server.stop();
}

#[test]
fn a_server_that_stops_says_when_to_come_back() {
    let server = Server::start();
    server.session("s");
    let client = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (mut listens, mut waits) = client.block_on(async {
        let (mut listens, _) = Channel::open(&server.url, JSON, json!({})).await;
        listens.subscribe("s").await;
        listens.until("caught_up").await;
        // Drained before it has said hello.
        (listens, Channel::connect(&server.url, JSON).await)
    });
    let heard = client.spawn(async move { (listens.until("bye").await, waits.until("bye").await) });
    server.stop();
    let (listened, waited) = client.block_on(heard).unwrap();
    for bye in [listened, waited] {
        assert_eq!((&bye["reason"], bye["reconnectAfterMs"].is_u64()), (&json!("drain"), true), "{bye}");
    }
}

#[test]
fn p4_history_that_is_no_longer_kept_is_a_gap_and_a_snapshot() {
    let server = Server::start();
    let all = server.session("old");
    server.tokio.block_on(async {
        let feed = cadre_cluster::feed::Feed::new(server.rig.store(), "local", "old", 1);
        let to = all[all.len() / 2]["cursor"].as_str().unwrap().parse().unwrap();
        cadre_cluster::feed::trim(&feed, to).await.unwrap();
        let (mut channel, _) = Channel::open(&server.url, JSON, json!({})).await;
        let after = all[1]["cursor"].clone();
        channel.say(&json!({ "op": "subscribe", "sessionId": "old", "after": after })).await;
        let gap = channel.expect("gap").await;
        assert_eq!((&gap["from"], &gap["reason"]), (&after, &json!("trimmed")));
        let snapshot = channel.expect("snapshot").await;
        assert!(snapshot["cursor"].as_str() >= gap["to"].as_str());
        channel.until("caught_up").await;
        let next =
            channel.command("n", "update_session", json!({ "sessionId": "old", "title": "new" })).await;
        assert!(next["error"].is_null());
        channel.events_until(|event| event["type"] == "session.updated").await;
    });
    server.stop();
}

#[test]
fn reconnect_channel_and_ack_events_do_the_same_without_a_socket() {
    let server = Server::start();
    let all = server.session("http");
    let welcome = server.tokio.block_on(async {
        let (mut channel, welcome) = Channel::open(&server.url, JSON, json!({})).await;
        channel.say(&json!({ "op": "subscribe", "sessionId": "http", "snapshot": false })).await;
        channel.until("caught_up").await;
        channel.cut().await;
        welcome
    });
    let id = &welcome["channelId"];
    let ack = json!({ "channelId": id, "sessionId": "http", "cursor": all[2]["cursor"] });
    let (status, answer) = server.call("ack_events", &ack);
    assert_eq!((status, &answer["result"]["cursor"]), (200, &all[2]["cursor"]), "{answer}");
    let older = json!({ "channelId": id, "sessionId": "http", "cursor": all[0]["cursor"] });
    assert_eq!(server.call("ack_events", &older).1["result"]["cursor"], all[2]["cursor"]);
    let beyond = json!({ "channelId": id, "sessionId": "http", "cursor": "f".repeat(32) });
    server::assert_refused(server.call("ack_events", &beyond), 400, "invalid_argument", Some("cursor"));
    let unknown = json!({ "channelId": "chan_no", "sessionId": "http", "cursor": all[0]["cursor"] });
    server::assert_refused(server.call("ack_events", &unknown), 404, "not_found", None);
    let again = json!({ "channelId": id, "resumeToken": welcome["resumeToken"] });
    let (status, answer) = server.call("reconnect_channel", &again);
    assert_eq!(status, 200, "{answer}");
    let subscription = json!([{ "sessionId": "http", "acked": all[2]["cursor"], "repaired": false }]);
    assert_eq!(
        (&answer["result"]["resumed"], &answer["result"]["subscriptions"]),
        (&json!(true), &subscription)
    );
    let forged = json!({ "channelId": id, "resumeToken": "v1.made.up" });
    server::assert_refused(
        server.call("reconnect_channel", &forged),
        401,
        "unauthorized",
        Some("resumeToken"),
    );
    server.stop();
}

#[test]
fn p9_a_client_that_does_not_read_is_let_go_and_harms_nobody() {
    let server = Server::start();
    server.tokio.block_on(async {
        server.rig.run("busy", json!([{ "repeat": 300, "steps": [{ "tool": "echo", "args": { "text": "x".repeat(500) } }] }])).await;
        let all = server.rig.served("busy").await;
        let (mut deaf, _) = Channel::open(&server.url, JSON, json!({ "heartbeatMs": 1_000 })).await;
        deaf.say(&json!({ "op": "credit", "events": 1_000_000 })).await;
        deaf.say(&json!({ "op": "subscribe", "sessionId": "busy", "snapshot": false })).await;
        let (mut reads, _) = Channel::open(&server.url, JSON, json!({})).await;
        reads.say(&json!({ "op": "credit", "events": 1_000_000 })).await;
        reads.say(&json!({ "op": "subscribe", "sessionId": "busy", "snapshot": false })).await;
        let mut seen = Vec::new();
        while seen.len() < all.len() {
            seen.push(reads.expect("event").await["event"].take());
        }
        assert_eq!(without_channel(seen), without_channel(all));
        let reason = |event: &Value| event["type"] == "channel.disconnected";
        let gone = server.rig.until("busy", reason).await;
        assert_eq!(gone["payload"]["reason"], "heartbeat");
    });
    server.stop();
}

#[test]
fn an_archived_session_can_be_followed() {
    let server = Server::start();
    let all = server.session("over");
    server.tokio.block_on(async {
        server.rig.call("archive_session", json!({ "sessionId": "over" })).await;
        let (mut channel, _) = Channel::open(&server.url, JSON, json!({})).await;
        channel.say(&json!({ "op": "subscribe", "sessionId": "over", "snapshot": false })).await;
        let events = channel.events_until(|event| event["type"] == "session.updated").await;
        assert!(events.starts_with(&all));
        let refused = channel.command("1", "submit_turn", turn("over", json!([]))).await;
        assert_eq!(refused["error"]["code"], "conflict");
    });
    server.stop();
}
