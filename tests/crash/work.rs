//! Everything that goes on in a session while its server is killed: one thread of this process for each kind of work.

use std::{
    thread::{self, JoinHandle},
    time::Duration,
};

use rand::{Rng, SeedableRng, rngs::StdRng};
use serde_json::{Value, json};

use super::client::Client;

pub const SESSION: &str = "sess_crash";
/// In the tree of the one turn, children and grandchildren: `WAVES` waves of `PARENTS` with `CHILDREN` each.
pub const WIDE: usize = WAVES * PARENTS * (1 + CHILDREN);
const WAVES: usize = 20;
const PARENTS: usize = 5;
const CHILDREN: usize = 9;
/// Started by a task.
pub const OF_TASK: usize = 5;
/// Spawned by command, and left alone.
pub const BY_COMMAND: usize = 5;
pub const QUEUED: usize = 10;
pub const ASKING: usize = 5;
/// Of the asking turns, the one that is told no.
pub const DENIED: usize = 3;
pub const INTERRUPTED: usize = 6;
pub const ITEMS: usize = 30;
/// Longer than any test.
const FOREVER: u64 = 600_000;

/// One kind of work, done by a client of its own.
type Work = fn(&Client, StdRng);

/// Begins all of it. A thread ends when what it began has ended.
pub fn start(client: &Client, seed: u64) -> Vec<JoinHandle<()>> {
    let all: [(&str, Work); 8] = [
        ("wide", wide),
        ("queue", queue),
        ("approvals", approvals),
        ("tasks", tasks),
        ("outside", outside),
        ("job", job),
        ("interrupts", interrupts),
        ("subagents", subagents),
    ];
    let begin = |(place, (name, work)): (usize, (&str, Work))| {
        let (client, random) = (client.clone(), StdRng::seed_from_u64(seed ^ place as u64));
        thread::Builder::new().name(name.into()).spawn(move || work(&client, random)).unwrap()
    };
    all.into_iter().enumerate().map(begin).collect()
}

pub fn script(steps: &Value) -> Value {
    json!([{ "type": "text", "text": steps.to_string() }])
}

fn submit(client: &Client, thread: &str, turn: &str, steps: &Value, options: Value) -> Value {
    let args = json!({ "sessionId": SESSION, "threadId": thread, "turnId": turn, "agent": "scripted",
        "input": script(steps), "options": options });
    twice(client, &format!("crash-{turn}"), "submit_turn", args)
}

/// Two callers send the same at once, as a caller does that gives up too early: both get the same answer (P3).
fn twice(client: &Client, key: &str, name: &str, args: Value) -> Value {
    thread::scope(|scope| {
        let (other, same) = (client.clone(), args.clone());
        let other = scope.spawn(move || other.call(key, name, same));
        let one = client.call(key, name, args);
        assert_eq!(other.join().unwrap(), one, "P3: {name} under {key}");
        one
    })
}

fn turn_over(client: &Client, turn: &str) -> Value {
    client.until(SESSION, &format!("&turnId={turn}&types=turn.completed,turn.failed"), |event| {
        event["turnId"] == turn
    })
}

fn wide(client: &Client, _: StdRng) {
    let leaf = json!([{ "say": "a leaf" }]);
    let parent = json!([{ "sleep": 20 }, { "spawn": { "count": CHILDREN, "script": leaf, "join": "all" } }]);
    let wave = json!([{ "spawn": { "count": PARENTS, "script": parent, "join": "all" } }, { "sleep": 250 }]);
    submit(client, "thrd_wide", "turn_wide", &json!([{ "repeat": WAVES, "steps": wave }]), json!({}));
    turn_over(client, "turn_wide");
}

fn queue(client: &Client, mut random: StdRng) {
    let steps = json!([
        { "say": "many words from {{turn}}", "chunks": 5, "delayMs": 20 },
        { "tool": "echo", "args": { "a": 1 } },
        { "tools": [{ "tool": "sleep", "args": { "ms": 150 } }, { "tool": "fail" }, { "tool": "echo" }] },
        { "sleep": 100 },
        // It may be lost, but never done twice.
        { "tool": "sleep", "args": { "ms": 40, "once": true } },
        { "tool": "big", "args": { "bytes": 60_000 } },
        { "fail": { "message": "not yet", "retryable": true, "times": 1 } },
    ]);
    for number in 0..QUEUED {
        submit(client, "thrd_queue", &format!("turn_queue_{number}"), &steps, json!({}));
        thread::sleep(Duration::from_millis(random.random_range(0..80)));
    }
    let of = |number: usize| json!({ "sessionId": SESSION, "threadId": "thrd_queue", "turnId": format!("turn_queue_{number}") });
    // They may run already: then the answer is no, for good.
    let _ = client.ask("crash-promote", "promote_queued_turn", of(QUEUED - 1));
    let _ = client.ask("crash-remove", "remove_queued_turn", of(QUEUED - 2));
    for number in 0..QUEUED {
        turn_over(client, &format!("turn_queue_{number}"));
    }
}

fn approvals(client: &Client, mut random: StdRng) {
    let ask = |prompt: &str| json!({ "approve": { "prompt": prompt, "decisions": ["allow", "deny"] } });
    let steps =
        json!([ask("First?"), { "tool": "sleep", "args": { "ms": 50 } }, ask("Second?"), { "say": "yes" }]);
    for number in 0..ASKING {
        submit(client, "thrd_ask", &format!("turn_ask_{number}"), &steps, json!({}));
    }
    for number in 0..ASKING {
        let turn = format!("turn_ask_{number}");
        for prompt in ["First?", "Second?"] {
            let filter = format!("&turnId={turn}&types=action.*");
            let asked = client.until(SESSION, &filter, |event| event["payload"]["prompt"] == prompt);
            thread::sleep(Duration::from_millis(random.random_range(0..600)));
            let action = asked["actionId"].as_str().unwrap();
            let decision = if number == DENIED { "deny" } else { "allow" };
            let args = json!({ "actionId": action, "decision": decision, "reason": "because" });
            twice(client, &format!("crash-{action}"), "respond_action", args);
            if number == DENIED {
                break;
            }
        }
        turn_over(client, &turn);
    }
}

fn tasks(client: &Client, mut random: StdRng) {
    let retry = json!({ "maxAttempts": 4, "backoffMs": 50, "maxBackoffMs": 200 });
    let create = |task: &str, steps: Value, more: Value| {
        let mut args = json!({ "sessionId": SESSION, "taskId": task, "objective": task, "agent": "scripted",
            "input": script(&steps), "retryPolicy": retry });
        args.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        twice(client, &format!("crash-{task}"), "create_task", args);
    };
    let again = json!({ "fail": { "message": "not yet", "retryable": true, "times": 2 } });
    create("task_a", json!([{ "sleep": 400 }, again, { "say": "a" }]), json!({}));
    create("task_b", json!([{ "tool": "sleep", "args": { "ms": 500 } }]), json!({ "dependsOn": ["task_a"] }));
    create("task_c", json!([{ "say": "c", "chunks": 9, "delayMs": 80 }]), json!({ "dependsOn": ["task_a"] }));
    let spawn = json!({ "spawn": { "count": OF_TASK, "script": [{ "sleep": 500 }], "join": "all" } });
    create("task_d", json!([spawn]), json!({ "dependsOn": ["task_b", "task_c"] }));
    // The parent is worked on from outside, and is over when its part is.
    let parent = json!({ "sessionId": SESSION, "taskId": "task_parent", "objective": "a whole" });
    client.call("crash-task_parent", "create_task", parent);
    create("task_part", json!([{ "sleep": 1_500 }]), json!({ "parentTaskId": "task_parent" }));
    client.call("crash-parent-done", "complete_task", json!({ "taskId": "task_parent" }));
    create("task_long", json!([{ "sleep": FOREVER }]), json!({}));
    let inner = |objective: &str, join: bool| {
        json!({ "task": { "objective": objective, "retryPolicy": retry, "join": join,
        "script": [{ "fail": { "message": "not yet", "retryable": true, "times": 1 } }, { "sleep": 100 }] } })
    };
    let steps = json!([inner("waited for", true), inner("not waited for", false), { "say": "done" }]);
    submit(client, "thrd_tasks", "turn_tasks", &steps, json!({}));
    thread::sleep(Duration::from_millis(random.random_range(0..1_500)));
    let cancel = json!({ "taskId": "task_long", "reason": "enough" });
    assert_eq!(twice(client, "crash-cancel", "cancel_task", cancel)["status"], "cancelled");
    turn_over(client, "turn_tasks");
    for task in ["task_a", "task_b", "task_c", "task_d", "task_part", "task_parent"] {
        let filter = format!("&taskId={task}&types=task.completed");
        client.until(SESSION, &filter, |event| event["taskId"] == task);
    }
}

/// A task that this process works on.
fn outside(client: &Client, mut random: StdRng) {
    let args = json!({ "sessionId": SESSION, "taskId": "task_out", "objective": "outside" });
    client.call("crash-task_out", "create_task", args);
    for percent in [10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0] {
        let progress = json!({ "taskId": "task_out", "percent": percent, "phase": "working" });
        twice(client, &format!("crash-progress-{percent}"), "append_task_progress", progress);
        thread::sleep(Duration::from_millis(random.random_range(0..1_000)));
    }
    let done = json!({ "taskId": "task_out", "summary": "done" });
    assert_eq!(client.call("crash-out-done", "complete_task", done)["status"], "completed");
    // What was taken out in the middle of it all must be right, too.
    client.call("crash-export-then", "export_replay", json!({ "sessionId": SESSION }));
}

fn job(client: &Client, _: StdRng) {
    let fails = |retryable: bool, times: u32| json!({ "fail": { "message": "no", "retryable": retryable, "times": times } });
    let item = |number: usize| {
        let steps = match number {
            7 => json!([fails(false, 1), { "say": "by hand" }]),
            9 => json!([fails(true, 2), { "say": "by itself" }]),
            _ => json!([{ "sleep": 250 }, { "tool": "echo", "args": { "item": number } }]),
        };
        json!({ "itemId": format!("item-{number}"), "input": script(&steps) })
    };
    let args = json!({ "sessionId": SESSION, "jobId": "job_crash", "agent": "scripted", "instruction": "run",
        "items": (0..ITEMS).map(item).collect::<Vec<_>>(), "concurrency": 3,
        "retryPolicy": { "maxAttempts": 3, "backoffMs": 30, "maxBackoffMs": 100 } });
    twice(client, "crash-job", "create_job", args);
    client.until(SESSION, "&types=job.failed", |_| true);
    let retry = json!({ "jobId": "job_crash", "itemId": "item-7" });
    twice(client, "crash-job-retry", "retry_job_item", retry);
    client.until(SESSION, "&types=job.completed", |_| true);
}

fn interrupts(client: &Client, mut random: StdRng) {
    let tree = json!([{ "spawn": { "count": 5, "script": [{ "spawn": { "count": 2, "script": [{ "sleep": FOREVER }] } }] } }]);
    for number in 0..INTERRUPTED {
        let turn = format!("turn_int_{number}");
        submit(client, "thrd_int", &turn, &tree, json!({}));
        thread::sleep(Duration::from_millis(random.random_range(0..1_200)));
        let args = json!({ "sessionId": SESSION, "turnId": turn, "reason": "enough" });
        let told = client.call(&format!("crash-interrupt-{number}"), "interrupt_turn", args);
        assert_eq!((&told["status"], &told["turnId"]), (&json!("cancelled"), &json!(turn)), "P11");
    }
    submit(client, "thrd_int", "turn_int_long", &json!([{ "sleep": FOREVER }]), json!({}));
    submit(
        client,
        "thrd_int",
        "turn_int_now",
        &json!([{ "say": "now" }]),
        json!({ "whenBusy": "interrupt" }),
    );
    turn_over(client, "turn_int_long");
    turn_over(client, "turn_int_now");
}

fn subagents(client: &Client, mut random: StdRng) {
    let spawn = |name: &str, steps: Value| {
        let args =
            json!({ "sessionId": SESSION, "subagentId": name, "agent": "scripted", "input": script(&steps) });
        twice(client, &format!("crash-{name}"), "spawn_subagent", args);
    };
    let names: Vec<String> = (0..BY_COMMAND).map(|number| format!("sub_hand_{number}")).collect();
    for name in &names {
        spawn(name, json!([{ "sleep": 200 }, { "tool": "echo" }, { "say": "done" }]));
        thread::sleep(Duration::from_millis(random.random_range(0..400)));
    }
    spawn("sub_hand_long", json!([{ "sleep": FOREVER }]));
    let closed = twice(client, "crash-close", "close_subagent", json!({ "subagentId": "sub_hand_long" }));
    assert_eq!(closed["status"], "cancelled", "{closed}");
    let waited = json!({ "subagentIds": names, "mode": "all", "timeoutMs": 30_000 });
    let waited = client.read("wait_subagents", waited);
    assert_eq!(waited["timedOut"], false, "{waited}");
}
