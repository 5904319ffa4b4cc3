//! The documentation of the commands, made from the registry.

use std::fmt::Write;

use serde_json::Value;

use super::{command::Group, registry::Registry, spec::Spec};

const HEAD: &str = "\
# Commands

Made from the registry in `src/control`; `CADRE_UPDATE=1 cargo test -p cadre --test commands` writes it anew.

`POST /v1/commands/{name}` with the arguments as body answers `{\"result\": {…}, \"cursor\": \"…\"}`; the channel and
`cadre call NAME JSON` take the same. `GET /v1/commands` lists all of this with JSON Schemas, which are also in
[`schemas/commands.json`](schemas/commands.json).

- Unknown arguments are ignored, and `null` is the same as absent. A wrong type, a bad id or a value out of bounds is
  `invalid_argument`, and `details.field` is the path of the argument, such as `items[3].input[0].text`.
- An **id** is 1 to 128 characters of `A-Z a-z 0-9 . _ : -`.
- A **part** of an input is `{\"type\": \"text\", \"text\": \"…\"}` or
  `{\"type\": \"blob\", \"ref\": \"…\", \"mediaType\": \"…\"}`.
- A **reference** is a text that its owner understands, at most 2048 bytes.
- `limit` is at least 1 and 50 when absent; more than 1000 is taken as 1000. A page ends, too, after
  1 MiB of entries. The `cursor` of a page is the `after` of the
  next one.
";

/// The whole page.
pub fn markdown(registry: &Registry) -> String {
    let mut page = String::from(HEAD);
    for group in Group::ALL {
        let mut title = group.as_str().to_owned();
        title[..1].make_ascii_uppercase();
        push(&mut page, format_args!("\n## {title}\n"));
        for command in registry.commands().filter(|command| command.group == *group) {
            section(&mut page, command);
        }
    }
    page
}

fn push(page: &mut String, text: std::fmt::Arguments<'_>) {
    page.write_fmt(text).expect("a string takes everything");
}

fn section(page: &mut String, command: &Spec) {
    push(page, format_args!("\n### `{}`\n\n{}\n\n", command.name, one_line(command.description())));
    push(page, format_args!("Kind: {}. Scope: `{}`.\n\n", command.kind, command.scope));
    let arguments = rows(command.arguments.as_value());
    table(page, "Argument", &arguments);
    let example = serde_json::to_string_pretty(&command.example).expect("examples are JSON");
    push(page, format_args!("\n```json\n{example}\n```\n\n"));
    let result = rows(command.result.as_value());
    if result.is_empty() {
        page.push_str("Answers with the read model itself.\n");
    } else {
        table(page, "Result", &result);
    }
}

fn table(page: &mut String, title: &str, rows: &[Row]) {
    push(page, format_args!("| {title} | Type | Meaning |\n|---|---|---|\n"));
    for Row { name, kind, optional, meaning } in rows {
        let optional = if *optional { "?" } else { "" };
        push(page, format_args!("| `{name}`{optional} | {kind} | {meaning} |\n"));
    }
}

/// One line of a table.
struct Row {
    name: String,
    kind: String,
    optional: bool,
    meaning: String,
}

/// The properties of a schema, and below each those of the objects in it.
fn rows(root: &Value) -> Vec<Row> {
    let mut found = Vec::new();
    collect(root, root, "", &mut found);
    found
}

fn collect(root: &Value, object: &Value, prefix: &str, found: &mut Vec<Row>) {
    let Some(properties) = object["properties"].as_object() else { return };
    let required = |name: &str| {
        object["required"].as_array().is_some_and(|names| names.iter().any(|required| required == name))
    };
    // Those that must be there come first.
    let (first, then): (Vec<_>, Vec<_>) = properties.iter().partition(|(name, _)| required(name));
    for (name, schema) in first.into_iter().chain(then) {
        let path = format!("{prefix}{name}");
        let mut meaning = one_line(schema["description"].as_str().unwrap_or_default());
        if let Some(default) = schema.get("default").filter(|default| says_something(default)) {
            meaning.push_str(&format!(" Default: `{default}`."));
        }
        let kind = kind(root, schema);
        found.push(Row { name: path.clone(), kind, optional: !required(name), meaning });
        let (inner, suffix) = match resolved(root, schema) {
            list if list["items"].is_object() => (resolved(root, &list["items"]), "[]."),
            object => (object, "."),
        };
        collect(root, inner, &format!("{path}{suffix}"), found);
    }
}

/// Empty lists and objects are what absent means anyway.
fn says_something(default: &Value) -> bool {
    match default {
        Value::Null | Value::Object(_) => false,
        Value::Array(values) => !values.is_empty(),
        Value::String(text) => !text.is_empty(),
        Value::Bool(_) | Value::Number(_) => true,
    }
}

/// The schema that is meant: behind a reference, or beside `null`.
fn resolved<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/")) {
        return resolved(root, &root["$defs"][name]);
    }
    match schema["anyOf"].as_array().map(Vec::as_slice) {
        Some([one, null]) if null["type"] == "null" => resolved(root, one),
        _ => schema,
    }
}

/// What a schema allows, in a word or two.
fn kind(root: &Value, schema: &Value) -> String {
    let schema = resolved(root, schema);
    if let Some(words) = schema["enum"].as_array() {
        let words = words.iter().filter_map(Value::as_str).map(|word| format!("`{word}`"));
        return words.collect::<Vec<_>>().join(", ");
    }
    if schema["oneOf"].is_array() {
        return "part".into();
    }
    if let Some(either) = schema["anyOf"].as_array() {
        return either.iter().map(|schema| kind(root, schema)).collect::<Vec<_>>().join(" or ");
    }
    let named = match &schema["type"] {
        Value::Array(types) => types.iter().find(|name| **name != "null").and_then(Value::as_str),
        name => name.as_str(),
    };
    match named {
        Some("string") if schema["pattern"].is_string() => "id".into(),
        Some("string") if schema["format"] == "date-time" => "time".into(),
        Some("string") if schema["maxLength"].is_number() => "reference".into(),
        Some("string") => "text".into(),
        Some("integer") => "whole number".into(),
        Some("number") => "number".into(),
        Some("boolean") => "true or false".into(),
        Some("array") => format!("list of {}", kind(root, &schema["items"])),
        Some("object") => "object".into(),
        _ => "any".into(),
    }
}

/// Descriptions keep the line breaks of the source.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}
