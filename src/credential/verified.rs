//! Keys that were checked a moment ago.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// How long a check holds after its last use, so that whoever floods us with wrong keys keeps no right one waiting. Only
/// the arithmetic is spared: whether the key is still good is asked every time.
const KEPT: Duration = Duration::from_secs(600);
/// At once: about a megabyte. Only those whose secret was right are kept, so nobody can crowd them out by guessing.
const KEPT_MAX: usize = 4_096;

/// By the digest of a key's text: the hash that it was right for, and when it was last shown.
#[derive(Default)]
pub(super) struct Verified(Mutex<HashMap<[u8; 32], (String, Instant)>>);

impl Verified {
    /// The hash that a text was right for a moment ago.
    pub fn get(&self, digest: &[u8; 32]) -> Option<String> {
        let mut verified = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (hash, last) = verified.get_mut(digest).filter(|(_, last)| last.elapsed() < KEPT)?;
        *last = Instant::now();
        Some(hash.clone())
    }

    /// Remembers that a text was right for a hash.
    pub fn insert(&self, digest: [u8; 32], hash: String) {
        let mut verified = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if verified.len() >= KEPT_MAX {
            verified.retain(|_, (_, last)| last.elapsed() < KEPT);
        }
        if verified.len() >= KEPT_MAX {
            verified.clear();
        }
        verified.insert(digest, (hash, Instant::now()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_check_holds_while_it_is_used() {
        let verified = Verified::default();
        verified.insert([1; 32], "hash".into());
        for _ in 0..3 {
            tokio::time::advance(KEPT - Duration::from_millis(1)).await;
            assert_eq!(verified.get(&[1; 32]).as_deref(), Some("hash"));
            assert_eq!(verified.get(&[2; 32]), None);
        }
        tokio::time::advance(KEPT).await;
        assert_eq!(verified.get(&[1; 32]), None);
    }

    #[test]
    fn p9_checks_that_are_kept_are_bounded() {
        let verified = Verified::default();
        for number in 0..2 * KEPT_MAX as u64 {
            let mut digest = [0; 32];
            digest[..8].copy_from_slice(&number.to_le_bytes());
            verified.insert(digest, String::new());
            assert!(verified.0.lock().unwrap().len() <= KEPT_MAX);
        }
    }
}
