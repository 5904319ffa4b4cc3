use std::sync::atomic::{AtomicU64, Ordering};

use cadre_cluster::store::embedded::{Embedded, EmbeddedConfig};
use proptest::prelude::*;

use super::*;

#[derive(Default)]
struct Hand(AtomicU64);

impl Clock for Hand {
    fn now(&self) -> Timestamp {
        Timestamp(1_700_000_000_000 + self.0.load(Ordering::SeqCst))
    }
}

/// A cluster with a store, of which each signer is a node.
struct Cluster {
    store: Store,
    hand: Arc<Hand>,
    _folder: tempfile::TempDir,
}

impl Cluster {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = EmbeddedConfig { reserve_bytes: 1 << 20, ..EmbeddedConfig::new(folder.path()) };
        Self { store: Embedded::open(config).unwrap().store(), hand: Arc::default(), _folder: folder }
    }

    fn signer(&self) -> Signer {
        Signer::new(self.store.clone(), self.hand.clone())
    }

    async fn pass(&self, time: Duration) {
        self.hand.0.fetch_add(time.as_millis() as u64, Ordering::SeqCst);
    }
}

const PURPOSE: &str = "attachment";

#[tokio::test]
async fn what_one_node_signs_every_other_believes_also_in_its_next_life() {
    let cluster = Cluster::new();
    let token = cluster.signer().sign(PURPOSE, b"acme/blob_1").await.unwrap();
    assert!(token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)), "{token}");
    for _ in 0..2 {
        assert_eq!(cluster.signer().verify(PURPOSE, &token).await.unwrap(), b"acme/blob_1");
    }
}

#[tokio::test]
async fn nodes_that_need_the_first_key_at_once_make_one() {
    let cluster = Cluster::new();
    let signers: Vec<_> = (0..16).map(|_| cluster.signer()).collect();
    let tokens = signers.iter().map(|signer| signer.sign(PURPOSE, b"x"));
    let tokens: Vec<_> = futures::future::join_all(tokens).await.into_iter().map(Result::unwrap).collect();
    assert!(tokens.iter().all(|token| token == &tokens[0]), "all were signed with the same key");
}

#[tokio::test]
async fn a_token_is_good_for_its_purpose_only_and_in_its_own_cluster_only() {
    let (cluster, other) = (Cluster::new(), Cluster::new());
    let signer = cluster.signer();
    let token = signer.sign(PURPOSE, b"x").await.unwrap();
    for purpose in ["", "attachmen", "attachments", "channel"] {
        assert_eq!(signer.verify(purpose, &token).await, Err(InvalidToken::Rejected), "{purpose}");
    }
    // What ends the one purpose does not begin the other payload.
    let shifted = signer.sign("attach", b"mentx").await.unwrap();
    assert_eq!(signer.verify(PURPOSE, &shifted).await, Err(InvalidToken::Rejected));
    assert_eq!(other.signer().verify(PURPOSE, &token).await, Err(InvalidToken::Rejected), "P8");
}

#[tokio::test]
async fn a_token_that_was_changed_anywhere_is_rejected() {
    let cluster = Cluster::new();
    let signer = cluster.signer();
    let token = signer.sign(PURPOSE, b"payload").await.unwrap();
    for at in 0..token.len() {
        let mut changed = token.clone().into_bytes();
        changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(changed).unwrap();
        assert_eq!(signer.verify(PURPOSE, &changed).await, Err(InvalidToken::Rejected), "at {at}");
        assert_eq!(signer.verify(PURPOSE, &token[..at]).await, Err(InvalidToken::Rejected), "cut at {at}");
    }
    for bad in ["", "=", "ä", &format!("{token}A"), &format!("{token}="), &"A".repeat(1 << 20)] {
        assert_eq!(signer.verify(PURPOSE, bad).await, Err(InvalidToken::Rejected));
    }
}

#[tokio::test]
async fn what_does_not_fit_is_refused_and_what_just_fits_comes_back() {
    let signer = Cluster::new().signer();
    let large = vec![7; Signer::PAYLOAD_BYTES_MAX];
    let token = signer.sign(PURPOSE, &large).await.unwrap();
    assert_eq!(signer.verify(PURPOSE, &token).await.unwrap(), large);
    let more = signer.sign(PURPOSE, &[&large[..], b"x"].concat()).await;
    assert!(matches!(more, Err(SignError::TooLarge { actual, .. }) if actual == large.len() + 1));
}

#[tokio::test(start_paused = true)]
async fn a_rotation_invalidates_nothing_and_the_new_key_signs_when_all_know_it() {
    let cluster = Cluster::new();
    let (one, two) = (cluster.signer(), cluster.signer());
    let old = one.sign(PURPOSE, b"old").await.unwrap();
    assert!(two.verify(PURPOSE, &old).await.is_ok());
    one.rotate().await.unwrap();
    let early = one.sign(PURPOSE, b"old").await.unwrap();
    assert_eq!(early, old, "the new key does not sign yet");
    tokio::time::advance(Keyring::SETTLE).await;
    cluster.pass(Keyring::SETTLE).await;
    let new = one.sign(PURPOSE, b"old").await.unwrap();
    assert_ne!(new, old);
    for signer in [&one, &two, &cluster.signer()] {
        assert!(signer.verify(PURPOSE, &old).await.is_ok() && signer.verify(PURPOSE, &new).await.is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_replacement_nothing_older_is_believed() {
    let cluster = Cluster::new();
    let (one, two) = (cluster.signer(), cluster.signer());
    let old = one.sign(PURPOSE, b"x").await.unwrap();
    assert!(two.verify(PURPOSE, &old).await.is_ok());
    one.replace().await.unwrap();
    assert_eq!(one.verify(PURPOSE, &old).await, Err(InvalidToken::Rejected));
    let new = one.sign(PURPOSE, b"x").await.unwrap();
    tokio::time::advance(LOOK_AGAIN_AFTER).await;
    assert!(two.verify(PURPOSE, &new).await.is_ok(), "a key that is not known is looked for");
    assert_eq!(two.verify(PURPOSE, &old).await, Err(InvalidToken::Rejected));
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_old_is_followed_by_another_by_itself_once() {
    let cluster = Cluster::new();
    let signers: Vec<_> = (0..8).map(|_| cluster.signer()).collect();
    for signer in &signers {
        signer.sign(PURPOSE, b"x").await.unwrap();
    }
    cluster.pass(Keyring::SIGNS_FOR).await;
    tokio::time::advance(READ_EVERY).await;
    for signed in futures::future::join_all(signers.iter().map(|signer| signer.sign(PURPOSE, b"x"))).await {
        signed.unwrap();
    }
    let ring = read(&mut cluster.store.begin()).await.unwrap().unwrap();
    assert!(ring.find(2).is_some() && ring.find(3).is_none(), "{ring:?}");
}

#[test]
fn the_layout_of_stored_keys_and_of_tokens_holds() {
    let ring = Keyring::first(Secret([7; 32]), Timestamp(9));
    let bytes = codec::encode(&ring);
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, format!("0191919301dc0020{}09", "07".repeat(32)));
    assert_eq!(codec::decode::<Keyring>(&bytes), Ok(ring.clone()));
    let token = token::seal(ring.signing(Timestamp(9)), PURPOSE, b"x");
    // As any other implementation of HMAC-SHA256 makes it.
    assert_eq!(token, "AQAAAAFK8TtPNqr031YSiRoF1XKesJVTXj6dB3T9rAqsMuiZYHg");
}

proptest! {
    #[test]
    fn no_text_is_a_token_and_none_panics(text in "[A-Za-z0-9_=-]{0,200}|\\PC{0,200}", bytes: Vec<u8>) {
        use base64::Engine;
        let ring = Keyring::first(Secret([7; 32]), Timestamp(9));
        let made = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode([&[1, 0, 0, 0, 1][..], &bytes].concat());
        for text in [text, made] {
            let opened = token::open(&text);
            prop_assert!(opened.and_then(|opened| opened.verified(&ring, PURPOSE)).is_none());
        }
    }
}
