//! How arguments are declared.

/// Declares structs of the wire: camelCase, every field public. Fields before `..` must be there; those after it may be
/// absent, and then are what the function behind `=` says.
macro_rules! arguments {
    ($(
        $(#[$doc:meta])*
        $name:ident {
            $($(#[$required_doc:meta])* $required:ident: $required_type:ty,)*
            $(.. $($(#[$optional_doc:meta])* $optional:ident: $optional_type:ty $(= $default:literal)?,)+)?
        }
    )+) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[serde(rename_all = "camelCase")]
        pub struct $name {
            $($(#[$required_doc])* pub $required: $required_type,)*
            $($(
                $(#[$optional_doc])*
                #[serde(default $(= $default)?)]
                pub $optional: $optional_type,
            )+)?
        }
    )+};
}

pub(super) use arguments;
