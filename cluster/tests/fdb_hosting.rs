//! Hosting on a FoundationDB cluster, the claims of tests/hosting.rs and one long day: see scripts/test-fdb.
#![cfg(feature = "fdb")]

mod common;
mod fdb_support;

use std::time::Duration;

use common::{World, bank::Customers, world::LEASE_TTL};
use tokio::time::sleep;

async fn world(test: &str) -> World {
    World::on(fdb_support::empty(&format!("hosting-{test}")).await)
}

mod on_fdb {
    crate::hosting_claims!(crate::world);
}

/// Two nodes: one is killed, restarted, drained and restarted again while money moves and commits now and then
/// come back unconfirmed.
#[test]
fn p1_to_p6_hold_through_a_day_of_crashes_restarts_and_drains() {
    common::run(
        || world("day"),
        |world| async move {
            let (a, b) = (world.node("a").await, world.node("b").await);
            world.settled(&[&a, &b]).await;
            let mut customers = Customers::start(&b.client(), 8).await;
            customers.serve(&world.client().await, "remote");
            customers.worked(200).await;
            let mut a = Some(a);
            for round in 0..3 {
                world.faults.unknown(5);
                // Killed.
                drop(a.take());
                sleep(LEASE_TTL / 2).await;
                world.faults.unknown(5);
                let again = world.node("a").await;
                world.settled(&[&again, &b]).await;
                customers.worked(200).await;
                // Handed over.
                again.drain().await;
                world.settled(&[&b]).await;
                customers.worked(100).await;
                let again = world.node("a").await;
                world.settled(&[&again, &b]).await;
                customers.worked(100).await;
                // Slow, so that it may lose its leases while it works.
                world.faults.delay_commits(Duration::from_millis(100 * (round + 1)));
                sleep(LEASE_TTL).await;
                world.faults.delay_commits(Duration::ZERO);
                world.settled(&[&again, &b]).await;
                a = Some(again);
            }
            customers.worked(200).await;
            let gifts = customers.end(&world).await;
            assert!(gifts > 1_000, "{gifts}");
        },
    );
}
