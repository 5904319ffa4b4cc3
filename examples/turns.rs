//! How many durable one-step turns this machine completes, and how long each takes.
//!
//! ```console
//! $ cargo run --release --example turns                  # 64 callers for 10 seconds
//! $ cargo run --release --example turns -- 256 20        # that many callers, for that many seconds
//! ```
//!
//! Every caller has a session of its own and submits a turn that says one word, again and again, as soon as the one
//! before is over. A turn counts when its terminal fact is durable. The raw figure beside it is how often a bare loop
//! appends the bytes of that many events to a file and syncs it, on the same disk.

use std::{
    fs::File,
    io::Write,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

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
use serde_json::json;
use tokio::time::Instant;

/// Steps are made of small short-lived allocations; see decision 0007.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type AnyError = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> ExitCode {
    let numbers: Result<Vec<u64>, _> = std::env::args().skip(1).map(|number| number.parse()).collect();
    let ran = match numbers.as_deref() {
        Ok([]) => run(64, 10).await,
        Ok([callers]) => run(*callers, 10).await,
        Ok([callers, seconds]) => run(*callers, *seconds).await,
        _ => Err("say how many callers, and for how many seconds: turns 64 10".into()),
    };
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("turns: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(callers: u64, seconds: u64) -> Result<(), AnyError> {
    let folder = tempfile::tempdir()?;
    let embedded = Embedded::open(EmbeddedConfig::new(folder.path()))?;
    let host = HostConfig {
        takeover: Takeover::AtOnce,
        entities_live_max: ENTITIES_LIVE_MAX,
        ..HostConfig::new("turns", "turns")
    };
    let settings = Settings {
        host,
        publisher: Publisher::new("turns"),
        deadline: Duration::from_secs(60),
        retention: Default::default(),
    };
    let bus = Arc::new(LocalBus::new());
    let runtime = Runtime::start(settings, embedded.store(), bus, Arc::new(SystemClock), 1).await?;

    let over = Arc::new(AtomicBool::new(false));
    let begun = Instant::now();
    let callers: Vec<_> =
        (0..callers).map(|number| tokio::spawn(call(runtime.clone(), number, over.clone()))).collect();
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    over.store(true, Ordering::Relaxed);
    let mut took = Vec::new();
    for caller in callers {
        took.extend(caller.await??);
    }
    let rate = took.len() as f64 / begun.elapsed().as_secs_f64();
    took.sort_unstable();
    let at = |share: f64| took[((took.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    println!("{} turns, {rate:.0}/s, p50 {:.1} ms, p99 {:.1} ms", took.len(), at(0.5), at(0.99));

    let (caller, session, filter) = (Caller::local(), session(0)?, EventFilter::default());
    let events = runtime.events(&caller, &session, Cursor::START, 1_000, &filter).await;
    let events = events.map_err(|error| error.message)?.events;
    let per_turn = events.iter().filter(|event| event.fact.ids.turn().is_some()).count()
        / events.iter().filter(|event| event.fact.event_type().as_str() == "turn.completed").count().max(1);
    runtime.stop().await;
    embedded.close().await;
    let raw = raw(&folder.path().join("raw"), per_turn * 200)?;
    println!("{per_turn} events a turn; raw append and sync of as many bytes: {raw:.0}/s, one at a time");
    Ok(())
}

fn session(number: u64) -> Result<SessionId, AnyError> {
    Ok(SessionId::parse(&format!("sess_turns-{number}"))?)
}

/// One turn after the other, each until its end is durable.
async fn call(runtime: Runtime, number: u64, over: Arc<AtomicBool>) -> Result<Vec<Duration>, AnyError> {
    let (caller, session) = (Caller::local(), session(number)?);
    let script = json!([{ "say": "done" }]).to_string();
    let mut took = Vec::new();
    let mut feed = None;
    while !over.load(Ordering::Relaxed) {
        let submit = json!({
            "sessionId": session,
            "agent": "scripted",
            "input": [{ "type": "text", "text": script }],
        });
        let begun = Instant::now();
        let answer = runtime.call(&caller, "submit_turn", submit, None, Duration::from_secs(60)).await;
        let turn = answer.map_err(|error| error.message)?.result["turnId"].clone();
        let types = vec!["turn.completed".to_owned(), "turn.failed".to_owned()];
        let filter = EventFilter { types, ..EventFilter::default() };
        let feed = feed.get_or_insert_with(|| runtime.follow(&caller, &session, Cursor::START, filter));
        loop {
            let page = feed.next().await.map_err(|error| error.message)?;
            if page.events.iter().any(|event| event.fact.ids.turn().is_some_and(|id| turn == id.as_str())) {
                break;
            }
        }
        took.push(begun.elapsed());
    }
    Ok(took)
}

/// Appends and syncs, for a second.
fn raw(path: &std::path::Path, bytes: usize) -> std::io::Result<f64> {
    let mut file = File::create(path)?;
    let (record, begun) = (vec![7; bytes], Instant::now());
    let mut times = 0;
    while begun.elapsed() < Duration::from_secs(1) {
        file.write_all(&record)?;
        file.sync_data()?;
        times += 1;
    }
    Ok(f64::from(times) / begun.elapsed().as_secs_f64())
}
