//! What the store knows of channels.

use cadre_cluster::clock::Timestamp;
use serde::{Deserialize, Serialize};

use crate::fact::Cursor;

/// A channel. Whoever takes it up raises the generation; whoever holds an older one has lost it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::runtime) struct ChannelRecord {
    /// When it was opened first.
    pub created: Timestamp,
    /// Which connection holds it, counted from 1.
    pub generation: u64,
    /// Whether that connection has not said goodbye.
    pub connected: bool,
    /// When it was last heard of.
    pub seen: Timestamp,
    /// What the other side is.
    pub peer_role: Option<String>,
    /// How often it gives a sign of life, in milliseconds.
    pub heartbeat_ms: u64,
    /// How many sessions it has listened to.
    pub sessions: u32,
    /// When it is forgotten unless it is heard of.
    pub expires: Timestamp,
}

/// A session that a channel has listened to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::runtime) struct ListenedRecord {
    /// The last cursor that it acknowledged.
    pub acked: Option<Cursor>,
    /// The generation whose connection the session was last told of.
    pub told: u64,
    /// Whether the session was told that this connection listens, and not that it has gone.
    pub listens: bool,
}

cadre_cluster::stored! { ChannelRecord: "channel", ListenedRecord: "channel's session" }

#[cfg(test)]
mod tests {
    use cadre_cluster::codec;

    use super::*;

    /// The bytes that are in stores today. When this fails, the layout has changed: give it a new version that reads the
    /// old one.
    #[test]
    fn stored_bytes_are_read_for_ever() {
        let channel = ChannelRecord {
            created: Timestamp(1),
            generation: 2,
            connected: true,
            seen: Timestamp(3),
            peer_role: Some("ui".into()),
            heartbeat_ms: 15_000,
            sessions: 4,
            expires: Timestamp(5),
        };
        let bytes = [1, 0x98, 1, 2, 0xc3, 3, 0xa2, b'u', b'i', 0xcd, 0x3a, 0x98, 4, 5];
        assert_eq!(codec::encode(&channel), bytes.as_slice());
        assert_eq!(codec::decode::<ChannelRecord>(&bytes).unwrap(), channel);
        let listened = ListenedRecord { acked: None, told: 7, listens: true };
        let bytes = [1, 0x93, 0xc0, 7, 0xc3];
        assert_eq!(codec::encode(&listened), bytes.as_slice());
        assert_eq!(codec::decode::<ListenedRecord>(&bytes).unwrap(), listened);
    }
}
