//! Whether credentials are asked for, and which are trusted that are not keys.

use std::fmt;

use super::Issuer;
use crate::tenant::digest;

/// Whom a gateway lets in.
#[derive(Debug, Clone, Default)]
pub enum Access {
    /// Everybody who reaches it, as one tenant that may do everything: for a machine of one's own.
    #[default]
    Open,
    /// Those with a credential.
    Required(Trust),
}

/// What is a credential besides the keys in the store.
#[derive(Debug, Clone, Default)]
pub struct Trust {
    /// What the first administrator shows, when there are no keys yet.
    pub administrator: Option<AdminToken>,
    /// The identity provider whose signed tokens count.
    pub signed: Option<Issuer>,
}

/// The token of the first administrator. Kept as a digest, so that it is in no dump and no log.
#[derive(Clone, PartialEq, Eq)]
pub struct AdminToken([u8; 32]);

/// A token of an administrator that could be guessed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be {} to 1,024 visible characters: make one with `openssl rand -hex 32`", AdminToken::LEN_MIN)]
pub struct WeakToken;

impl AdminToken {
    /// With fewer it is a password.
    pub const LEN_MIN: usize = 24;

    /// The token that a configuration names.
    pub fn parse(text: &str) -> Result<Self, WeakToken> {
        let is_strong =
            (Self::LEN_MIN..=1_024).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
        if is_strong { Ok(Self(digest(text))) } else { Err(WeakToken) }
    }

    /// Whether a text is it. Digests are compared: how many of their bytes are equal says nothing about the text.
    pub fn is(&self, text: &str) -> bool {
        self.0 == digest(text)
    }
}

impl fmt::Debug for AdminToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AdminToken(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_of_the_administrator_is_long_and_not_shown() {
        let text = "b7e1516_28aed2a6abf7158809cf4f3c";
        let token = AdminToken::parse(text).unwrap();
        assert!(token.is(text) && !token.is(&text[1..]) && !token.is(""));
        assert_eq!(format!("{token:?}"), "AdminToken(…)");
        for weak in ["", "secret", &"x".repeat(23), &"x".repeat(1_025), "with a space in the middle of it"] {
            assert_eq!(AdminToken::parse(weak), Err(WeakToken), "{weak}");
        }
    }
}
