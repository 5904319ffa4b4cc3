//! The quotas of a tenant: shown, set.

use axum::{
    Json,
    body::Body,
    extract::{Path, State, rejection::PathRejection},
    http::HeaderMap,
};
use serde_json::{Map, Value, json};

use super::{App, Refusal, named, said};
use crate::{control::Error, http::credential::Managing, tenant::Quotas};

/// `GET /v1/admin/tenants/{tenant}/quotas`
pub(super) async fn show(
    State(app): State<App>,
    _: Managing,
    tenant: Result<Path<String>, PathRejection>,
) -> Result<Json<Value>, Refusal> {
    let tenant = app.runtime.tenants().tenant(&named(tenant)?).await?;
    let quotas = app.runtime.tenants().quotas(&tenant.id).await?;
    Ok(Json(json!({ "quotas": quotas.to_json() })))
}

/// `PUT /v1/admin/tenants/{tenant}/quotas`
pub(super) async fn set(
    State(app): State<App>,
    _: Managing,
    tenant: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>, Refusal> {
    let tenant = named(tenant)?;
    let wanted: Map<String, Value> = said(&app, &headers, body).await?;
    let mut quotas = Quotas::default();
    for (name, value) in &wanted {
        let number = match value {
            Value::Null => None,
            value => {
                Some(value.as_u64().ok_or_else(|| Error::invalid(name, "must be a whole number, or null"))?)
            }
        };
        quotas.set(name, number)?;
    }
    app.runtime.tenants().set_quotas(&tenant, quotas).await?;
    Ok(Json(json!({ "quotas": quotas.to_json() })))
}
