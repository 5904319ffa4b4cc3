//! Managing tenants, their keys and their quotas: for those who run the cluster.
//!
//! Whoever may not is told so before anything is looked up: an answer never says whether there is a tenant or a key.

mod document;
mod keys;
mod quotas;
mod tenants;

use axum::{
    Router,
    extract::{Path, Query, rejection::PathRejection},
    http::Uri,
    routing::get,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

pub(super) use self::document::document;
use super::{
    App,
    body::{self, SMALL_BODY_BYTES_MAX},
    refusal::Refusal,
};
use crate::control::{Error, args::Limit, read};

/// All paths of it.
pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/v1/admin/tenants", get(tenants::list).post(tenants::create))
        .route("/v1/admin/tenants/{tenant}", get(tenants::show).patch(tenants::change))
        .route("/v1/admin/tenants/{tenant}/keys", get(keys::list).post(keys::create))
        .route("/v1/admin/tenants/{tenant}/keys/{key}", get(keys::show).delete(keys::revoke))
        .route("/v1/admin/tenants/{tenant}/keys/{key}/rotate", axum::routing::post(keys::rotate))
        .route("/v1/admin/tenants/{tenant}/quotas", get(quotas::show).put(quotas::set))
}

/// What a path names.
fn named<T>(path: Result<Path<T>, PathRejection>) -> Result<T, Error> {
    path.map(|Path(named)| named).map_err(|_| Error::invalid("", "the path is not readable"))
}

/// Which part of a list is wanted.
fn part(uri: &Uri) -> Result<(Option<String>, Limit), Error> {
    let pairs = Query::<Vec<(String, String)>>::try_from_uri(uri);
    let Query(pairs) = pairs.map_err(|_| Error::invalid("", "the query is not readable"))?;
    let (mut after, mut limit) = (None, Limit::default());
    for (name, value) in pairs {
        match name.as_str() {
            "after" => after = Some(value),
            "limit" => limit = Limit::parse(&value)?,
            _ => {}
        }
    }
    Ok((after, limit))
}

/// What a body says.
async fn said<T: DeserializeOwned>(
    app: &App,
    headers: &axum::http::HeaderMap,
    sent: axum::body::Body,
) -> Result<T, Refusal> {
    let value: Value =
        body::arguments(&body::read(headers, sent, SMALL_BODY_BYTES_MAX, &app.large).await?.content)?;
    Ok(read::from_value(value)?)
}
