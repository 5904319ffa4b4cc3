//! A configuration for people and programs, without its secrets.

use serde_json::json;

use super::{
    keys::KEYS,
    layers::{Layers, Source},
    value::Value,
};

/// What stands for a secret.
const MASK: &str = "***";

/// As a file that can be read again, but for the secrets. Without `effective` only what somebody has set.
pub fn to_toml(layers: &Layers, effective: bool) -> String {
    let mut text = String::new();
    let mut section = "";
    for key in KEYS {
        let (value, source) = layers.get(key.name);
        if !effective && *source == Source::Default {
            continue;
        }
        let (of, name) = key.name.split_once('.').expect("a test says so");
        if of != section {
            let gap = if section.is_empty() { "" } else { "\n" };
            text += &format!("{gap}[{of}]\n");
            section = of;
        }
        text += &format!("{name} = {} # {source}\n", masked(key.secret, value).to_toml());
    }
    text
}

/// One object per key.
pub fn to_json(layers: &Layers, effective: bool) -> serde_json::Value {
    let shown = KEYS.iter().filter_map(|key| {
        let (value, source) = layers.get(key.name);
        if !effective && *source == Source::Default {
            return None;
        }
        let value = match masked(key.secret, value) {
            Value::Text(text) | Value::Duration(_, text) => json!(text),
            Value::Flag(flag) => json!(flag),
            Value::Count(number) => json!(number),
            Value::Ratio(ratio) => json!(ratio),
            Value::Texts(texts) => json!(texts),
        };
        let source = if *source == Source::Default { json!("default") } else { json!(source.to_string()) };
        Some((key.name.to_owned(), json!({ "value": value, "source": source })))
    });
    serde_json::Value::Object(shown.collect())
}

fn masked(secret: bool, value: &Value) -> Value {
    match value {
        _ if secret && !value.is_empty() => match value {
            // The name of a header is no secret, and without it what is shown could not be read again.
            Value::Texts(texts) => Value::Texts(
                texts
                    .iter()
                    .map(|text| match text.split_once('=') {
                        Some((name, _)) => format!("{name}={MASK}"),
                        None => MASK.to_owned(),
                    })
                    .collect(),
            ),
            _ => Value::Text(MASK.into()),
        },
        Value::Text(text) => Value::Text(masked_address(text)),
        Value::Texts(texts) => Value::Texts(texts.iter().map(|text| masked_address(text)).collect()),
        other => other.clone(),
    }
}

/// An address without the credentials that somebody may have put into it.
fn masked_address(text: &str) -> String {
    match text.rsplit_once('@') {
        None => text.to_owned(),
        Some((credentials, host)) => {
            let scheme = credentials.split_once("://").map(|(scheme, _)| format!("{scheme}://"));
            format!("{}{MASK}@{host}", scheme.unwrap_or_default())
        }
    }
}

/// The table of all keys, for the documentation.
pub fn reference() -> String {
    let mut text = String::from("| key | takes | default | meaning |\n|---|---|---|---|\n");
    for key in KEYS {
        let default = if key.default.is_empty() { String::new() } else { format!("`{}`", key.default) };
        let secret = if key.secret { " (secret)" } else { "" };
        text += &format!("| `{}` | {}{secret} | {default} | {} |\n", key.name, key.kind.wanted(), key.help);
    }
    text
}
