//! The keys of a cluster: which one signs, which are still good.
//!
//! A key is told to others before it is used: it signs once it has been in the ring for [`Keyring::SETTLE`], and every
//! reader looks at the ring more often than that. Only the very first key signs at once, because there is no other.

use std::{fmt, time::Duration};

use cadre_cluster::clock::Timestamp;
use serde::{Deserialize, Serialize};

/// The secret half of a key. It is in the store and in memory, never in logs.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Secret(pub [u8; Secret::LEN]);

impl Secret {
    /// As long as what the hash makes: more would not make it stronger.
    pub(super) const LEN: usize = 32;
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// One key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Key {
    /// Its number, in tokens; never used again.
    pub id: u32,
    /// What it signs with.
    pub secret: Secret,
    /// Since when it is in the ring.
    pub created: Timestamp,
}

/// All keys that are good, oldest first. Stored as one record of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Keyring {
    keys: Vec<Key>,
}

cadre_cluster::stored! { Keyring: "signing keys" }

impl Keyring {
    /// Twice as long as any reader goes without a look at the ring.
    pub(super) const SETTLE: Duration = Duration::from_secs(120);
    /// Old enough to be followed by another: what it has signed need not be trusted for ever.
    pub(super) const SIGNS_FOR: Duration = Duration::from_secs(90 * 24 * 3600);
    /// How long a key is good after another has taken its place: longer than any token lives.
    pub(super) const GOOD_FOR: Duration = Duration::from_secs(60 * 24 * 3600);
    /// A ring stays one small record, however often somebody rotates it.
    const KEYS_MAX: usize = 16;

    /// The first key of a cluster.
    pub(super) fn first(secret: Secret, now: Timestamp) -> Self {
        Self { keys: vec![Key { id: 1, secret, created: now }] }
    }

    /// With one more key, and without those that are no longer good.
    pub(super) fn rotated(&self, secret: Secret, now: Timestamp) -> Self {
        let mut keys = self.keys.clone();
        let id = keys.last().map_or(1, |newest| newest.id.wrapping_add(1));
        keys.push(Key { id, secret, created: now });
        // A key is out of use since the one after it signs.
        let replaced = keys.windows(2).filter(|pair| pair[1].created.after(Self::GOOD_FOR) <= now).count();
        let crowded = keys.len().saturating_sub(Self::KEYS_MAX);
        keys.drain(..replaced.max(crowded));
        Self { keys }
    }

    /// With one new key and nothing else: whatever was signed before is no longer good.
    pub(super) fn replaced(&self, secret: Secret, now: Timestamp) -> Self {
        let newest = self.rotated(secret, now).keys.pop();
        Self { keys: newest.into_iter().collect() }
    }

    /// Whether it is time for another key.
    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        self.keys.last().is_none_or(|newest| newest.created.after(Self::SIGNS_FOR) <= now)
    }

    /// The newest key that everybody knows; if there is none, the oldest.
    pub(super) fn signing(&self, now: Timestamp) -> &Key {
        let settled = self.keys.iter().rev().find(|key| key.created.after(Self::SETTLE) <= now);
        settled
            .or(self.keys.first())
            .expect("a ring has a key from its beginning, and a new one before an old one goes")
    }

    /// Whether a key of that secret is in it.
    pub(super) fn has(&self, secret: &Secret) -> bool {
        self.keys.iter().any(|key| key.secret == *secret)
    }

    /// The key of that number.
    pub(super) fn find(&self, id: u32) -> Option<&Key> {
        self.keys.iter().find(|key| key.id == id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_700_000_000_000);

    fn secret(byte: u8) -> Secret {
        Secret([byte; Secret::LEN])
    }

    #[test]
    fn a_new_key_signs_once_everybody_can_know_it() {
        let ring = Keyring::first(secret(1), NOW);
        assert_eq!(ring.signing(NOW).id, 1, "the first one signs at once");
        let later = NOW.after(Duration::from_secs(3600));
        let ring = ring.rotated(secret(2), later);
        assert_eq!((ring.signing(later).id, ring.find(2).map(|key| key.id)), (1, Some(2)));
        assert_eq!(ring.signing(later.after(Keyring::SETTLE)).id, 2);
        assert_eq!(
            ring.signing(Timestamp(0)).id,
            1,
            "a clock that is behind signs with what is good everywhere"
        );
    }

    #[test]
    fn a_key_is_good_until_what_it_signed_is_over() {
        let second = NOW.after(Keyring::SIGNS_FOR);
        let ring = Keyring::first(secret(1), NOW).rotated(secret(2), second);
        let almost = Timestamp(second.after(Keyring::GOOD_FOR).0 - 1);
        assert!(ring.rotated(secret(3), almost).find(1).is_some());
        let ring = ring.rotated(secret(3), second.after(Keyring::GOOD_FOR));
        assert_eq!((ring.find(1), ring.find(2).is_some(), ring.find(3).is_some()), (None, true, true));
    }

    #[test]
    fn a_ring_is_due_after_its_time_and_bounded_however_often_it_is_rotated() {
        let mut ring = Keyring::first(secret(0), NOW);
        assert!(!ring.is_due(Timestamp(NOW.after(Keyring::SIGNS_FOR).0 - 1)));
        assert!(ring.is_due(NOW.after(Keyring::SIGNS_FOR)));
        for byte in 1..=100 {
            ring = ring.rotated(secret(byte), NOW);
        }
        assert_eq!((ring.keys.len(), ring.keys.last().map(|key| key.id)), (Keyring::KEYS_MAX, Some(101)));
        let ring = ring.replaced(secret(9), NOW);
        assert_eq!((ring.keys.len(), ring.signing(NOW).id), (1, 102), "no number is used again");
    }

    #[test]
    fn secrets_are_not_printed() {
        assert!(!format!("{:?}", Keyring::first(secret(0x5a), NOW)).contains("90"));
    }
}
