//! How a node logs, and where its spans go.

mod otlp;

use anyhow::Context;
use cadre::config::{Config, Layers, Source};
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing_subscriber::{EnvFilter, Layer, Registry, layer::SubscriberExt, util::SubscriberInitExt};

/// What is kept until the end, so that nothing of it is lost.
pub struct Installed(Option<SdkTracerProvider>);

impl Drop for Installed {
    fn drop(&mut self) {
        if let Some(provider) = self.0.take()
            && let Err(error) = provider.shutdown_with_timeout(otlp::FLUSH_MAX)
        {
            tracing::warn!(%error, "the last spans could not be sent");
        }
    }
}

/// Logs to standard error as the configuration says, and sends spans where it says. `RUST_LOG` is heeded unless a
/// variable or an argument of ours says otherwise.
pub fn install(config: &Config, layers: &Layers) -> anyhow::Result<Installed> {
    let said = &layers.get("log.filter").1;
    let common = matches!(said, Source::Default | Source::File(_));
    let filter = match std::env::var("RUST_LOG").ok().filter(|filter| common && !filter.is_empty()) {
        Some(filter) => EnvFilter::try_new(filter).context("RUST_LOG is no filter")?,
        None => EnvFilter::try_new(&config.log.filter).context("log.filter is no filter")?,
    };
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let lines = if config.log.json { lines.json().boxed() } else { lines.boxed() };
    let provider = otlp::provider(config)?;
    let spans = provider.as_ref().map(otlp::layer::<Registry>);
    let registry = tracing_subscriber::registry().with(spans).with(lines.with_filter(filter));
    registry.try_init().context("somebody logs already")?;
    Ok(Installed(provider))
}
