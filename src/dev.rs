//! `cadre dev`: everything in one process, on the embedded store.

use std::{env, path::PathBuf, sync::Arc, time::Duration};

use anyhow::Context;
use cadre_cluster::{
    bus::LocalBus,
    clock::SystemClock,
    host::{HostConfig, Kinds, Node},
    placement::Takeover,
    store::embedded::{Embedded, EmbeddedConfig},
};
use clap::Args as ClapArgs;
use rand::TryRngCore;

/// Runs a node on this machine, with the embedded store. Stops on Ctrl-C after handing everything over.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// The data folder; by default `cadre` in the user's data directory.
    #[arg(long, env = "CADRE_DATA")]
    data: Option<PathBuf>,
}

/// Runs until stopped.
pub fn run(args: Args) -> anyhow::Result<()> {
    let data = args.data.map_or_else(default_data, Ok)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let embedded = Embedded::open(EmbeddedConfig::new(&data))?;
        // The folder is locked: a former life of this node cannot be running.
        let config = HostConfig { takeover: Takeover::AtOnce, ..HostConfig::new("dev", "dev") };
        let shards = usize::from(config.shards);
        let seed = rand::rngs::OsRng.try_next_u64()?;
        let bus = Arc::new(LocalBus::new());
        let node =
            Node::start(config, embedded.store(), bus, Arc::new(SystemClock), Kinds::new(), seed).await?;
        while node.status().await.context("the node has stopped")?.shards.len() < shards {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        println!("ready {}", node.member());
        println!("data in {}; stop with Ctrl-C", data.display());
        println!("this node owns all {shards} shards and hosts no entities yet: the runtime comes on top");
        stopped().await?;
        node.drain().await;
        embedded.close().await;
        Ok(())
    })
}

/// Waits for Ctrl-C or a polite request to end.
async fn stopped() -> anyhow::Result<()> {
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    tokio::select! {
        biased;
        interrupted = tokio::signal::ctrl_c() => interrupted?,
        _ = terminate.recv() => {}
    }
    Ok(())
}

fn default_data() -> anyhow::Result<PathBuf> {
    let data = env::var_os("XDG_DATA_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let data = data.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".local/share")));
    Ok(data.context("neither XDG_DATA_HOME nor HOME is set; name a folder with --data")?.join("cadre"))
}
