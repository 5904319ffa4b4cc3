//! Feed epochs: what a restore from a backup leaves of cursors and of nodes that still run (P4).

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use cadre_cluster::{
    clock::Clock,
    feed::{Cursor, Feed},
    host::CallError,
    placement::begin_feed_epoch,
    store::Version,
};

use super::feeds::fill;
use crate::common::{
    World, eventually,
    probe::{Entry, LEDGER, TENANT, add, probe},
    world::{ask, tell},
};

pub async fn p4_a_cursor_of_an_older_feed_epoch_sees_every_new_event_once(world: World) {
    let node = fill(&world, 2, 5).await;
    node.drain().await;
    // As far ahead as a cursor can be that the restored store has not come to.
    let ahead = Cursor::end_of(1, Version(u64::MAX / 2));
    let epoch = begin_feed_epoch(&world.store, world.clock.now()).await.unwrap();
    let node = world.node("a").await;
    assert_eq!(node.feed_epoch(), epoch);
    let cursor = tell(&node.client(), probe("0"), add("new", 1)).await.cursor.unwrap();
    tell(&node.client(), probe("1"), add("new", 1)).await;
    let (old, new) = (world.feed(), Feed::new(world.store.clone(), TENANT, LEDGER, epoch));
    let page = old.read(ahead, 10).await.unwrap();
    assert_eq!(page.events.iter().map(|event| Entry::read(event).sequence).collect::<Vec<_>>(), [6, 6]);
    assert_eq!(page.events[0].cursor, cursor);
    assert!(old.read(page.cursor, 10).await.unwrap().events.is_empty());
    // Who still believes in the old epoch reads again; who knows the new one goes on.
    let tx = world.store.begin();
    let (stale, current) = (old.snapshot_cursor(&tx).await.unwrap(), new.snapshot_cursor(&tx).await.unwrap());
    assert_eq!(old.read(stale, 10).await.unwrap().events.len(), 2);
    assert!(new.read(current, 10).await.unwrap().events.is_empty());
}

pub async fn p4_a_node_that_still_runs_when_a_feed_epoch_begins_commits_nothing_more(world: World) {
    let first = world.node("a").await;
    world.settled(&[&first]).await;
    let over = Arc::new(AtomicBool::new(false));
    let callers: Vec<_> = (0..8)
        .map(|n| {
            let (client, over) = (first.client(), over.clone());
            tokio::spawn(async move {
                let mut done = 0;
                while !over.load(Ordering::SeqCst) {
                    match ask(&client, probe(&n.to_string()), add("o", 1), None).await {
                        Ok(_) => done += 1,
                        // Its life ended under it: nobody can tell any more whether this one was done.
                        Err(CallError::OutcomeUnknown) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
                done
            })
        })
        .collect();
    eventually("there is work", async || world.ledger().await.len() > 50).await;
    let epoch = begin_feed_epoch(&world.sound, world.clock.now()).await.unwrap();
    let before = world.ledger().await.into_iter().filter(|entry| entry.cursor.epoch() == 1).count();
    // Under the same name, which the store does not remember.
    let second = world.node("a").await;
    assert!(second.member().incarnation > first.member().incarnation);
    world.settled(&[&second]).await;
    eventually("the first notices", async || first.status().await.unwrap().superseded).await;
    eventually("work goes on", async || {
        world.ledger().await.iter().filter(|entry| entry.cursor.epoch() == epoch).count() > 50
    })
    .await;
    over.store(true, Ordering::SeqCst);
    let mut done = 0;
    for caller in callers {
        done += caller.await.unwrap();
    }
    let ledger = world.ledger().await;
    assert!(ledger.len() >= done, "nothing that was acknowledged is gone");
    assert!(ledger.iter().all(|entry| [1, epoch].contains(&entry.cursor.epoch())));
    assert_eq!(ledger.iter().filter(|entry| entry.cursor.epoch() == 1).count(), before);
}
