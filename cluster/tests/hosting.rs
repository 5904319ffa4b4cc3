//! Hosting, placement and feeds on real drivers: the embedded store with the local bus, and with NATS.

mod common;

mod on_embedded_and_local {
    crate::hosting_claims!(crate::common::world::embedded_local);
}

mod on_embedded_and_nats {
    crate::hosting_claims!(crate::common::world::embedded_nats);
}

/// Long enough for everything that waits for NATS to have given up once.
#[test]
fn when_nats_is_gone_for_30_s_local_work_goes_on_and_the_rest_recovers() {
    let outage = std::time::Duration::from_secs(30);
    common::run(
        || common::world::embedded_nats("outage"),
        |world| common::claims::faults::without_nats(world, outage),
    );
}
