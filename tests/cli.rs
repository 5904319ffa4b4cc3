//! The binary: a server process, and the commands that talk to it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Output, Stdio},
};

use serde_json::{Value, json};

fn cadre(url: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cadre"));
    for name in ["CADRE_TOKEN", "CADRE_DATA", "CADRE_LISTEN", "RUST_LOG"] {
        command.env_remove(name);
    }
    command.env("CADRE_URL", url).stdin(Stdio::null());
    command
}

struct Dev {
    process: Child,
    url: String,
    /// Whatever standard output says after the ready line.
    rest: BufReader<std::process::ChildStdout>,
}

impl Dev {
    fn start(data: &Path, listen: &str) -> Self {
        let mut command = cadre("");
        command.args(["dev", "--listen", listen, "--data"]).arg(data);
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut rest = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        rest.read_line(&mut line).unwrap();
        let url = line.strip_prefix("ready ").unwrap_or_else(|| panic!("{line:?}")).trim_end().to_owned();
        Self { process, url, rest }
    }

    fn run(&self, args: &[&str]) -> Output {
        cadre(&self.url).args(args).output().unwrap()
    }

    /// Asks it to end. It must do so by itself, and have said nothing more.
    fn stop(mut self) {
        let asked = Command::new("kill").args(["-TERM", &self.process.id().to_string()]).status().unwrap();
        assert!(asked.success());
        let mut rest = String::new();
        self.rest.read_line(&mut rest).unwrap();
        assert_eq!(rest, "", "one line on standard output, no more");
        assert_eq!(self.process.wait().unwrap().code(), Some(0));
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        // After `stop` there is nothing left to kill.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn lines(output: &Output) -> Vec<Value> {
    out(output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn dev_says_where_it_serves_and_keeps_its_data() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let dev = Dev::start(&data, "127.0.0.1:0");
    assert!(dev.url.starts_with("http://127.0.0.1:") && !dev.url.ends_with(":0"), "{}", dev.url);
    let submitted = dev.run(&["submit", "--session", "kept", "--wait", r#"[{"say": "hello", "chunks": 3}]"#]);
    assert_eq!(submitted.status.code(), Some(0), "{}", err(&submitted));
    let text = out(&submitted);
    let (ids, said) = text.split_once('\n').unwrap();
    assert!(ids.starts_with("session kept turn turn_"), "{ids}");
    assert_eq!(said, "hello\n");
    dev.stop();
    let dev = Dev::start(&data, "127.0.0.1:0");
    let sessions = dev.run(&["sessions", "--json"]);
    assert_eq!(lines(&sessions)[0]["sessionId"], "kept");
    dev.stop();
}

#[test]
fn dev_refuses_what_it_cannot_do() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |args: &[&str]| {
        let output = cadre("").arg("dev").args(args).arg("--data").arg(folder.path()).output().unwrap();
        assert_eq!((output.status.code(), out(&output).as_str()), (Some(1), ""));
        err(&output)
    };
    assert!(refused(&["--listen", "0.0.0.0:0"]).contains("--insecure"));
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    assert!(refused(&["--listen", &taken.local_addr().unwrap().to_string()]).contains("cannot listen"));
    std::fs::write(folder.path().join("thesis.txt"), "mine").unwrap();
    assert!(refused(&["--listen", "127.0.0.1:0"]).contains("data folder"));
    let usage = cadre("").args(["dev", "--listen", "nowhere"]).output().unwrap();
    assert_eq!(usage.status.code(), Some(2));
}

#[test]
fn exit_codes_say_how_it_ended() {
    let nobody = cadre("http://127.0.0.1:1").arg("sessions").output().unwrap();
    assert_eq!(nobody.status.code(), Some(6));
    assert!(err(&nobody).contains("start one with `cadre dev`"), "{}", err(&nobody));
    assert_eq!(cadre("").output().unwrap().status.code(), Some(2));
    assert_eq!(cadre("ftp://x").arg("sessions").output().unwrap().status.code(), Some(1));

    let folder = tempfile::tempdir().unwrap();
    let dev = Dev::start(folder.path(), "127.0.0.1:0");
    let code = |args: &[&str]| {
        let output = dev.run(args);
        (output.status.code().unwrap(), err(&output))
    };
    assert_eq!(code(&["submit", "--wait", "this is no script"]).0, 3);
    assert_eq!(code(&["submit", "--wait", r#"[{"fail": {"message": "no", "times": 9}}]"#]).0, 3);
    assert_eq!(code(&["submit"]).0, 2);
    assert_eq!(code(&["submit", "--script", "/no/such/file"]).0, 1);
    let (refused, said) = code(&["call", "get_task", r#"{"taskId": "task_none"}"#]);
    assert_eq!((refused, said.contains("[not_found]")), (1, true), "{said}");
    assert_eq!(code(&["call", "no_such_command"]).0, 1);
    assert_eq!(code(&["call", "get_task", "{"]).0, 1);
    assert_eq!(code(&["call", "list_tasks", "--key", "short"]).0, 1);
    assert_eq!(code(&["tail", "nothing"]).0, 1);
    let refused = dev.run(&["--json", "call", "get_task", r#"{"taskId": "task_none"}"#]);
    let error: Value = serde_json::from_str(&err(&refused)).unwrap();
    assert_eq!(error["error"]["code"], "not_found");
    dev.stop();
}

#[test]
fn a_decision_is_listed_and_denied_and_the_waiting_submit_ends_as_cancelled() {
    let folder = tempfile::tempdir().unwrap();
    let dev = Dev::start(folder.path(), "127.0.0.1:0");
    let script = r#"[{"approve": {"prompt": "Really?", "decisions": ["allow", "deny"]}}, {"say": "done"}]"#;
    // There must be a session that can be followed before the turn is.
    assert!(dev.run(&["call", "create_session", r#"{"sessionId": "s"}"#]).status.success());
    let mut submit = cadre(&dev.url);
    submit.args(["submit", "--session", "s", "--wait", script]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut submit = submit.spawn().unwrap();
    let until = dev.run(&["--json", "tail", "s", "--types", "action.required", "--limit", "1"]);
    let required = lines(&until).remove(0);
    assert_eq!(required["payload"]["prompt"], "Really?");
    let action = required["actionId"].as_str().unwrap();
    assert!(out(&dev.run(&["approve", "--session", "s"])).contains(action));
    assert_eq!(dev.run(&["approve", action, "deny", "--reason", "no"]).status.code(), Some(0));
    assert_eq!(submit.wait().unwrap().code(), Some(4));
    assert_eq!(lines(&dev.run(&["--json", "approve", "--session", "s"])), Vec::<Value>::new());
    let again = dev.run(&["approve", action, "allow"]);
    assert_eq!(again.status.code(), Some(1), "{}", err(&again));
    dev.stop();
}

#[test]
fn the_tree_shows_what_started_what() {
    let folder = tempfile::tempdir().unwrap();
    let dev = Dev::start(folder.path(), "127.0.0.1:0");
    let script = json!([
        { "spawn": { "count": 30, "script": [{ "spawn": { "count": 2, "script": [], "join": "all" } }], "join": "all" } },
        { "task": { "objective": "Count", "script": [{ "say": "1" }], "join": true } },
    ]);
    let file = folder.path().join("script.json");
    std::fs::write(&file, script.to_string()).unwrap();
    let submitted = dev.run(&["submit", "--session", "t", "--wait", "--script", file.to_str().unwrap()]);
    assert_eq!(submitted.status.code(), Some(0), "{}", err(&submitted));
    let drawn = out(&dev.run(&["tree", "t"]));
    assert!(drawn.contains("30 subagents: 30 completed\n"), "{drawn}");
    assert!(drawn.contains("60 subagents: 60 completed\n"), "{drawn}");
    assert!(drawn.contains(" completed Count\n"), "{drawn}");
    let tree: Value = serde_json::from_str(&out(&dev.run(&["--json", "tree", "t"]))).unwrap();
    assert_eq!(tree["counts"]["subagent"]["completed"], 90);
    assert_eq!(tree["nodes"].as_array().unwrap().len(), 1, "everything is below the turn");
    let tasks = lines(&dev.run(&["--json", "tasks", "--session", "t"]));
    assert_eq!((tasks.len(), &tasks[0]["objective"]), (1, &json!("Count")));
    dev.stop();
}

#[test]
fn a_tail_goes_on_over_a_restart_without_a_hole() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let dev = Dev::start(&data, "127.0.0.1:0");
    let address = dev.url.strip_prefix("http://").unwrap().to_owned();
    let say = ["submit", "--session", "s", "--wait", r#"[{"say": "hello", "chunks": 4}]"#];
    assert_eq!(dev.run(&say).status.code(), Some(0));
    let events = lines(&dev.run(&["--json", "tail", "s", "--until-idle"])).len();
    // What a later turn of the same session says: everything but the beginning of session and thread.
    let wanted = events + events - 2;
    let mut tail = cadre(&dev.url);
    tail.args(["--json", "tail", "s", "--limit", &wanted.to_string()]);
    let mut tail = tail.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut followed = BufReader::new(tail.stdout.take().unwrap());
    let mut first = String::new();
    followed.read_line(&mut first).unwrap();
    dev.stop();
    let dev = Dev::start(&data, &address);
    assert_eq!(dev.run(&say).status.code(), Some(0));
    let rest = followed.lines().map(|line| line.unwrap());
    let seen: Vec<Value> =
        std::iter::once(first).chain(rest).map(|line| serde_json::from_str(&line).unwrap()).collect();
    let ended = tail.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(0));
    assert!(err(&ended).contains("going on after"), "{}", err(&ended));
    let all = lines(&dev.run(&["--json", "tail", "s", "--until-idle"]));
    assert_eq!(seen, all[..wanted]);
    dev.stop();
}
