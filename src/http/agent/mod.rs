//! Runs as AG-UI has them: the run input, its events, the history by day, and attachments.

mod attachments;
mod day;
mod events;
mod link;
mod runs;

use axum::{
    Router,
    extract::DefaultBodyLimit,
    routing::{get, post},
};
use serde_json::{Map, Value, json};

use super::{App, openapi};

/// All paths.
pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/api/v1/agent/runs", post(runs::start))
        .route("/api/v1/agent/history", get(day::read))
        .route(
            "/api/v1/agent/attachments",
            post(attachments::upload).layer(DefaultBodyLimit::max(attachments::DISCARDED_BYTES_MAX)),
        )
        .route("/api/v1/agent/attachments/{id}", get(attachments::download))
}

/// The same for tools.
pub(super) fn paths() -> Map<String, Value> {
    let (json, object) = ("application/json", json!({ "type": "object" }));
    let query = |name: &str, description: &str| json!({ "name": name, "in": "query", "schema": { "type": "string" }, "description": description });
    let mut accepted =
        openapi::answers("The run as AG-UI events.", "text/event-stream", &json!({ "type": "string" }));
    accepted["202"] = json!({ "description": "Accepted.", "content": { json: { "schema": {
        "type": "object",
        "required": ["taskId", "threadId", "runId", "created"],
        "properties": {
            "taskId": { "type": "string", "description": "The id of the turn that the run is." },
            "threadId": { "type": "string" },
            "runId": { "type": "string" },
            "created": { "type": "string", "format": "date-time" },
        },
    } } } });
    let last = json!({ "name": "Last-Event-ID", "in": "header", "schema": { "type": "string" },
        "description": "The id of the last event that was seen of this run." });
    let file = json!({ "required": true, "content": { "multipart/form-data": { "schema": {
        "type": "object", "required": ["file"], "properties": { "file": { "type": "string", "format": "binary" } },
    } } } });
    let id = json!({ "name": "ref", "in": "path", "required": true, "schema": { "type": "string" } });
    let entries = [
        (
            "/api/v1/agent/runs",
            json!({ "post": {
            "operationId": "start_run", "summary": "Starts a run, or attaches to it again.", "parameters": [last],
            "requestBody": { "required": true, "content": { json: { "schema": object } } },
            "responses": accepted,
        } }),
        ),
        (
            "/api/v1/agent/history",
            json!({ "get": {
            "operationId": "read_history", "summary": "What was said in a thread on one day.",
            "parameters": [query("threadId", "The latest thread when absent."), query("before", "YYYY-MM-DD")],
            "responses": openapi::answers("The messages of the day.", json, &object),
        } }),
        ),
        (
            "/api/v1/agent/attachments",
            json!({ "post": {
            "operationId": "upload_attachment", "summary": "Keeps an image for a run.", "requestBody": file,
            "responses": openapi::answers("Where it is, for a while.", json, &object),
        } }),
        ),
        (
            "/api/v1/agent/attachments/{ref}",
            json!({ "get": {
            "operationId": "read_attachment", "summary": "An image, by its signed URL.",
            "parameters": [id, query("token", "As the URL has it.")], "security": [],
            "responses": openapi::answers("The image.", "image/*", &json!({ "type": "string" })),
        } }),
        ),
    ];
    entries.into_iter().map(|(path, item)| (path.to_owned(), item)).collect()
}
