//! What browsers ask of a server: whether pages of others may use it, and answers that are short on the way.

use std::time::Duration;

use axum::http::{Extensions, HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version, header};
use tower_http::{
    compression::{CompressionLayer, Predicate, predicate::SizeAbove},
    cors::{AllowHeaders, AllowOrigin, CorsLayer},
};

/// How long a browser may remember what it was allowed. Longer than that browsers do not.
const REMEMBERED: Duration = Duration::from_secs(2 * 3600);
/// Below that compression makes nothing shorter that matters.
const COMPRESSED_FROM: u16 = 1_024;

/// Refuses what is no origin: `https://host` or `https://host:port`, nothing after it, or `*` alone.
pub fn check_origins(origins: &[String]) -> Result<(), String> {
    for origin in origins {
        if origin == "*" && origins.len() == 1 {
            continue;
        }
        let uri = origin.parse::<axum::http::Uri>().ok();
        let is_origin = |uri: axum::http::Uri| {
            let scheme = uri.scheme_str()?;
            let authority = uri.authority()?;
            // As browsers write it, because that is what is compared.
            let same = *origin == format!("{scheme}://{authority}") && *origin == origin.to_ascii_lowercase();
            Some(matches!(scheme, "http" | "https") && !authority.as_str().contains('@') && same)
        };
        if uri.and_then(is_origin) != Some(true) {
            let shown: String = origin.chars().take(100).collect();
            return Err(format!("{shown:?} is no origin, such as https://console.example, nor * alone"));
        }
    }
    Ok(())
}

/// Lets the pages of these origins use the API; `None` when there are none. Credentials come in headers that the page
/// sets itself, never in cookies, so nothing is given away by a browser on its own.
pub(super) fn cors(origins: &[String]) -> Option<CorsLayer> {
    if origins.is_empty() {
        return None;
    }
    let allowed = if origins == ["*"] {
        AllowOrigin::any()
    } else {
        AllowOrigin::list(origins.iter().filter_map(|origin| HeaderValue::from_str(origin).ok()))
    };
    let sent = ["idempotency-key", "last-event-id", "traceparent"].map(HeaderName::from_static);
    let read = ["retry-after", "content-range", "etag"].map(HeaderName::from_static);
    let cors = CorsLayer::new()
        .allow_origin(allowed)
        .allow_methods([Method::GET, Method::HEAD, Method::POST])
        .allow_headers(AllowHeaders::list(sent.into_iter().chain([
            header::AUTHORIZATION,
            header::CONTENT_TYPE,
            header::RANGE,
        ])))
        .expose_headers(read)
        .max_age(REMEMBERED);
    Some(cors)
}

/// Compresses pages of JSON. Not what is streamed, which has to leave at once; not blobs, which are asked for by ranges.
pub(super) fn compression() -> CompressionLayer<impl Predicate> {
    CompressionLayer::new().gzip(true).compress_when(SizeAbove::new(COMPRESSED_FROM).and(is_page))
}

fn is_page(_: StatusCode, _: Version, headers: &HeaderMap, _: &Extensions) -> bool {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let is_json = text(header::CONTENT_TYPE).is_some_and(|kind| kind.starts_with("application/json"));
    let length = text(header::CONTENT_LENGTH).and_then(|length| length.parse::<u64>().ok());
    is_json
        && !headers.contains_key(header::ACCEPT_RANGES)
        && length.is_none_or(|length| length >= u64::from(COMPRESSED_FROM))
}

#[cfg(test)]
mod tests {
    use axum::{Router, routing::post};
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::{TcpListener, TcpStream},
    };

    use super::*;

    #[test]
    fn an_origin_is_what_browsers_send_and_nothing_more() {
        let check =
            |origins: &[&str]| check_origins(&origins.iter().map(|o| (*o).to_owned()).collect::<Vec<_>>());
        for origins in [&[][..], &["*"], &["https://a.example", "http://localhost:3000"]] {
            assert_eq!(check(origins), Ok(()), "{origins:?}");
        }
        for origin in [
            "a.example",
            "https://a.example/",
            "https://A.example",
            "https://u@a.example",
            "ftp://a",
            "null",
            "",
        ] {
            assert!(check(&[origin]).is_err(), "{origin}");
        }
        assert!(check(&["*", "https://a.example"]).is_err());
    }

    /// The head of what a server answers that lets these origins in.
    async fn asked(origins: &[&str], request: &str) -> String {
        let origins: Vec<_> = origins.iter().map(|origin| (*origin).to_owned()).collect();
        let router = Router::new().route("/", post(|| async { "done" }));
        let router = cors(&origins).into_iter().fold(router, Router::layer);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = tokio::spawn(async move { axum::serve(listener, router).await });
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("{request}\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        serving.abort();
        answer.to_ascii_lowercase()
    }

    #[tokio::test]
    async fn pages_of_these_origins_may_use_the_api_and_others_may_not() {
        const PREFLIGHT: &str = "OPTIONS / HTTP/1.1\r\nAccess-Control-Request-Method: POST\r\n\
            Access-Control-Request-Headers: authorization,idempotency-key\r\nOrigin:";
        let (ours, theirs) = ("https://console.example", "https://evil.example");
        let allowed = asked(&[ours], &format!("{PREFLIGHT} {ours}")).await;
        assert!(allowed.contains(&format!("access-control-allow-origin: {ours}\r\n")), "{allowed}");
        for said in ["authorization", "idempotency-key", "post", "access-control-max-age: 7200"] {
            assert!(allowed.contains(said), "{said}: {allowed}");
        }
        assert!(!allowed.contains("allow-credentials"), "{allowed}");
        for (origins, origin) in [(&[ours][..], theirs), (&[][..], ours)] {
            let refused = asked(origins, &format!("{PREFLIGHT} {origin}")).await;
            assert!(!refused.contains("access-control-allow-origin"), "{refused}");
        }
        let anybody =
            asked(&["*"], &format!("POST / HTTP/1.1\r\nContent-Length: 0\r\nOrigin: {theirs}")).await;
        assert!(
            anybody.contains("access-control-allow-origin: *\r\n") && anybody.ends_with("done"),
            "{anybody}"
        );
    }

    #[test]
    fn only_pages_of_json_are_compressed() {
        let of = |pairs: &[(HeaderName, &'static str)]| {
            let headers = pairs.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value)));
            is_page(StatusCode::OK, Version::HTTP_11, &headers.collect(), &Extensions::new())
        };
        let json = (header::CONTENT_TYPE, "application/json");
        assert!(of(std::slice::from_ref(&json)));
        assert!(of(&[json.clone(), (header::CONTENT_LENGTH, "1024")]));
        assert!(!of(&[json.clone(), (header::CONTENT_LENGTH, "1023")]));
        assert!(!of(&[json, (header::ACCEPT_RANGES, "bytes")]), "a blob");
        assert!(!of(&[(header::CONTENT_TYPE, "text/event-stream")]));
        assert!(!of(&[]));
    }
}
