//! However many items there are, the state of a job stays small.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use cadre_cluster::{clock::Timestamp, codec};

use super::world::World;
use crate::{
    entity::{
        Named,
        job::{Counts, Loaded, Phase, Slot, Slots, Spec, State, Work, load},
    },
    exec::Source,
    fact::{
        Part,
        id::{ItemId, JobId, SessionId},
        status::JobStatus,
    },
};

#[test]
fn p9_a_job_with_a_thousand_items_under_way_fits_into_its_record() {
    let mut slots = Slots::default();
    for index in 99_000..100_000 {
        let time = Timestamp(1_800_000_000_000);
        let (since, first, due) = (time, time, time);
        slots.put(Slot { index, attempt: 70_000, tried: 100, since, first, due, phase: Phase::Waiting });
    }
    let long = "x".repeat(128);
    let item = |index| Loaded {
        index,
        item: ItemId::parse(&long).unwrap(),
        input: Ok(Source::Inline(vec![Part::text("y".repeat(100))])),
        view: Named(None),
        former: None,
    };
    let mut buffer: VecDeque<Loaded> = VecDeque::new();
    while buffer.iter().map(Loaded::size).sum::<usize>() < load::BYTES_MAX {
        buffer.push_back(item(buffer.len() as u32));
    }
    let spec = Spec { instruction: "z".repeat(16 * 1024), concurrency: Some(1_000), ..Spec::default() };
    let work = Work {
        id: JobId::parse(&long).unwrap(),
        session: SessionId::parse(&long).unwrap(),
        parent: None,
        lineage: Default::default(),
        depth: 0,
        fingerprint: u128::MAX,
        created: Timestamp(1_800_000_000_000),
        spec: Named(Box::new(spec)),
        items: 100_000,
        status: JobStatus::Running,
        counts: Counts { completed: 90_000, failed: 5_000, cancelled: 4_000 },
        told: 99_000,
        since: Timestamp(1_800_000_000_000),
        next: 100_000,
        slots,
        asked: (0..1_000).map(|index| index + 70_000).collect(),
        buffer,
        loading: true,
        loads: 100_000,
        retry_at: Some(Timestamp(1_800_000_000_000)),
        ending: None,
        scheduled: None,
        runs: 1,
        closed: false,
        removed: None,
        base: None,
        due: None,
    };
    let bytes = codec::encode(&State { view: Default::default(), work: Some(work), preparation: None }).len();
    // The view takes about 6 KiB at most, timers and the fetch that goes on about 1 KiB.
    assert!(bytes < 88 * 1024, "{bytes} bytes");
}

#[tokio::test(flavor = "multi_thread")]
async fn p9_a_job_of_twenty_thousand_items_ends_and_its_record_stays_small() {
    let world = Arc::new(World::new().await);
    world.create(&vec!["[]"; 20_000], Spec { concurrency: Some(256), ..Spec::default() }).await.unwrap();
    let watched = world.clone();
    let watch = tokio::spawn(async move {
        let mut largest = 0;
        loop {
            let (state, bytes) = watched.state().await;
            largest = bytes.max(largest);
            if state.work.is_some_and(|work| work.closed) {
                return largest;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    let largest = tokio::time::timeout(Duration::from_secs(300), watch).await.unwrap().unwrap();
    assert!(largest < 48 * 1024, "{largest} bytes");
    let state = world.state().await.0;
    assert_eq!((state.view.status, state.view.counts.completed), (JobStatus::Completed, 20_000));
}
