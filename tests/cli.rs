//! The binary: a server process, and the commands that talk to it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "common/process.rs"]
mod process;

use std::{
    io::{BufRead, BufReader},
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
    fn start(data: &Path, listen: &str) -> Self {
        let process = Process::spawn(data, listen, Stdio::null());
        let url = process.ready();
        Self { process, url }
    }

    fn run(&self, args: &[&str]) -> Output {
        cadre(&self.url).args(args).output().unwrap()
    }

    /// Asks it to end. It must do so by itself, and have said nothing more.
    fn stop(self) {
        self.process.signal("TERM");
        assert_eq!(self.process.line(), None, "one line on standard output, no more");
        assert_eq!(self.process.ended().code(), Some(0));
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
fn an_installation_keeps_its_name_and_another_has_another() {
    let folder = tempfile::tempdir().unwrap();
    let name = |data: &str| {
        let dev = Dev::start(&folder.path().join(data), "127.0.0.1:0");
        let submitted = dev.run(&["submit", "--session", "named", "--wait", r#"[{"say": "hello"}]"#]);
        assert_eq!(submitted.status.code(), Some(0), "{}", err(&submitted));
        let snapshot = dev.run(&["--json", "call", "get_session", r#"{"sessionId": "named"}"#]);
        let snapshot = lines(&snapshot).remove(0);
        dev.stop();
        let snapshot = snapshot.get("result").unwrap_or(&snapshot);
        snapshot["runtimeId"].as_str().unwrap_or_else(|| panic!("{snapshot:#}")).to_owned()
    };
    let (first, again, other) = (name("one"), name("one"), name("two"));
    assert!(first.starts_with("cadre_"), "{first}");
    assert_eq!(again, first);
    assert_ne!(other, first);
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
    let usage = |args: &[&str]| {
        let output = cadre("").arg("dev").args(args).output().unwrap();
        assert_eq!((output.status.code(), out(&output).as_str()), (Some(2), ""));
        err(&output)
    };
    usage(&["--listen", "nowhere"]);
    for (args, said) in [
        (["--blob-retention", "soon"], "such as 30d"),
        (["--blob-retention", ""], "such as 30d"),
        (["--blob-retention", "-1d"], "such as 30d"),
        (["--blob-retention", "0s"], "1m at least"),
        (["--blob-retention", "59s"], "1m at least"),
        (["--blob-retention", "3651d"], "3650d is the most"),
        (["--sweep-every", "0s"], "every 1s to 1d"),
        (["--sweep-every", "25h"], "every 1s to 1d"),
        (["--output-bytes-max", "1"], "65536 to 134217728"),
        (["--output-bytes-max", "lots"], "not a number of bytes"),
    ] {
        let args = [&format!("{}={}", args[0], args[1])[..]];
        assert!(usage(&args).contains(said), "{args:?}: {}", usage(&args));
    }
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
    let sleeper = r#"[{"sleep": 60000}]"#;
    let (late, said) = code(&["submit", "--wait", "--deadline-ms", "100", sleeper]);
    assert_eq!((late, said.contains("timed_out")), (5, true), "{said}");
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

#[test]
fn a_refusal_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let dev = Dev::start(folder.path(), "127.0.0.1:0");
    for (args, hint) in [
        (&["call", "get_task", "{\"taskId\": task_1}"][..], "single quotes"),
        (&["call", "get_task", "[]"], "JSON object"),
        (&["call", "get_task", "{}"], "taskId"),
        (&["call", "get_task", r#"{"taskId": "task_none"}"#], "`cadre tasks` lists them"),
        (&["call", "Get-Task"], "`cadre call` lists them"),
        (&["call", "no_such", "--describe"], "`cadre call` lists them"),
        (&["call", "no_such"], "`cadre call` lists them"),
        (&["tail", "sess_none"], "`cadre sessions` lists them"),
        (&["tree", "sess_none"], "`cadre sessions` lists them"),
        (&["tail", "not an id"], "sessionId"),
        (&["export", "review", "sess_none"], "`cadre sessions` lists them"),
        (&["approve", "actn_none"], "`cadre approve --session SESSION` lists them"),
        (&["approve", "--session", "sess_none"], "`cadre sessions` lists them"),
        (&["submit", "--agent", "nobody", "hi"], "`scripted` is always there"),
        (&["tasks", "--status", "done"], "status"),
    ] {
        let output = dev.run(args);
        let said = err(&output);
        assert_eq!((output.status.code(), out(&output).as_str()), (Some(1), ""), "{args:?}: {said}");
        assert!(said.starts_with("cadre: ") && said.contains(hint), "{args:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{args:?}: {said}");
        // For programs the same, as JSON.
        let args: Vec<&str> = ["--json"].iter().chain(args).copied().collect();
        let error: Value = serde_json::from_str(&err(&dev.run(&args))).unwrap();
        assert!(error["error"]["code"].is_string() && error["error"]["message"].is_string(), "{error}");
    }
    dev.stop();
}

#[test]
fn every_subcommand_teaches_by_example() {
    let help = out(&cadre("").arg("--help").output().unwrap());
    let (_, commands) = help.split_once("Commands:\n").unwrap();
    let commands = commands.lines().take_while(|line| !line.is_empty());
    let commands: Vec<_> = commands.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(commands.len() > 9, "{help}");
    for command in commands.into_iter().filter(|command| *command != "help") {
        let help = out(&cadre("").args([command, "--help"]).output().unwrap());
        let (about, examples) = help.split_once("Examples:\n").unwrap_or_else(|| panic!("{help}"));
        assert!(about.lines().next().is_some_and(|line| line.len() > 10), "{help}");
        assert!(examples.lines().any(|line| line.contains(&format!("cadre {command}"))), "{help}");
    }
}

#[test]
fn lists_are_for_people_and_for_programs() {
    let folder = tempfile::tempdir().unwrap();
    let dev = Dev::start(folder.path(), "127.0.0.1:0");
    assert!(err(&dev.run(&["sessions"])).contains("cadre submit"));
    assert_eq!(out(&dev.run(&["--json", "sessions"])), "");
    for number in 0..3 {
        let made =
            dev.run(&["call", "create_session", &json!({ "sessionId": format!("s{number}") }).to_string()]);
        assert!(made.status.success(), "{}", err(&made));
    }
    for number in 0..3 {
        let task = json!({ "taskId": format!("t{number}"), "sessionId": "s1", "objective": "Count" });
        assert!(dev.run(&["call", "create_task", &task.to_string()]).status.success());
    }
    for (list, id, first) in [("sessions", "sessionId", "s2"), ("tasks", "taskId", "t2")] {
        let all = lines(&dev.run(&[list, "--json"]));
        assert_eq!((all.len(), &all[0][id]), (3, &json!(first)), "the newest first");
        let none = dev.run(&[list, "--limit", "0"]);
        assert_eq!(none.status.code(), Some(2), "{list}: nothing is not a number of entries");
        let some = dev.run(&[list, "--json", "--limit", "2"]);
        assert_eq!(lines(&some), all[..2]);
        let some = dev.run(&[list, "--limit", "2"]);
        assert_eq!(out(&some).lines().count(), 3, "a head and two rows");
        assert!(err(&some).contains("there are more"), "{}", err(&some));
        let all = dev.run(&[list, "--limit", "3"]);
        assert_eq!((out(&all).lines().count(), err(&all).as_str()), (4, ""));
        assert!(out(&all).lines().nth(1).unwrap().starts_with(first));
    }
    assert_eq!(lines(&dev.run(&["--json", "tasks", "--session", "s0"])), Vec::<Value>::new());
    assert_eq!(lines(&dev.run(&["--json", "tasks", "--status", "running"])).len(), 3);
    assert_eq!(lines(&dev.run(&["--json", "sessions", "--status", "archived"])), Vec::<Value>::new());
    dev.stop();
}

#[test]
fn a_command_is_described_with_an_example_that_is_one() {
    let folder = tempfile::tempdir().unwrap();
    let dev = Dev::start(folder.path(), "127.0.0.1:0");
    let listed = lines(&dev.run(&["--json", "call"]));
    for command in &listed {
        let name = command["name"].as_str().unwrap();
        let described = out(&dev.run(&["call", name, "--describe"]));
        for argument in command["arguments"]["properties"].as_object().unwrap().keys() {
            assert!(described.lines().any(|line| line.starts_with(argument)), "{described}");
        }
        let (_, example) = described.split_once(&format!("cadre call {name} '")).unwrap();
        let example = example.trim_end().trim_end_matches('\'');
        assert_eq!(serde_json::from_str::<Value>(example).unwrap(), command["example"]);
    }
    let one = lines(&dev.run(&["--json", "call", "submit_turn", "--describe"]));
    assert_eq!(one, [listed.into_iter().find(|command| command["name"] == "submit_turn").unwrap()]);
    dev.stop();
}

#[test]
fn the_one_decision_that_waits_is_answered_by_its_session() {
    let folder = tempfile::tempdir().unwrap();
    let dev = Dev::start(folder.path(), "127.0.0.1:0");
    let decide = ["approve", "--session", "s", "--decide", "allow"];
    let ask = |turn: &str, thread: &str| {
        let script = r#"[{"approve": {"prompt": "Really?"}}]"#;
        let args = json!({ "sessionId": "s", "turnId": turn, "threadId": thread, "input": [{ "type": "text", "text": script }] });
        assert!(dev.run(&["call", "submit_turn", &args.to_string()]).status.success());
    };
    let asked = |count: &str| {
        assert!(dev.run(&["tail", "s", "--types", "action.required", "--limit", count]).status.success());
    };
    assert!(dev.run(&["call", "create_session", r#"{"sessionId": "s"}"#]).status.success());
    let none = dev.run(&decide);
    assert_eq!(none.status.code(), Some(1));
    assert!(err(&none).contains("nothing is waited for"), "{}", err(&none));
    ask("turn_1", "thrd_1");
    asked("1");
    let one = dev.run(&decide);
    assert_eq!(one.status.code(), Some(0), "{}", err(&one));
    ask("turn_2", "thrd_1");
    ask("turn_3", "thrd_2");
    asked("3");
    let many = dev.run(&decide);
    assert_eq!(many.status.code(), Some(1));
    assert!(err(&many).contains("2 decisions") && err(&many).contains("actn_"), "{}", err(&many));
    let open = lines(&dev.run(&["--json", "approve", "--session", "s"]));
    assert_eq!(open.len(), 2, "P10: none of them was answered");
    dev.stop();
}

#[test]
fn an_export_is_written_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let dev = Dev::start(&folder.path().join("data"), "127.0.0.1:0");
    assert!(dev.run(&["submit", "--session", "s", "--wait", r#"[{"say": "hello"}]"#]).status.success());
    let file = folder.path().join("case.json");
    let to = |path: &Path| path.to_str().unwrap().to_owned();
    let written = dev.run(&["export", "replay", "s", "-o", &to(&file)]);
    assert_eq!(written.status.code(), Some(0), "{}", err(&written));
    assert!(out(&written).contains("bytes"), "{}", out(&written));
    let replayed = cadre("http://127.0.0.1:1").args(["replay", &to(&file)]).output().unwrap();
    assert_eq!(replayed.status.code(), Some(0), "P5, and without a server: {}", out(&replayed));
    let replayed = cadre("http://127.0.0.1:1").args(["--json", "replay", &to(&file)]).output().unwrap();
    let report: Value = serde_json::from_str(&out(&replayed)).unwrap();
    assert_eq!(report["verdict"], "equal");
    for kind in ["evidence", "review", "replay"] {
        let pack: Value = serde_json::from_str(&out(&dev.run(&["export", kind, "s"]))).unwrap();
        assert!(pack["format"].as_str().unwrap().contains(kind), "{pack}");
    }
    // Where nothing can be written, nothing is; what was there before is left alone.
    for bad in [folder.path().join("no/such/folder/case.json"), folder.path().join("data")] {
        let refused = dev.run(&["export", "replay", "s", "-o", &to(&bad)]);
        assert_eq!(refused.status.code(), Some(1));
        assert!(
            err(&refused).contains("cannot write") && err(&refused).contains(&to(&bad)),
            "{}",
            err(&refused)
        );
    }
    let left: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
    // What is no replay is not different: it is no replay.
    std::fs::write(&file, "{}").unwrap();
    for none in [file, folder.path().join("none.json")] {
        let refused = cadre("").args(["replay", &to(&none)]).output().unwrap();
        assert_eq!((refused.status.code(), out(&refused).as_str()), (Some(2), ""));
        assert!(err(&refused).starts_with("cadre: "), "{}", err(&refused));
    }
    dev.stop();
}

#[test]
fn a_watched_tree_is_drawn_again_when_it_changes() {
    let folder = tempfile::tempdir().unwrap();
    let dev = Dev::start(folder.path(), "127.0.0.1:0");
    assert!(dev.run(&["call", "create_session", r#"{"sessionId": "s"}"#]).status.success());
    let mut watch = cadre(&dev.url);
    let mut watch = watch.args(["tree", "s", "--watch"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut drawn = BufReader::new(watch.stdout.take().unwrap()).lines().map(|line| line.unwrap());
    assert_eq!(drawn.next().unwrap(), "s");
    let script = r#"[{"spawn": {"count": 14, "script": [], "join": "all"}}, {"approve": {"prompt": "ok?"}}]"#;
    assert!(dev.run(&["submit", "--session", "s", script]).status.success());
    assert!(drawn.any(|line| line.ends_with("14 subagents: 14 completed")));
    assert!(dev.run(&["tail", "s", "--types", "action.required", "--limit", "1"]).status.success());
    assert!(dev.run(&["approve", "--session", "s", "--decide", "allow"]).status.success());
    assert!(drawn.any(|line| line.starts_with("└─ turn turn_") && line.ends_with(" completed")));
    watch.kill().unwrap();
    watch.wait().unwrap();
    dev.stop();
}

#[test]
fn dev_says_where_it_serves_to_programs_too() {
    let folder = tempfile::tempdir().unwrap();
    let mut dev = cadre("");
    dev.args(["--json", "dev", "--listen", "127.0.0.1:0", "--data"]).arg(folder.path());
    let mut dev = dev.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(dev.stdout.take().unwrap()).read_line(&mut line).unwrap();
    dev.kill().unwrap();
    dev.wait().unwrap();
    let ready: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(ready["event"], "ready");
    assert!(ready["url"].as_str().unwrap().starts_with("http://127.0.0.1:"));
}

#[test]
fn submit_bounds_what_a_turn_may_use_up() {
    let folder = tempfile::tempdir().unwrap();
    let dev = Dev::start(folder.path(), "127.0.0.1:0");
    let script = r#"[{"usage": {"inputTokens": 10, "costUsd": 0.5}}, {"tool": "echo"}, {"say": "done"}]"#;
    for (bound, used_up) in [
        (["--max-steps", "1"], "the budget of 1 steps is used up"),
        (["--max-tokens", "10"], "the budget of 10 tokens is used up"),
        (["--max-cost-usd", "0.5"], "the budget of 0.5 USD is used up"),
    ] {
        let output = dev.run(&[&["submit", "--wait", script], &bound[..]].concat());
        assert_eq!(output.status.code(), Some(3), "{}", err(&output));
        assert!(err(&output).contains(used_up), "{}", err(&output));
    }
    let enough = ["--max-steps", "2", "--max-tokens", "100", "--max-cost-usd", "1", "--deadline-ms", "60000"];
    let output = dev.run(&[&["submit", "--wait", script], &enough[..]].concat());
    assert_eq!((output.status.code(), out(&output).contains("done")), (Some(0), true), "{}", err(&output));
    let refused = dev.run(&["submit", "--max-cost-usd", "0", script]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(err(&refused).contains("options.budget.costUsd"), "{}", err(&refused));
    dev.stop();
}
