//! Around every request: what is counted of it, and what becomes of a panic.

use std::panic::AssertUnwindSafe;

use axum::{
    extract::{MatchedPath, Request},
    middleware::Next,
    response::{IntoResponse, Response},
};
use futures::FutureExt;
use tokio::time::Instant;

use super::refusal::Refusal;

/// Counts a request. A panic in its handler is this request's alone, and answered as internal.
pub(super) async fn observe(request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let method = method(&request);
    let response = match AssertUnwindSafe(next.run(request)).catch_unwind().await {
        Ok(response) => response,
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
            Refusal::internal(&format!("panic: {}", text.as_deref().unwrap_or("of no known kind")))
                .into_response()
        }
    };
    let route = route.as_ref().map_or("other", MatchedPath::as_str).to_owned();
    let status = response.status().as_u16().to_string();
    metrics::counter!("cadre_http_requests_total", "method" => method, "route" => route.clone(), "status" => status)
        .increment(1);
    metrics::histogram!("cadre_http_request_seconds", "route" => route).record(begun.elapsed().as_secs_f64());
    response
}

/// As a label: a caller can make up methods, and must not make up series.
fn method(request: &Request) -> &'static str {
    match request.method().as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use axum::{Router, middleware, routing::get};
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::{TcpListener, TcpStream},
    };

    use super::*;

    async fn bug() -> &'static str {
        panic!("the text of a panic")
    }

    #[tokio::test]
    async fn a_panic_is_an_internal_error_that_tells_nothing() {
        let router = Router::new().route("/bug", get(bug)).layer(middleware::from_fn(observe));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, router).await });
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET /bug HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 500"), "{answer}");
        assert!(answer.contains(r#""code":"internal""#) && answer.contains("inc_"), "{answer}");
        assert!(!answer.contains("text of a panic"), "{answer}");
    }
}
