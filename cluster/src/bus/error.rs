//! What can go wrong on the bus, named by what the caller does next.

/// Why a message was not handed to the transport. It certainly was not, and will not arrive later.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PublishError {
    /// Correct the request.
    #[error("payload of {actual} bytes is over the bus limit of {limit}")]
    TooLarge {
        /// The bound.
        limit: usize,
        /// What was asked for.
        actual: usize,
    },
    /// Try again later.
    #[error("bus is unavailable: {reason}")]
    Unavailable {
        /// What the driver saw.
        reason: String,
    },
}

/// Why a request has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// Try again soon: nobody listens there, so nothing was done.
    #[error("nobody listens on {subject}")]
    NoResponders {
        /// The subject asked.
        subject: String,
    },
    /// Find out: the request may have been handled, its answer did not arrive in time.
    #[error("no answer within {timeout_ms} ms")]
    TimedOut {
        /// How long the caller waited.
        timeout_ms: u64,
    },
    /// Correct the request.
    #[error("payload of {actual} bytes is over the bus limit of {limit}")]
    TooLarge {
        /// The bound.
        limit: usize,
        /// What was asked for.
        actual: usize,
    },
    /// Try again later: the request was not handed to the transport, so nothing was done.
    #[error("request was not sent: {reason}")]
    NotSent {
        /// What the driver saw.
        reason: String,
    },
    /// Try again later: the request may have been handled.
    #[error("bus is unavailable: {reason}")]
    Unavailable {
        /// What the driver saw.
        reason: String,
    },
}

impl From<PublishError> for RequestError {
    fn from(error: PublishError) -> Self {
        match error {
            PublishError::TooLarge { limit, actual } => Self::TooLarge { limit, actual },
            PublishError::Unavailable { reason } => Self::NotSent { reason },
        }
    }
}

/// Why a subscription could not be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubscribeError {
    /// Try again later.
    #[error("bus is unavailable: {reason}")]
    Unavailable {
        /// What the driver saw.
        reason: String,
    },
}
