//! What happens to a connection, for those who watch: logs and metrics.

use async_nats::Event;
use metrics::{counter, gauge};

use super::NAME;
use crate::bus::metrics::dropped;

/// Notes an event of the client.
pub(super) fn note(event: &Event) {
    match event {
        Event::Connected => {
            tracing::info!("bus is connected");
            gauge!("cadre_bus_connected", "driver" => NAME).set(1.0);
            counter!("cadre_bus_connects_total", "driver" => NAME).increment(1);
        }
        Event::Disconnected => {
            tracing::warn!("bus is disconnected, reconnecting");
            gauge!("cadre_bus_connected", "driver" => NAME).set(0.0);
            counter!("cadre_bus_disconnects_total", "driver" => NAME).increment(1);
        }
        Event::Closed => {
            tracing::info!("bus is closed");
            gauge!("cadre_bus_connected", "driver" => NAME).set(0.0);
        }
        Event::LameDuckMode => tracing::info!("bus server is going away, another one will be used"),
        Event::Draining => tracing::debug!("bus is draining"),
        Event::SlowConsumer(subscription) => {
            tracing::debug!(subscription, "message dropped: queue is full");
            dropped(NAME, 1);
        }
        Event::ServerError(error) => {
            tracing::warn!(%error, "bus server reports an error");
            counter!("cadre_bus_server_errors_total", "driver" => NAME).increment(1);
        }
        Event::ClientError(error) => {
            tracing::debug!(%error, "bus connection attempt failed");
            counter!("cadre_bus_connect_failures_total", "driver" => NAME).increment(1);
        }
    }
}
