//! How views are declared.

use std::collections::BTreeMap;

use crate::fact::payload::Object;

/// Whether a field has nothing to say.
pub(super) trait Absent {
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

impl Absent for String {
    fn absent(&self) -> bool {
        self.is_empty()
    }
}

impl Absent for bool {
    fn absent(&self) -> bool {
        !self
    }
}

impl Absent for u32 {
    fn absent(&self) -> bool {
        *self == 0
    }
}

impl Absent for u64 {
    fn absent(&self) -> bool {
        *self == 0
    }
}

/// Declares structs that are both state and wire: camelCase, every field public. Fields before `..` are always there;
/// those after it are left out when they are empty, and read as empty when they are left out.
macro_rules! views {
    ($(
        $(#[$doc:meta])*
        $name:ident {
            $($(#[$required_doc:meta])* $required:ident: $required_type:ty,)*
            $(.. $($(#[$optional_doc:meta])* $optional:ident: $optional_type:ty,)+)?
        }
    )+) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[serde(rename_all = "camelCase")]
        pub struct $name {
            $($(#[$required_doc])* pub $required: $required_type,)*
            $($(
                $(#[$optional_doc])*
                #[serde(default, skip_serializing_if = "crate::view::declare::Absent::absent")]
                pub $optional: $optional_type,
            )+)?
        }
    )+};
}

pub(super) use views;
