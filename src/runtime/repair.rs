//! Readers whose position is no longer kept.

use std::time::Duration;

use cadre_cluster::{feed::Cursor, host::CallError};

use super::{Caller, Runtime, exports::as_command, key::own_key};
use crate::{
    entity::{Session, kind},
    fact::{Fact, id::SessionId, payload::SnapshotRepaired, scope::SessionScope},
};

/// A reader waits for its snapshot, not for this.
const RECORD_MAX: Duration = Duration::from_secs(2);

impl Runtime {
    /// Records that a reader was given a snapshot in place of what was trimmed up to `to`: once for each place up to
    /// which a feed was ever trimmed, however many come too late, so that reading cannot make a feed grow. It is told for
    /// whoever looks into the session later; the reader is helped also when it cannot be recorded.
    pub async fn snapshot_repaired(&self, caller: &Caller, session: &SessionId, from: Cursor, to: Cursor) {
        let address = cadre_cluster::address::Address::new(&caller.tenant, kind::SESSION, session.as_str());
        let Ok(address) = address else { return };
        let repaired = SnapshotRepaired {
            reason: "trimmed".into(),
            from: Some(from),
            to: Some(to),
            snapshot: Some("session".into()),
        };
        let fact = Fact::new(self.clock.now(), SessionScope {}, repaired);
        let command = as_command(&address, vec![fact]);
        let key = own_key(format_args!("repaired.{to}"));
        let recorded = self.client.call::<Session>(&address, &command, Some(&key), RECORD_MAX).await;
        match recorded {
            // Another reader came first: the time and the position of that one were recorded.
            Ok(_) | Err(CallError::KeyReused) => {}
            Err(error) => tracing::warn!(%session, %error, "a repaired snapshot could not be recorded"),
        }
    }
}
