//! Jobs: many items under one instruction, as callers see them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use cadre::{
    entity::{kind, records},
    fact::{Publisher, id::JobId},
    runtime::{Caller, Runtime, Settings},
};
use cadre_cluster::{
    address::Address,
    bus::LocalBus,
    clock::{Clock, SystemClock, Timestamp},
    host::HostConfig,
    keys,
    placement::Takeover,
    store::{
        KeyRange, RangeRead, Store,
        embedded::{Embedded, EmbeddedConfig},
        key_after,
    },
};
use common::{PATIENCE, Rig, count, input};
use serde_json::{Value, json};

fn items(scripts: &[Value]) -> Value {
    let item = |(index, script): (usize, &Value)| json!({ "itemId": format!("item-{index}"), "input": [{ "type": "text", "text": script.to_string() }] });
    scripts.iter().enumerate().map(item).collect()
}

#[tokio::test]
async fn a_job_runs_its_items_and_one_of_them_is_retried_by_hand() {
    let rig = Rig::start().await;
    rig.call("create_session", json!({ "sessionId": "sess_j" })).await;
    let once =
        json!([{ "fail": { "message": "not yet", "retryable": false, "times": 1 } }, { "say": "now" }]);
    let job = json!({
        "jobId": "job_1",
        "sessionId": "sess_j",
        "instruction": "run",
        "agent": "scripted",
        "items": items(&[json!([{ "say": "a" }]), once, json!([{ "tool": "echo" }])]),
        "concurrency": 2,
    });
    let created = rig.call("create_job", job.clone()).await;
    assert_eq!(created["total"], 3, "{created}");
    let failed = rig.until("sess_j", |event| event["type"] == "job.failed").await;
    assert_eq!((&failed["payload"]["completed"], &failed["payload"]["failed"]), (&json!(2), &json!(1)));
    assert_eq!(rig.call("create_job", job).await["jobId"], "job_1", "the same request has the same answer");
    let read = rig.call("get_job", json!({ "jobId": "job_1", "limit": 2 })).await;
    assert_eq!(
        (&read["job"]["status"], read["hasMore"].as_bool()),
        (&json!("failed"), Some(true)),
        "{read:#}"
    );
    assert_eq!(read["items"][1]["status"], "failed");
    let rest = rig.call("get_job", json!({ "jobId": "job_1", "itemsAfter": read["cursor"] })).await;
    assert_eq!(rest["items"][0]["itemId"], "item-2");
    let done = rig.refused("retry_job_item", json!({ "jobId": "job_1", "itemId": "item-0" })).await;
    assert_eq!((&done["code"], &done["details"]["status"]), (&json!("conflict"), &json!("completed")));
    rig.call("retry_job_item", json!({ "jobId": "job_1", "itemId": "item-1" })).await;
    rig.until("sess_j", |event| event["type"] == "job.completed").await;
    let read = rig.call("get_job", json!({ "jobId": "job_1" })).await;
    assert_eq!((&read["items"][1]["status"], &read["items"][1]["attempt"]), (&json!("completed"), &json!(2)));
    let listed = rig.call("list_jobs", json!({ "sessionId": "sess_j" })).await;
    assert_eq!(listed["jobs"].as_array().unwrap().len(), 1);
    rig.stop().await;
}

#[tokio::test]
async fn p11_a_cancelled_job_is_closed_when_that_is_answered() {
    let rig = Rig::start().await;
    rig.call("create_session", json!({ "sessionId": "sess_k" })).await;
    let sleepers = vec![json!([{ "sleep": 600_000 }]); 40];
    let job = json!({
        "jobId": "job_2",
        "sessionId": "sess_k",
        "instruction": "wait",
        "agent": "scripted",
        "items": items(&sleepers),
        "concurrency": 10,
    });
    rig.call("create_job", job).await;
    rig.until("sess_k", |event| event["type"] == "job.item.started").await;
    let cancelled = rig.call("cancel_job", json!({ "jobId": "job_2", "reason": "enough" })).await;
    assert_eq!(cancelled["status"], "cancelled");
    let types = rig.types("sess_k").await;
    assert_eq!(types.iter().filter(|class| *class == "job.cancelled").count(), 1);
    assert_eq!(types.last().map(String::as_str), Some("job.cancelled"));
    rig.stop().await;
}

/// How many records are stored of the items of a job, and whether anything is of the job itself.
async fn stored(store: &Store, job: &str) -> (usize, bool) {
    let (tenant, tx) = (Caller::local().tenant, store.begin());
    let id = JobId::parse(job).unwrap();
    let mut range = KeyRange::prefix(keys::data(&tenant, &records::items(&id)).to_vec());
    let mut found = 0;
    loop {
        let page = tx.snapshot_range(&RangeRead::new(range.clone()).limit(1_000)).await.unwrap();
        found += page.pairs.len();
        match page.pairs.last() {
            Some(last) if page.more => range.begin = key_after(&last.key),
            _ => break,
        }
    }
    let address = Address::new(&tenant, kind::JOB, job).unwrap();
    (found, tx.snapshot_get(&keys::state(&address)).await.unwrap().is_some())
}

fn job(id: &str, more: Value) -> Value {
    let mut args = json!({ "jobId": id, "instruction": "run", "items": items(&[json!([])]) });
    args.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    args
}

#[tokio::test]
async fn p9_a_job_that_cannot_be_is_refused_with_its_field_and_leaves_nothing_behind() {
    let rig = Rig::start().await;
    rig.call("create_session", json!({ "sessionId": "sess_other" })).await;
    rig.call("create_task", json!({ "taskId": "task_there", "objective": "x", "autoStart": false })).await;
    let sessions = rig.call("list_sessions", json!({})).await["sessions"].as_array().unwrap().len();
    let many: Vec<Value> = vec![json!({ "input": [{ "type": "text", "text": "[]" }] }); 100_001];
    let twice = json!([
        { "itemId": "a", "input": [{ "type": "text", "text": "[]" }] },
        { "itemId": "a", "input": [{ "type": "text", "text": "[]" }] },
    ]);
    let weekday = |zone: &str| json!({ "schedule": { "cron": "0 9 * * MON-FRI", "timeZone": zone } });
    for (more, code, field) in [
        (json!({ "items": [] }), "invalid_argument", "items"),
        (json!({ "items": many }), "invalid_argument", "items"),
        (json!({ "items": twice }), "invalid_argument", "items[1].itemId"),
        (json!({ "items": [{ "input": [] }] }), "invalid_argument", "items[0].input"),
        (json!({ "concurrency": 0 }), "invalid_argument", "concurrency"),
        (json!({ "concurrency": 1_001 }), "invalid_argument", "concurrency"),
        (json!({ "maxRuntimeMs": 0 }), "invalid_argument", "maxRuntimeMs"),
        (
            json!({ "retryPolicy": { "maxAttempts": 0, "backoffMs": 1, "maxBackoffMs": 1 } }),
            "invalid_argument",
            "retryPolicy.maxAttempts",
        ),
        (json!({ "agent": "nobody" }), "not_found", "agent"),
        (json!({ "schedule": { "cron": "never" } }), "invalid_argument", "schedule.cron"),
        (json!({ "schedule": { "cron": "0 0 30 2 *" } }), "invalid_argument", "schedule.cron"),
        (json!({ "schedule": { "intervalMs": 10 } }), "invalid_argument", "schedule.intervalMs"),
        (json!({ "schedule": {} }), "invalid_argument", "schedule.cron"),
        (weekday("Europe/Atlantis"), "invalid_argument", "schedule.timeZone"),
        (json!({ "taskId": "task_none" }), "not_found", "taskId"),
        (json!({ "taskId": "task_there", "sessionId": "sess_other" }), "invalid_argument", "taskId"),
    ] {
        let refused = rig.refused("create_job", job("job_not", more)).await;
        assert_eq!(
            (&refused["code"], &refused["details"]["field"]),
            (&json!(code), &json!(field)),
            "{refused}"
        );
        assert_eq!(stored(&rig.store(), "job_not").await, (0, false), "{field}");
    }
    let refused = rig.refused("create_job", json!({ "items": items(&[json!([])]) })).await;
    assert_eq!(refused["details"]["field"], "instruction");
    rig.call("archive_session", json!({ "sessionId": "sess_other" })).await;
    let refused = rig.refused("create_job", job("job_not", json!({ "sessionId": "sess_other" }))).await;
    assert_eq!((&refused["code"], &refused["details"]["status"]), (&json!("conflict"), &json!("archived")));
    assert_eq!(
        rig.refused("create_job", job("job_not", json!({ "sessionId": "sess_no" }))).await["code"],
        "not_found"
    );
    assert_eq!(stored(&rig.store(), "job_not").await, (0, false));
    let now = rig.call("list_sessions", json!({})).await["sessions"].as_array().unwrap().len();
    assert_eq!(now, sessions, "nor a session of its own");
    let created = rig.call("create_job", job("job_zone", weekday("Europe/Berlin"))).await;
    assert_eq!(created["status"], "scheduled");
    assert!(created["nextRunAt"].as_str().unwrap().ends_with(":00:00.000Z"), "{created}");
    rig.call("cancel_job", json!({ "jobId": "job_zone" })).await;
    rig.stop().await;
}

#[tokio::test]
async fn every_wrong_state_of_a_job_is_a_conflict_that_names_it() {
    let rig = Rig::start().await;
    for (name, args) in [
        ("get_job", json!({ "jobId": "job_none" })),
        ("cancel_job", json!({ "jobId": "job_none" })),
        ("retry_job_item", json!({ "jobId": "job_none", "itemId": "item-0" })),
        ("list_jobs", json!({ "taskId": "task_none" })),
    ] {
        assert_eq!(rig.refused(name, args).await["code"], "not_found", "{name}");
    }
    let sleeps = json!({ "items": items(&[json!([{ "sleep": 600_000 }]), json!([])]), "concurrency": 1 });
    let session = rig.call("create_job", job("job_w", sleeps)).await["sessionId"].clone();
    rig.until(session.as_str().unwrap(), |event| event["type"] == "job.item.started").await;
    let other = job("job_w", json!({ "sessionId": session, "concurrency": 3 }));
    let refused = rig.refused("create_job", other).await;
    assert_eq!((&refused["code"], &refused["details"]["status"]), (&json!("conflict"), &json!("running")));
    for (item, status) in [("item-0", "running"), ("item-1", "pending")] {
        let refused = rig.refused("retry_job_item", json!({ "jobId": "job_w", "itemId": item })).await;
        assert_eq!((&refused["code"], &refused["details"]["status"]), (&json!("conflict"), &json!(status)));
    }
    let refused = rig.refused("retry_job_item", json!({ "jobId": "job_w", "itemId": "item-9" })).await;
    assert_eq!(refused["code"], "not_found");
    let refused = rig.refused("get_job", json!({ "jobId": "job_w", "itemsAfter": "x" })).await;
    assert_eq!(
        (&refused["code"], &refused["details"]["field"]),
        (&json!("invalid_argument"), &json!("itemsAfter"))
    );
    assert_eq!(rig.call("cancel_job", json!({ "jobId": "job_w" })).await["status"], "cancelled");
    assert_eq!(rig.call("cancel_job", json!({ "jobId": "job_w" })).await["status"], "cancelled", "it sticks");
    let events = rig.checked(session.as_str().unwrap()).await;
    assert_eq!(count(&events, "job.cancelled"), 1);
    rig.stop().await;
}

#[tokio::test]
async fn an_item_of_any_size_runs_with_the_instruction_of_its_job() {
    let rig = Rig::start().await;
    rig.call("create_session", json!({ "sessionId": "sess_big" })).await;
    // No text of its own: the first text that the agent finds, and takes for its script, is the instruction.
    let only_refs = |parts: usize| -> Value {
        let part =
            |n: usize| json!({ "type": "blob", "ref": format!("blob_{n:0>100}"), "mediaType": "text/plain" });
        (0..parts).map(part).collect()
    };
    let all = [1, 10, 200, 1_000].map(|parts| json!({ "input": only_refs(parts) }));
    let args = json!({
        "jobId": "job_big",
        "sessionId": "sess_big",
        "instruction": json!([{ "say": "as I was told" }]).to_string(),
        // Within a message, in what is sent to an entity, and beyond both.
        "items": all,
    });
    rig.call("create_job", args).await;
    let over = |event: &Value| event["type"] == "job.completed" || event["type"] == "job.failed";
    assert_eq!(rig.until("sess_big", over).await["type"], "job.completed");
    let events = rig.checked("sess_big").await;
    let said = events.iter().filter(|event| event["payload"]["text"] == "as I was told").count();
    assert_eq!(said, 4, "each of them");
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn p2_a_crash_in_the_middle_of_a_create_is_gone_on_with_by_its_retry() {
    let mut rig = Rig::start().await;
    let all: Vec<Value> = (0..100_000)
        .map(|n| json!({ "itemId": format!("i{n}"), "input": [{ "type": "text", "text": "[]" }] }))
        .collect();
    let start = "2100-01-01T00:00:00Z";
    let args = json!({
        "jobId": "job_huge",
        "instruction": "run",
        "items": all,
        "schedule": { "intervalMs": 60_000, "startAt": start },
    });
    let store = rig.store();
    let create = rig.keyed("key-of-the-job", "create_job", args.clone());
    let some = rig.eventually("some items are written", async || {
        (stored(&store, "job_huge").await.0 >= 5_000).then_some(())
    });
    tokio::select! {
        answer = create => panic!("it was done before anything could go wrong: {answer:?}"),
        () = some => {}
    }
    drop(store);
    rig = rig.crash().await;
    let (found, is_known) = stored(&rig.store(), "job_huge").await;
    assert!(is_known && (5_000..100_000).contains(&found), "in the middle of it: {found}");
    assert_eq!(
        rig.refused("get_job", json!({ "jobId": "job_huge" })).await["code"],
        "not_found",
        "no half job"
    );
    let created = rig.keyed("key-of-the-job", "create_job", args.clone()).await.unwrap();
    assert_eq!((&created.result["total"], &created.result["status"]), (&json!(100_000), &json!("scheduled")));
    assert_eq!(stored(&rig.store(), "job_huge").await, (100_000, true));
    let read = rig.call("get_job", json!({ "jobId": "job_huge", "itemsAfter": "99997" })).await;
    assert_eq!((&read["items"][1]["itemId"], &read["hasMore"]), (&json!("i99999"), &json!(false)), "{read}");
    let again = rig.keyed("key-of-the-job", "create_job", args).await.unwrap();
    assert_eq!(again, created, "P3: the same answer");
    let session = created.result["sessionId"].as_str().unwrap();
    assert_eq!(count(&rig.checked(session).await, "job.created"), 1);
    rig.stop().await;
}

#[tokio::test]
async fn p11_a_job_of_a_task_is_closed_when_the_cancel_of_the_task_is_answered() {
    let rig = Rig::start().await;
    let task = json!({ "taskId": "task_t", "objective": "x", "autoStart": false });
    let session = rig.call("create_task", task).await["sessionId"].as_str().unwrap().to_owned();
    let sleepers = json!({
        "taskId": "task_t",
        "items": items(&vec![json!([{ "spawn": { "count": 2, "script": [{ "sleep": 600_000 }], "join": "all" } }]); 20]),
        "concurrency": 5,
    });
    let created = rig.call("create_job", job("job_t", sleepers.clone())).await;
    assert_eq!((&created["sessionId"], &created["status"]), (&json!(session), &json!("running")));
    assert_eq!(rig.call("create_job", job("job_t", sleepers)).await, created, "the same again");
    let listed = rig.call("list_jobs", json!({ "taskId": "task_t" })).await;
    assert_eq!(listed["jobs"].as_array().unwrap().len(), 1);
    assert_eq!(
        (&listed["jobs"][0]["jobId"], &listed["jobs"][0]["taskId"]),
        (&json!("job_t"), &json!("task_t"))
    );
    let other =
        rig.call("create_task", json!({ "taskId": "task_u", "objective": "x", "autoStart": false })).await;
    let empty = rig.call("list_jobs", json!({ "taskId": "task_u" })).await;
    assert_eq!(empty["jobs"], json!([]), "not those of others");
    let args = json!({ "taskId": "task_t", "sessionId": other["sessionId"] });
    assert_eq!(rig.refused("list_jobs", args).await["details"]["field"], "taskId");
    rig.until(&session, |event| event["type"] == "subagent.spawned").await;
    let cancelled = rig.call("cancel_task", json!({ "taskId": "task_t", "reason": "enough" })).await;
    assert_eq!(cancelled["status"], "cancelled");
    assert_eq!(rig.call("get_job", json!({ "jobId": "job_t" })).await["job"]["status"], "cancelled");
    let events = rig.checked(&session).await;
    let last = events.last().unwrap();
    assert_eq!(last["type"], "task.cancelled", "after everything below");
    assert_eq!(count(&events, "subagent.spawned"), count(&events, "subagent.closed"));
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(rig.events(&session).await.len(), events.len(), "nothing follows");
    let refused = rig.refused("create_job", job("job_late", json!({ "taskId": "task_t" }))).await;
    assert_eq!((&refused["code"], &refused["details"]["status"]), (&json!("conflict"), &json!("cancelled")));
    assert_eq!(stored(&rig.store(), "job_late").await, (0, false));
    rig.stop().await;
}

#[tokio::test]
async fn a_task_is_not_completed_while_its_job_goes_on() {
    let rig = Rig::start().await;
    let task = json!({ "taskId": "task_o", "objective": "x", "autoStart": false });
    let session = rig.call("create_task", task).await["sessionId"].as_str().unwrap().to_owned();
    rig.call("start_task", json!({ "taskId": "task_o" })).await;
    let asks = json!([{ "approve": { "prompt": "go on?", "decisions": ["allow", "deny"] } }]);
    rig.call("create_job", job("job_o", json!({ "taskId": "task_o", "items": items(&[asks]) }))).await;
    let asked = rig.until(&session, |event| event["type"] == "action.required").await;
    let status = rig.call("complete_task", json!({ "taskId": "task_o", "summary": "mine is done" })).await;
    assert_eq!(status["status"], "waiting_resource", "{status}");
    assert_eq!(count(&rig.checked(&session).await, "task.completed"), 0);
    rig.call("respond_action", json!({ "actionId": asked["actionId"], "decision": "allow" })).await;
    rig.task_is("task_o", "completed").await;
    let types = rig.types(&session).await;
    let at = |class: &str| types.iter().position(|is| is == class).unwrap();
    assert!(at("job.completed") < at("task.completed"));
    rig.stop().await;
}

#[tokio::test]
async fn p11_an_item_that_is_retried_is_reached_by_the_cancel_of_the_task_that_is_over() {
    let rig = Rig::start().await;
    let task = json!({ "taskId": "task_r", "objective": "x", "autoStart": false });
    let session = rig.call("create_task", task).await["sessionId"].as_str().unwrap().to_owned();
    let flaky =
        json!([{ "fail": { "message": "no", "retryable": false, "times": 1 } }, { "sleep": 600_000 }]);
    rig.call("create_job", job("job_r", json!({ "taskId": "task_r", "items": items(&[flaky]) }))).await;
    rig.until(&session, |event| event["type"] == "job.failed").await;
    rig.call("cancel_task", json!({ "taskId": "task_r" })).await;
    rig.call("retry_job_item", json!({ "jobId": "job_r", "itemId": "item-0" })).await;
    rig.call("cancel_task", json!({ "taskId": "task_r" })).await;
    assert_eq!(rig.call("get_job", json!({ "jobId": "job_r" })).await["job"]["status"], "cancelled");
    rig.stop().await;
}

/// The system's clock, put forward.
#[derive(Default)]
struct Shifted(AtomicU64);

impl Clock for Shifted {
    fn now(&self) -> Timestamp {
        Timestamp(SystemClock.now().0 + self.0.load(Ordering::SeqCst))
    }
}

#[tokio::test]
async fn p9_items_of_a_job_that_is_over_for_a_month_have_expired_and_so_it_says() {
    let folder = tempfile::tempdir().unwrap();
    let embedded = Embedded::open(EmbeddedConfig::new(folder.path())).unwrap();
    let host = HostConfig { takeover: Takeover::AtOnce, shards: 4, ..HostConfig::new("test", "one") };
    let settings = Settings {
        host,
        publisher: Publisher::new("cadre_test"),
        deadline: PATIENCE,
        retention: Default::default(),
    };
    let clock = Arc::new(Shifted::default());
    let (bus, store) = (Arc::new(LocalBus::new()), embedded.store());
    let runtime = Runtime::start(settings, store.clone(), bus, clock.clone(), 4711).await.unwrap();
    let call =
        async |name: &str, args: Value| runtime.call(&Caller::local(), name, args, None, PATIENCE).await;
    let large = json!([{ "say": "x".repeat(40_000) }]);
    let args =
        json!({ "items": [{ "itemId": "large", "input": input(&large) }, { "input": input(&json!([])) }] });
    call("create_job", job("job_old", args)).await.unwrap();
    let read = async || call("get_job", json!({ "jobId": "job_old" })).await.unwrap().result;
    let until = async |what: &str, holds: &dyn Fn(&Value) -> bool| {
        for _ in 0..3_000 {
            let found = read().await;
            if holds(&found) {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("does not come about: {what}: {}", read().await);
    };
    let done = until("it completes", &|read| read["job"]["status"] == "completed").await;
    assert_eq!((&done["itemsStatus"], done["items"].as_array().unwrap().len()), (&json!("available"), 2));
    let tenant = Caller::local().tenant;
    let blobs = async || {
        let range = KeyRange::prefix(keys::data(&tenant, &[]).to_vec());
        let page = store.begin().snapshot_range(&RangeRead::new(range).limit(10_000)).await.unwrap();
        page.pairs.iter().filter(|pair| pair.value.len() > 30_000).count()
    };
    assert_eq!(blobs().await, 1, "the large input is kept apart");
    clock.0.fetch_add(31 * 24 * 3_600_000, Ordering::SeqCst);
    let expired = until("the items expire", &|read| read["itemsStatus"] == "expired").await;
    assert_eq!((&expired["items"], &expired["hasMore"]), (&json!([]), &json!(false)));
    assert_eq!(expired["job"], done["job"], "the job is as it was");
    for _ in 0..1_000 {
        if stored(&store, "job_old").await.0 == 0 && blobs().await == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!((stored(&store, "job_old").await.0, blobs().await), (0, 0), "neither records nor inputs");
    let refused = call("retry_job_item", json!({ "jobId": "job_old", "itemId": "large" })).await.unwrap_err();
    assert_eq!(refused.to_json()["error"]["details"]["status"], "expired");
    runtime.stop().await;
    drop((runtime, store));
    embedded.close().await;
}

#[tokio::test]
async fn p3_an_item_is_tried_again_once_for_each_key() {
    let rig = Rig::start().await;
    rig.call("create_session", json!({ "sessionId": "sess_r" })).await;
    let once = json!([{ "fail": { "message": "no", "retryable": false, "times": 1 } }, { "sleep": 50 }]);
    let job = json!({ "jobId": "job_r", "sessionId": "sess_r", "instruction": "run", "agent": "scripted",
        "items": items(&[once]) });
    rig.call("create_job", job).await;
    rig.until("sess_r", |event| event["type"] == "job.failed").await;
    let retry = async || {
        let item = json!({ "jobId": "job_r", "itemId": "item-0" });
        let answer = rig.keyed("key-of-this-retry", "retry_job_item", item).await.unwrap();
        (answer.result, answer.cursor)
    };
    let first = retry().await;
    assert_eq!((&first.0["attempt"], first.1.is_some()), (&json!(2), true));
    // While it waits, or runs, and when it is over: what is seen of it differs, what is answered does not.
    assert_eq!(retry().await, first);
    rig.until("sess_r", |event| event["type"] == "job.completed").await;
    assert_eq!(retry().await, first);
    let read = rig.call("get_job", json!({ "jobId": "job_r" })).await;
    assert_eq!((&read["job"]["status"], &read["items"][0]["attempt"]), (&json!("completed"), &json!(2)));
    rig.stop().await;
}
