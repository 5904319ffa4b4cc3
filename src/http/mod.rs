//! The gateway: commands, feeds and blobs over HTTP.
//!
//! A handler reads what the caller sent, asks the [`Runtime`] and writes down the answer; it decides nothing. Whatever
//! goes wrong, on whatever path, is answered with the one error envelope (`refusal`). Bodies are bounded before they
//! are read, and what is streamed is pulled from the store only as fast as the client takes it.
//!
//! There are no credentials yet: everybody who reaches the server is [`Caller::local`]. So it listens on loopback
//! unless somebody insists ([`check_address`]), and there it turns away what a web page of somebody else could send
//! through the user's own browser (`guard`).

mod blob;
mod body;
mod command;
mod events;
mod frame;
mod guard;
mod health;
mod metrics;
mod observe;
mod openapi;
mod query;
mod range;
mod refusal;
mod stream;

use std::{future::Future, io, net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    Router,
    http::{Method, Uri},
    middleware,
    routing::{get, post},
};
use tokio::{
    net::TcpListener,
    sync::{Semaphore, watch},
};

pub use self::{
    body::{BODY_BYTES_MAX, LARGE_BODY_BYTES_MAX, SMALL_BODY_BYTES_MAX},
    metrics::install as install_metrics,
};
use crate::{
    control::{Code, Error},
    http::refusal::Refusal,
    runtime::{Caller, Runtime},
};

/// How long requests may take to end once the server stops: long enough for a commit, shorter than what supervisors
/// wait before they kill.
const DRAIN_MAX: Duration = Duration::from_secs(10);

/// How the gateway behaves where it may be told.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How often somebody who follows a silent feed is given a sign of life.
    pub sign_of_life_every: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        // Within what proxies and clients wait before they give a silent connection up.
        Self { sign_of_life_every: Duration::from_secs(15) }
    }
}

/// What every handler has.
#[derive(Clone)]
struct App {
    runtime: Runtime,
    /// How many commands may still begin.
    commands: Arc<Semaphore>,
    /// How many more may do nothing but wait.
    waiting: Arc<Semaphore>,
    /// How many more large bodies may be read.
    large: Arc<Semaphore>,
    settings: Settings,
    /// Whether the server is stopping.
    stopping: watch::Receiver<bool>,
}

impl App {
    /// Who asks. Credentials will say.
    fn caller(&self) -> Caller {
        Caller::local()
    }
}

/// Serves until `shutdown`: then it accepts nothing more, says goodbye to those who follow a feed, and lets the rest
/// end.
pub async fn serve(
    runtime: Runtime,
    listener: TcpListener,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    serve_with(Settings::default(), runtime, listener, shutdown).await
}

/// [`serve`] with other settings.
pub async fn serve_with(
    settings: Settings,
    runtime: Runtime,
    listener: TcpListener,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let is_local = guard::is_loopback(listener.local_addr()?.ip());
    let (stop, stopping) = watch::channel(false);
    let app = App {
        runtime,
        commands: Arc::new(Semaphore::new(command::AT_ONCE_MAX)),
        waiting: Arc::new(Semaphore::new(command::WAITING_MAX)),
        large: Arc::new(Semaphore::new(command::LARGE_MAX)),
        settings,
        stopping: stopping.clone(),
    };
    let app = router(app, is_local);
    let server = axum::serve(listener, app).with_graceful_shutdown(async move {
        shutdown.await;
        stop.send_replace(true);
    });
    let too_long = async {
        let mut stopping = stopping;
        // An error means that the server is gone: then the other branch ends.
        if stopping.wait_for(|stopping| *stopping).await.is_err() {
            std::future::pending::<()>().await;
        }
        tokio::time::sleep(DRAIN_MAX).await;
    };
    tokio::select! {
        biased;
        served = server => served,
        () = metrics::upkeep() => Ok(()),
        () = too_long => {
            tracing::warn!(seconds = DRAIN_MAX.as_secs(), "requests that did not end are cut off");
            Ok(())
        }
    }
}

/// Whether the server may listen there. Without credentials everybody who reaches it can do everything.
pub fn check_address(address: SocketAddr, insecure: bool) -> Result<(), String> {
    if insecure || guard::is_loopback(address.ip()) {
        return Ok(());
    }
    Err(format!(
        "{address} can be reached from other machines, and there are no credentials yet: listen on 127.0.0.1, or \
         insist with --insecure"
    ))
}

fn router(app: App, is_local: bool) -> Router {
    let router = Router::new()
        .route("/v1/commands", get(command::list))
        .route("/v1/commands/{name}", post(command::execute))
        .route("/v1/sessions/{id}/events", get(events::page))
        .route("/v1/sessions/{id}/stream", get(stream::follow))
        .route("/v1/blobs/{ref}", get(blob::read))
        .route("/openapi.json", get(openapi::document))
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(health::metrics))
        .fallback(no_path)
        .method_not_allowed_fallback(no_method)
        .with_state(app);
    let router = if is_local { router.layer(middleware::from_fn(guard::local_only)) } else { router };
    router.layer(middleware::from_fn(observe::observe))
}

async fn no_path(uri: Uri) -> Refusal {
    let path: String = uri.path().chars().take(200).collect();
    Error::new(Code::NotFound, format!("there is nothing at {path}")).into()
}

async fn no_method(method: Method, uri: Uri) -> Refusal {
    let path: String = uri.path().chars().take(200).collect();
    Refusal::method(Error::invalid("method", format_args!("{path} does not take {method}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_is_safe_without_credentials() {
        for address in ["127.0.0.1:7600", "127.3.2.1:0", "[::1]:7600", "[::ffff:127.0.0.1]:1"] {
            assert_eq!(check_address(address.parse().unwrap(), false), Ok(()), "{address}");
        }
        for address in ["0.0.0.0:7600", "[::]:7600", "192.168.1.2:80", "[::ffff:10.0.0.1]:1"] {
            assert!(check_address(address.parse().unwrap(), false).is_err(), "{address}");
            assert!(check_address(address.parse().unwrap(), true).is_ok(), "{address}");
        }
    }
}
