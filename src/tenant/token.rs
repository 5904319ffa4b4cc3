//! The text of a key: `cadre_ID_SECRET`.
//!
//! The id finds the record; the secret, 160 random bits, is what its holder knows. Both are Crockford base32 in lower
//! case, so that a double click selects the whole, and the fixed beginning lets scanners of source code find a key that
//! was committed by mistake.

use std::fmt;

use rand::{TryRngCore, rngs::OsRng};
use sha2::{Digest, Sha256};

const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const PREFIX: &str = "cadre_";
/// 80 random bits: an id is no secret, but it should not be met by guessing either.
const ID_LEN: usize = 16;
const SECRET_LEN: usize = 32;

/// A key as its holder has it. It is shown once, and never by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    id: String,
    secret: String,
}

impl Token {
    /// A new one, from the operating system's randomness.
    pub fn make() -> Result<Self, rand::rand_core::OsError> {
        let mut bytes = [0; ID_LEN + SECRET_LEN];
        OsRng.try_fill_bytes(&mut bytes)?;
        let text: String = bytes.iter().map(|byte| char::from(ALPHABET[usize::from(byte & 31)])).collect();
        let (id, secret) = text.split_at(ID_LEN);
        Ok(Self { id: id.to_owned(), secret: secret.to_owned() })
    }

    /// Which key it is of.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The whole text.
    pub fn reveal(&self) -> String {
        format!("{PREFIX}{}_{}", self.id, self.secret)
    }

    pub(super) fn secret(&self) -> &str {
        &self.secret
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}_…", self.id)
    }
}

/// A text that somebody shows as a key: it has the form of one, and nothing else is known of it.
pub(crate) struct Presented<'a> {
    /// Which key it says it is of.
    pub id: &'a str,
    /// What it knows.
    pub secret: &'a str,
}

impl<'a> Presented<'a> {
    /// The parts of a text, when it has the form of a key.
    pub fn parse(text: &'a str) -> Option<Self> {
        let (id, secret) = text.strip_prefix(PREFIX)?.split_once('_')?;
        (is_id(id) && is_base32(secret, SECRET_LEN)).then_some(Self { id, secret })
    }
}

/// Whether a text can be the id of a key.
pub(super) fn is_id(text: &str) -> bool {
    is_base32(text, ID_LEN)
}

fn is_base32(text: &str, len: usize) -> bool {
    text.len() == len && text.bytes().all(|byte| ALPHABET.contains(&byte))
}

/// What stands for a text in memory, in place of the text.
pub(crate) fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_as_it_was_made_and_not_shown_by_accident() {
        let (token, other) = (Token::make().unwrap(), Token::make().unwrap());
        let text = token.reveal();
        assert!(text.len() == 55 && text.starts_with("cadre_"), "{text}");
        let presented = Presented::parse(&text).unwrap();
        assert_eq!((presented.id, presented.secret), (token.id(), token.secret()));
        assert_ne!(token, other);
        assert!(!format!("{token:?}").contains(token.secret()));
    }

    #[test]
    fn what_has_not_the_form_of_a_key_is_none() {
        let text = Token::make().unwrap().reveal();
        let long = format!("{text}0");
        let upper = text.to_uppercase();
        let letter = format!("{}u", &text[..54]);
        for bad in [
            "",
            "cadre_",
            "cadre__",
            &text[..54],
            &text[1..],
            &long,
            &upper,
            &letter,
            &text.replace('_', "-"),
        ] {
            assert!(Presented::parse(bad).is_none(), "{bad}");
        }
    }
}
