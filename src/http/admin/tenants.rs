//! Tenants: listed, made, shown, changed.

use axum::{
    Json,
    body::Body,
    extract::{Path, State, rejection::PathRejection},
    http::{HeaderMap, Uri},
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{App, Refusal, named, part, said};
use crate::{
    control::Error,
    http::credential::Managing,
    tenant::{Change, Tenant},
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct New {
    tenant_id: String,
    title: Option<String>,
}

#[derive(Deserialize)]
struct Changed {
    title: Option<String>,
    status: Option<String>,
}

/// `GET /v1/admin/tenants`
pub(super) async fn list(State(app): State<App>, _: Managing, uri: Uri) -> Result<Json<Value>, Refusal> {
    let (after, limit) = part(&uri)?;
    let (tenants, more) = app.runtime.tenants().tenants(after.as_deref(), limit).await?;
    let mut answer =
        json!({ "tenants": tenants.iter().map(Tenant::to_json).collect::<Vec<_>>(), "hasMore": more });
    if let Some(last) = tenants.last() {
        answer["cursor"] = last.id.as_str().into();
    }
    Ok(Json(answer))
}

/// `POST /v1/admin/tenants`
pub(super) async fn create(
    State(app): State<App>,
    _: Managing,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>, Refusal> {
    let New { tenant_id, title } = said(&app, &headers, body).await?;
    let tenant = app.runtime.tenants().create_tenant(&tenant_id, title).await?;
    Ok(Json(json!({ "tenant": tenant.to_json() })))
}

/// `GET /v1/admin/tenants/{tenant}`
pub(super) async fn show(
    State(app): State<App>,
    _: Managing,
    tenant: Result<Path<String>, PathRejection>,
) -> Result<Json<Value>, Refusal> {
    let tenant = app.runtime.tenants().tenant(&named(tenant)?).await?;
    Ok(Json(json!({ "tenant": tenant.to_json() })))
}

/// `PATCH /v1/admin/tenants/{tenant}`
pub(super) async fn change(
    State(app): State<App>,
    _: Managing,
    tenant: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>, Refusal> {
    let tenant = named(tenant)?;
    let Changed { title, status } = said(&app, &headers, body).await?;
    let suspended = match status.as_deref() {
        None => None,
        Some("active") => Some(false),
        Some("suspended") => Some(true),
        Some(_) => return Err(Error::invalid("status", "must be active or suspended").into()),
    };
    let tenant = app.runtime.tenants().change_tenant(&tenant, &Change { title, suspended }).await?;
    Ok(Json(json!({ "tenant": tenant.to_json() })))
}
