//! What is durable of channels: who holds one, and what it has acknowledged.
//!
//! A gateway keeps nothing of a channel that its client could miss. Whoever takes a channel up raises its *generation*, in
//! the transaction that reads what was acknowledged; whoever holds an older generation is told over the bus, and cannot
//! write anything for the channel from then on, however late it hears of it. An acknowledgement only ever moves on.
//!
//! A resume token says that its bearer was once given the channel. It is good at every gateway until the channel is
//! forgotten, and more than once: a client whose connection breaks before it has read the new token still has the old one.

mod facts;
mod forget;
mod record;
mod token;

use std::time::Duration;

use cadre_cluster::{
    bus::{Headers, Subject, escape_token},
    clock::Timestamp,
    codec, keys,
    store::{Attempt, KeyRange, RangeRead, Transaction},
};

pub use self::facts::{Listens, Peer};
pub(super) use self::forget::forget_channels;
use self::record::{ChannelRecord, ListenedRecord};
use super::{
    Caller, Request, Runtime,
    failure::{undecodable, unreadable},
};
use crate::{
    control::{
        Code, Error,
        args::{AckEvents, ReconnectChannel},
        result::{Acked, Answer, Reconnected, Subscription},
    },
    entity::records,
    fact::{
        Cursor,
        id::{ChannelId, SessionId},
    },
};

/// How long a channel is remembered that nobody holds.
pub const KEPT: Duration = Duration::from_secs(7 * 24 * 3600);
/// How often it is written down that a channel is alive.
const SEEN_EVERY: Duration = Duration::from_secs(3600);
/// To how many sessions one channel may have listened.
pub const SESSIONS_MAX: u32 = 1_000;
/// How often a client gives a sign of life unless it says so.
pub const HEARTBEAT_MS: u64 = 15_000;

/// What somebody wants who takes a channel.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Which; a new one by default.
    pub channel: Option<ChannelId>,
    /// What the channel's last `welcome` gave.
    pub token: Option<String>,
    /// What the other side is.
    pub peer_role: Option<String>,
    /// How often it gives a sign of life, in milliseconds.
    pub heartbeat_ms: Option<u64>,
}

/// A channel that was taken.
#[derive(Debug, Clone)]
pub struct Taken {
    /// Which, and by which generation.
    pub hold: Hold,
    /// The token for the next time.
    pub token: String,
    /// Whether it was known.
    pub resumed: bool,
    /// How often the other side gives a sign of life, in milliseconds.
    pub heartbeat_ms: u64,
    /// When it was heard of before.
    pub seen: Option<Timestamp>,
    /// The sessions that it has listened to, and what it has acknowledged of each.
    pub listened: Vec<(SessionId, Option<Cursor>)>,
}

/// One generation of a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// The channel.
    pub channel: ChannelId,
    /// Which.
    pub generation: u64,
}

/// Where it is told that a channel was taken: its generation.
pub fn taken_subject(cluster: &str, tenant: &str, channel: &ChannelId) -> Subject {
    let (cluster, tenant) = (escape_token(cluster), escape_token(tenant));
    Subject::from_tokens(["cadre", &cluster, "channel", &tenant, &escape_token(channel.as_str())])
}

/// All such subjects of a cluster.
pub fn all_taken_subjects(cluster: &str) -> Subject {
    Subject::from_tokens(["cadre", &escape_token(cluster), "channel", "*", "*"])
}

/// Somebody else has the channel.
fn lost(channel: &ChannelId) -> Error {
    Error::conflict("taken_over", format!("the channel {channel} was taken up by another connection"))
}

impl Runtime {
    /// Takes a channel, new or known.
    pub async fn take_channel(&self, caller: &Caller, wanted: &Wanted) -> Result<Taken, Error> {
        let shown = match &wanted.token {
            Some(token) => Some(self.channel_of_token(caller, token).await?),
            None => None,
        };
        if let (Some(shown), Some(named)) = (&shown, &wanted.channel)
            && shown != named
        {
            return Err(token::refused());
        }
        let channel = shown.clone().or_else(|| wanted.channel.clone()).unwrap_or_else(|| self.new_id());
        let mut attempt = Attempt::idempotent();
        let taken = loop {
            let mut tx = self.store.begin();
            let taken = self.take_in(&mut tx, caller, &channel, shown.is_some(), wanted).await?;
            match tx.commit().await {
                Ok(_) => break taken,
                Err(error) => attempt.again(error).await.map_err(unreadable)?,
            }
        };
        let subject = taken_subject(&self.settings.host.cluster, &caller.tenant, &channel);
        let generation = taken.hold.generation.to_string();
        if let Err(error) = self.bus.publish(&subject, Headers::default(), generation.into()).await {
            tracing::debug!(%channel, %error, "who held the channel was not told, and will find out");
        }
        Ok(Taken { token: self.token_of_channel(caller, &channel).await?, ..taken })
    }

    async fn take_in(
        &self,
        tx: &mut Transaction,
        caller: &Caller,
        channel: &ChannelId,
        is_known: bool,
        wanted: &Wanted,
    ) -> Result<Taken, Error> {
        let (now, tenant) = (self.clock.now(), &caller.tenant);
        let former = self.channel_in(tx, caller, channel).await?;
        if let Some(former) = former.as_ref().filter(|former| former.expires <= now) {
            tx.clear(keys::data(tenant, &records::channel_expiry(former.expires, channel)));
            tx.clear_range(keys::data_range(tenant, &records::all_listened(channel)));
        }
        let former = former.filter(|former| former.expires > now);
        if former.is_some() && !is_known {
            let message = format!("there is a channel {channel}: take it up with its resume token");
            return Err(Error::conflict("open", message).with("field", "channelId"));
        }
        if let Some(former) = &former {
            tx.clear(keys::data(tenant, &records::channel_expiry(former.expires, channel)));
        }
        let listened = match &former {
            Some(_) => listened(tx, tenant, channel).await?,
            None => Vec::new(),
        };
        let heartbeat_ms = wanted.heartbeat_ms.or(former.as_ref().map(|former| former.heartbeat_ms));
        let record = ChannelRecord {
            created: former.as_ref().map_or(now, |former| former.created),
            generation: former.as_ref().map_or(0, |former| former.generation) + 1,
            connected: true,
            seen: now,
            peer_role: wanted
                .peer_role
                .clone()
                .or(former.as_ref().and_then(|former| former.peer_role.clone())),
            heartbeat_ms: heartbeat_ms.unwrap_or(HEARTBEAT_MS),
            sessions: former.as_ref().map_or(0, |former| former.sessions),
            expires: now.after(KEPT),
        };
        self.put_channel(tx, caller, channel, &record);
        Ok(Taken {
            hold: Hold { channel: channel.clone(), generation: record.generation },
            token: String::new(),
            resumed: former.is_some(),
            heartbeat_ms: record.heartbeat_ms,
            seen: former.map(|former| former.seen),
            listened: listened.into_iter().map(|(session, record)| (session, record.acked)).collect(),
        })
    }

    /// Keeps what a channel has acknowledged. What it had acknowledged beyond that stands.
    pub async fn acknowledge(
        &self,
        caller: &Caller,
        hold: &Hold,
        acks: &[(SessionId, Cursor)],
    ) -> Result<(), Error> {
        let mut attempt = Attempt::idempotent();
        loop {
            let mut tx = self.store.begin();
            let record = self.held_in(&tx, caller, hold).await?;
            self.alive_in(&mut tx, caller, &hold.channel, record);
            for (session, cursor) in acks {
                self.acknowledge_in(&mut tx, caller, &hold.channel, session, *cursor).await?;
            }
            match tx.commit().await {
                Ok(_) => return Ok(()),
                Err(error) => attempt.again(error).await.map_err(unreadable)?,
            }
        }
    }

    /// Takes note that a channel is alive, if that is due; an error when somebody else has it.
    pub async fn channel_is_alive(&self, caller: &Caller, hold: &Hold) -> Result<(), Error> {
        self.acknowledge(caller, hold, &[]).await
    }

    /// What is acknowledged then.
    async fn acknowledge_in(
        &self,
        tx: &mut Transaction,
        caller: &Caller,
        channel: &ChannelId,
        session: &SessionId,
        cursor: Cursor,
    ) -> Result<Cursor, Error> {
        let path = keys::data(&caller.tenant, &records::listened(channel, session));
        let known = tx.get(&path).await.map_err(unreadable)?;
        let mut record: ListenedRecord = match known {
            Some(known) => codec::decode(&known).map_err(undecodable)?,
            None => return Err(Error::not_found("session", session).with("channelId", channel.as_str())),
        };
        if record.acked.is_none_or(|acked| acked < cursor) {
            record.acked = Some(cursor);
            tx.set(path, codec::encode(&record));
        }
        Ok(record.acked.unwrap_or(cursor))
    }

    /// The channel, if its holder is still this one.
    async fn held_in(&self, tx: &Transaction, caller: &Caller, hold: &Hold) -> Result<ChannelRecord, Error> {
        let record = self.channel_in(tx, caller, &hold.channel).await?;
        record.filter(|record| record.generation == hold.generation).ok_or_else(|| lost(&hold.channel))
    }

    async fn channel_in(
        &self,
        tx: &Transaction,
        caller: &Caller,
        channel: &ChannelId,
    ) -> Result<Option<ChannelRecord>, Error> {
        let path = keys::data(&caller.tenant, &records::channel(channel));
        let record = tx.get(&path).await.map_err(unreadable)?;
        record.map(|record| codec::decode(&record).map_err(undecodable)).transpose()
    }

    fn put_channel(
        &self,
        tx: &mut Transaction,
        caller: &Caller,
        channel: &ChannelId,
        record: &ChannelRecord,
    ) {
        let tenant = &caller.tenant;
        tx.set(keys::data(tenant, &records::channel(channel)), codec::encode(record));
        tx.set(keys::data(tenant, &records::channel_expiry(record.expires, channel)), bytes::Bytes::new());
    }

    /// Writes down that a channel is alive, now and then.
    fn alive_in(&self, tx: &mut Transaction, caller: &Caller, channel: &ChannelId, record: ChannelRecord) {
        let now = self.clock.now();
        if now < record.seen.after(SEEN_EVERY) {
            return;
        }
        let expiry = records::channel_expiry(record.expires, channel);
        tx.clear(keys::data(&caller.tenant, &expiry));
        self.put_channel(
            tx,
            caller,
            channel,
            &ChannelRecord { seen: now, expires: now.after(KEPT), ..record },
        );
    }

    pub(super) async fn reconnect_channel(
        &self,
        request: &Request<'_>,
        args: ReconnectChannel,
    ) -> Result<Answer<Reconnected>, Error> {
        for (index, from) in args.sessions.iter().enumerate() {
            if let Some(after) = from.after {
                self.check_reached(
                    request.caller,
                    &from.session_id,
                    after,
                    &format!("sessions[{index}].after"),
                )
                .await?;
            }
        }
        let wanted = Wanted {
            channel: Some(args.channel_id.clone()),
            token: Some(args.resume_token),
            ..Wanted::default()
        };
        let taken = match self.take_channel(request.caller, &wanted).await {
            // What is not there is not there, whatever token comes with it; and so is what others have (P8).
            Err(error) if error.code == Code::Unauthorized => {
                let known = self.channel_in(&self.store.begin(), request.caller, &args.channel_id).await?;
                let is_known = known.is_some_and(|known| known.expires > self.clock.now());
                return Err(if is_known { error } else { Error::not_found("channel", args.channel_id) });
            }
            taken => taken?,
        };
        let sessions: Vec<_> = if args.sessions.is_empty() {
            taken.listened.iter().map(|(session, _)| (session.clone(), None)).collect()
        } else {
            args.sessions.into_iter().map(|from| (from.session_id, from.after)).collect()
        };
        let (mut subscriptions, mut cursor) = (Vec::new(), None);
        for (session, after) in sessions {
            let listens = self.listen(request.caller, &taken.hold, &session).await?;
            if let Some(after) = after {
                self.acknowledge(request.caller, &taken.hold, &[(session.clone(), after)]).await?;
            }
            let acked = after.max(listens.acked);
            let missing = self.feed(request.caller, &session).read(acked.unwrap_or(Cursor::START), 1).await;
            let repaired = missing.map_err(unreadable)?.gap.is_some() && acked.is_some();
            let told = self
                .tell_listens(
                    request.caller,
                    &taken,
                    &session,
                    (&listens, &Peer::default()),
                    (acked, repaired),
                )
                .await;
            cursor = cursor.max(told);
            subscriptions.push(Subscription {
                session_id: session,
                acked: acked.map(|acked| acked.to_string()),
                repaired: Some(repaired),
            });
        }
        let result = Reconnected {
            channel_id: taken.hold.channel,
            resume_token: taken.token,
            resumed: taken.resumed,
            heartbeat_ms: taken.heartbeat_ms,
            subscriptions,
        };
        Ok(Answer { result, cursor })
    }

    pub(super) async fn ack_events(
        &self,
        request: &Request<'_>,
        args: AckEvents,
    ) -> Result<Answer<Acked>, Error> {
        let (caller, channel, session) = (request.caller, &args.channel_id, &args.session_id);
        let mut attempt = Attempt::idempotent();
        let cursor = loop {
            let mut tx = self.store.begin();
            let record = self.channel_in(&tx, caller, channel).await?;
            let record = record.filter(|record| record.expires > self.clock.now());
            let record = record.ok_or_else(|| Error::not_found("channel", channel))?;
            self.alive_in(&mut tx, caller, channel, record);
            let acked = self.acknowledge_in(&mut tx, caller, channel, session, args.cursor).await?;
            if acked == args.cursor {
                self.check_reached(caller, session, acked, "cursor").await?;
            }
            match tx.commit().await {
                Ok(_) => break acked,
                Err(error) => attempt.again(error).await.map_err(unreadable)?,
            }
        };
        let cursor = cursor.to_string();
        let result = Acked { channel_id: args.channel_id, session_id: args.session_id, cursor };
        Ok(Answer { result, cursor: None })
    }

    /// Whether a feed has come so far: what lies beyond its end cannot have arrived anywhere.
    async fn check_reached(
        &self,
        caller: &Caller,
        session: &SessionId,
        cursor: Cursor,
        field: &str,
    ) -> Result<(), Error> {
        let end =
            self.feed(caller, session).snapshot_cursor(&self.store.begin()).await.map_err(unreadable)?;
        if cursor <= end {
            return Ok(());
        }
        Err(Error::invalid(field, format_args!("lies beyond the end of the feed, {end}")))
    }
}

/// The sessions that a channel has listened to.
async fn listened(
    tx: &Transaction,
    tenant: &str,
    channel: &ChannelId,
) -> Result<Vec<(SessionId, ListenedRecord)>, Error> {
    let range: KeyRange = keys::data_range(tenant, &records::all_listened(channel));
    let page = tx.range(&RangeRead::new(range).limit(SESSIONS_MAX as usize)).await.map_err(unreadable)?;
    let listened = page.pairs.iter().filter_map(|pair| {
        let path = keys::data_path(&pair.key, tenant)?;
        let session = SessionId::parse(&records::last_id(path)?).ok()?;
        Some(codec::decode(&pair.value).map(|record| (session, record)).map_err(undecodable))
    });
    listened.collect()
}
