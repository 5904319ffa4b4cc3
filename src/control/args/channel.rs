//! Channels: come back, and say what has arrived.

use serde_json::{Value, json};

use super::declare::arguments;
use crate::{
    control::{check, command::Arguments, error::Error},
    fact::{
        Cursor,
        id::{ChannelId, SessionId},
    },
};

arguments! {
    /// Takes a channel up again, at any gateway, for a client that reads pages of feeds or is about to connect. Whoever
    /// holds it elsewhere loses it.
    ReconnectChannel {
        /// The channel.
        channel_id: ChannelId,
        /// A token that a `welcome` of the channel gave.
        resume_token: String,
        ..
        /// From where on to listen, for each session: none twice. Absent: what the channel had subscribed to, from
        /// what it acknowledged. What came before `after` counts as acknowledged.
        sessions: Vec<ResumeFrom>,
    }

    /// From where on a channel listens to a session.
    ResumeFrom {
        /// The session.
        session_id: SessionId,
        ..
        /// The last event that was seen. Absent: the last that was acknowledged.
        #[schemars(with = "Option<String>")]
        after: Option<Cursor>,
    }

    /// Says that everything up to a cursor has arrived. Answers when that is durable. An older cursor than the last is
    /// ignored.
    AckEvents {
        /// The channel.
        channel_id: ChannelId,
        /// The session.
        session_id: SessionId,
        /// The last event that has arrived.
        #[schemars(with = "String")]
        cursor: Cursor,
    }
}

impl Arguments for ReconnectChannel {
    fn check(&self) -> Result<(), Error> {
        check::token("resumeToken", Some(&self.resume_token))?;
        check::count("sessions", self.sessions.len(), 0..=check::WAITED_MAX)?;
        let ids: Vec<_> = self.sessions.iter().map(|session| &session.session_id).collect();
        check::distinct("sessions", &ids)
    }

    fn example() -> Value {
        json!({
            "channelId": "chan_1",
            "resumeToken": "v1.k1.c2lnbmVk",
            "sessions": [{ "sessionId": "sess_demo", "after": "00000001000000000000002a00000000" }],
        })
    }
}

impl Arguments for AckEvents {
    fn example() -> Value {
        json!({
            "channelId": "chan_1",
            "sessionId": "sess_demo",
            "cursor": "00000001000000000000002a00000000",
        })
    }
}
