//! What the simulated network does to messages.

use std::{ops::RangeInclusive, time::Duration};

/// Odds and delays, drawn anew for every message to every listener and for every answer. The default is a
/// network that does no harm.
#[derive(Debug, Clone, PartialEq)]
pub struct Faults {
    /// How likely a message is lost.
    pub drop: f64,
    /// How likely a message arrives twice.
    pub duplicate: f64,
    /// How long a message is on its way. A range reorders; a fixed delay keeps the order.
    pub delay: RangeInclusive<Duration>,
}

impl Faults {
    /// No drops, no duplicates, no delay.
    pub fn none() -> Self {
        Self { drop: 0.0, duplicate: 0.0, delay: Duration::ZERO..=Duration::ZERO }
    }
}

impl Default for Faults {
    fn default() -> Self {
        Self::none()
    }
}
