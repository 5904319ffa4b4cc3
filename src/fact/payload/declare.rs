//! How payloads are declared.

use std::{borrow::Cow, collections::BTreeMap};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use super::Object;

/// Whether an optional field has nothing to say.
pub(in crate::fact) trait Absent {
    fn absent(&self) -> bool;
}

impl<T> Absent for Option<T> {
    fn absent(&self) -> bool {
        self.is_none()
    }
}

impl<T> Absent for Vec<T> {
    fn absent(&self) -> bool {
        self.is_empty()
    }
}

impl<K, V> Absent for BTreeMap<K, V> {
    fn absent(&self) -> bool {
        self.is_empty()
    }
}

impl Absent for Object {
    fn absent(&self) -> bool {
        self.is_empty()
    }
}

impl Absent for bool {
    fn absent(&self) -> bool {
        !self
    }
}

/// Declares structs of the wire: camelCase, every field public. Fields before `..` are always there; those after it
/// are left out when they are empty.
macro_rules! payloads {
    ($(
        $(#[$doc:meta])*
        $name:ident {
            $($(#[$required_doc:meta])* $required:ident: $required_type:ty,)*
            $(.. $($(#[$optional_doc:meta])* $optional:ident: $optional_type:ty,)+)?
        }
    )+) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[serde(rename_all = "camelCase")]
        pub struct $name {
            $($(#[$required_doc])* pub $required: $required_type,)*
            $($(
                $(#[$optional_doc])*
                #[serde(default, skip_serializing_if = "crate::fact::payload::declare::Absent::absent")]
                pub $optional: $optional_type,
            )+)?
        }
    )+};
}

pub(super) use payloads;

/// How schemas describe a cursor.
pub(in crate::fact) struct CursorText;

impl JsonSchema for CursorText {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Cursor".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^[0-9a-f]{32}$" })
    }
}
