//! How fast a graph of subagents completes on this machine, and what it takes.
//!
//! ```console
//! $ cargo run --release --example graph -- 100000        # one parent with as many children
//! $ cargo run --release --example graph -- 10 100 100    # a tree of that shape
//! ```
//!
//! Every subagent says one word and ends. The store is a temporary folder, and every step is durable.

use std::{process::ExitCode, sync::Arc, time::Duration};

use cadre::{
    fact::{Publisher, id::SessionId},
    runtime::{Caller, ENTITIES_LIVE_MAX, EventFilter, Runtime, Settings},
};
use cadre_cluster::{
    bus::LocalBus,
    clock::SystemClock,
    feed::Cursor,
    host::HostConfig,
    placement::Takeover,
    store::embedded::{Embedded, EmbeddedConfig},
};
use serde_json::{Value, json};
use tokio::time::Instant;

/// Steps are made of small short-lived allocations; see decision 0007.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> ExitCode {
    let widths: Result<Vec<u64>, _> = std::env::args().skip(1).map(|width| width.parse()).collect();
    match widths {
        Ok(widths) if !widths.is_empty() => match run(&widths).await {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("graph: {error}");
                ExitCode::FAILURE
            }
        },
        _ => {
            eprintln!("say how wide each level is: graph 10 100 100");
            ExitCode::FAILURE
        }
    }
}

async fn run(widths: &[u64]) -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let embedded = Embedded::open(EmbeddedConfig::new(folder.path()))?;
    let host = HostConfig {
        takeover: Takeover::AtOnce,
        entities_live_max: ENTITIES_LIVE_MAX,
        ..HostConfig::new("graph", "graph")
    };
    let deadline = Duration::from_secs(600);
    let settings =
        Settings { host, publisher: Publisher::new("graph"), deadline, retention: Default::default() };
    let bus = Arc::new(LocalBus::new());
    let runtime = Runtime::start(settings, embedded.store(), bus, Arc::new(SystemClock), 1).await?;
    let caller = Caller::local();

    let leaf = json!([{ "say": "done" }]);
    let spawn = |script: Value, count: &u64| json!([{ "spawn": { "count": count, "script": script, "join": "all" } }]);
    let script = widths.iter().rev().fold(leaf, spawn);
    let total: u64 = widths
        .iter()
        .scan(1, |product, width| {
            *product *= width;
            Some(*product)
        })
        .sum();
    let submit = json!({
        "sessionId": "sess_graph",
        "agent": "scripted",
        "input": [{ "type": "text", "text": script.to_string() }],
    });
    let begun = Instant::now();
    let answer = runtime.call(&caller, "submit_turn", submit, None, deadline).await;
    let answer = answer.map_err(|error| error.message)?;
    let turn = answer.result["turnId"].clone();
    let session = SessionId::parse("sess_graph")?;
    let types = vec!["turn.completed".to_owned(), "turn.failed".to_owned()];
    let filter = EventFilter { turn: serde_json::from_value(turn)?, types, ..EventFilter::default() };
    let mut feed = runtime.follow(&caller, &session, Cursor::START, filter);
    let page = feed.next().await.map_err(|error| error.message)?;
    let took = begun.elapsed();
    let ended = page.events.first().map(|event| event.fact.event_type().to_string());
    println!(
        "{total} subagents, {}: {:.1} s, {:.0} subagents/s",
        ended.unwrap_or_default(),
        took.as_secs_f64(),
        total as f64 / took.as_secs_f64()
    );
    println!("peak memory {} MiB", peak_memory_kib() / 1024);

    let (mut events, mut bytes, mut after) = (0u64, 0usize, Cursor::START);
    let publisher = runtime.publisher();
    loop {
        let page = runtime.events(&caller, &session, after, 1_000, &EventFilter::default()).await;
        let page = page.map_err(|error| error.message)?;
        events += page.events.len() as u64;
        bytes += page
            .events
            .iter()
            .map(|event| serde_json::to_string(&publisher.envelope(event)).map_or(0, |text| text.len()))
            .sum::<usize>();
        after = page.cursor;
        if !page.more {
            break;
        }
    }
    println!("feed: {events} events, {} MiB as JSON", bytes >> 20);
    let listing = Instant::now();
    let list = json!({ "sessionId": "sess_graph", "limit": 100 });
    runtime.call(&caller, "list_subagents", list, None, deadline).await.map_err(|error| error.message)?;
    println!("a page of list_subagents: {:.1} ms", listing.elapsed().as_secs_f64() * 1e3);
    let reading = Instant::now();
    let get = json!({ "sessionId": "sess_graph" });
    let snapshot =
        runtime.call(&caller, "get_session", get, None, deadline).await.map_err(|error| error.message)?;
    println!(
        "get_session: {:.1} ms, {}",
        reading.elapsed().as_secs_f64() * 1e3,
        snapshot.result["subagentJobSummary"]["subagents"]
    );
    runtime.stop().await;
    embedded.close().await;
    let size = std::fs::read_dir(folder.path())?
        .filter_map(|entry| entry.ok()?.metadata().ok())
        .map(|meta| meta.len())
        .sum::<u64>();
    println!("store: {} MiB in the folder itself", size >> 20);
    Ok(())
}

fn peak_memory_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().split(' ').next()?.parse().ok()).unwrap_or(0)
}
