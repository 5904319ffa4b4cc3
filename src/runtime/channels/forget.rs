//! Channels that nobody has held for long are forgotten, by whichever node looks first.

use cadre_cluster::{
    address::Address,
    clock::Timestamp,
    codec,
    host::{CallError, Client},
    keys,
    store::{Attempt, CommitError, KeyRange, RangeRead, Store},
};

use super::{
    SESSIONS_MAX,
    facts::{TELL_MAX, gone},
    record::{ChannelRecord, ListenedRecord},
};
use crate::{
    entity::{Session, kind, records},
    fact::id::{ChannelId, SessionId},
    runtime::exports::as_command,
};

/// A session that was never told that a channel has gone: the gateway died, and nobody came back.
struct LeftOver {
    channel: ChannelId,
    session: SessionId,
    generation: u64,
    acked: Option<crate::fact::Cursor>,
}

/// Forgets the first channels of a tenant that are due, at most so many. How many entries were looked at.
pub(in crate::runtime) async fn forget_channels(
    store: &Store,
    client: &Client,
    tenant: &str,
    now: Timestamp,
    at_most: usize,
) -> Result<usize, CommitError> {
    let (from, to) = records::channels_expired(now);
    let due = KeyRange::new(keys::data(tenant, &from), keys::data(tenant, &to));
    let mut attempt = Attempt::idempotent();
    let (looked_at, left_over) = loop {
        let mut tx = store.begin();
        let page = tx.snapshot_range(&RangeRead::new(due.clone()).limit(at_most)).await?;
        let mut left_over = Vec::new();
        for pair in &page.pairs {
            tx.clear(pair.key.clone());
            let entry = keys::data_path(&pair.key, tenant).and_then(records::expired_channel);
            let Some((at, channel)) = entry else { continue };
            // Read so that it conflicts with whoever takes the channel up.
            let path = keys::data(tenant, &records::channel(&channel));
            let Some(record) = tx.get(&path).await? else { continue };
            // One that cannot be read is of no use to anybody.
            let record = codec::decode::<ChannelRecord>(&record).ok();
            if record.as_ref().is_some_and(|record| record.expires > at) {
                continue;
            }
            let all = keys::data_range(tenant, &records::all_listened(&channel));
            let listened =
                tx.snapshot_range(&RangeRead::new(all.clone()).limit(SESSIONS_MAX as usize)).await?;
            left_over.extend(listened.pairs.iter().filter_map(|pair| {
                let known =
                    codec::decode::<ListenedRecord>(&pair.value).ok().filter(|known| known.listens)?;
                let session =
                    SessionId::parse(&records::last_id(keys::data_path(&pair.key, tenant)?)?).ok()?;
                Some(LeftOver {
                    channel: channel.clone(),
                    session,
                    generation: known.told,
                    acked: known.acked,
                })
            }));
            tx.clear(path);
            tx.clear_range(all);
        }
        if page.pairs.is_empty() {
            return Ok(0);
        }
        match tx.commit().await {
            Ok(_) => break (page.pairs.len(), left_over),
            Err(error) => attempt.again(error).await?,
        }
    };
    for LeftOver { channel, session, generation, acked } in left_over {
        let Ok(address) = Address::new(tenant, kind::SESSION, session.as_str()) else { continue };
        let command = as_command(&address, vec![gone(now, &channel, "lost", acked)]);
        let key = format!("channel.{channel}.{generation}.gone");
        match client.call::<Session>(&address, &command, Some(&key), TELL_MAX).await {
            Ok(_) | Err(CallError::KeyReused) => {}
            Err(error) => tracing::warn!(%session, %error, "a session was not told that a channel is lost"),
        }
    }
    Ok(looked_at)
}
