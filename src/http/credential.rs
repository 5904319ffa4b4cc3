//! Whoever asks, from what the request carries.
//!
//! Nothing but what watches over a server and what describes its API is answered without a credential, paths that do not
//! exist included. A credential is in `Authorization`; where a browser cannot set that (it follows a feed, or opens a
//! channel), it may be in the query as `access_token`. Queries are in no log of ours, but those of proxies are another
//! matter: programs should use the header.

use std::borrow::Cow;

use axum::{
    extract::{FromRequestParts, Query, Request, State},
    http::{HeaderMap, HeaderValue, Method, Uri, header, request::Parts},
    middleware::Next,
    response::{IntoResponse, Response},
};

use super::{App, limits::Rate, refusal::Refusal};
use crate::{
    control::{Code, Error, Scope},
    credential::{Credentials, bad},
    runtime::Caller,
};

/// What anybody may see.
const PUBLIC: [&str; 3] = ["/healthz", "/readyz", "/openapi.json"];
/// What is behind signed URLs.
const SIGNED: &str = "/api/v1/agent/attachments/";
/// The credential in a query.
const ACCESS_TOKEN: &str = "access_token";

/// Who asks, for handlers: everybody who comes as far as one was let in.
pub(super) struct Asking(pub Caller);

impl FromRequestParts<App> for Asking {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Refusal> {
        let caller = parts.extensions.get::<Caller>().cloned();
        caller.map(Self).ok_or_else(|| Refusal::internal("a handler without a caller"))
    }
}

/// Who asks and may read.
pub(super) struct Reading(pub Caller);

impl FromRequestParts<App> for Reading {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Refusal> {
        let Asking(caller) = Asking::from_request_parts(parts, app).await?;
        caller.require(Scope::Read)?;
        Ok(Self(caller))
    }
}

/// Whoever asks may manage tenants. What is changed is in the log, with who has done it.
pub(super) struct Managing;

impl FromRequestParts<App> for Managing {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Refusal> {
        let Asking(caller) = Asking::from_request_parts(parts, app).await?;
        caller.require_operator()?;
        if parts.method != Method::GET {
            let (by, path) = (&caller.name, parts.uri.path());
            tracing::info!(by, method = %parts.method, path, "administration");
        }
        Ok(Self)
    }
}

/// Whether anybody may ask: for what tells nothing of anybody's data, and for what the URL itself gives leave to see.
fn is_public(method: &Method, path: &str) -> bool {
    PUBLIC.contains(&path) || ((method == Method::GET || method == Method::HEAD) && path.starts_with(SIGNED))
}

/// Lets in who has a credential.
pub(super) async fn identify(State(app): State<App>, mut request: Request, next: Next) -> Response {
    if is_public(request.method(), request.uri().path()) {
        return next.run(request).await;
    }
    match caller(&app.credentials, request.method(), request.headers(), request.uri()).await {
        Ok(caller) => {
            if let Err(error) = within(&app, Rate::Requests, &caller).await {
                return refused(error);
            }
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Err(error) => refused(error),
    }
}

/// That a tenant does not ask faster than it may.
pub(super) async fn within(app: &App, rate: Rate, caller: &Caller) -> Result<(), Error> {
    if app.credentials.is_open() {
        return Ok(());
    }
    let quotas = app.credentials.quotas(&caller.tenant).await?;
    let per_second = match rate {
        Rate::Requests => quotas.requests_per_second,
        Rate::Commands => quotas.commands_per_second,
    };
    app.limits.take(rate, &caller.tenant, per_second)
}

fn refused(error: Error) -> Response {
    let is_unknown = error.code == Code::Unauthorized;
    let mut response = Refusal::from(error).into_response();
    if is_unknown {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

/// Who sends such a request.
pub(super) async fn caller(
    credentials: &Credentials,
    method: &Method,
    headers: &HeaderMap,
    uri: &Uri,
) -> Result<Caller, Error> {
    if credentials.is_open() {
        return credentials.authenticate(None).await;
    }
    let token = match bearer(headers)? {
        Some(token) => Some(Cow::Borrowed(token)),
        None if *method == Method::GET && is_from_browsers(uri.path()) => queried(uri)?.map(Cow::Owned),
        None => None,
    };
    credentials.authenticate(token.as_deref()).await
}

/// The credential in the header.
fn bearer(headers: &HeaderMap) -> Result<Option<&str>, Error> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(bad());
    }
    let (scheme, token) = value.to_str().ok().and_then(|text| text.split_once(' ')).ok_or_else(bad)?;
    if scheme.eq_ignore_ascii_case("bearer") { Ok(Some(token.trim())) } else { Err(bad()) }
}

/// Where browsers connect without headers of their own.
fn is_from_browsers(path: &str) -> bool {
    path == "/v1/channel" || (path.starts_with("/v1/sessions/") && path.ends_with("/stream"))
}

fn queried(uri: &Uri) -> Result<Option<String>, Error> {
    let Query(pairs) = Query::<Vec<(String, String)>>::try_from_uri(uri).map_err(|_| bad())?;
    let mut tokens = pairs.into_iter().filter(|(name, _)| name == ACCESS_TOKEN);
    let token = tokens.next().map(|(_, token)| token);
    if tokens.next().is_some() { Err(bad()) } else { Ok(token) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_is_one_bearer_token() {
        let of = |values: &[&'static str]| {
            let values = values.iter().map(|value| (header::AUTHORIZATION, HeaderValue::from_static(value)));
            bearer(&values.collect()).map(|token| token.map(str::to_owned))
        };
        assert_eq!(of(&[]), Ok(None));
        assert_eq!(of(&["Bearer abc"]), Ok(Some("abc".into())));
        assert_eq!(of(&["bearer  abc "]), Ok(Some("abc".into())));
        for bad in [&["abc"][..], &["Basic abc"], &["Bearer"], &["Bearer abc", "Bearer abc"]] {
            assert_eq!(of(bad).unwrap_err().code, Code::Unauthorized, "{bad:?}");
        }
    }

    #[test]
    fn a_query_has_a_credential_only_where_browsers_cannot_do_better() {
        for path in ["/v1/channel", "/v1/sessions/sess_1/stream"] {
            assert!(is_from_browsers(path), "{path}");
        }
        for path in ["/v1/channels", "/v1/sessions/sess_1/events", "/v1/commands/stream", "/stream"] {
            assert!(!is_from_browsers(path), "{path}");
        }
        let of = |query: &str| queried(&format!("/x?{query}").parse().unwrap());
        assert_eq!(of("after=1"), Ok(None));
        assert_eq!(of("after=1&access_token=a%20b"), Ok(Some("a b".into())));
        assert!(of("access_token=a&access_token=b").is_err());
    }
}
