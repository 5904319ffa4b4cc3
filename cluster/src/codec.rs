//! How stored values become bytes: one byte of version, then MessagePack.
//!
//! A struct is stored as a MessagePack array in the order of its fields, so a changed layout needs a new
//! version and an [`Stored::upgrade`] from every older one. Golden bytes in the tests hold the layouts.

use bytes::Bytes;
use serde::{Serialize, de::DeserializeOwned};

/// A type that is kept in the store.
pub trait Stored: Serialize + DeserializeOwned {
    /// What it is called in errors.
    const NAME: &'static str;
    /// The version that is written.
    const VERSION: u8;

    /// Reads what an older version wrote.
    fn upgrade(version: u8, body: &[u8]) -> Result<Self, DecodeError> {
        let _ = body;
        Err(DecodeError::Version { name: Self::NAME, found: version, known: Self::VERSION })
    }
}

/// Makes types [`Stored`] in their first version: `stored! { Command: "bank command" }`. One of which the older versions
/// were never released says its own, `stored! { Command: "bank command" = 2 }`, and reads no other. A type that has
/// outgrown it implements the trait itself, with the upgrade from each older version.
#[macro_export]
macro_rules! stored {
    ($($type:ty: $name:literal $(= $version:literal)?),+ $(,)?) => {
        $(impl $crate::codec::Stored for $type {
            const NAME: &'static str = $name;
            const VERSION: u8 = [$($version,)? 1][0];
        })+
    };
}

stored! { (): "nothing", i64: "number", u64: "count", String: "text" }

/// Why stored bytes could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// There is nothing there.
    #[error("stored {name} is empty")]
    Empty {
        /// The type.
        name: &'static str,
    },
    /// Written by a version of Cadre that this one does not know.
    #[error("stored {name} has version {found}, this binary {}", reads(*.found, *.known))]
    Version {
        /// The type.
        name: &'static str,
        /// The version found.
        found: u8,
        /// The newest version known.
        known: u8,
    },
    /// Not what the version says it is.
    #[error("stored {name} is malformed: {reason}")]
    Malformed {
        /// The type.
        name: &'static str,
        /// What the parser said.
        reason: String,
    },
}

fn reads(found: u8, known: u8) -> String {
    if found > known {
        format!("reads up to {known}; run a newer one")
    } else {
        format!("writes {known} and reads no older one; begin with an empty store")
    }
}

/// The bytes of a stored value.
///
/// # Panics
/// When the type cannot be serialized at all, which is a bug in the type.
pub fn encode<T: Stored>(value: &T) -> Bytes {
    let mut bytes = Vec::with_capacity(128);
    bytes.push(T::VERSION);
    pack_into(value, &mut bytes);
    bytes.into()
}

/// The value of stored bytes.
pub fn decode<T: Stored>(bytes: &[u8]) -> Result<T, DecodeError> {
    match bytes.split_first() {
        None => Err(DecodeError::Empty { name: T::NAME }),
        Some((version, body)) if *version == T::VERSION => unpack(T::NAME, body),
        Some((version, body)) => T::upgrade(*version, body),
    }
}

/// MessagePack without a version, for what stays within one process or is part of a protocol.
///
/// # Panics
/// When the type cannot be serialized at all, which is a bug in the type.
pub fn pack<T: Serialize + ?Sized>(value: &T) -> Bytes {
    let mut bytes = Vec::with_capacity(128);
    pack_into(value, &mut bytes);
    bytes.into()
}

/// The value of [`pack`]ed bytes.
pub fn unpack<T: DeserializeOwned>(name: &'static str, bytes: &[u8]) -> Result<T, DecodeError> {
    rmp_serde::from_slice(bytes).map_err(|error| DecodeError::Malformed { name, reason: error.to_string() })
}

fn pack_into<T: Serialize + ?Sized>(value: &T, bytes: &mut Vec<u8>) {
    let mut serializer = rmp_serde::Serializer::new(bytes);
    value.serialize(&mut serializer).expect("stored types serialize into memory without fail");
}

/// For the tests of stored types.
#[cfg(test)]
pub(crate) mod golden {
    use super::*;

    /// Fails when the bytes of a stored value are not what they were when clusters began to hold them. A change
    /// of layout needs a new version, an [`Stored::upgrade`], and the old bytes in a test of that.
    pub(crate) fn hold<T: Stored + PartialEq + std::fmt::Debug>(value: &T, expected: &str) {
        let bytes = encode(value);
        assert_eq!(hex(&bytes), expected, "the layout of a stored {} has changed", T::NAME);
        assert_eq!(decode::<T>(&bytes).as_ref(), Ok(value));
        assert!(decode::<T>(&[]).is_err() && decode::<T>(&bytes[..bytes.len() - 1]).is_err());
        let newer = [&[T::VERSION + 1], &bytes[1..]].concat();
        assert!(
            matches!(decode::<T>(&newer), Err(DecodeError::Version { .. })),
            "an unknown version is named"
        );
    }

    pub(crate) fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
