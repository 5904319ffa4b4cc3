//! How a node logs.

use anyhow::Context;
use cadre::config::{Config, Layers, Source};
use tracing_subscriber::{EnvFilter, Layer, layer::SubscriberExt, util::SubscriberInitExt};

/// What has to be kept until the end, so that nothing of it is lost.
pub struct Installed;

/// Logs to standard error as the configuration says. `RUST_LOG` is heeded unless a variable or an argument of ours says
/// otherwise.
pub fn install(config: &Config, layers: &Layers) -> anyhow::Result<Installed> {
    let said = &layers.get("log.filter").1;
    let common = matches!(said, Source::Default | Source::File(_));
    let filter = match std::env::var("RUST_LOG").ok().filter(|filter| common && !filter.is_empty()) {
        Some(filter) => EnvFilter::try_new(filter).context("RUST_LOG is no filter")?,
        None => EnvFilter::try_new(&config.log.filter).context("log.filter is no filter")?,
    };
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let lines = if config.log.json { lines.json().boxed() } else { lines.boxed() };
    tracing_subscriber::registry()
        .with(lines.with_filter(filter))
        .try_init()
        .context("somebody logs already")?;
    Ok(Installed)
}
