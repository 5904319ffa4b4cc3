//! Connections: taken, bounded, and ended.
//!
//! Whoever connects has half a minute to bring a whole request, TLS and all: a client that sends a byte now and then is
//! cut off, however it does that. Connections are bounded in number and their heads in size. When the server stops,
//! connections end after the requests that they are at.

use std::{
    io,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::Router;
use hyper::{
    Request,
    body::Incoming,
    service::{Service as _, service_fn},
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto::Builder,
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch},
    time::Instant,
};

use super::tls::Tls;

/// Connections at once: an idle one takes some kilobytes, so this many take a few hundred megabytes.
const CONNECTIONS_MAX: usize = 32_768;
/// How long a request may take to come, from its first byte or from the connection. Longer than clients keep an idle
/// connection in their pools, so that it is they who end it.
const HEAD_MAX: Duration = Duration::from_secs(30);
/// How long TLS may take to begin.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// The head of a request, over HTTP/1.1; a larger one is answered with 431.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// The headers of a request, over HTTP/2.
const HEADERS_BYTES_MAX: u32 = 32 * 1024;
/// Requests at once on one connection, over HTTP/2.
const STREAMS_MAX: u32 = 256;
/// How often a silent HTTP/2 client is asked whether it is there.
const PING_EVERY: Duration = Duration::from_secs(20);
/// How long to wait when there are no files left to open.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(500);

/// Takes connections until it stops, and returns once the last one has ended.
pub(super) async fn serve(
    listener: TcpListener,
    tls: Option<Tls>,
    router: Router,
    mut stopping: watch::Receiver<bool>,
) {
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let (open, mut all_closed) = mpsc::channel::<()>(1);
    loop {
        let accepted = tokio::select! {
            biased;
            // An error means that whoever would stop it is gone, which is as good.
            _ = stopping.wait_for(|stopping| *stopping) => break,
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) if is_of_one(&error) => continue,
            Err(error) => {
                tracing::error!(%error, "cannot take connections");
                tokio::time::sleep(EXHAUSTED_PAUSE).await;
                continue;
            }
        };
        let Ok(permit) = permits.clone().try_acquire_owned() else {
            metrics::counter!("cadre_connections_refused_total").increment(1);
            continue;
        };
        let (tls, router, stopping, open) = (tls.clone(), router.clone(), stopping.clone(), open.clone());
        tokio::spawn(async move {
            connection(stream, tls, router, stopping, permit).await;
            drop(open);
        });
    }
    drop((listener, open));
    // Nobody sends: this waits for the last one to go.
    let _ = all_closed.recv().await;
}

/// Whether it is the fault of one client, gone before it was taken.
fn is_of_one(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

async fn connection(
    stream: TcpStream,
    tls: Option<Tls>,
    router: Router,
    stopping: watch::Receiver<bool>,
    _permit: OwnedSemaphorePermit,
) {
    let gauge = metrics::gauge!("cadre_connections_open");
    gauge.increment(1);
    // Small frames are to go at once. One that cannot be told so is only slower.
    let _ = stream.set_nodelay(true);
    let until = Instant::now() + HEAD_MAX;
    match tls {
        None => requests(stream, router, stopping, until).await,
        Some(tls) => match tokio::time::timeout(HANDSHAKE_MAX, tls.accept(stream)).await {
            Ok(Ok(stream)) => requests(stream, router, stopping, until).await,
            Ok(Err(error)) => {
                metrics::counter!("cadre_tls_failures_total", "reason" => "refused").increment(1);
                tracing::debug!(%error, "no TLS");
            }
            Err(_) => metrics::counter!("cadre_tls_failures_total", "reason" => "slow").increment(1),
        },
    }
    gauge.decrement(1);
}

async fn requests(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    router: Router,
    mut stopping: watch::Receiver<bool>,
    until: Instant,
) {
    let has_asked = Arc::new(AtomicBool::new(false));
    let (asked, inner) = (has_asked.clone(), TowerToHyperService::new(router));
    let service = service_fn(move |request: Request<Incoming>| {
        asked.store(true, Ordering::Relaxed);
        inner.call(request)
    });
    let builder = builder();
    let mut connection = pin!(builder.serve_connection_with_upgrades(TokioIo::new(stream), service));
    let mut first = pin!(tokio::time::sleep_until(until));
    let (mut is_stopping, mut is_waiting) = (false, true);
    loop {
        tokio::select! {
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "a connection broke off");
                }
                return;
            }
            _ = stopping.wait_for(|stopping| *stopping), if !is_stopping => {
                is_stopping = true;
                connection.as_mut().graceful_shutdown();
            }
            () = first.as_mut(), if is_waiting => {
                if !has_asked.load(Ordering::Relaxed) {
                    metrics::counter!("cadre_connections_slow_total").increment(1);
                    return;
                }
                is_waiting = false;
            }
        }
    }
}

fn builder() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_MAX).max_buf_size(HEAD_BYTES_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(HEADERS_BYTES_MAX)
        .max_concurrent_streams(STREAMS_MAX)
        .keep_alive_interval(PING_EVERY);
    builder
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    struct Door {
        address: std::net::SocketAddr,
        stop: watch::Sender<bool>,
        served: tokio::task::JoinHandle<()>,
    }

    impl Door {
        async fn open(tls: Option<Tls>) -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let (stop, stopping) = watch::channel(false);
            let router = Router::new().route("/", get(|| async { "hello" }));
            let served = tokio::spawn(serve(listener, tls, router, stopping));
            Self { address, stop, served }
        }

        /// What comes back, to the end of the connection.
        async fn send(&self, bytes: &[u8]) -> String {
            let mut stream = TcpStream::connect(self.address).await.unwrap();
            // The server may have had enough before all of it is sent, and may say so by a reset.
            let _ = stream.write_all(bytes).await;
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer).await;
            String::from_utf8_lossy(&answer).into_owned()
        }

        async fn close(self) {
            self.stop.send_replace(true);
            self.served.await.unwrap();
        }
    }

    fn tls() -> Tls {
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        std::fs::write(&certificate, made.cert.pem()).unwrap();
        std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        Tls::read(&certificate, &key).unwrap()
    }

    /// The clock is advanced as soon as everybody waits, which is what a slow client makes everybody do.
    #[tokio::test(start_paused = true)]
    async fn p9_whoever_brings_no_whole_request_in_time_is_cut_off() {
        for (tls, patience) in [(None, HEAD_MAX), (Some(tls()), HANDSHAKE_MAX)] {
            let door = Door::open(tls).await;
            for sent in [&b""[..], b"G", b"PRI * HT", b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow"] {
                let begun = Instant::now();
                let answer = door.send(sent).await;
                assert!(!answer.contains("hello"), "{answer}");
                assert!(begun.elapsed() <= patience + Duration::from_secs(1), "{:?}", begun.elapsed());
            }
            door.close().await;
        }
    }

    #[tokio::test]
    async fn requests_are_served_and_heads_without_end_are_not() {
        let door = Door::open(None).await;
        let request = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n";
        assert!(door.send(format!("{request}\r\n").as_bytes()).await.ends_with("hello"));
        let bomb = format!("{request}X-Bomb: {}\r\n\r\n", "x".repeat(2 * HEAD_BYTES_MAX));
        let answer = door.send(bomb.as_bytes()).await;
        assert!(!answer.contains("hello") && (answer.is_empty() || answer.contains("431")), "{answer}");
        let many = format!("{request}{}\r\n", "X-Many: 1\r\n".repeat(2_000));
        let answer = door.send(many.as_bytes()).await;
        assert!(!answer.contains("hello"), "{answer}");
        assert!(door.send(format!("{request}\r\n").as_bytes()).await.ends_with("hello"), "others are served");
        door.close().await;
    }

    #[tokio::test]
    async fn a_connection_ends_after_the_request_that_it_is_at_when_the_server_stops() {
        let door = Door::open(None).await;
        let mut idle = TcpStream::connect(door.address).await.unwrap();
        idle.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        let mut answer = [0; 12];
        idle.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200");
        let address = door.address;
        door.close().await;
        assert!(TcpStream::connect(address).await.is_err(), "nobody listens any more");
    }
}
