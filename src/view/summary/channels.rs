//! Who listens to the session from afar.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::count;
use crate::{
    fact::{Cursor, Fact, id::ChannelId, payload::Payload, time::Time},
    view::{
        bound::{self, NAME_MAX, WORD_MAX, cut, cut_some, push_last},
        declare::views,
    },
};

/// Whether a channel listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChannelState {
    /// It does.
    Connected,
    /// It does not.
    Disconnected,
}

views! {
    /// One channel.
    ChannelEntry {
        /// Which.
        channel_id: ChannelId,
        /// Whether it listens.
        state: ChannelState,
        /// Since when.
        since: Time,
        ..
        /// What the other side is.
        peer_role: Option<String>,
        /// How the other side calls itself.
        native_peer_id: Option<String>,
        /// From where on it listens.
        #[schemars(with = "Option<String>")]
        after: Option<Cursor>,
        /// What it had acknowledged when it left.
        #[schemars(with = "Option<String>")]
        acked: Option<Cursor>,
        /// Why it left.
        reason: Option<String>,
        /// Whether it can come back.
        resumable: bool,
    }

    /// The channels that were heard of last.
    #[derive(Default)]
    Channels {
        ..
        /// How often one connected.
        connects: u32,
        /// How often one came back.
        resumes: u32,
        /// How often one left.
        disconnects: u32,
        /// How many messages came or went.
        messages: u32,
        /// How many decisions were asked for through one.
        permissions_forwarded: u32,
        /// How many came back through one.
        permissions_returned: u32,
        /// The last ones.
        recent: Vec<ChannelEntry>,
    }
}

impl Channels {
    /// How many channels are told of.
    pub const RECENT_MAX: usize = 6;

    pub(super) fn apply(&mut self, fact: &Fact) {
        let Some(channel) = fact.ids.channel() else { return };
        let at = bound::time(fact.at);
        match &fact.payload {
            Payload::ChannelConnected(connected) => {
                count(&mut self.connects);
                let mut entry = self.take(channel, at);
                entry.state = ChannelState::Connected;
                entry.peer_role = cut_some(connected.peer_role.as_deref(), WORD_MAX);
                entry.native_peer_id = cut_some(connected.native_peer_id.as_deref(), NAME_MAX);
                entry.after = connected.after;
                self.put(entry);
            }
            Payload::ChannelResumed(resumed) => {
                count(&mut self.resumes);
                let mut entry = self.take(channel, at);
                entry.state = ChannelState::Connected;
                bound::set_text(&mut entry.native_peer_id, resumed.native_peer_id.as_deref(), NAME_MAX);
                entry.after = resumed.after;
                self.put(entry);
            }
            Payload::ChannelDisconnected(disconnected) => {
                count(&mut self.disconnects);
                let mut entry = self.take(channel, at);
                entry.state = ChannelState::Disconnected;
                entry.acked = disconnected.acked;
                entry.reason = Some(cut(&disconnected.reason, WORD_MAX));
                entry.resumable = disconnected.resumable;
                self.put(entry);
            }
            Payload::ChannelMessage(_) => count(&mut self.messages),
            Payload::ChannelPermissionForwarded(_) => count(&mut self.permissions_forwarded),
            Payload::ChannelPermissionReturned(_) => count(&mut self.permissions_returned),
            _ => {}
        }
    }

    fn take(&mut self, channel: &ChannelId, since: Time) -> ChannelEntry {
        let known = self.recent.iter().position(|entry| entry.channel_id == *channel);
        let known = known.map(|index| self.recent.remove(index));
        ChannelEntry {
            channel_id: channel.clone(),
            state: ChannelState::Connected,
            since,
            peer_role: known.as_ref().and_then(|known| known.peer_role.clone()),
            native_peer_id: known.as_ref().and_then(|known| known.native_peer_id.clone()),
            after: None,
            acked: known.as_ref().and_then(|known| known.acked),
            reason: None,
            resumable: false,
        }
    }

    fn put(&mut self, entry: ChannelEntry) {
        push_last(&mut self.recent, entry, Self::RECENT_MAX);
    }
}
