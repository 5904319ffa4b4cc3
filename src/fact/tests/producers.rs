//! That each class has something that tells it, or is listed as one that has not.

use std::{collections::BTreeSet, fs, path::Path};

use crate::fact::EventType;

/// Where facts are made.
const MAKERS: [&str; 4] = ["src/entity", "src/exec", "src/runtime", "src/blob"];

/// The text of all code below a folder that is not a test.
fn code(folder: &Path, text: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        match name {
            "tests" | "tests.rs" | "stage.rs" => {}
            _ if path.is_dir() => code(&path, text),
            _ => text.push_str(&fs::read_to_string(&path).unwrap()),
        }
    }
}

/// Whether a payload of that name is made somewhere: `Name {`, and not `Payload::Name(`.
fn is_made(name: &str, text: &str) -> bool {
    let word = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | ':');
    text.match_indices(name).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + name.len()..]);
        let made = after.starts_with(" {") || after.starts_with("::default()");
        made && !before.ends_with(word)
    })
}

/// The classes that the documentation lists.
fn listed(docs: &str) -> BTreeSet<&str> {
    let section = docs.split_once("## What nothing tells yet").unwrap().1.split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    rows.flat_map(|row| row.split('|').nth(1).unwrap().split_whitespace())
        .map(|name| name.trim_matches('`'))
        .collect()
}

#[test]
fn each_class_has_a_producer_or_is_listed_as_one_without() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut text = String::new();
    MAKERS.iter().for_each(|folder| code(&root.join(folder), &mut text));
    let docs = fs::read_to_string(root.join("docs/runtime.md")).unwrap();
    // The variant is named as the payload is.
    let unmade = EventType::ALL.iter().filter(|class| !is_made(&format!("{class:?}"), &text));
    let unmade: BTreeSet<_> = unmade.map(|class| class.as_str()).collect();
    assert_eq!(listed(&docs), unmade, "left: listed in docs/runtime.md, right: made nowhere");
}

#[test]
fn what_only_reads_a_class_makes_none() {
    assert!(is_made("TurnStarted", "let told = TurnStarted { agent };"));
    assert!(is_made("TurnStarted", "self.tell(TurnStarted::default());"));
    assert!(!is_made("TurnStarted", "Payload::TurnStarted(started) => {"));
    assert!(!is_made("TurnStarted", "use payload::{TurnStarted, TurnFailed};"));
    assert!(!is_made("TurnStarted", "struct ReturnStarted {"));
}
