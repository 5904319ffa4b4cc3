//! Channels.

use super::declare::results;
use crate::fact::id::{ChannelId, SessionId};

results! {
    /// A channel that was taken up again.
    Reconnected {
        /// The channel.
        channel_id: ChannelId,
        /// The token for the next time. The old one is good, too: an answer may be lost.
        resume_token: String,
        /// Whether what it had acknowledged is still known.
        resumed: bool,
        /// How often it has to give a sign of life, in milliseconds.
        heartbeat_ms: u64,
        /// What it listens to.
        subscriptions: Vec<Subscription>,
    }

    /// A session that a channel listens to.
    Subscription {
        /// The session.
        session_id: SessionId,
        ..
        /// The last cursor that it acknowledged.
        acked: Option<String>,
        /// Whether a snapshot has to stand for a part that is no longer there.
        repaired: Option<bool>,
    }

    /// What a channel has acknowledged, durably.
    Acked {
        /// The channel.
        channel_id: ChannelId,
        /// The session.
        session_id: SessionId,
        /// The newest cursor that it acknowledged.
        cursor: String,
    }
}
