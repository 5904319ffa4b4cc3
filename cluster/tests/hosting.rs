//! Hosting, placement and feeds on real drivers: the embedded store with the local bus, and with NATS.

mod common;

mod on_embedded_and_local {
    crate::hosting_claims!(crate::common::world::embedded_local);
}

mod on_embedded_and_nats {
    crate::hosting_claims!(crate::common::world::embedded_nats);
}
