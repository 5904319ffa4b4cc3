//! One simulation, from its seed to its verdict.

use std::{sync::Arc, time::Duration};

use cadre_cluster::sim::{CommitWatch, Dice, Env, SimNode, Verdict, on_virtual_time, start_all, trouble};
use tokio::{
    sync::watch,
    task::{JoinHandle, LocalSet},
    time::Instant,
};

use super::{
    check::check,
    client::Client,
    door::Door,
    known::{Known, SESSIONS},
    log::Log,
    program::Agents,
    reader::{Reader, Seen},
    remains::{self, Remains},
    script::Scripts,
    settle::settle,
    stranger::{RIVAL, intrude},
    tally::tally,
    workload::Worker,
};
use crate::{
    fact::id::SessionId,
    runtime::{Caller, EventFilter},
    sabotage::{self, Sabotage},
};

/// The tenant that most of it belongs to.
pub(super) const TENANT: &str = "acme";

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
            operations: 14,
            trouble: Duration::from_secs(15),
            sabotage: None,
        }
    }
}

/// How long everything may take to come to rest once all is well: retries, schedules and questions one after the other.
const REST: Duration = Duration::from_secs(600);

/// Runs one simulation on this thread.
///
/// # Panics
/// When called from within an async runtime.
pub fn simulate(seed: u64, scenario: &Scenario) -> Verdict {
    // Everything is on one thread; the tasks of clients and readers need not be able to leave it.
    let local = LocalSet::new();
    let run = local.run_until(run(seed, scenario));
    sabotage::with(scenario.sabotage, || on_virtual_time(run))
}

async fn run(seed: u64, scenario: &Scenario) -> Verdict {
    let dice = Dice::new(seed);
    // Clients send again after a long time, so their keys are remembered for as long as they are in earnest.
    let env = Env { keys_ttl: Duration::from_secs(25 * 3600), ..Env::draw(&dice, scenario.shards) };
    let env = Arc::new(env);
    let commits = CommitWatch::over(&env);
    let log = Log::new(&env);
    let program = Arc::new(Agents);
    let node = |index| SimNode::new(&format!("node-{index}"), env.clone(), program.clone(), dice.fork());
    let nodes: Vec<_> = (0..scenario.nodes).map(node).collect();
    start_all(&nodes, &dice).await;

    let caller = |tenant: &str| Caller::within(tenant, tenant);
    let known = Known::default();
    let door = Door::new(&nodes, dice.fork());
    let client = |name: &str, tenant: &str| Client {
        name: name.to_owned(),
        caller: caller(tenant),
        door: door.fork(),
        dice: dice.fork(),
        log: log.clone(),
        known: known.clone(),
    };
    let (stop, stop_at) = watch::channel(None);
    let readers: Vec<JoinHandle<Seen>> = readings()
        .into_iter()
        .map(|(session, filter)| {
            let reader = Reader {
                caller: caller(TENANT),
                door: door.fork(),
                dice: dice.fork(),
                known: known.clone(),
                session,
                filter,
                stop_at: stop_at.clone(),
            };
            tokio::task::spawn_local(reader.follow())
        })
        .collect();
    let mut working: Vec<JoinHandle<()>> = Vec::new();
    for index in 0..scenario.clients {
        let scripts = Scripts { dice: dice.fork(), known: known.clone() };
        let worker = Worker { client: client(&format!("client-{index}"), TENANT), scripts };
        working.push(tokio::task::spawn_local(worker.work(scenario.operations)));
    }
    working.push(tokio::task::spawn_local(intrude(client("stranger", RIVAL), scenario.operations)));

    trouble(&env, &nodes, &dice.fork(), scenario.trouble).await;

    let mut stuck = Vec::new();
    let deadline = Instant::now() + REST;
    ended("client", working, deadline, &mut stuck).await;
    // What was sent in bad times may still arrive, seconds later.
    env.store.settled().await;
    let leftovers = settle(&client("settler", TENANT), &env, deadline).await;
    // Readers get a moment longer than the slowest periodic look.
    stop.send_replace(Some(Instant::now() + Duration::from_secs(3)));
    let readers = ended("reader", readers, Instant::now() + Duration::from_secs(10), &mut stuck).await;
    let mut sessions = remains::sessions(&door, &caller(TENANT)).await;
    sessions.extend(remains::sessions(&door, &caller(RIVAL)).await);

    let remains = Remains {
        sessions,
        readers,
        notes: std::mem::take(&mut *log.notes()),
        leftovers,
        dead_letters: remains::dead_letters(&env, &[TENANT, RIVAL]),
        intruders: commits.intruders(),
        stuck,
    };
    Verdict {
        seed,
        violations: check(&remains),
        commits: commits.count(),
        answers: remains.notes.told.len(),
        events: remains.sessions.iter().map(|session| session.events.len()).sum(),
        tally: tally(&remains),
        fingerprint: commits.fingerprint(),
        trace: log.trace.lines(),
    }
}

/// Who reads what: each shared session as a whole, and parts of them.
fn readings() -> Vec<(SessionId, EventFilter)> {
    let session = |id: &str| SessionId::parse(id).expect("it is an id");
    let turns =
        EventFilter { types: vec!["turn.*".into(), "action.required".into()], ..EventFilter::default() };
    SESSIONS
        .iter()
        .map(|id| (session(id), EventFilter::default()))
        .chain([(session(SESSIONS[0]), turns)])
        .collect()
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
            Ok(Err(panicked)) => stuck.push(format!("{what} {number} ({panicked})")),
            Err(_) => stuck.push(format!("{what} {number}")),
        }
    }
    results
}
