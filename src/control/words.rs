//! Closed vocabularies of the control plane: enums that are one word each on the wire.

/// Declares enums of words; the first is the default.
macro_rules! words {
    ($(
        $(#[$doc:meta])*
        $name:ident {
            $(#[$first_doc:meta])+ $first:ident = $first_word:literal
            $(, $(#[$variant_doc:meta])+ $variant:ident = $word:literal)* $(,)?
        }
    )+) => {$(
        $(#[$doc])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Serialize, serde::Deserialize,
        )]
        pub enum $name {
            $(#[$first_doc])+
            #[default]
            #[serde(rename = $first_word)]
            $first,
            $(
                $(#[$variant_doc])+
                #[serde(rename = $word)]
                $variant,
            )*
        }

        impl $name {
            /// Every word.
            pub const ALL: &'static [Self] = &[Self::$first $(, Self::$variant)*];

            /// The word on the wire.
            pub const fn as_str(self) -> &'static str {
                match self {
                    Self::$first => $first_word,
                    $(Self::$variant => $word,)*
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl schemars::JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let words: Vec<_> = Self::ALL.iter().map(|word| word.as_str()).collect();
                schemars::json_schema!({ "type": "string", "enum": words })
            }
        }
    )+};
}

pub(crate) use words;
