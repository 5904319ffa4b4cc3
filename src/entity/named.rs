//! Parts of a state that are stored by field names.
//!
//! The host stores states as arrays: compact, but a field cannot be added or left out. What is also served, and grows
//! with the surface, is stored as a map instead.

use std::ops::{Deref, DerefMut};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::DeserializeOwned};

/// Stored as a MessagePack map within an array.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Named<T>(pub T);

impl<T> Deref for Named<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Named<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T: Serialize> Serialize for Named<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let bytes = rmp_serde::to_vec_named(&self.0).map_err(serde::ser::Error::custom)?;
        serializer.serialize_bytes(&bytes)
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Named<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bytes = bytes::Bytes::deserialize(deserializer)?;
        rmp_serde::from_slice(&bytes).map(Self).map_err(serde::de::Error::custom)
    }
}
