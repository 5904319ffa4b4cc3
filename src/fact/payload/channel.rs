//! Remote channels: who listens, from where on, and who decided through one.

use cadre_cluster::feed::Cursor;

use super::{
    Object,
    declare::{CursorText, payloads},
};
use crate::fact::{part::Part, time::Time};

payloads! {
    /// A channel listens to the session.
    ChannelConnected {
        ..
        /// What the other side is: `ui`, `bridge`, …
        peer_role: Option<String>,
        /// How the other side calls itself.
        native_peer_id: Option<String>,
        /// What it can do.
        capabilities: Vec<String>,
        /// Over what: `websocket`, `sse`.
        transport: Option<String>,
        /// From where on it listens.
        #[schemars(with = "Option<CursorText>")]
        after: Option<Cursor>,
    }

    /// A channel listens no more.
    ChannelDisconnected {
        /// Why: `closed`, `heartbeat`, `taken_over`, `drain`, …
        reason: String,
        ..
        /// What it had acknowledged.
        #[schemars(with = "Option<CursorText>")]
        acked: Option<Cursor>,
        /// Whether it can come back.
        resumable: bool,
        /// Until when.
        expires_at: Option<Time>,
    }

    /// A channel came back.
    ChannelResumed {
        ..
        /// From where on it listens.
        #[schemars(with = "Option<CursorText>")]
        after: Option<Cursor>,
        /// Whether a snapshot had to stand for a part.
        repaired: bool,
        /// How long it was away.
        away_ms: Option<u64>,
        /// How the other side calls itself.
        native_peer_id: Option<String>,
    }

    /// The other side said something.
    ChannelMessage {
        ..
        /// What.
        parts: Vec<Part>,
        /// `in` or `out`.
        direction: Option<String>,
        /// How the other side calls the message.
        native_message_id: Option<String>,
        /// How the other side calls itself.
        native_peer_id: Option<String>,
        /// The other side's own.
        metadata: Object,
    }

    /// A decision is asked for through the channel: `actionId` says which.
    ChannelPermissionForwarded {
        ..
        /// How the other side calls the question.
        native_request_id: Option<String>,
        /// Until when it is waited.
        expires_at: Option<Time>,
    }

    /// A decision came through the channel: `actionId` says which.
    ChannelPermissionReturned {
        /// What was decided.
        decision: String,
        ..
        /// By whom.
        by: Option<String>,
        /// How the other side calls the question.
        native_request_id: Option<String>,
        /// Whether it came in time to count.
        accepted: bool,
    }
}
