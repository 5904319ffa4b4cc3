//! What a token is made of.
//!
//! | bytes | what |
//! |---|---|
//! | 1 | version, 1 |
//! | 4 | number of the key, big endian |
//! | 32 | HMAC-SHA256 over version, number, length of the purpose, purpose, payload |
//! | rest | payload |
//!
//! The whole in base64 for URLs, without padding.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::hmac;

use super::keyring::{Key, Keyring};

const VERSION: u8 = 1;
const KEY_END: usize = 5;
const MAC_END: usize = KEY_END + 32;
/// Far more than anybody signs; what is longer is not even decoded.
pub(super) const TOKEN_BYTES_MAX: usize = 4_096;
/// The largest payload whose token is short enough.
pub(super) const PAYLOAD_BYTES_MAX: usize = TOKEN_BYTES_MAX / 4 * 3 - MAC_END;

/// A token, taken apart but not yet believed.
pub(super) struct Opened(Vec<u8>);

pub(super) fn seal(key: &Key, purpose: &str, payload: &[u8]) -> String {
    let mut bytes = Vec::with_capacity(MAC_END + payload.len());
    bytes.push(VERSION);
    bytes.extend_from_slice(&key.id.to_be_bytes());
    let mac = hmac::sign(&hmac_key(key), &signed(&bytes, purpose, payload));
    bytes.extend_from_slice(mac.as_ref());
    bytes.extend_from_slice(payload);
    URL_SAFE_NO_PAD.encode(bytes)
}

pub(super) fn open(token: &str) -> Option<Opened> {
    if token.len() > TOKEN_BYTES_MAX {
        return None;
    }
    let bytes = URL_SAFE_NO_PAD.decode(token).ok()?;
    (bytes.len() >= MAC_END && bytes[0] == VERSION).then_some(Opened(bytes))
}

impl Opened {
    /// The number of the key that it names.
    pub(super) fn key(&self) -> u32 {
        u32::from_be_bytes(self.0[1..KEY_END].try_into().expect("four bytes"))
    }

    /// The payload, if it was signed for this purpose. Compared in constant time.
    pub(super) fn verified(&self, ring: &Keyring, purpose: &str) -> Option<Vec<u8>> {
        let (key, payload) = (ring.find(self.key())?, &self.0[MAC_END..]);
        let signed = signed(&self.0[..KEY_END], purpose, payload);
        hmac::verify(&hmac_key(key), &signed, &self.0[KEY_END..MAC_END]).ok()?;
        Some(payload.to_vec())
    }
}

fn hmac_key(key: &Key) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, &key.secret.0)
}

/// The purpose comes with its length, so that no purpose and payload together read like others.
fn signed(head: &[u8], purpose: &str, payload: &[u8]) -> Vec<u8> {
    let length = u64::try_from(purpose.len()).unwrap_or(u64::MAX).to_be_bytes();
    [head, &length, purpose.as_bytes(), payload].concat()
}
