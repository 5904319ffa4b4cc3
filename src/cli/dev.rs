//! `cadre dev`: everything in one process, on the embedded store.

use std::{env, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use super::{access, duration, identity, stopped::stopped};
use anyhow::Context;
use cadre::{
    blob::Retention,
    fact::Publisher,
    http,
    runtime::{Runtime, Settings},
};
use cadre_cluster::{
    bus::LocalBus,
    clock::SystemClock,
    host::HostConfig,
    placement::Takeover,
    store::embedded::{Embedded, EmbeddedConfig},
};
use clap::Args as ClapArgs;
use rand::TryRngCore;
use tokio::{net::TcpListener, sync::watch};

/// How long a command may take when its caller does not say.
const DEADLINE: Duration = Duration::from_secs(30);
/// How long something may wait before the node counts as not ready.
const PATIENCE: Duration = Duration::from_secs(30);

/// Run everything in one process on this machine
///
/// Prints one line, `ready http://ADDR`, once it serves. Ctrl-C stops it after everything is handed over; what was
/// running goes on when it is started again.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  cadre dev
  cadre dev --listen 127.0.0.1:0 --data /tmp/cadre     any free port, another folder")]
pub struct Args {
    /// Where to listen; port 0 is any free one
    #[arg(long, env = "CADRE_LISTEN", default_value = "127.0.0.1:7600")]
    listen: SocketAddr,
    /// The data folder [default: `cadre` in the user's data directory]
    #[arg(long, env = "CADRE_DATA")]
    data: Option<PathBuf>,
    #[command(flatten)]
    access: access::Args,
    /// How long outputs, inputs and exports are kept that are too large for facts: 90s, 15m, 12h, 30d
    #[arg(long, env = "CADRE_BLOB_RETENTION", default_value = "30d", value_parser = kept)]
    blob_retention: Duration,
    /// How often to look for those whose time is over
    #[arg(long, env = "CADRE_SWEEP_EVERY", default_value = "60s", value_parser = swept)]
    sweep_every: Duration,
    /// How much of one output is kept; the rest is cut off, and a fact says so
    #[arg(long, env = "CADRE_OUTPUT_BYTES_MAX", default_value_t = Retention::OUTPUT_BYTES_MAX, value_parser = cut)]
    output_bytes_max: usize,
    /// What events and snapshots call this installation [default: made once and kept in the data folder]
    #[arg(long, env = "CADRE_RUNTIME_ID", value_parser = identity::valid)]
    runtime_id: Option<String>,
    /// Which version of the Agent Runtime profile events and snapshots say that they follow
    #[arg(long, env = "CADRE_SCHEMA_VERSION", default_value = Publisher::SCHEMA_VERSION, value_parser = identity::valid)]
    schema_version: String,
}

fn kept(text: &str) -> Result<Duration, String> {
    let blobs = duration::parse(text).map_err(|error| error.to_string())?;
    Retention::of(blobs).map(|_| blobs).map_err(|error| error.to_string())
}

fn swept(text: &str) -> Result<Duration, String> {
    let every = duration::parse(text).map_err(|error| error.to_string())?;
    Retention::default().swept_every(every).map(|_| every).map_err(|error| error.to_string())
}

fn cut(text: &str) -> Result<usize, String> {
    let bytes = text.parse().map_err(|_| format!("{text:?} is not a number of bytes"))?;
    Retention::default().of_outputs(bytes).map(|_| bytes).map_err(|error| error.to_string())
}

/// Runs until stopped.
pub fn run(args: Args, json: bool) -> anyhow::Result<()> {
    let access::Served { access, tls } = args.access.check(args.listen)?;
    let retention = Retention::of(args.blob_retention)?.swept_every(args.sweep_every)?;
    let retention = retention.of_outputs(args.output_bytes_max)?;
    let data = args.data.map_or_else(default_data, Ok)?;
    http::install_metrics();
    let tokio = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    tokio.block_on(async {
        // First, so that a port in use is said before a folder is touched.
        let listener = TcpListener::bind(args.listen).await;
        let listener = listener.with_context(|| format!("cannot listen on {}", args.listen))?;
        let stopped = stopped()?;
        let embedded = Embedded::open(EmbeddedConfig::new(&data))
            .with_context(|| format!("cannot use the data folder {}", data.display()))?;
        // The folder is locked: a former life of this node cannot be running.
        let host = HostConfig {
            takeover: Takeover::AtOnce,
            entities_live_max: cadre::runtime::ENTITIES_LIVE_MAX,
            ..HostConfig::new("dev", "dev")
        };
        let runtime_id = args.runtime_id.map_or_else(|| identity::of(&data), Ok)?;
        let publisher = Publisher { runtime_id, schema_version: args.schema_version };
        let settings = Settings { host, publisher, deadline: DEADLINE, retention };
        let (bus, seed) = (Arc::new(LocalBus::new()), rand::rngs::OsRng.try_next_u64()?);
        let runtime = Runtime::start(settings, embedded.store(), bus, Arc::new(SystemClock), seed).await?;
        let settings = http::Settings { access, tls, ..http::Settings::default() };
        let served = serve(&runtime, settings, listener, stopped, &data, json).await;
        runtime.stop().await;
        embedded.close().await;
        served
    })
}

async fn serve(
    runtime: &Runtime,
    settings: http::Settings,
    listener: TcpListener,
    mut stopped: watch::Receiver<bool>,
    data: &std::path::Path,
    json: bool,
) -> anyhow::Result<()> {
    while runtime.ready(PATIENCE).await.is_err() && !*stopped.borrow() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    if *stopped.borrow() {
        return Ok(());
    }
    let scheme = if settings.tls.is_some() { "https" } else { "http" };
    let url = format!("{scheme}://{}", listener.local_addr()?);
    let served = http::serve_with(settings, runtime.clone(), listener, async move {
        // An error means that nobody can stop it any more, which does not happen: the task that waits for signals ends last.
        let _ = stopped.wait_for(|stopped| *stopped).await;
        eprintln!("cadre: stopping; once more to stop at once");
    });
    // The socket has been listening since it was bound: whoever connects now is answered.
    if json {
        println!("{}", serde_json::json!({ "event": "ready", "url": url }));
    } else {
        println!("ready {url}");
    }
    eprintln!("cadre: data in {}; stop with Ctrl-C", data.display());
    served.await.context("cannot serve")
}

/// Where a node keeps its data when nobody says.
pub(super) fn default_data() -> anyhow::Result<PathBuf> {
    let data = env::var_os("XDG_DATA_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let data = data.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".local/share")));
    Ok(data.context("neither XDG_DATA_HOME nor HOME is set; name a folder with --data")?.join("cadre"))
}
