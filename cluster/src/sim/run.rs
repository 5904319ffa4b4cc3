//! One simulation, from its seed to its verdict.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{sync::watch, task::JoinHandle, time::Instant};

use super::{
    Dice, Lifeline,
    bank::{Account, Bank, LEDGER},
    check::{Kept, Letter, Remains, Violation, check},
    commits::CommitWatch,
    deeds::Deeds,
    door::Door,
    env::{CLUSTER, Env},
    history::History,
    janitor::{Swept, sweep},
    nemesis,
    nodes::{SimNode, start_all},
    reader::{Reading, Seen, follow},
    tally::{Tally, tally},
    tree::{Branch, FOREST},
    workload::{ACCOUNTS, Customer, Log, TENANT},
};
use crate::{
    address::ShardId,
    clock::Timestamp,
    feed::{Cursor, Feed, Filter},
    host::{Client, Entity, Node},
    keys,
    sabotage::{self, Sabotage},
    store::KeyValue,
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
    sabotage::with(scenario.sabotage, || on_virtual_time(run(seed, scenario)))
}

/// Runs something to its end on this thread, with a clock that stands still while there is anything to do and jumps
/// when there is nothing.
///
/// # Panics
/// When called from within an async runtime.
pub fn on_virtual_time<T>(body: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without I/O needs nothing from the system");
    runtime.block_on(body)
}

async fn run(seed: u64, scenario: &Scenario) -> Verdict {
    let dice = Dice::new(seed);
    let env = Env { outsiders: &["clients", "reader-0", "reader-1"], ..Env::draw(&dice, scenario.shards) };
    let env = Arc::new(env);
    let (trace, keys_ttl) = (env.trace.clone(), env.keys_ttl);
    let commits = CommitWatch::over(&env);
    let history = History::default();
    let seen = history.clone();
    env.store.on_commit(move |stamp, _, commit| seen.see(stamp, commit));

    let deeds = Arc::new(Deeds::default());
    let bank = Arc::new(Bank { world: env.world.clone(), deeds: deeds.clone() });
    let node = |index| SimNode::new(&format!("node-{index}"), env.clone(), bank.clone(), dice.fork());
    let nodes: Vec<_> = (0..scenario.nodes).map(node).collect();
    start_all(&nodes, &dice).await;
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
    let leftovers = env.come_to_rest(deadline).await;
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
        intruders: commits.intruders(),
        readers: seen,
        log,
        deeds: deeds.all(),
        reported: deeds.all_reported(),
        stuck,
        waiting: (waiting, env.config("any").inputs_waiting_max),
    };
    Verdict {
        seed,
        violations: check(&remains),
        commits: commits.count(),
        answers,
        events: remains.feeds.iter().map(|kept| kept.appended.len()).sum(),
        tally: tally(&remains),
        fingerprint: commits.fingerprint(),
        trace: trace.lines(),
    }
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
fn watch_waiting(nodes: &[Arc<SimNode<Bank>>]) -> (JoinHandle<()>, Arc<Mutex<usize>>) {
    let most = Arc::new(Mutex::new(0));
    let (nodes, seen) = (nodes.to_vec(), most.clone());
    let watching = tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_millis(7)).await;
            for node in &nodes {
                if let Some(status) = node.try_look(Node::inputs_waiting) {
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
    nodes: &[Arc<SimNode<Bank>>],
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
    nodes: &[Arc<SimNode<Bank>>],
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
