//! The whole surface as one document that tools understand, made from the registry and from the types of facts.
//!
//! Schemas come with definitions of their own, and a document has one place for all of them: they are moved there.

use std::sync::LazyLock;

use axum::Json;
use serde_json::{Map, Value, json};

use crate::{
    control::{self, Code, Spec},
    fact::event_schema,
};

/// `GET /openapi.json`
pub(super) async fn document() -> Json<&'static Value> {
    static DOCUMENT: LazyLock<Value> = LazyLock::new(make);
    Json(&DOCUMENT)
}

fn make() -> Value {
    let mut schemas = Schemas::default();
    let mut paths = Map::new();
    for spec in control::registry().commands() {
        paths.insert(format!("/v1/commands/{}", spec.name), json!({ "post": command(spec, &mut schemas) }));
    }
    paths.extend(reads(&mut schemas));
    paths.extend(super::agent::paths());
    paths.extend(super::admin::document());
    let error = control::registry().to_json()["error"].take();
    let error = schemas.take("Error", error);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Cadre",
            "summary": "A distributed agent runtime",
            "version": env!("CARGO_PKG_VERSION"),
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "paths": paths,
        "security": [{ "bearer": [] }],
        "components": {
            "securitySchemes": { "bearer": {
                "type": "http", "scheme": "bearer",
                "description": "An API key, or a signed token. A server that only its own machine reaches may need none.",
            } },
            "schemas": schemas.0,
            "responses": { "Refused": {
                "description": refusals(),
                "content": { "application/json": { "schema": {
                    "type": "object", "required": ["error"], "properties": { "error": error },
                } } },
            } },
        },
    })
}

/// Which status has which code.
fn refusals() -> String {
    let codes: Vec<_> =
        Code::ALL.iter().map(|code| format!("{} is `{}`", code.http_status(), code.as_str())).collect();
    format!("Refused: {}", codes.join(", "))
}

fn command(spec: &Spec, schemas: &mut Schemas) -> Value {
    let mut body = schemas.within(Value::from(spec.arguments.clone()));
    // It is said of the command.
    body.as_object_mut().map(|schema| schema.remove("description"));
    let result = schemas.within(Value::from(spec.result.clone()));
    json!({
        "operationId": spec.name,
        "tags": [spec.group],
        "summary": spec.summary,
        "description": spec.description(),
        "parameters": [
            { "name": "Idempotency-Key", "in": "header", "schema": { "type": "string", "minLength": 8, "maxLength": 128 },
              "description": "The same key has the same answer and no second effect, for a day." },
            { "name": "X-Deadline-Ms", "in": "header", "schema": { "type": "integer", "minimum": 1 },
              "description": "How long the caller waits." },
            { "name": "traceparent", "in": "header", "schema": { "type": "string" },
              "description": "The W3C trace that the caller works in; the facts that follow carry it." },
        ],
        "requestBody": {
            "required": true,
            "content": { "application/json": { "schema": body, "example": spec.example } },
        },
        "responses": answers("Done.", "application/json", &json!({
            "type": "object",
            "required": ["result"],
            "properties": {
                "result": result,
                "cursor": { "type": "string", "description": "That of the last fact written; absent for reads." },
            },
        })),
    })
}

/// What is read without a command.
fn reads(schemas: &mut Schemas) -> Map<String, Value> {
    let event = schemas.take("Event", event_schema());
    let query = |name: &str, kind: &str, description: &str| json!({ "name": name, "in": "query", "schema": { "type": kind }, "description": description });
    let session =
        json!({ "name": "sessionId", "in": "path", "required": true, "schema": { "type": "string" } });
    let filters = [
        session,
        query("after", "string", "Only what comes after this position."),
        query("taskId", "string", "Only of this task."),
        query("subagentId", "string", "Only of this subagent."),
        query("turnId", "string", "Only of this turn."),
        query("types", "string", "Only these classes and families: `turn.completed,tool.*`."),
    ];
    let with = |more: Value| [&filters[..], &[more]].concat();
    let limit = query("limit", "integer", "How many at most; more than 1,000 is taken as 1,000.");
    let last = json!({ "name": "Last-Event-ID", "in": "header", "schema": { "type": "string" },
        "description": "The id of the last event that was seen. It wins over `after`." });
    let cursor = json!({ "type": "string" });
    let page = json!({
        "type": "object",
        "required": ["events", "cursor", "hasMore"],
        "properties": {
            "events": { "type": "array", "items": event },
            "cursor": cursor,
            "hasMore": { "type": "boolean" },
            "gap": { "type": "object", "properties": { "from": cursor, "to": cursor },
                "description": "What is no longer kept." },
        },
    });
    let get = |id: &str, summary: &str, parameters: Value, media: &str, schema: &Value| {
        json!({ "get": {
        "operationId": id, "summary": summary, "parameters": parameters, "responses": answers(summary, media, schema),
    } })
    };
    let (json, object, none) = ("application/json", json!({ "type": "object" }), json!([]));
    let blob = json!([
        { "name": "ref", "in": "path", "required": true, "schema": { "type": "string" } },
        { "name": "Range", "in": "header", "schema": { "type": "string" }, "description": "One range of bytes." },
    ]);
    let text = json!({ "type": "string" });
    let entries = [
        (
            "/v1/commands",
            get("list_commands", "All commands with their schemas.", none.clone(), json, &object),
        ),
        (
            "/v1/sessions/{sessionId}/events",
            get("read_events", "A page of a session's feed.", json!(with(limit)), json, &page),
        ),
        (
            "/v1/sessions/{sessionId}/stream",
            get(
                "follow_events",
                "A session's feed as Server-Sent Events: `snapshot`, `fact`, `gap`, `bye`, `error`.",
                json!(with(last)),
                "text/event-stream",
                &text,
            ),
        ),
        ("/v1/blobs/{ref}", get("read_blob", "A blob, whole or in part.", blob, "*/*", &text)),
        ("/healthz", get("healthz", "The process answers.", none.clone(), json, &object)),
        ("/readyz", get("readyz", "It should be given work.", none.clone(), json, &object)),
        ("/metrics", get("metrics", "Counters, for Prometheus.", none.clone(), "text/plain", &text)),
        ("/openapi.json", get("openapi", "This document.", none, json, &object)),
    ];
    entries.into_iter().map(|(path, item)| (path.to_owned(), item)).collect()
}

pub(super) fn answers(description: &str, media: &str, schema: &Value) -> Value {
    json!({
        "200": { "description": description, "content": { media: { "schema": schema } } },
        "default": { "$ref": "#/components/responses/Refused" },
    })
}

/// The definitions of all schemas. Types have one name each, so that two of one name are the same.
#[derive(Default)]
struct Schemas(Map<String, Value>);

impl Schemas {
    /// A schema without definitions of its own.
    fn within(&mut self, mut schema: Value) -> Value {
        moved(&mut schema);
        let Some(object) = schema.as_object_mut() else { return schema };
        object.remove("$schema");
        if let Some(Value::Object(definitions)) = object.remove("$defs") {
            self.0.extend(definitions);
        }
        schema
    }

    /// Makes a schema one of the definitions, and refers to it.
    fn take(&mut self, name: &str, schema: Value) -> Value {
        let schema = self.within(schema);
        self.0.insert(name.to_owned(), schema);
        json!({ "$ref": format!("#/components/schemas/{name}") })
    }
}

/// References to definitions, wherever they stand, to where those are now.
fn moved(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            if let Some(Value::String(reference)) = object.get_mut("$ref")
                && let Some(name) = reference.strip_prefix("#/$defs/")
            {
                *reference = format!("#/components/schemas/{name}");
            }
            object.values_mut().for_each(moved);
        }
        Value::Array(all) => all.iter_mut().for_each(moved),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::Object(object) => {
                found.extend(object.get("$ref").and_then(Value::as_str));
                object.values().for_each(|value| references(value, found));
            }
            Value::Array(all) => all.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }

    #[test]
    fn every_reference_leads_somewhere() {
        let document = make();
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(found.len() > 100);
        for reference in found {
            let place = reference.strip_prefix('#').unwrap_or_else(|| panic!("{reference}"));
            assert!(document.pointer(place).is_some(), "{reference}");
        }
        assert!(!document.to_string().contains("$defs"));
    }

    #[test]
    fn no_two_types_have_one_name() {
        let mut known = Map::new();
        let schemas = control::registry().commands();
        let schemas =
            schemas.flat_map(|spec| [Value::from(spec.arguments.clone()), Value::from(spec.result.clone())]);
        for mut schema in schemas.chain([event_schema()]) {
            let Value::Object(definitions) = schema["$defs"].take() else { continue };
            for (name, definition) in definitions {
                assert!(!["Error", "Event"].contains(&name.as_str()), "{name} is a name of the document");
                if let Some(other) = known.insert(name.clone(), definition.clone()) {
                    assert_eq!(other, definition, "{name}");
                }
            }
        }
    }
}
