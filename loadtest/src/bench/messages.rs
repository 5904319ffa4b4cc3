//! Messages between entities: on one node, and across two nodes that share a store and talk over NATS.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use cadre_cluster::{
    address::Address,
    bus::{
        Bus, Headers, LocalBus, Subject,
        nats::{NatsBus, testing::NatsServer},
    },
    clock::SystemClock,
    host::{Client, Entity, HostConfig, Kinds, Node},
    placement::Takeover,
    store::{
        Store,
        embedded::{Embedded, EmbeddedConfig},
    },
};
use tokio::time::Instant;

use super::{
    Bench,
    counter::{Player, Serve},
    report::Row,
};

const PAIRS: usize = 64;
const BALLS: u32 = 8;

pub async fn run(bench: &mut Bench) -> anyhow::Result<()> {
    one_node(bench).await?;
    two_nodes(bench).await
}

async fn one_node(bench: &mut Bench) -> anyhow::Result<()> {
    let path = bench.dir.path().join("messages-one");
    let embedded = Embedded::open(EmbeddedConfig::new(&path))?;
    let applied = Arc::new(AtomicU64::new(0));
    let node = start(&embedded.store(), Arc::new(LocalBus::new()), "node-0", &applied).await?;
    let rate = play(&node.client(), &applied, bench.duration).await?;
    node.drain().await;
    embedded.close().await;
    std::fs::remove_dir_all(&path)?;
    let note = format!("{PAIRS} pairs, {BALLS} messages in the air each");
    bench.report.add(Row::new("messages, one node", rate, "/s").note(note));
    Ok(())
}

async fn two_nodes(bench: &mut Bench) -> anyhow::Result<()> {
    let server = NatsServer::start();
    let raw = raw_requests(&server, bench.duration / 2).await?;
    let path = bench.dir.path().join("messages-two");
    let embedded = Embedded::open(EmbeddedConfig::new(&path))?;
    let applied = Arc::new(AtomicU64::new(0));
    let one = start(&embedded.store(), connect(&server).await?, "node-0", &applied).await?;
    let two = start(&embedded.store(), connect(&server).await?, "node-1", &applied).await?;
    until_shared(&one, &two).await;
    let rate = play(&one.client(), &applied, bench.duration).await?;
    one.drain().await;
    two.drain().await;
    embedded.close().await;
    std::fs::remove_dir_all(&path)?;
    bench.report.add(
        Row::new("messages, two nodes over NATS", rate, "/s")
            .against("raw NATS request/reply, 64 at once", raw)
            .note("about half of the messages cross nodes; every one is durable"),
    );
    Ok(())
}

async fn connect(server: &NatsServer) -> anyhow::Result<Bus> {
    Ok(Arc::new(NatsBus::connect(&server.config()).await?))
}

async fn start(store: &Store, bus: Bus, name: &str, applied: &Arc<AtomicU64>) -> anyhow::Result<Node> {
    let config = HostConfig { takeover: Takeover::AtOnce, ..HostConfig::new("bench", name) };
    let kinds = Kinds::new().with(Player { applied: applied.clone() });
    Ok(Node::start(config, store.clone(), bus, Arc::new(SystemClock), kinds, 1).await?)
}

/// Waits until both nodes have shards.
async fn until_shared(one: &Node, two: &Node) {
    loop {
        if let (Some(one), Some(two)) = (one.status().await, two.status().await)
            && one.shards.len() + two.shards.len() == 256
            && one.shards.len() < 150
            && two.shards.len() < 150
        {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Messages applied per second while every pair plays.
async fn play(client: &Client, applied: &Arc<AtomicU64>, duration: Duration) -> anyhow::Result<f64> {
    for pair in 0..PAIRS {
        let player = |side| Address::new("bench", Player::KIND, &format!("{pair}-{side}"));
        let serve = Serve { to: player("b")?, balls: BALLS, rounds: 1_000_000 };
        let served = client.call::<Player>(&player("a")?, &serve, None, Duration::from_secs(30)).await;
        served.map_err(|error| anyhow::anyhow!("{error}"))?;
    }
    tokio::time::sleep(duration / 4).await;
    let (before, began) = (applied.load(Ordering::Relaxed), Instant::now());
    tokio::time::sleep(duration).await;
    Ok((applied.load(Ordering::Relaxed) - before) as f64 / began.elapsed().as_secs_f64())
}

/// Request and reply over the same NATS server, nothing stored.
async fn raw_requests(server: &NatsServer, duration: Duration) -> anyhow::Result<f64> {
    let (asks, answers) = (connect(server).await?, connect(server).await?);
    let subject = Subject::from_tokens(["raw", "echo"]);
    let mut requests = answers.subscribe(&subject).await?;
    let answering = tokio::spawn(async move {
        while let Some(request) = requests.next().await {
            if let Some(reply) = request.reply {
                let _ = reply.send(request.payload).await;
            }
        }
    });
    let end = Instant::now() + duration;
    let tasks: Vec<_> = (0..64)
        .map(|_| {
            let (asks, subject) = (asks.clone(), subject.clone());
            tokio::spawn(async move {
                let mut count = 0u64;
                while Instant::now() < end {
                    let payload = Bytes::from_static(&[7; 128]);
                    asks.request(&subject, Headers::default(), payload, Duration::from_secs(5)).await?;
                    count += 1;
                }
                anyhow::Ok(count)
            })
        })
        .collect();
    let mut count = 0;
    for task in tasks {
        count += task.await??;
    }
    answering.abort();
    Ok(count as f64 / duration.as_secs_f64())
}
