//! Time on the wire: RFC 3339, UTC, milliseconds.

use std::{borrow::Cow, fmt};

use cadre_cluster::clock::Timestamp;
use chrono::{DateTime, SecondsFormat};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The end of the year 9999: RFC 3339 has no later time, so later ones are written as this one.
const LAST_MS: u64 = 253_402_300_799_999;

/// A [`Timestamp`] that is text on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(pub Timestamp);

/// Why a text is not a time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an RFC 3339 time since 1970")]
pub struct InvalidTime(pub String);

impl Time {
    /// The time that a text says, in any zone, to the millisecond.
    pub fn parse(text: &str) -> Result<Self, InvalidTime> {
        let invalid = || InvalidTime(text.chars().take(40).collect());
        let time = DateTime::parse_from_rfc3339(text).map_err(|_| invalid())?;
        let ms = u64::try_from(time.timestamp_millis()).map_err(|_| invalid())?;
        Ok(Self(Timestamp(ms)))
    }
}

impl From<Timestamp> for Time {
    fn from(at: Timestamp) -> Self {
        Self(at)
    }
}

impl From<Time> for Timestamp {
    fn from(time: Time) -> Self {
        time.0
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = i64::try_from(self.0.0.min(LAST_MS)).expect("clamped");
        let time = DateTime::from_timestamp_millis(ms).expect("within the years 1970 to 9999");
        f.pad(&time.to_rfc3339_opts(SecondsFormat::Millis, true))
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&Cow::<str>::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

impl JsonSchema for Time {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Time".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "date-time" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_utc_with_three_digits_of_milliseconds() {
        let text = |ms| Time(Timestamp(ms)).to_string();
        assert_eq!(text(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(text(1_778_493_600_007), "2026-05-11T10:00:00.007Z");
        assert_eq!(text(u64::MAX), "9999-12-31T23:59:59.999Z");
    }

    #[test]
    fn times_are_read_in_any_zone_and_precision() {
        for text in ["2026-05-11T10:00:00Z", "2026-05-11T12:00:00.0009+02:00", "2026-05-11T10:00:00.000Z"] {
            assert_eq!(Time::parse(text), Ok(Time(Timestamp(1_778_493_600_000))), "{text}");
        }
        for text in ["", "2026-05-11", "2026-05-11T10:00:00", "1969-12-31T23:59:59Z", "1778493600000"] {
            assert!(Time::parse(text).is_err(), "{text}");
        }
    }
}
