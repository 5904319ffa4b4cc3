//! What the binary says to people and programs who follow, replay and look.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "common/process.rs"]
mod process;

use std::{
    path::Path,
    process::{Output, Stdio},
};

use process::{Dev as Process, cadre};
use serde_json::{Value, json};

struct Dev {
    process: Process,
    url: String,
}

impl Dev {
    fn start(data: &Path) -> Self {
        let process = Process::spawn(data, "127.0.0.1:0", Stdio::null());
        let url = process.ready();
        Self { process, url }
    }

    fn run(&self, args: &[&str]) -> Output {
        cadre(&self.url).args(args).output().unwrap()
    }

    /// Sends a command, and is answered.
    fn call(&self, name: &str, args: &Value) -> Value {
        let output = self.run(&["--json", "call", name, &args.to_string()]);
        assert!(output.status.success(), "{name} {args}: {}", err(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn stop(self) {
        self.process.signal("TERM");
        assert_eq!(self.process.ended().code(), Some(0));
    }
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn lines(output: &Output) -> Vec<Value> {
    String::from_utf8_lossy(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn cli_a_tail_of_some_classes_until_idle_ends_when_everything_has() {
    let folder = tempfile::tempdir().unwrap();
    let dev = Dev::start(folder.path());
    assert!(dev.run(&["submit", "--wait", "--session", "s", r#"[{"say": "x"}]"#]).status.success());
    let followed = dev.run(&["--json", "tail", "s", "--types", "turn.submitted", "--until-idle"]);
    let classes: Vec<_> = lines(&followed).iter().map(|event| event["type"].clone()).collect();
    assert_eq!(classes, ["turn.submitted"]);
    dev.stop();
}

#[test]
fn cli_what_is_said_to_programs_is_one_value_per_line_and_a_mistake_is_named_as_it_was_made() {
    let folder = tempfile::tempdir().unwrap();
    let dev = Dev::start(folder.path());
    assert!(dev.run(&["submit", "--wait", "--session", "s", r#"[{"say": "x"}]"#]).status.success());
    let none = dev.run(&["tail", "s", "--limit", "0"]);
    assert_eq!((none.status.code(), err(&none).contains("at least 1")), (Some(2), true), "{}", err(&none));
    let junk = dev.run(&["tail", "s", "--after", "junk"]);
    assert_eq!(junk.status.code(), Some(2));
    assert!(err(&junk).contains("--after") && !err(&junk).contains("Last-Event-ID"), "{}", err(&junk));
    let file = folder.path().join("case.json");
    let file = file.to_str().unwrap();
    assert!(dev.run(&["export", "replay", "s", "-o", file]).status.success());
    let replayed = dev.run(&["--json", "replay", file]);
    assert_eq!((replayed.status.code(), lines(&replayed).len()), (Some(0), 1), "{}", err(&replayed));
    dev.stop();
}

#[test]
fn cli_a_tree_has_jobs_below_their_tasks_and_says_why_a_task_is_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let dev = Dev::start(folder.path());
    let task = |id: &str, session: &str| json!({ "taskId": id, "sessionId": session, "objective": "x" });
    for session in ["s", "other"] {
        dev.call("create_session", &json!({ "sessionId": session }));
    }
    dev.call("create_task", &task("task_s", "s"));
    dev.call("create_task", &task("task_other", "other"));
    let job = json!({ "jobId": "job_s", "taskId": "task_s", "instruction": "x", "agent": "scripted",
        "items": [{ "input": [{ "type": "text", "text": "[{\"say\": \"x\"}]" }] }] });
    dev.call("create_job", &job);
    let script = r#"[{"task": {"taskId": "task_other", "objective": "mine", "script": [{"say": "x"}]}}]"#;
    assert!(dev.run(&["submit", "--wait", "--session", "s", script]).status.success());
    let tree = &lines(&dev.run(&["--json", "tree", "s"]))[0];
    let roots = tree["nodes"].as_array().unwrap();
    let root =
        |kind: &str| roots.iter().find(|node| node["kind"] == kind).unwrap_or_else(|| panic!("{tree:#}"));
    assert_eq!(root("task")["children"][0]["id"], "job_s", "{tree:#}");
    assert!(roots.iter().all(|node| node["kind"] != "job"), "{tree:#}");
    let refused = &root("turn")["children"][0];
    assert_eq!((&refused["id"], &refused["status"]), (&json!("task_other"), &json!("conflict")), "{tree:#}");
    dev.stop();
}
