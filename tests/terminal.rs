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
