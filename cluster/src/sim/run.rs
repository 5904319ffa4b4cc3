//! One simulation, from its seed to its verdict.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::future::join_all;
use tokio::{sync::watch, task::JoinHandle, time::Instant};
use xxhash_rust::xxh3::Xxh3;

use super::{
    Dice, Lifeline, Trace,
    bank::{Account, LEDGER},
    check::{Kept, Letter, Remains, Violation, check},
    door::Door,
    history::History,
    janitor::{Swept, sweep},
    nemesis,
    nodes::{CLUSTER, Env, Limits, SimNode},
    owners::OwnerWatch,
    reader::{Reading, Seen, follow},
    tally::{Tally, tally},
    tree::{Branch, FOREST},
    workload::{ACCOUNTS, Customer, Log, TENANT},
    world::World,
};
use crate::{
    address::ShardId,
    bus::simulated::SimBus,
    clock::Timestamp,
    feed::{Cursor, Feed, Filter},
    host::{Client, Entity},
    keys,
    sabotage::{self, Sabotage},
    store::{KeyRange, KeyValue, simulated::SimStore},
};

/// What to simulate. The default is what the tests run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scenario {
    /// How many nodes.
    pub nodes: usize,
    /// How many shards.
    pub shards: u16,
    /// How many clients.
    pub clients: usize,
    /// How much each of them does.
    pub operations: u64,
    /// How long there is trouble, in virtual time.
    pub trouble: Duration,
    /// A promise to break on purpose.
    pub sabotage: Option<Sabotage>,
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            nodes: 3,
            shards: 8,
            clients: 4,
            operations: 22,
            trouble: Duration::from_secs(20),
            sabotage: None,
        }
    }
}

/// What a simulation came to.
#[derive(Debug)]
pub struct Verdict {
    /// The seed, which gives the same simulation again.
    pub seed: u64,
    /// The promises that were not kept.
    pub violations: Vec<Violation>,
    /// How many commits there were.
    pub commits: u64,
    /// How many commands were answered.
    pub answers: usize,
    /// How many events there are in the feeds.
    pub events: usize,
    /// How often what the checks are about has happened.
    pub tally: Tally,
    /// A hash over everything that happened, in order.
    pub fingerprint: u64,
    /// What happened, in words.
    pub trace: Vec<String>,
}

/// How long everything may take to come to rest once all is well.
const REST: Duration = Duration::from_secs(120);

/// Runs one simulation on this thread.
///
/// # Panics
/// When called from within an async runtime.
pub fn simulate(seed: u64, scenario: &Scenario) -> Verdict {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without I/O needs nothing from the system");
    sabotage::with(scenario.sabotage, || runtime.block_on(run(seed, scenario)))
}

#[derive(Default)]
struct Commits {
    count: u64,
    hash: Xxh3,
}

async fn run(seed: u64, scenario: &Scenario) -> Verdict {
    let dice = Dice::new(seed);
    let world = World::new(dice.fork());
    let trace = Trace::new();
    let (store, bus) = (SimStore::new(dice.fork()), SimBus::new(dice.fork()));
    bus.set_death_notice(Duration::from_millis(dice.between(0..=500)));
    if dice.chance(0.2) {
        // A slow listener misses what comes too fast.
        bus.set_queue_capacity(16);
    }
    let keys_ttl = Duration::from_secs(if dice.chance(0.25) { 8 } else { 25 * 3600 });
    let env = Arc::new(Env {
        world: world.clone(),
        store,
        bus,
        trace: trace.clone(),
        shards: scenario.shards,
        doubles: dice.chance(0.5),
        keys_ttl,
        limits: Limits::draw(&dice),
    });
    let owners = OwnerWatch::default();
    let commits = Arc::new(Mutex::new(Commits::default()));
    let history = History::default();
    watch_commits(&env, &owners, &history, &commits);

    let nodes: Vec<_> = (0..scenario.nodes)
        .map(|index| SimNode::new(&format!("node-{index}"), env.clone(), dice.fork()))
        .collect();
    start_nodes(&nodes, &dice).await;
    let (stop, stopping) = watch::channel(None);
    let readers = start_readers(&env, &dice, &stopping);
    let janitors = start_janitors(&env, &dice, &stopping);
    let waiting_most = watch_waiting(&nodes);
    let log = Arc::new(Mutex::new(Log::default()));
    let customers = start_customers(&env, &nodes, &dice, scenario, &log);

    nemesis::trouble(&env, &nodes, &dice.fork(), scenario.trouble).await;

    let deadline = Instant::now() + REST;
    let mut stuck = finish(customers, deadline).await;
    stuck.extend(leave_gifts(&env, &nodes, &dice, scenario, &log, deadline).await);
    // What was sent in bad times may still arrive, seconds later.
    env.store.settled().await;
    let leftovers = come_to_rest(&env, deadline).await;
    if env.forgets() {
        tokio::time::sleep_until(env.forgotten_by()).await;
    }
    // Readers get a moment longer than the slowest periodic look.
    stop.send_replace(Some(Instant::now() + Duration::from_secs(3)));
    let deadline = Instant::now() + Duration::from_secs(10);
    let seen = ended("reader", readers, deadline, &mut stuck).await;
    let swept = ended("janitor", janitors, deadline, &mut stuck).await;
    env.store.settled().await;
    let waiting = *waiting_most.1.lock().unwrap_or_else(PoisonError::into_inner);
    waiting_most.0.abort();

    let log = std::mem::take(&mut *log.lock().unwrap_or_else(PoisonError::into_inner));
    let answers = log.told.len();
    let remains = Remains {
        feeds: vec![keep(&env, &history, LEDGER).await, keep(&env, &history, FOREST).await],
        swept,
        accounts: env.store.scan(&keys::states(TENANT, Account::KIND)),
        branches: env.store.scan(&keys::states(TENANT, Branch::KIND)),
        keys_ttl,
        forgets: env.forgets(),
        answers: env.store.scan(&keys::idempotencies(TENANT)),
        expiries: expiries(&env),
        leftovers,
        dead_letters: env.store.scan(&keys::dead_letters(TENANT)).iter().map(Letter::read).collect(),
        intruders: owners.intruders(),
        readers: seen,
        log,
        deeds: world.deeds(),
        reported: world.all_reported(),
        stuck,
        waiting: (waiting, env.config("any").inputs_waiting_max),
    };
    let commits = commits.lock().unwrap_or_else(PoisonError::into_inner);
    Verdict {
        seed,
        violations: check(&remains),
        commits: commits.count,
        answers,
        events: remains.feeds.iter().map(|kept| kept.appended.len()).sum(),
        tally: tally(&remains),
        fingerprint: commits.hash.digest(),
        trace: trace.lines(),
    }
}

/// Starts all of them, the last one sometimes later.
async fn start_nodes(nodes: &[Arc<SimNode>], dice: &Dice) {
    let Some((last, first)) = nodes.split_last() else { return };
    join_all(first.iter().map(|node| node.start())).await;
    let wait_ms = if dice.chance(0.3) { dice.between(0..=15_000) } else { 0 };
    let last = last.clone();
    let starting = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(wait_ms)).await;
        last.start().await;
    });
    if wait_ms == 0 {
        // A task that was not aborted ends.
        let _ = starting.await;
    }
}

/// Checks owners, keeps all events, and hashes what is committed when and by whom.
fn watch_commits(env: &Arc<Env>, owners: &OwnerWatch, history: &History, commits: &Arc<Mutex<Commits>>) {
    let (owners, history, commits) = (owners.clone(), history.clone(), commits.clone());
    let (world, shards) = (env.world.clone(), env.shards);
    env.store.on_commit(move |stamp, node, commit| {
        owners.see(stamp, commit, shards);
        history.see(stamp, commit);
        let mut commits = commits.lock().unwrap_or_else(PoisonError::into_inner);
        commits.count += 1;
        let line = format!("{} {stamp} {node} {:?}", world.now(), commit.mutations);
        commits.hash.update(line.as_bytes());
    });
}

fn start_readers(
    env: &Arc<Env>,
    dice: &Dice,
    stopping: &watch::Receiver<Option<Instant>>,
) -> Vec<JoinHandle<Seen>> {
    let filter = |index: &str, term: String| Some(Filter { index: index.to_owned(), term });
    let ledger = Reading { feed: LEDGER, ..Reading::default() };
    let forest = Reading { feed: FOREST, ..Reading::default() };
    let snapshot = Reading { snapshot_of: Some(Account::KIND), ..ledger.clone() };
    let of_account = filter("account", format!("account-{}", dice.between(1..=ACCOUNTS)));
    let of_depth = filter("depth", "1".to_owned());
    let readings = [
        (0, ledger.clone()),
        (0, forest.clone()),
        (dice.between(0..=15_000), snapshot.clone()),
        (dice.between(0..=15_000), snapshot),
        (0, Reading { filter: of_account, ..ledger }),
        (0, Reading { dawdles: true, ..forest.clone() }),
        (0, Reading { filter: of_depth, dawdles: true, ..forest }),
    ];
    let start = |(number, (wait_ms, reading)): (usize, (u64, Reading))| {
        let (env, dice, stopping) = (env.clone(), dice.fork(), stopping.clone());
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(wait_ms)).await;
            follow(env, format!("reader-{number}"), reading, dice, stopping).await
        })
    };
    readings.into_iter().enumerate().map(start).collect()
}

fn start_janitors(
    env: &Arc<Env>,
    dice: &Dice,
    stopping: &watch::Receiver<Option<Instant>>,
) -> Vec<JoinHandle<Swept>> {
    let start =
        |number| tokio::spawn(sweep(env.clone(), format!("janitor-{number}"), dice.fork(), stopping.clone()));
    (0..2).map(start).collect()
}

/// What these tasks came to, as far as they came to an end.
async fn ended<T>(
    what: &str,
    tasks: Vec<JoinHandle<T>>,
    deadline: Instant,
    stuck: &mut Vec<String>,
) -> Vec<T> {
    let mut results = Vec::new();
    for (number, task) in tasks.into_iter().enumerate() {
        match tokio::time::timeout_at(deadline, task).await {
            Ok(Ok(result)) => results.push(result),
            _ => stuck.push(format!("{what} {number}")),
        }
    }
    results
}

/// Samples how many inputs wait.
fn watch_waiting(nodes: &[Arc<SimNode>]) -> (JoinHandle<()>, Arc<Mutex<usize>>) {
    let most = Arc::new(Mutex::new(0));
    let (nodes, seen) = (nodes.to_vec(), most.clone());
    let watching = tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_millis(7)).await;
            for node in &nodes {
                if let Some(status) = node.try_inputs_waiting() {
                    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
                    *seen = (*seen).max(status);
                }
            }
        }
    });
    (watching, most)
}

fn start_customers(
    env: &Arc<Env>,
    nodes: &[Arc<SimNode>],
    dice: &Dice,
    scenario: &Scenario,
    log: &Arc<Mutex<Log>>,
) -> Vec<(String, JoinHandle<()>)> {
    (0..scenario.clients)
        .map(|index| {
            let name = format!("client-{index}");
            let mut customer = customer(env, dice, scenario, log, &name);
            if dice.chance(0.4) {
                customer.door = Door::in_process(nodes, dice.fork());
            }
            (name, tokio::spawn(customer.work(scenario.operations)))
        })
        .collect()
}

/// The last that happens: transfers while no node hears another's doorbells, to accounts that nobody rings again.
/// Only a look finds them.
async fn leave_gifts(
    env: &Arc<Env>,
    nodes: &[Arc<SimNode>],
    dice: &Dice,
    scenario: &Scenario,
    log: &Arc<Mutex<Log>>,
    deadline: Instant,
) -> Vec<String> {
    let pairs = || nodes.iter().flat_map(|one| nodes.iter().map(move |other| (&one.name, &other.name)));
    pairs().for_each(|(one, other)| env.bus.block(one, other));
    let name = "heirs".to_owned();
    let giver = customer(env, dice, scenario, log, &name);
    let stuck = finish(vec![(name, tokio::spawn(giver.bequeath(dice.between(1..=4))))], deadline).await;
    // The doorbells ring right after the answers.
    tokio::time::sleep(Duration::from_millis(100)).await;
    env.bus.heal_all();
    stuck
}

fn customer(env: &Arc<Env>, dice: &Dice, scenario: &Scenario, log: &Arc<Mutex<Log>>, name: &str) -> Customer {
    let bus = Arc::new(env.bus.connect(Lifeline::new("clients")));
    Customer {
        name: name.to_owned(),
        door: Door::Bus(Client::remote(CLUSTER, scenario.shards, bus)),
        sends_once: !env.doubles,
        env: env.clone(),
        dice: dice.fork(),
        log: log.clone(),
        trace: env.trace.clone(),
    }
}

async fn finish(customers: Vec<(String, JoinHandle<()>)>, deadline: Instant) -> Vec<String> {
    let mut stuck = Vec::new();
    for (name, customer) in customers {
        match tokio::time::timeout_at(deadline, customer).await {
            Ok(Ok(())) => {}
            Ok(Err(panicked)) => stuck.push(format!("{name} ({panicked})")),
            Err(_) => stuck.push(name),
        }
    }
    stuck
}

/// Waits until nothing is left to do; what is left at the deadline.
async fn come_to_rest(env: &Env, deadline: Instant) -> Vec<String> {
    loop {
        let mut left = Vec::new();
        for shard in (0..env.shards).map(ShardId) {
            let timers = KeyRange::new(
                keys::timers_due(shard, Default::default()).begin,
                keys::timers_after(shard, Default::default()).end,
            );
            for range in [keys::inboxes(shard), timers, keys::awakes(shard)] {
                left.extend(env.store.scan(&range).iter().map(|pair| pair.key.escape_ascii().to_string()));
            }
        }
        if left.is_empty() || Instant::now() >= deadline {
            return left;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// All lists of idempotency keys that expire, now or ever.
fn expiries(env: &Env) -> Vec<KeyValue> {
    let ever = Timestamp(u64::MAX - 1);
    (0..env.shards).flat_map(|shard| env.store.scan(&keys::expired(ShardId(shard), ever))).collect()
}

/// What a feed got, and what is left of it.
async fn keep(env: &Env, history: &History, id: &'static str) -> Kept {
    let store = env.store.connect(Lifeline::new("checker"));
    let feed = Feed::new(store, TENANT, id, 1);
    let mut kept = Kept {
        feed: id,
        appended: history.of(id),
        trimmed_to: None,
        events: Vec::new(),
        index: env.store.scan(&keys::indexes(TENANT, id)),
    };
    let mut cursor = Cursor::START;
    loop {
        let page = feed.read(cursor, Feed::PAGE_EVENTS_MAX).await.expect("the store is well again");
        cursor = page.cursor;
        kept.trimmed_to = kept.trimmed_to.or(page.gap.map(|gap| gap.to));
        kept.events.extend(page.events);
        if !page.more {
            return kept;
        }
    }
}
