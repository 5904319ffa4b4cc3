//! Where values come from: defaults, the file, the environment, arguments. The later wins.

use std::{collections::BTreeMap, fmt, path::Path};

use super::{
    keys::{KEYS, Key, edits, find, nearest},
    value::Value,
};

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Nobody said otherwise.
    Default,
    /// The file of that name.
    File(String),
    /// The environment variable of that name.
    Environment(String),
    /// An argument of the command line.
    Argument(String),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("the default"),
            Self::File(file) => f.write_str(file),
            Self::Environment(variable) => write!(f, "${variable}"),
            Self::Argument(argument) => f.write_str(argument),
        }
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The key, as far as there is one.
    pub key: Option<String>,
    /// Where it was said.
    pub source: Source,
    /// What is wrong with it.
    pub reason: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.key {
            Some(key) => write!(f, "{key}: {} ({})", self.reason, self.source),
            None => write!(f, "{}: {}", self.source, self.reason),
        }
    }
}

/// Everything that is wrong with a configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n"))]
pub struct Invalid(pub Vec<Problem>);

/// The values of all keys, and where each comes from.
#[derive(Debug, Clone)]
pub struct Layers {
    values: BTreeMap<&'static str, (Value, Source)>,
    problems: Vec<Problem>,
}

impl Default for Layers {
    fn default() -> Self {
        let default = |key: &Key| {
            let value = key.kind.parse(key.default).expect("a test parses every default");
            (key.name, (value, Source::Default))
        };
        Self { values: KEYS.iter().map(default).collect(), problems: Vec::new() }
    }
}

impl Layers {
    /// Takes what a file says.
    pub fn file(&mut self, path: &Path) {
        let source = Source::File(path.display().to_string());
        match std::fs::read_to_string(path) {
            Ok(text) => self.text(&text, &source),
            Err(error) => self.problem(None, &source, format!("cannot be read: {error}")),
        }
    }

    /// Takes what the text of a file says.
    pub fn text(&mut self, text: &str, source: &Source) {
        let table: toml::Table = match text.parse() {
            Ok(table) => table,
            Err(error) => {
                // Without the line itself: it may hold a secret.
                let error: toml::de::Error = error;
                let at = error.span().map_or(0, |span| span.start).min(text.len());
                let line = text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
                let reason = format!("line {line}: {}", error.message());
                return self.problem(None, source, reason);
            }
        };
        for (section, value) in &table {
            let toml::Value::Table(section_of) = value else {
                let reason = unknown(section, "a section such as [gateway] comes first");
                self.problem(Some(section), source, reason);
                continue;
            };
            for (name, value) in section_of {
                let name = format!("{section}.{name}");
                match find(&name) {
                    Some(key) => self.set(key, key.kind.of_toml(value), source.clone()),
                    None => self.problem(Some(&name), source, unknown(&name, "there is no such key")),
                }
            }
        }
    }

    /// Takes what the environment says. A key may have two names there; the long one counts.
    pub fn environment(&mut self, variable: impl Fn(&str) -> Option<String>) {
        for key in KEYS {
            let names = [Some(key.variable()), key.short.map(str::to_owned)];
            let said = names.into_iter().flatten().find_map(|name| Some((variable(&name)?, name)));
            if let Some((text, name)) = said {
                self.set(key, key.kind.parse(&text), Source::Environment(name));
            }
        }
    }

    /// Takes an argument that stands for a key.
    pub fn argument(&mut self, argument: &str, name: &str, text: &str) {
        let source = Source::Argument(argument.to_owned());
        match find(name) {
            Some(key) => self.set(key, key.kind.parse(text), source),
            None => self.problem(Some(name), &source, unknown(name, "there is no such key")),
        }
    }

    fn set(&mut self, key: &'static Key, value: Result<Value, String>, source: Source) {
        match value {
            Ok(value) => {
                self.values.insert(key.name, (value, source));
            }
            Err(reason) => self.problem(Some(key.name), &source, reason),
        }
    }

    pub(super) fn problem(&mut self, key: Option<&str>, source: &Source, reason: String) {
        let key = key.map(|key| key.chars().take(100).collect());
        self.problems.push(Problem { key, source: source.clone(), reason });
    }

    pub(super) fn take_problems(&mut self) -> Vec<Problem> {
        std::mem::take(&mut self.problems)
    }

    /// The value of a key, and where it comes from.
    pub fn get(&self, key: &str) -> &(Value, Source) {
        self.values.get(key).unwrap_or_else(|| panic!("{key} is a key"))
    }
}

fn unknown(name: &str, reason: &str) -> String {
    match nearest(name) {
        Some(near) => format!("{reason}; is {near} meant?"),
        None => reason.to_owned(),
    }
}

/// Variables that look like a key and are none. Not wrong: others name variables, too (Kubernetes does for a service of
/// the name `cadre`), but worth a word to whoever checks.
pub fn misspelt(variables: impl Iterator<Item = String>) -> Vec<(String, String)> {
    let is_key = |name: &str| KEYS.iter().any(|key| key.variable() == name || key.short == Some(name));
    let near = |name: &String| {
        let known = KEYS.iter().map(Key::variable);
        known.map(|known| (edits(name, &known), known)).min().filter(|(edits, _)| *edits <= 2)
    };
    let variables = variables.filter(|name| name.starts_with("CADRE_") && !is_key(name));
    let mut found: Vec<_> = variables.filter_map(|name| near(&name).map(|(_, near)| (name, near))).collect();
    found.sort();
    found
}
