//! A server without credentials must not take orders from web pages.
//!
//! It listens on loopback, but so does every browser on the machine: a page of anybody can make it send requests there,
//! either across origins (then the browser names the page in `Origin`), or by letting its own name point to loopback
//! (then `Host` is that name). Programs send neither, or the names of this machine.

use std::net::IpAddr;

use axum::{
    extract::Request,
    http::{HeaderMap, header},
    middleware::Next,
    response::{IntoResponse, Response},
};

use super::refusal::Refusal;
use crate::control::{Code, Error};

/// Lets through what comes from this machine itself.
pub(super) async fn local_only(request: Request, next: Next) -> Response {
    let host = request.uri().authority().map(|authority| authority.as_str().to_owned());
    match check(request.headers(), host.as_deref()) {
        Ok(()) => next.run(request).await,
        Err(error) => Refusal::from(error).into_response(),
    }
}

/// `authority` is what HTTP/2 has in place of `Host`.
fn check(headers: &HeaderMap, authority: Option<&str>) -> Result<(), Error> {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    if let Some(host) = authority.or(text(header::HOST))
        && !is_local(host)
    {
        return Err(refused("Host", host));
    }
    if let Some(origin) = text(header::ORIGIN) {
        let host = origin.split_once("://").map(|(_, host)| host);
        if !host.is_some_and(is_local) {
            return Err(refused("Origin", origin));
        }
    }
    Ok(())
}

fn refused(header: &str, found: &str) -> Error {
    let found: String = found.chars().take(100).collect();
    let message = format!("without credentials only this machine is served, not {header} {found}");
    Error::new(Code::Forbidden, message).with("header", header)
}

/// Whether `name`, `name:port` or `[address]:port` is this machine.
fn is_local(authority: &str) -> bool {
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(rest),
        None => authority.rsplit_once(':').map_or(authority, |(host, _)| host),
    };
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    host == "localhost" || host.ends_with(".localhost") || host.parse().is_ok_and(is_loopback)
}

/// Whether only this machine reaches that, also when it is written as an address of the other family.
pub(super) fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    fn of(headers: &[(HeaderName, &'static str)]) -> Result<(), Error> {
        let headers = headers.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value)));
        check(&headers.collect(), None)
    }

    #[test]
    fn this_machine_is_served() {
        assert_eq!(of(&[]), Ok(()));
        for host in [
            "localhost:7600",
            "127.0.0.1:1",
            "[::1]:80",
            "[::ffff:127.0.0.1]:80",
            "LOCALHOST",
            "console.localhost:7600",
        ] {
            assert_eq!(of(&[(header::HOST, host)]), Ok(()), "{host}");
        }
        assert_eq!(of(&[(header::HOST, "127.0.0.1:1"), (header::ORIGIN, "http://localhost:3000")]), Ok(()));
    }

    #[test]
    fn web_pages_of_others_are_not() {
        for host in
            ["evil.example", "evil.example:7600", "localhost.evil.example", "10.0.0.1:7600", "[::2]:1"]
        {
            assert_eq!(of(&[(header::HOST, host)]).unwrap_err().code, Code::Forbidden, "{host}");
        }
        for origin in ["https://evil.example", "null", "http://localhost.evil.example", "file://"] {
            let headers = [(header::HOST, "127.0.0.1:7600"), (header::ORIGIN, origin)];
            assert_eq!(of(&headers).unwrap_err().code, Code::Forbidden, "{origin}");
        }
    }
}
