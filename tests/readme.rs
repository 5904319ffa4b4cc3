//! What the documentation tells people to type is typed, as it is printed, and says what it is printed to say.
//!
//! A `console` block has commands behind `$ ` and, below a command, what it prints: `…` stands for anything, lines that are
//! not shown may come before and after. A command goes on over the end of its line while a quote is open. `cadre dev` starts
//! a server, or, where one runs, another one on the same data after that one was killed: the text has said so.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "common/process.rs"]
mod process;

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use process::{Dev, cadre};
use tempfile::TempDir;

/// Where the documentation expects the server.
const PRINTED: &str = "http://127.0.0.1:7600";

/// A command with what it is said to print.
#[derive(Debug, PartialEq)]
struct Step {
    command: String,
    prints: Vec<String>,
}

/// The steps of all `console` blocks of a part of a document.
fn steps(text: &str) -> Vec<Step> {
    let (mut steps, mut inside) = (Vec::<Step>::new(), false);
    for line in text.lines() {
        if let Some(fence) = line.strip_prefix("```") {
            inside = !inside && fence == "console";
            continue;
        }
        if !inside {
            continue;
        }
        let is_open = |step: &Step| step.prints.is_empty() && step.command.matches('\'').count() % 2 == 1;
        match (line.strip_prefix("$ "), steps.last_mut()) {
            (_, Some(step)) if is_open(step) => step.command += &format!("\n{line}"),
            (Some(command), _) => steps.push(Step { command: command.into(), prints: Vec::new() }),
            (None, Some(step)) => step.prints.push(line.into()),
            (None, None) => panic!("output before any command: {line}"),
        }
    }
    steps
}

/// Whether a line is as printed.
fn is_as_printed(printed: &str, line: &str) -> bool {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (printed, line) = (words(printed), words(line));
    let parts: Vec<&str> = printed.split('…').map(str::trim).collect();
    let (first, last) = (parts[0], parts[parts.len() - 1]);
    if parts.len() == 1 {
        return printed == line;
    }
    let Some(mut rest) = line.strip_prefix(first) else { return false };
    for part in &parts[1..parts.len() - 1] {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// Somebody who follows the documentation, in a folder of their own.
struct Reader {
    folder: TempDir,
    server: Option<Dev>,
    url: String,
    kills: u32,
}

impl Reader {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), server: None, url: String::new(), kills: 0 }
    }

    fn follow(&mut self, steps: &[Step]) {
        for step in steps {
            let command = step.command.as_str();
            // Building is what has led here, and the path is as it leaves it.
            if command.starts_with("cargo build -p cadre ") || command.starts_with("export PATH=") {
                continue;
            }
            if command == "cadre dev" {
                self.serve(step);
                continue;
            }
            let said = self.type_in(command);
            let mut lines = said.lines();
            for printed in &step.prints {
                let found = lines.any(|line| is_as_printed(printed, line));
                assert!(found, "{command}\nis said to print\n{printed}\nand prints\n{said}");
            }
        }
    }

    /// Starts the server as it is told, but on a port and in a folder of this test.
    fn serve(&mut self, step: &Step) {
        if let Some(server) = self.server.take() {
            server.kill();
            self.kills += 1;
        }
        let server = Dev::spawn(&self.folder.path().join("data"), "127.0.0.1:0", Stdio::inherit());
        self.url = server.ready();
        assert_eq!(step.prints, [format!("ready {PRINTED}")]);
        self.server = Some(server);
    }

    /// What a command prints. It must go well.
    fn type_in(&self, command: &str) -> String {
        let binary = Path::new(env!("CARGO_BIN_EXE_cadre")).parent().unwrap().to_owned();
        let path = env::split_paths(&env::var_os("PATH").unwrap()).collect::<Vec<PathBuf>>();
        let path = env::join_paths(std::iter::once(binary).chain(path)).unwrap();
        let mut shell = Command::new("sh");
        shell.args(["-c", &command.replace(PRINTED, &self.url)]).current_dir(self.folder.path());
        for (name, value) in cadre(&self.url).get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        // A proxy for the rest of the world knows nothing of this machine.
        let shell = shell.env("PATH", path).env("NO_PROXY", "*").stdin(Stdio::null());
        let output = shell.output().unwrap();
        let (said, complained) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{command}\n{}\n{said}{complained}", output.status);
        let is_error = |line: &str| line.starts_with("cadre: ") || line.contains("error");
        assert!(!complained.lines().any(is_error), "{command}\ncomplains\n{complained}");
        said.into_owned()
    }
}

fn document(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

#[test]
fn the_first_five_minutes_go_as_the_readme_says() {
    let readme = document("README.md");
    let (_, after) = readme.split_once("## First five minutes").unwrap();
    let (part, _) = after.split_once("\n## ").unwrap();
    let steps = steps(part);
    assert!(steps.len() > 9, "{steps:#?}");
    let mut reader = Reader::new();
    reader.follow(&steps);
    assert_eq!(reader.kills, 1, "a server is killed in between, and started again");
}

#[test]
fn the_examples_of_other_pages_go_as_they_say() {
    for page in ["docs/cli.md", "docs/exports.md", "docs/run-input.md"] {
        let steps = steps(&document(page));
        assert!(!steps.is_empty(), "{page} has no examples");
        let mut reader = Reader::new();
        reader.serve(&Step { command: "cadre dev".into(), prints: vec![format!("ready {PRINTED}")] });
        reader.follow(&steps);
    }
}

#[test]
fn blocks_are_read_as_people_read_them() {
    let text = "text\n```console\n$ one '{\n  \"a\": 1}'\nsaid …\nmore\n$ two\n```\n```rust\n$ no\n```\n";
    let one = Step { command: "one '{\n  \"a\": 1}'".into(), prints: vec!["said …".into(), "more".into()] };
    assert_eq!(steps(text), [one, Step { command: "two".into(), prints: Vec::new() }]);
    for (printed, line, is_same) in [
        ("a b", "a   b", true),
        ("a b", "a b c", false),
        ("a … c", "a b b c", true),
        ("a … c", "a b b", false),
        ("… c", "b c", true),
        ("turn_…", "turn_1", true),
        ("turn_… x", "turn_1", false),
    ] {
        assert_eq!(is_as_printed(printed, line), is_same, "{printed} and {line}");
    }
}
