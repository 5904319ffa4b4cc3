//! What those who watch over a server ask.

use std::time::Duration;

use axum::{
    Json,
    extract::State,
    http::header,
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

use super::{App, credential::Managing, metrics, refusal::Refusal};
use crate::control::Error;

/// How long something may wait before the node counts as stuck: well above a slow commit and a moved shard.
const PATIENCE: Duration = Duration::from_secs(30);

/// `GET /healthz`: the process answers.
pub(super) async fn alive() -> Json<Value> {
    Json(json!({ "status": "ok" }))
}

/// `GET /readyz`: it should be given work.
pub(super) async fn ready(State(app): State<App>) -> Result<Json<Value>, Refusal> {
    if *app.stopping.borrow() {
        return Err(Error::unavailable("the server is draining").into());
    }
    app.runtime.ready(PATIENCE).await.map_err(Error::unavailable)?;
    Ok(Json(json!({ "status": "ready" })))
}

/// `GET /metrics`, for Prometheus. It names tenants, so it is not for them.
pub(super) async fn metrics(_: Managing) -> Response {
    all_metrics().await
}

/// The same on an address that is for those who watch alone.
pub(super) async fn all_metrics() -> Response {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], metrics::render()).into_response()
}
