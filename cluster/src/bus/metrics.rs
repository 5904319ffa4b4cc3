//! What the drivers count.

use bytes::Bytes;
use metrics::counter;

use super::RequestError;

/// Messages that a full subscription lost.
pub(super) fn dropped(driver: &'static str, messages: u64) {
    counter!("cadre_bus_dropped_total", "driver" => driver).increment(messages);
}

/// How a request ended, when it did not end well.
pub(super) fn requested(driver: &'static str, outcome: &Result<Bytes, RequestError>) {
    let reason = match outcome {
        Ok(_) => return,
        Err(RequestError::NoResponders { .. }) => "no_responders",
        Err(RequestError::TimedOut { .. }) => "timed_out",
        Err(RequestError::TooLarge { .. }) => "too_large",
        Err(RequestError::NotSent { .. }) => "not_sent",
        Err(RequestError::Unavailable { .. }) => "unavailable",
    };
    counter!("cadre_bus_request_failures_total", "driver" => driver, "reason" => reason).increment(1);
}
