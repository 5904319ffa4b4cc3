//! Money between probes: what must not change however often nodes come and go.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use cadre_cluster::{
    address::Address,
    feed::Cursor,
    host::{CallError, Client, Entity},
    keys,
};
use tokio::task::JoinHandle;

use super::{
    World, eventually,
    probe::{Command, Fact, Probe, ProbeState, add, probe},
    world::{SHARDS, ask, tell},
};

/// What each account starts with.
const CAPITAL: i64 = 1_000;

/// Customers that move money about until they are told to stop, each asking until it is answered.
pub struct Customers {
    over: Arc<AtomicBool>,
    done: Arc<AtomicUsize>,
    told: Arc<Mutex<BTreeMap<String, Cursor>>>,
    tasks: Vec<JoinHandle<()>>,
    accounts: usize,
}

fn account(n: usize) -> Address {
    probe(&format!("account-{n}"))
}

impl Customers {
    /// As many accounts as customers.
    pub async fn start(client: &Client, count: usize) -> Self {
        for n in 0..count {
            tell(client, account(n), add(&format!("capital-{n}"), CAPITAL)).await;
        }
        let mut customers = Self {
            over: Arc::default(),
            done: Arc::default(),
            told: Arc::default(),
            tasks: Vec::new(),
            accounts: count,
        };
        customers.serve(client, "first");
        customers
    }

    /// One more customer per account, through another door.
    pub fn serve(&mut self, client: &Client, door: &str) {
        for n in 0..self.accounts {
            let (client, over, done) = (client.clone(), self.over.clone(), self.done.clone());
            let (told, accounts, door) = (self.told.clone(), self.accounts, door.to_owned());
            self.tasks.push(tokio::spawn(async move {
                let mut number = 0;
                while !over.load(Ordering::SeqCst) {
                    let op = format!("{door}-{n}-{number}");
                    let to = account((n + 1 + number % (accounts - 1)) % accounts);
                    let give = Command::Give { op: op.clone(), to, amount: 1 + number as i64 % 7 };
                    match ask(&client, account(n), give, Some(&op)).await {
                        Ok(called) => {
                            told.lock().unwrap().insert(op, called.cursor.expect("giving is an event"));
                            number += 1;
                            done.fetch_add(1, Ordering::SeqCst);
                        }
                        Err(CallError::Refused(_)) => number += 1,
                        // Asked again, with the same key.
                        Err(CallError::Unavailable { .. } | CallError::OutcomeUnknown | CallError::Busy) => {}
                        Err(error) => panic!("{op}: {error}"),
                    }
                }
            }));
        }
    }

    /// Waits until so many more gifts were acknowledged.
    pub async fn worked(&self, more: usize) {
        let until = self.done.load(Ordering::SeqCst) + more;
        eventually("customers are served", async || self.done.load(Ordering::SeqCst) >= until).await;
    }

    /// Ends business and checks the books. Returns how many gifts were acknowledged.
    pub async fn end(self, world: &World) -> usize {
        self.over.store(true, Ordering::SeqCst);
        for task in self.tasks {
            task.await.expect("no customer saw what it should not");
        }
        eventually("every message arrives", async || {
            for n in 0..SHARDS {
                if !world.all(keys::inboxes(cadre_cluster::address::ShardId(n))).await.is_empty() {
                    return false;
                }
            }
            true
        })
        .await;
        let ledger = world.ledger().await;
        // P2, P3: what was acknowledged is there once, where the answer says.
        let mut given: BTreeMap<&str, Vec<Cursor>> = BTreeMap::new();
        let mut received: BTreeMap<&str, usize> = BTreeMap::new();
        for entry in &ledger {
            match &entry.fact {
                Fact::Given { op, .. } => given.entry(op).or_default().push(entry.cursor),
                Fact::Received { op, .. } => *received.entry(op).or_default() += 1,
                _ => {}
            }
        }
        let told = self.told.lock().unwrap().clone();
        for (op, cursor) in &told {
            assert_eq!(given.get(op.as_str()).map(Vec::as_slice), Some(&[*cursor][..]), "{op}");
        }
        // P6: each gift arrives once.
        for (op, cursors) in &given {
            assert_eq!((cursors.len(), received.get(op)), (1, Some(&1)), "{op}");
        }
        assert_eq!(received.len(), given.len());
        // P5: replaying the ledger gives the stored state, and money is conserved.
        let mut replayed: BTreeMap<Address, (u64, ProbeState)> = BTreeMap::new();
        for entry in &ledger {
            let (sequence, state) = replayed.entry(entry.who.clone()).or_default();
            *sequence += 1;
            assert_eq!(*sequence, entry.sequence, "no fact of {} is missing or doubled", entry.who);
            Probe::apply(state, &entry.fact);
        }
        let stored = world.probes().await;
        for (who, sequence, state) in &stored {
            assert_eq!(replayed.get(who), Some(&(*sequence, state.clone())), "{who}");
        }
        let accounts = stored.iter().filter(|(who, ..)| who.id().starts_with("account-"));
        assert_eq!(accounts.map(|(_, _, state)| state.total).sum::<i64>(), CAPITAL * self.accounts as i64);
        assert!(world.dead_letters().await.is_empty());
        told.len()
    }
}
