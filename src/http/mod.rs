//! The gateway: commands, feeds and blobs over HTTP.
//!
//! A handler reads what the caller sent, asks the [`Runtime`] and writes down the answer; it decides nothing. Whatever
//! goes wrong, on whatever path, is answered with the one error envelope (`refusal`). Bodies are bounded before they
//! are read, and what is streamed is pulled from the store only as fast as the client takes it.
//!
//! Who asks is known before a handler is (`credential`): from an API key or a signed token. Without credentials
//! ([`Access::Open`]) everybody who reaches the server is [`Caller::local`](crate::runtime::Caller::local). So such a
//! server listens on loopback unless somebody insists ([`check_address`]), and there it turns away what a web page of
//! somebody else could send through the user's own browser (`guard`).

mod admin;
mod agent;
mod blob;
mod body;
mod browser;
mod channel;
mod command;
mod credential;
mod events;
mod frame;
mod guard;
mod health;
mod limits;
mod listen;
mod metrics;
mod observe;
mod openapi;
mod query;
mod range;
mod refusal;
mod stream;
mod tls;

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
    browser::check_origins,
    metrics::install as install_metrics,
    tls::{Tls, TlsError},
};
use crate::{
    control::{Code, Error},
    credential::{Access, Credentials},
    http::{limits::Limits, refusal::Refusal},
    runtime::Runtime,
};

/// How long requests may take to end once the server stops: long enough for a commit, shorter than what supervisors
/// wait before they kill.
const DRAIN_MAX: Duration = Duration::from_secs(10);

/// How the gateway behaves where it may be told.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How often somebody who follows a silent feed is given a sign of life.
    pub sign_of_life_every: Duration,
    /// Web pages that may use the API from a browser; `*` for all of them. Not heeded on loopback without credentials:
    /// there no page may.
    pub cors_origins: Vec<String>,
    /// Whether answers are compressed for clients that ask for it.
    pub compression: bool,
    /// Whom it lets in.
    pub access: Access,
    /// What it shows to those who connect; without it they are served in the clear.
    pub tls: Option<Tls>,
}

impl Default for Settings {
    fn default() -> Self {
        // Within what proxies and clients wait before they give a silent connection up.
        Self {
            sign_of_life_every: Duration::from_secs(15),
            cors_origins: Vec::new(),
            compression: true,
            access: Access::Open,
            tls: None,
        }
    }
}

/// What every handler has.
#[derive(Clone)]
struct App {
    runtime: Runtime,
    credentials: Credentials,
    limits: Arc<Limits>,
    /// How many commands may still begin.
    commands: Arc<Semaphore>,
    /// How many more may do nothing but wait.
    waiting: Arc<Semaphore>,
    /// How many more large bodies may be read.
    large: Arc<Semaphore>,
    settings: Settings,
    /// Who holds which channel.
    holders: channel::Holders,
    /// Whether the server is stopping.
    stopping: watch::Receiver<bool>,
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
    serve_routes(router, settings, runtime, listener, shutdown).await
}

/// Serves `/healthz`, `/readyz` and `/metrics` and nothing else: for a process that is no gateway.
pub async fn serve_health(
    runtime: Runtime,
    listener: TcpListener,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    serve_routes(health_router, Settings::default(), runtime, listener, shutdown).await
}

async fn serve_routes(
    routes: fn(App, bool) -> Router,
    settings: Settings,
    runtime: Runtime,
    listener: TcpListener,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let is_local = guard::is_loopback(listener.local_addr()?.ip());
    let (stop, stopping) = watch::channel(false);
    let credentials = Credentials::new(runtime.tenants().clone(), settings.access.clone());
    // Whoever has to show a credential can not be made to by a page that does not know it.
    let is_guarded = is_local && credentials.is_open();
    let tls = settings.tls.clone();
    let app = App {
        runtime,
        credentials,
        limits: Arc::default(),
        commands: Arc::new(Semaphore::new(command::AT_ONCE_MAX)),
        waiting: Arc::new(Semaphore::new(command::WAITING_MAX)),
        large: Arc::new(Semaphore::new(command::LARGE_MAX)),
        settings,
        holders: channel::Holders::new(),
        stopping: stopping.clone(),
    };
    let (holders, channels, readers) = (app.holders.clone(), app.holders.clone(), app.runtime.clone());
    let app = routes(app, is_guarded);
    let server = listen::serve(listener, tls, app, stopping.clone());
    // Channels are not requests, so the server does not wait for them.
    let server = async {
        server.await;
        channels.drain().await;
    };
    let stopper = async move {
        shutdown.await;
        stop.send_replace(true);
        std::future::pending::<()>().await;
    };
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
        () = server => Ok(()),
        () = stopper => Ok(()),
        () = metrics::upkeep() => Ok(()),
        () = holders.listen(&readers) => Ok(()),
        () = tidy(&readers) => Ok(()),
        () = too_long => {
            tracing::warn!(seconds = DRAIN_MAX.as_secs(), "requests that did not end are cut off");
            Ok(())
        }
    }
}

/// Forgets what readers share and nobody asks for.
async fn tidy(runtime: &Runtime) {
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        runtime.readers().tidy();
        let (feeds, bytes) = runtime.readers().size();
        ::metrics::gauge!("cadre_reader_feeds").set(feeds as f64);
        ::metrics::gauge!("cadre_reader_bytes").set(bytes as f64);
    }
}

/// Whether the server may listen there. What other machines send in the clear, others read, credentials included.
pub fn check_address(address: SocketAddr, has_tls: bool, insecure: bool) -> Result<(), String> {
    if has_tls || insecure || guard::is_loopback(address.ip()) {
        return Ok(());
    }
    Err(format!(
        "{address} can be reached from other machines: give a certificate with --tls-cert and --tls-key, listen on \
         127.0.0.1, or insist on plain HTTP with --insecure"
    ))
}

/// Whether only this machine reaches an address.
pub fn is_loopback(address: SocketAddr) -> bool {
    guard::is_loopback(address.ip())
}

fn router(app: App, is_guarded: bool) -> Router {
    let settings = app.settings.clone();
    let router = Router::new()
        .route("/v1/commands", get(command::list))
        .route("/v1/commands/{name}", post(command::execute))
        .route("/v1/sessions/{id}/events", get(events::page))
        .route("/v1/sessions/{id}/stream", get(stream::follow))
        .route("/v1/channel", get(channel::open))
        .route("/v1/blobs/{ref}", get(blob::read))
        .merge(agent::routes())
        .merge(admin::routes())
        .route("/openapi.json", get(openapi::document));
    let router = watched(router)
        .route("/metrics", get(health::metrics))
        .fallback(no_path)
        .method_not_allowed_fallback(no_method)
        .layer(middleware::from_fn_with_state(app.clone(), credential::identify))
        .with_state(app);
    let router = if settings.compression { router.layer(browser::compression()) } else { router };
    let router = match browser::cors(&settings.cors_origins) {
        _ if is_guarded => router.layer(middleware::from_fn(guard::local_only)),
        Some(cors) => router.layer(cors),
        None => router,
    };
    router.layer(middleware::from_fn(observe::observe))
}

/// For those who watch over a process, on an address of its own: who reaches it may ask.
fn health_router(app: App, _: bool) -> Router {
    let router = watched(Router::new())
        .route("/metrics", get(health::all_metrics))
        .fallback(no_path)
        .method_not_allowed_fallback(no_method);
    router.with_state(app).layer(middleware::from_fn(observe::observe))
}

fn watched(router: Router<App>) -> Router<App> {
    router.route("/healthz", get(health::alive)).route("/readyz", get(health::ready))
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
    fn only_loopback_is_safe_without_tls() {
        for address in ["127.0.0.1:7600", "127.3.2.1:0", "[::1]:7600", "[::ffff:127.0.0.1]:1"] {
            assert_eq!(check_address(address.parse().unwrap(), false, false), Ok(()), "{address}");
        }
        for address in ["0.0.0.0:7600", "[::]:7600", "192.168.1.2:80", "[::ffff:10.0.0.1]:1"] {
            assert!(check_address(address.parse().unwrap(), false, false).is_err(), "{address}");
            assert!(check_address(address.parse().unwrap(), false, true).is_ok(), "{address}");
            assert!(check_address(address.parse().unwrap(), true, false).is_ok(), "{address}");
        }
    }
}
