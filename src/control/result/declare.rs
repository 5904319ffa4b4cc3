//! How results are declared.

use crate::fact::payload::Object;

/// Whether an optional field has nothing to say.
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

impl Absent for Object {
    fn absent(&self) -> bool {
        self.is_empty()
    }
}

impl<T: Absent> Absent for &T {
    fn absent(&self) -> bool {
        T::absent(self)
    }
}

/// Declares structs of the wire: camelCase, every field public. Fields before `..` are always there; those after it
/// are left out of JSON when they are empty. Stored, every field has its place, because a stored struct is an array and
/// a repeated command is answered with what is stored.
macro_rules! results {
    ($(
        $(#[$doc:meta])*
        $name:ident {
            $($(#[$required_doc:meta])* $required:ident: $required_type:ty,)*
            $(.. $($(#[$optional_doc:meta])* $optional:ident: $optional_type:ty,)+)?
        }
    )+) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, serde::Deserialize, schemars::JsonSchema)]
        #[serde(rename_all = "camelCase")]
        pub struct $name {
            $($(#[$required_doc])* pub $required: $required_type,)*
            $($(
                $(#[$optional_doc])*
                #[serde(default)]
                pub $optional: $optional_type,
            )+)?
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                #[derive(serde::Serialize)]
                #[serde(rename_all = "camelCase")]
                struct Wire<'a> {
                    $($(#[$required_doc])* $required: &'a $required_type,)*
                    $($(
                        $(#[$optional_doc])*
                        #[serde(skip_serializing_if = "crate::control::result::declare::Absent::absent")]
                        $optional: &'a $optional_type,
                    )+)?
                }

                if serializer.is_human_readable() {
                    let wire = Wire {
                        $($required: &self.$required,)*
                        $($($optional: &self.$optional,)+)?
                    };
                    return wire.serialize(serializer);
                }
                ($(&self.$required,)* $($(&self.$optional,)+)?).serialize(serializer)
            }
        }
    )+};
}

pub(super) use results;

#[cfg(test)]
mod tests {
    use cadre_cluster::codec::{pack, unpack};
    use serde_json::json;

    use crate::{
        control::result::{Interrupted, TurnSubmission},
        fact::id::TurnId,
    };

    #[test]
    fn what_is_empty_is_left_out_of_json_but_not_of_the_store() {
        let wire = json!({ "sessionId": "s", "threadId": "t", "turnId": "u", "status": "accepted" });
        let submission: TurnSubmission = serde_json::from_value(wire.clone()).unwrap();
        assert_eq!(serde_json::to_value(&submission).unwrap(), wire);
        assert_eq!(unpack::<TurnSubmission>("result", &pack(&submission)), Ok(submission));
        let wire = json!({ "sessionId": "s", "status": "cancelled", "turnId": "u", "removed": ["v"] });
        let interrupted: Interrupted = serde_json::from_value(wire.clone()).unwrap();
        assert_eq!(serde_json::to_value(&interrupted).unwrap(), wire);
        assert_eq!(interrupted.turn_id, Some(TurnId::parse("u").unwrap()));
        assert_eq!(unpack::<Interrupted>("result", &pack(&interrupted)), Ok(interrupted));
    }
}
