//! What sessions are told of those who listen to them.
//!
//! A session hears of each connection once that it listens and once that it has gone. The record of what a channel listens
//! to is changed first, by the generation that holds the channel; then the session is told, under a key that names that
//! generation, so that asking again tells nothing twice (P3). When a gateway dies in between, the next generation finds
//! that the former one never said goodbye, and says it in its place.

use std::time::Duration;

use cadre_cluster::{
    address::Address,
    clock::Timestamp,
    codec,
    host::CallError,
    keys,
    store::{Attempt, Transaction},
};
use futures::{StreamExt, stream};

use super::{Hold, KEPT, SESSIONS_MAX, Taken, listened, record::ListenedRecord};
use crate::{
    control::Error,
    entity::{Session, kind, records},
    fact::{
        Cursor, Fact, Time,
        id::{ActionId, ChannelId, SessionId},
        payload::{
            ChannelConnected, ChannelDisconnected, ChannelPermissionForwarded, ChannelPermissionReturned,
            ChannelResumed,
        },
        scope::{ChannelActionScope, ChannelScope},
    },
    runtime::{
        Caller, Runtime,
        exports::as_command,
        failure::{undecodable, unreadable},
    },
};

/// How long a session may take to hear it. A channel works also when it does not.
pub(super) const TELL_MAX: Duration = Duration::from_secs(5);
/// How many sessions are told at once that a channel has gone.
const TOLD_AT_ONCE: usize = 16;

/// How a channel began to listen to a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listens {
    /// What it has acknowledged.
    pub acked: Option<Cursor>,
    /// Whether it has listened before.
    is_known: bool,
    /// Whether a former connection never said goodbye.
    is_left_over: bool,
    /// Whether this connection has listened before.
    is_again: bool,
}

/// What the other side says of itself.
#[derive(Debug, Clone, Default)]
pub struct Peer {
    /// What it is: `ui`, `bridge`, …
    pub role: Option<String>,
    /// What it can do.
    pub capabilities: Vec<String>,
}

impl Runtime {
    /// Takes note that a channel listens to a session, which is there.
    pub async fn listen(&self, caller: &Caller, hold: &Hold, session: &SessionId) -> Result<Listens, Error> {
        let path = keys::data(&caller.tenant, &records::listened(&hold.channel, session));
        let mut attempt = Attempt::idempotent();
        loop {
            let mut tx = self.store.begin();
            let mut channel = self.held_in(&tx, caller, hold).await?;
            let former = tx.get(&path).await.map_err(unreadable)?;
            let former: Option<ListenedRecord> =
                former.map(|former| codec::decode(&former)).transpose().map_err(undecodable)?;
            if former.is_none() {
                if channel.sessions >= SESSIONS_MAX {
                    let message =
                        format!("a channel listens to at most {SESSIONS_MAX} sessions: open another");
                    return Err(Error::rate_limited(60_000, message).with("limit", SESSIONS_MAX));
                }
                channel.sessions += 1;
                self.put_channel(&mut tx, caller, &hold.channel, &channel);
            }
            let acked = former.as_ref().and_then(|former| former.acked);
            let record = ListenedRecord { acked, told: hold.generation, listens: true };
            tx.set(path.clone(), codec::encode(&record));
            match tx.commit().await {
                Ok(_) => {
                    let by = |former: &ListenedRecord| former.told == hold.generation;
                    return Ok(Listens {
                        acked,
                        is_known: former.is_some(),
                        is_left_over: former.as_ref().is_some_and(|former| former.listens && !by(former)),
                        is_again: former.as_ref().is_some_and(|former| former.listens && by(former)),
                    });
                }
                Err(error) => attempt.again(error).await.map_err(unreadable)?,
            }
        }
    }

    /// Tells a session that a channel listens to it. The position of the last fact about it.
    pub async fn tell_listens(
        &self,
        caller: &Caller,
        taken: &Taken,
        session: &SessionId,
        (listens, peer): (&Listens, &Peer),
        (after, repaired): (Option<Cursor>, bool),
    ) -> Option<Cursor> {
        if listens.is_again {
            return None;
        }
        let (now, channel) = (self.clock.now(), &taken.hold.channel);
        let mut facts = Vec::new();
        if listens.is_left_over {
            facts.push(gone(now, channel, "taken_over", listens.acked));
        }
        facts.push(if listens.is_known {
            let away_ms = taken.seen.map(|seen| now.0.saturating_sub(seen.0));
            let resumed = ChannelResumed { after, repaired, away_ms, native_peer_id: None };
            Fact::new(now, scope(channel), resumed)
        } else {
            let connected = ChannelConnected {
                peer_role: peer.role.clone(),
                native_peer_id: None,
                capabilities: peer.capabilities.clone(),
                transport: Some("websocket".into()),
                after,
            };
            Fact::new(now, scope(channel), connected)
        });
        self.tell(caller, session, facts, &key(&taken.hold, "here")).await
    }

    /// Takes note that a channel listens to a session no more, and tells the session.
    pub async fn unlisten(&self, caller: &Caller, hold: &Hold, session: &SessionId) -> Result<(), Error> {
        let mut attempt = Attempt::idempotent();
        let acked = loop {
            let mut tx = self.store.begin();
            self.held_in(&tx, caller, hold).await?;
            let path = keys::data(&caller.tenant, &records::listened(&hold.channel, session));
            let Some(known) = tx.get(&path).await.map_err(unreadable)? else { return Ok(()) };
            let known: ListenedRecord = codec::decode(&known).map_err(undecodable)?;
            if !known.listens {
                return Ok(());
            }
            set_gone(&mut tx, path, &known);
            match tx.commit().await {
                Ok(_) => break known.acked,
                Err(error) => attempt.again(error).await.map_err(unreadable)?,
            }
        };
        let now = self.clock.now();
        self.tell(caller, session, vec![gone(now, &hold.channel, "unsubscribed", acked)], "").await;
        Ok(())
    }

    /// A connection says goodbye, and all sessions that it listened to are told, unless somebody else has the channel by
    /// now: then that one tells them.
    pub async fn leave_channel(&self, caller: &Caller, hold: &Hold, reason: &str) -> Result<(), Error> {
        let mut attempt = Attempt::idempotent();
        let left = loop {
            let mut tx = self.store.begin();
            let mut record = self.held_in(&tx, caller, hold).await?;
            let expiry = records::channel_expiry(record.expires, &hold.channel);
            tx.clear(keys::data(&caller.tenant, &expiry));
            record.connected = false;
            record.seen = self.clock.now();
            record.expires = record.seen.after(KEPT);
            self.put_channel(&mut tx, caller, &hold.channel, &record);
            let mut left = Vec::new();
            for (session, known) in listened(&tx, &caller.tenant, &hold.channel).await? {
                if known.listens {
                    let path = keys::data(&caller.tenant, &records::listened(&hold.channel, &session));
                    set_gone(&mut tx, path, &known);
                    left.push((session, known.acked));
                }
            }
            match tx.commit().await {
                Ok(_) => break left,
                Err(error) => attempt.again(error).await.map_err(unreadable)?,
            }
        };
        let now = self.clock.now();
        let told = stream::iter(left).map(|(session, acked)| async move {
            let facts = vec![gone(now, &hold.channel, reason, acked)];
            self.tell(caller, &session, facts, &key(hold, "gone")).await;
        });
        told.buffer_unordered(TOLD_AT_ONCE).collect::<()>().await;
        Ok(())
    }

    /// Tells a session that somebody was asked for a decision through a channel.
    pub async fn tell_forwarded(&self, caller: &Caller, hold: &Hold, session: &SessionId, action: &ActionId) {
        let scope = ChannelActionScope { channel: hold.channel.clone(), action: action.clone() };
        let fact = Fact::new(self.clock.now(), scope, ChannelPermissionForwarded::default());
        // Once for each channel: it is asked again when it comes back, but that is the same question.
        let key = format!("channel.{}.asked.{action}", hold.channel);
        self.tell(caller, session, vec![fact], &key).await;
    }

    /// Tells a session what was decided through a channel.
    pub async fn tell_returned(
        &self,
        caller: &Caller,
        hold: &Hold,
        session: &SessionId,
        action: &ActionId,
        (decision, accepted): (&str, bool),
    ) {
        let scope = ChannelActionScope { channel: hold.channel.clone(), action: action.clone() };
        let returned = ChannelPermissionReturned {
            decision: decision.to_owned(),
            by: Some(caller.name.clone()),
            native_request_id: None,
            accepted,
        };
        let fact = Fact::new(self.clock.now(), scope, returned);
        self.tell(caller, session, vec![fact], "").await;
    }

    /// Adds facts to a session, once for each key; without one as often as this is called.
    async fn tell(
        &self,
        caller: &Caller,
        session: &SessionId,
        facts: Vec<Fact>,
        key: &str,
    ) -> Option<Cursor> {
        let address = Address::new(&caller.tenant, kind::SESSION, session.as_str()).ok()?;
        let command = as_command(&address, facts);
        let key = Some(key).filter(|key| !key.is_empty());
        match self.client.call::<Session>(&address, &command, key, TELL_MAX).await {
            Ok(told) => told.cursor,
            // It was told by an earlier try, at another time.
            Err(CallError::KeyReused) => None,
            Err(error) => {
                tracing::warn!(%session, %error, "a session could not be told of a channel");
                None
            }
        }
    }
}

fn scope(channel: &ChannelId) -> ChannelScope {
    ChannelScope { channel: channel.clone() }
}

fn key(hold: &Hold, what: &str) -> String {
    format!("channel.{}.{}.{what}", hold.channel, hold.generation)
}

pub(super) fn gone(now: Timestamp, channel: &ChannelId, reason: &str, acked: Option<Cursor>) -> Fact {
    let disconnected = ChannelDisconnected {
        reason: reason.to_owned(),
        acked,
        resumable: true,
        expires_at: Some(Time(now.after(KEPT))),
    };
    Fact::new(now, scope(channel), disconnected)
}

fn set_gone(tx: &mut Transaction, path: bytes::Bytes, known: &ListenedRecord) {
    let record = ListenedRecord { listens: false, ..known.clone() };
    tx.set(path, codec::encode(&record));
}
