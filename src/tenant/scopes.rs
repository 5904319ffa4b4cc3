//! What a credential may do: a set of scopes.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::control::{Error, Scope};

/// A set of scopes. None follows from another: whoever may submit may read only when it says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Scopes(u8);

impl Scopes {
    /// Nothing at all.
    pub const NONE: Self = Self(0);
    /// What a key of a tenant can have.
    pub const ALL: Self = Self(0b1_1111);
    /// What a key has that nobody was particular about: work, see, decide.
    pub const USUAL: Self = Self::NONE.with(Scope::Read).with(Scope::Submit).with(Scope::Approve);

    /// With one more.
    #[must_use]
    pub const fn with(self, scope: Scope) -> Self {
        Self(self.0 | 1 << scope as u8)
    }

    /// Whether that is among them.
    pub const fn has(self, scope: Scope) -> bool {
        self.0 & (1 << scope as u8) != 0
    }

    /// One after the other.
    pub fn iter(self) -> impl Iterator<Item = Scope> {
        Scope::ALL.iter().copied().filter(move |scope| self.has(*scope))
    }

    /// What words say, such as those of a claim: words that are no scopes are ignored.
    pub fn among<'a>(words: impl IntoIterator<Item = &'a str>) -> Self {
        let scope = |word: &str| Scope::ALL.iter().copied().find(|scope| scope.as_str() == word);
        words.into_iter().filter_map(scope).fold(Self::NONE, Self::with)
    }

    /// What a list of words says, all of which must be scopes, and at least one.
    pub fn of<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<Self, Error> {
        let mut scopes = Self::NONE;
        for word in words {
            let one = Self::among([word]);
            if one == Self::NONE {
                let known: Vec<_> = Scope::ALL.iter().map(|scope| scope.as_str()).collect();
                let word: String = word.chars().take(40).collect();
                let message = format!("{word:?} is none of {}", known.join(", "));
                return Err(Error::invalid("scopes", message));
            }
            scopes = Self(scopes.0 | one.0);
        }
        if scopes == Self::NONE { Err(Error::invalid("scopes", "must be at least one")) } else { Ok(scopes) }
    }
}

impl Serialize for Scopes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().map(Scope::as_str).collect::<Vec<_>>())
    }
}

impl<'de> Deserialize<'de> for Scopes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let words = Vec::<String>::deserialize(deserializer)?;
        Self::of(words.iter().map(String::as_str)).map_err(|error| de::Error::custom(error.message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_scope_follows_from_another() {
        for scope in Scope::ALL {
            let only = Scopes::NONE.with(*scope);
            assert_eq!(only.iter().collect::<Vec<_>>(), [*scope]);
            assert!(Scopes::ALL.has(*scope));
        }
        assert!(!Scopes::USUAL.has(Scope::Admin) && !Scopes::USUAL.has(Scope::Run));
    }

    #[test]
    fn words_that_are_no_scopes_are_refused_in_requests_and_ignored_in_claims() {
        assert_eq!(Scopes::of(["read", "submit"]), Ok(Scopes::NONE.with(Scope::Read).with(Scope::Submit)));
        for bad in [&[][..], &["everything"], &["read", "READ"], &["read", ""]] {
            assert_eq!(Scopes::of(bad.iter().copied()).unwrap_err().field(), Some("scopes"), "{bad:?}");
        }
        assert_eq!(Scopes::among(["openid", "read"]), Scopes::NONE.with(Scope::Read));
    }
}
