//! How much of a list is wanted.

use std::{borrow::Cow, fmt};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};

use crate::control::error::Error;

/// How many entries to answer with: at least 1, by default 50. More than 1000 is taken as 1000.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Limit(u32);

impl Limit {
    /// What more is taken as.
    pub const MAX: Self = Self(1_000);

    /// So many, at least 1 and at most [`Limit::MAX`].
    pub fn new(entries: u32) -> Self {
        Self(entries.clamp(1, Self::MAX.0))
    }

    /// The limit that the text of a query says.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let digits = text.strip_prefix('+').unwrap_or(text);
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(Error::invalid("limit", "must be a whole number of at least 1"));
        }
        match digits.parse::<u64>() {
            Ok(0) => Err(Error::invalid("limit", "must be at least 1, not 0")),
            Ok(entries) => Ok(Self::clamped(entries)),
            Err(_) => Ok(Self::MAX),
        }
    }

    /// How many.
    pub const fn get(self) -> usize {
        self.0 as usize
    }

    fn clamped(entries: u64) -> Self {
        Self(u32::try_from(entries).map_or(Self::MAX.0, |entries| entries.min(Self::MAX.0)))
    }
}

impl Default for Limit {
    fn default() -> Self {
        Self(50)
    }
}

impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Number;

        impl de::Visitor<'_> for Number {
            type Value = Limit;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number of at least 1")
            }

            fn visit_u64<E: de::Error>(self, entries: u64) -> Result<Limit, E> {
                match entries {
                    0 => Err(E::invalid_value(de::Unexpected::Unsigned(0), &self)),
                    entries => Ok(Limit::clamped(entries)),
                }
            }

            fn visit_i64<E: de::Error>(self, entries: i64) -> Result<Limit, E> {
                match u64::try_from(entries) {
                    Ok(entries) => self.visit_u64(entries),
                    Err(_) => Err(E::invalid_value(de::Unexpected::Signed(entries), &self)),
                }
            }

            fn visit_f64<E: de::Error>(self, entries: f64) -> Result<Limit, E> {
                if entries >= 1.0 && entries.fract() == 0.0 {
                    return Ok(Limit::clamped(entries as u64));
                }
                Err(E::invalid_value(de::Unexpected::Float(entries), &self))
            }
        }

        deserializer.deserialize_any(Number)
    }
}

impl JsonSchema for Limit {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Limit".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "minimum": 1, "default": 50 })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::control::read;

    fn read(value: Value) -> Result<usize, Error> {
        read::from_value::<Limit>(value).map(Limit::get)
    }

    #[test]
    fn too_much_is_clamped_and_too_little_is_refused() {
        for (given, taken) in [
            (json!(1), 1),
            (json!(1000), 1000),
            (json!(u64::MAX), 1000),
            (json!(1e30), 1000),
            (json!(2.0), 2),
        ] {
            assert_eq!(read(given), Ok(taken));
        }
        for refused in [json!(0), json!(-1), json!(-0.5), json!(1.5), json!("10"), json!([1]), json!(true)] {
            assert!(read(refused.clone()).is_err(), "{refused}");
        }
    }

    #[test]
    fn in_a_query_it_is_text() {
        assert_eq!(Limit::parse("7").map(Limit::get), Ok(7));
        assert_eq!(Limit::parse("99999999999999999999").map(Limit::get), Ok(1000));
        for refused in ["", "0", "-1", "ten", "1.5", "0x10", " 1"] {
            assert_eq!(Limit::parse(refused).unwrap_err().field(), Some("limit"), "{refused}");
        }
    }
}
