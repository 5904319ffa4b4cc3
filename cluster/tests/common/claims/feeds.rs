//! Feeds: pages, filters, tails, trimming, snapshots (P4).

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use cadre_cluster::{
    bus::{Driver, Headers, PublishError, RequestError, Subject, SubscribeError, Subscription},
    codec,
    feed::{Cursor, Error, EventRecord, Feed, Filter, Tail, TailConfig, Term, trim},
    keys,
    sim::Dice,
    store::Version,
};
use futures::future::join_all;

use crate::common::{
    PATIENCE, World, eventually,
    probe::{Command, Entry, Fact, LEDGER, TENANT, add, probe},
    world::{CLUSTER, look, tell},
};

pub async fn fill(world: &World, entities: u32, each: u32) -> cadre_cluster::host::Node {
    let node = world.node("a").await;
    let client = node.client();
    join_all((0..entities).map(|n| {
        let client = &client;
        async move {
            for m in 0..each {
                tell(client, probe(&n.to_string()), add(&format!("{n}-{m}"), 1)).await;
            }
        }
    }))
    .await;
    node
}

fn sequences(entries: &[Entry], who: &str) -> Vec<u64> {
    entries.iter().filter(|entry| entry.who == probe(who)).map(|entry| entry.sequence).collect()
}

fn only(who: &str) -> Filter {
    Filter { index: "who".into(), term: who.into() }
}

pub async fn a_private_fact_changes_the_state_and_leaves_neither_event_nor_gap(world: World) {
    let node = world.node("a").await;
    let client = node.client();
    let confide = |op: &str| Command::Confide { op: op.into() };
    let only_private = tell(&client, probe("0"), confide("")).await;
    assert_eq!((only_private.reply.0.secrets, only_private.cursor), (1, None), "nothing to see");
    assert!(world.ledger().await.is_empty());
    let mut cursors = Vec::new();
    for n in 0..3 {
        cursors.push(tell(&client, probe("0"), confide(&n.to_string())).await.cursor.unwrap());
        cursors.push(tell(&client, probe("0"), add("o", 1)).await.cursor.unwrap());
    }
    drop(node);
    let node = world.node("b").await;
    let state = look(&node.client(), probe("0")).await;
    assert_eq!((state.secrets, state.total), (7, 6));
    let ledger = world.ledger().await;
    assert!(!ledger.iter().any(|entry| entry.fact == Fact::Confided));
    assert_eq!(ledger.iter().map(|entry| entry.cursor).collect::<Vec<_>>(), cursors);
    assert_eq!(sequences(&ledger, "0"), (1..=6).collect::<Vec<_>>());
    assert_eq!(world.probes().await[0].1, 6, "what is stored counts as the feed does");
}

pub async fn a_feed_is_read_page_by_page_in_order_and_whole(world: World) {
    let _node = fill(&world, 10, 20).await;
    let (feed, mut cursor, mut entries) = (world.feed(), Cursor::START, Vec::new());
    loop {
        let page = feed.read(cursor, 7).await.unwrap();
        assert!(page.events.len() <= 7 && page.gap.is_none());
        entries.extend(page.events.iter().map(Entry::read));
        cursor = page.cursor;
        if !page.more {
            break;
        }
    }
    assert!(entries.is_sorted_by(|a, b| a.cursor < b.cursor));
    for n in 0..10 {
        assert_eq!(sequences(&entries, &n.to_string()), (1..=20).collect::<Vec<_>>());
    }
    assert!(feed.read(cursor, 7).await.unwrap().events.is_empty());
}

pub async fn a_feed_is_read_backwards_page_by_page_in_order_and_whole(world: World) {
    let _node = fill(&world, 10, 20).await;
    let (feed, ledger) = (world.feed(), world.ledger().await);
    let end = feed.snapshot_cursor(&world.store.begin()).await.unwrap();
    let (mut cursor, mut entries) = (end, Vec::new());
    loop {
        let page = feed.read_before(cursor, 7).await.unwrap();
        assert!(page.events.len() <= 7 && page.gap.is_none());
        assert!(page.events.iter().all(|event| event.cursor < cursor), "the cursor's own event was seen");
        let older: Vec<Entry> = page.events.iter().map(Entry::read).collect();
        entries.splice(0..0, older);
        cursor = page.cursor;
        if !page.more {
            break;
        }
    }
    let cursors = |entries: &[Entry]| entries.iter().map(|entry| entry.cursor).collect::<Vec<_>>();
    assert_eq!(cursors(&entries), cursors(&ledger));
    for edge in [cursor, Cursor::START] {
        let page = feed.read_before(edge, 7).await.unwrap();
        assert!(page.events.is_empty() && !page.more && page.gap.is_none());
        assert_eq!(page.cursor, edge);
    }
}

pub async fn reading_backwards_says_where_kept_history_ends(world: World) {
    let _node = fill(&world, 3, 20).await;
    let (feed, ledger) = (world.feed(), world.ledger().await);
    let (old, cut, young) = (ledger[5].cursor, ledger[29].cursor, ledger[40].cursor);
    trim(&feed, cut).await.unwrap();
    let page = feed.read_before(young, 4).await.unwrap();
    assert!(page.gap.is_none() && page.more, "the edge is not reached yet");
    assert_eq!(page.cursor, ledger[36].cursor);
    let page = feed.read_before(page.cursor, 1_000).await.unwrap();
    assert_eq!((page.events.len(), page.more), (6, false));
    let gap = page.gap.unwrap();
    assert_eq!((gap.from, gap.to), (Cursor::START, cut));
    for within in [old, cut] {
        let page = feed.read_before(within, 10).await.unwrap();
        assert!(page.events.is_empty() && !page.more);
        assert_eq!(page.gap.unwrap().to, cut);
    }
}

pub async fn a_filtered_read_has_all_of_its_term_and_nothing_else(world: World) {
    let _node = fill(&world, 5, 20).await;
    let filter = only("3");
    let (mut cursor, mut entries) = (Cursor::START, Vec::new());
    loop {
        let page = world.feed().read_filtered(&filter, cursor, 6).await.unwrap();
        entries.extend(page.events.iter().map(Entry::read));
        cursor = page.cursor;
        if !page.more {
            break;
        }
    }
    assert_eq!(entries.len(), 20);
    assert_eq!(sequences(&entries, "3"), (1..=20).collect::<Vec<_>>());
}

pub async fn p9_a_page_of_large_events_is_bounded_also_filtered_and_backwards(world: World) {
    let node = world.node("a").await;
    for n in 0..20 {
        tell(&node.client(), probe("one"), add(&format!("{n}{}", "x".repeat(80_000)), 1)).await;
    }
    let (feed, filter) = (world.feed(), only("one"));
    let end = feed.snapshot_cursor(&world.store.begin()).await.unwrap();
    for (way, start) in [("forwards", Cursor::START), ("filtered", Cursor::START), ("backwards", end)] {
        let (mut cursor, mut events) = (start, 0);
        loop {
            let page = match way {
                "filtered" => feed.read_filtered(&filter, cursor, 1_000).await.unwrap(),
                "backwards" => feed.read_before(cursor, 1_000).await.unwrap(),
                _ => feed.read(cursor, 1_000).await.unwrap(),
            };
            let bytes: usize = page.events.iter().map(|event| event.body.len()).sum();
            assert!(bytes < 1_200_000, "a page of {bytes} bytes");
            events += page.events.len();
            cursor = page.cursor;
            if !page.more {
                break;
            }
        }
        assert_eq!(events, 20);
    }
}

pub async fn after_a_trim_an_old_cursor_gets_a_gap_and_a_new_one_does_not(world: World) {
    let _node = fill(&world, 3, 20).await;
    let (feed, ledger) = (world.feed(), world.ledger().await);
    let (old, cut, young) = (ledger[5].cursor, ledger[29].cursor, ledger[40].cursor);
    assert_eq!(trim(&feed, cut).await.unwrap().events, 30);
    for from in [Cursor::START, old] {
        let page = feed.read(from, 1_000).await.unwrap();
        let gap = page.gap.unwrap();
        assert_eq!((gap.from, gap.to), (from, cut));
        assert_eq!(page.events.len(), 30);
    }
    let page = feed.read(young, 1_000).await.unwrap();
    assert!(page.gap.is_none() && page.events.len() == 19);
    assert_eq!(
        world.all(keys::indexes(TENANT, LEDGER)).await.len(),
        30,
        "index entries go with their events"
    );
    assert_eq!(trim(&feed, old).await.unwrap().events, 0, "trimming less changes nothing");
    assert_eq!(feed.read(old, 1).await.unwrap().gap.unwrap().to, cut);
    assert!(feed.read_filtered(&only("1"), old, 10).await.unwrap().gap.is_some());
}

pub async fn a_trim_beyond_the_end_hides_nothing_that_comes_later(world: World) {
    let node = fill(&world, 1, 5).await;
    let feed = world.feed();
    let far = Cursor::end_of(1, Version(u64::MAX / 2));
    assert_eq!(trim(&feed, far).await.unwrap().events, 5);
    tell(&node.client(), probe("0"), add("later", 1)).await;
    assert_eq!(feed.read(Cursor::START, 10).await.unwrap().events.len(), 1);
}

async fn follow(mut tail: Tail, events: usize) -> Vec<Entry> {
    let mut seen = Vec::new();
    while seen.len() < events {
        let page = tokio::time::timeout(PATIENCE, tail.next()).await.expect("the tail goes on").unwrap();
        seen.extend(page.events.iter().map(Entry::read));
    }
    seen
}

pub async fn a_tail_is_woken_by_the_doorbell(world: World) {
    let node = fill(&world, 1, 3).await;
    let config = TailConfig { look_every: Duration::from_secs(3600), page_events: 2 };
    let tail = Tail::new(world.feed(), CLUSTER, world.bus().await, Cursor::START, config);
    let following = tokio::spawn(follow(tail, 40));
    for n in 0..37 {
        tell(&node.client(), probe("0"), add(&format!("more-{n}"), 1)).await;
    }
    let seen = following.await.unwrap();
    assert_eq!(sequences(&seen, "0"), (1..=40).collect::<Vec<_>>());
}

/// A bus that is never there.
struct NoBus;

#[async_trait]
impl Driver for NoBus {
    fn name(&self) -> &'static str {
        "none"
    }

    fn max_payload(&self) -> usize {
        1
    }

    async fn publish(&self, _: &Subject, _: Headers, _: Bytes) -> Result<(), PublishError> {
        Err(PublishError::Unavailable { reason: "none".into() })
    }

    async fn request(&self, _: &Subject, _: Headers, _: Bytes, _: Duration) -> Result<Bytes, RequestError> {
        Err(RequestError::Unavailable { reason: "none".into() })
    }

    async fn subscribe(&self, _: &Subject) -> Result<Box<dyn Subscription>, SubscribeError> {
        Err(SubscribeError::Unavailable { reason: "none".into() })
    }
}

pub async fn a_tail_without_a_bus_looks_now_and_then(world: World) {
    let node = fill(&world, 1, 3).await;
    let config = TailConfig { look_every: Duration::from_millis(50), page_events: 100 };
    let tail = Tail::new(world.feed(), CLUSTER, Arc::new(NoBus), Cursor::START, config);
    let following = tokio::spawn(follow(tail, 5));
    for n in 0..2 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        tell(&node.client(), probe("0"), add(&format!("more-{n}"), 1)).await;
    }
    assert_eq!(sequences(&following.await.unwrap(), "0"), (1..=5).collect::<Vec<_>>());
}

pub async fn p4_a_filtered_tail_sees_its_own_in_order_while_others_are_appended(world: World) {
    const EVENTS: u64 = 50;
    let node = world.node("a").await;
    let config = TailConfig { look_every: Duration::from_secs(3600), page_events: 3 };
    let tail = Tail::new(world.feed(), CLUSTER, world.bus().await, Cursor::START, config).filtered(only("2"));
    let following = tokio::spawn(follow(tail, EVENTS as usize));
    let client = node.client();
    join_all((0..4).map(|n| {
        let client = &client;
        async move {
            for m in 0..EVENTS {
                tell(client, probe(&n.to_string()), add(&format!("{n}-{m}"), 1)).await;
            }
        }
    }))
    .await;
    let seen = following.await.unwrap();
    assert_eq!(seen.len(), EVENTS as usize, "nobody else's");
    assert_eq!(sequences(&seen, "2"), (1..=EVENTS).collect::<Vec<_>>());
}

pub async fn p4_a_filtered_tail_moves_on_where_nothing_matches_and_misses_nothing_after(world: World) {
    let node = fill(&world, 2, 10).await;
    let config = TailConfig { look_every: Duration::from_millis(20), page_events: 10 };
    let bus = world.bus().await;
    let tail = |after| Tail::new(world.feed(), CLUSTER, bus.clone(), after, config).filtered(only("later"));
    let mut first = tail(Cursor::START);
    let last = tell(&node.client(), probe("0"), add("other", 1)).await.cursor.unwrap();
    eventually("it moves on", async || {
        let waited = tokio::time::timeout(Duration::from_millis(50), first.next()).await;
        assert!(waited.is_err(), "nothing matches: {waited:?}");
        first.position() >= last
    })
    .await;
    trim(&world.feed(), last).await.unwrap();
    tell(&node.client(), probe("later"), add("own", 1)).await;
    let page = tokio::time::timeout(PATIENCE, tail(first.position()).next()).await.unwrap().unwrap();
    assert!(page.gap.is_none(), "what did not match is not missed");
    assert_eq!(page.events.iter().map(|event| Entry::read(event).sequence).collect::<Vec<_>>(), [1]);
}

pub async fn a_filtered_tail_is_told_what_was_trimmed_before_it_came(world: World) {
    let _node = fill(&world, 2, 20).await;
    let (feed, ledger) = (world.feed(), world.ledger().await);
    let cut = ledger[30].cursor;
    trim(&feed, cut).await.unwrap();
    let left: Vec<_> = ledger[31..].iter().filter(|entry| entry.who == probe("1")).collect();
    let config = TailConfig { page_events: 1_000, ..TailConfig::default() };
    let tail = Tail::new(feed, CLUSTER, world.bus().await, ledger[3].cursor, config);
    let page = tokio::time::timeout(PATIENCE, tail.filtered(only("1")).next()).await.unwrap().unwrap();
    let gap = page.gap.unwrap();
    assert_eq!((gap.from, gap.to), (ledger[3].cursor, cut));
    assert!(page.events.iter().map(|event| event.cursor).eq(left.iter().map(|entry| entry.cursor)));
}

/// A feed that is written past all entities: what is in it is up to the claim.
pub fn bare(world: &World, id: &str) -> Feed {
    Feed::new(world.store.clone(), TENANT, id, 1)
}

/// Appends events with these terms of the index `who`, in one commit.
pub async fn append(world: &World, id: &str, events: &[Vec<String>], body: &[u8]) -> Vec<Cursor> {
    let mut tx = world.sound.begin();
    for (position, terms) in events.iter().enumerate() {
        for term in terms {
            let (key, offset) = keys::index_entry(TENANT, id, "who", term, 1).at(position as u16);
            tx.set_stamped_key(key, offset, Bytes::new());
        }
        let terms = terms.iter().map(|term| Term { index: "who".into(), term: term.clone() }).collect();
        let record = EventRecord { terms, body: body.to_vec() };
        let (key, offset) = keys::feed_event(TENANT, id, 1).at(position as u16);
        tx.set_stamped_key(key, offset, codec::encode(&record));
    }
    let stamp = tx.commit().await.unwrap().stamp;
    (0..events.len()).map(|position| Cursor::new(1, stamp, position as u16)).collect()
}

/// A reader of the feed that is appended to, read and trimmed in any order.
#[derive(Default)]
struct Wanderer {
    cursor: Cursor,
    seen: Vec<Cursor>,
}

impl Wanderer {
    /// One page more. `kept` are the events that its filter lets through, `gone` all that were trimmed.
    async fn read(&mut self, feed: &Feed, filter: &Filter, limit: usize, kept: &[Cursor], gone: &[Cursor]) {
        let page = feed.read_filtered(filter, self.cursor, limit).await.unwrap();
        let missed = gone.iter().filter(|event| **event > self.cursor).max();
        assert_eq!(page.gap.map(|gap| gap.to), missed.copied(), "a gap is told exactly when there is one");
        assert!(page.cursor >= self.cursor, "a cursor never goes back");
        let expected = kept.iter().filter(|event| **event > self.cursor).take(limit);
        assert!(page.events.iter().map(|event| &event.cursor).eq(expected));
        assert!(page.more || kept.iter().all(|event| *event <= page.cursor), "nothing is passed over");
        self.seen.extend(page.events.iter().map(|event| event.cursor));
        self.cursor = page.cursor;
    }
}

pub async fn p4_filtered_readers_miss_and_double_nothing_however_appends_and_trims_come_between(
    world: World,
) {
    let (feed, dice) = (bare(&world, "wild"), Dice::new(4));
    let whos = ["a", "b", "c", "never"];
    let mut readers: Vec<Wanderer> = whos.iter().map(|_| Wanderer::default()).collect();
    let (mut kept, mut gone): (Vec<(Cursor, Vec<String>)>, Vec<Cursor>) = Default::default();
    for _ in 0..400 {
        match dice.between(0..=9) {
            0..=3 => {
                let of =
                    |_| whos[..3].iter().filter(|_| dice.chance(0.4)).map(|who| who.to_string()).collect();
                let events: Vec<Vec<String>> = (0..dice.between(1..=4)).map(of).collect();
                kept.extend(append(&world, "wild", &events, b"").await.into_iter().zip(events));
            }
            4 if !kept.is_empty() && dice.chance(0.3) => {
                let to = dice.pick(&kept[..kept.len().div_ceil(3)]).0;
                trim(&feed, to).await.unwrap();
                gone.extend(kept.extract_if(.., |(cursor, _)| *cursor <= to).map(|(cursor, _)| cursor));
            }
            _ => {
                let number = dice.between(0..=3) as usize;
                let passes =
                    |(_, terms): &&(Cursor, Vec<String>)| terms.iter().any(|who| who == whos[number]);
                let matching: Vec<Cursor> = kept.iter().filter(passes).map(|(cursor, _)| *cursor).collect();
                let limit = dice.between(1..=5) as usize;
                readers[number].read(&feed, &only(whos[number]), limit, &matching, &gone).await;
            }
        }
    }
    for reader in &readers {
        assert!(reader.seen.is_sorted_by(|one, next| one < next), "once and in order");
    }
    assert!(readers[..3].iter().all(|reader| reader.seen.len() > 20) && gone.len() > 20, "much happened");
}

pub async fn an_index_entry_without_its_event_is_named(world: World) {
    let cursor = append(&world, "torn", &[vec!["a".into()]], b"").await[0];
    let mut tx = world.sound.begin();
    tx.clear_range(cadre_cluster::store::KeyRange::prefix(keys::feed(TENANT, "torn")));
    tx.commit().await.unwrap();
    let error = bare(&world, "torn").read_filtered(&only("a"), Cursor::START, 10).await.unwrap_err();
    assert!(matches!(error, Error::EventMissing { cursor: at } if at == cursor), "{error}");
}

pub async fn p4_a_snapshot_and_the_tail_after_it_are_the_whole_feed(world: World) {
    const EVENTS: u32 = 300;
    let node = world.node("a").await;
    let client = node.client();
    let writing = (0..4).map(|n| {
        let client = client.clone();
        tokio::spawn(async move {
            for m in 0..EVENTS {
                tell(&client, probe(&n.to_string()), add(&format!("{n}-{m}"), 1)).await;
            }
        })
    });
    let writing: Vec<_> = writing.collect();
    for _ in 0..20 {
        let feed = world.feed();
        let tx = world.store.begin();
        let stored = tx.snapshot_get(&keys::state(&probe("1"))).await.unwrap();
        let cursor = feed.snapshot_cursor(&tx).await.unwrap();
        let facts = stored.map_or(0, |stored| {
            cadre_cluster::host::read_entity::<crate::common::probe::Probe>(&stored).unwrap().0
        });
        let page = feed.read_filtered(&only("1"), cursor, 1).await.unwrap();
        if let Some(event) = page.events.first() {
            assert_eq!(Entry::read(event).sequence, facts + 1, "the first after the snapshot is the next");
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for task in writing {
        task.await.unwrap();
    }
    let ledger = world.ledger().await;
    assert_eq!(
        ledger.iter().filter(|entry| matches!(entry.fact, Fact::Added { .. })).count(),
        4 * EVENTS as usize
    );
}
