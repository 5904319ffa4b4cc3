//! Keys of a tenant: listed, made, shown, taken back, replaced.

use std::time::Duration;

use axum::{
    Json,
    body::Body,
    extract::{Path, State, rejection::PathRejection},
    http::{HeaderMap, Uri, header},
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{App, Refusal, named, part, said};
use crate::{
    control::Error,
    fact::Time,
    http::credential::Managing,
    tenant::{ApiKey, NewKey, Scopes, Token},
};

/// A month: whoever needs longer has forgotten about it.
const GRACE_SECONDS_MAX: u64 = 30 * 24 * 3600;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct New {
    name: String,
    scopes: Option<Vec<String>>,
    expires_at: Option<Time>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rotation {
    #[serde(default)]
    grace_seconds: u64,
}

type OfTenant = Result<Path<String>, PathRejection>;
type OfKey = Result<Path<(String, String)>, PathRejection>;

/// `GET /v1/admin/tenants/{tenant}/keys`
pub(super) async fn list(
    State(app): State<App>,
    _: Managing,
    tenant: OfTenant,
    uri: Uri,
) -> Result<Json<Value>, Refusal> {
    let (tenant, (after, limit)) = (named(tenant)?, part(&uri)?);
    let (keys, more) = app.runtime.tenants().keys(&tenant, after.as_deref(), limit).await?;
    let shown: Vec<_> = keys.iter().map(|key| key.to_json(app.runtime.tenants().now())).collect();
    let mut answer = json!({ "keys": shown, "hasMore": more });
    if let Some(last) = keys.last() {
        answer["cursor"] = last.id.as_str().into();
    }
    Ok(Json(answer))
}

/// `POST /v1/admin/tenants/{tenant}/keys`
pub(super) async fn create(
    State(app): State<App>,
    _: Managing,
    tenant: OfTenant,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    let tenant = named(tenant)?;
    let New { name, scopes, expires_at } = said(&app, &headers, body).await?;
    let scopes = match scopes {
        Some(words) => Scopes::of(words.iter().map(String::as_str))?,
        None => Scopes::USUAL,
    };
    let new = NewKey { name, scopes, expires: expires_at.map(Into::into) };
    let (key, token) = app.runtime.tenants().create_key(&tenant, new).await?;
    Ok(told(&app, &key, &token))
}

/// `GET /v1/admin/tenants/{tenant}/keys/{key}`
pub(super) async fn show(State(app): State<App>, _: Managing, of: OfKey) -> Result<Json<Value>, Refusal> {
    let (tenant, key) = named(of)?;
    let key = app.runtime.tenants().key(&tenant, &key).await?;
    Ok(Json(json!({ "key": key.to_json(app.runtime.tenants().now()) })))
}

/// `DELETE /v1/admin/tenants/{tenant}/keys/{key}`
pub(super) async fn revoke(State(app): State<App>, _: Managing, of: OfKey) -> Result<Json<Value>, Refusal> {
    let (tenant, key) = named(of)?;
    let key = app.runtime.tenants().revoke_key(&tenant, &key).await?;
    Ok(Json(json!({ "key": key.to_json(app.runtime.tenants().now()) })))
}

/// `POST /v1/admin/tenants/{tenant}/keys/{key}/rotate`
pub(super) async fn rotate(
    State(app): State<App>,
    _: Managing,
    of: OfKey,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    let (tenant, key) = named(of)?;
    let Rotation { grace_seconds } = said(&app, &headers, body).await?;
    if grace_seconds > GRACE_SECONDS_MAX {
        let message = format!("must be at most {GRACE_SECONDS_MAX}, not {grace_seconds}");
        return Err(Error::invalid("graceSeconds", message).into());
    }
    let grace = Duration::from_secs(grace_seconds);
    let (key, token) = app.runtime.tenants().rotate_key(&tenant, &key, grace).await?;
    Ok(told(&app, &key, &token))
}

/// The one answer with a secret: nothing in between may keep it.
fn told(app: &App, key: &ApiKey, token: &Token) -> Response {
    let answer = json!({ "key": key.to_json(app.runtime.tenants().now()), "token": token.reveal() });
    ([(header::CACHE_CONTROL, "no-store")], Json(answer)).into_response()
}
