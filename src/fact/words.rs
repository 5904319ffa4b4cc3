//! Closed vocabularies: enums that are one word each on the wire.

/// Declares enums of words, in the order of their lives; the first is the default. `terminal` lists those after which
/// nothing follows. With `inline` in front, their schemas stand where they are used.
macro_rules! words {
    (@inlined $inlined:literal $(
        $(#[$doc:meta])*
        $name:ident {
            $(#[$first_doc:meta])* $first:ident = $first_word:literal
            $(, $(#[$variant_doc:meta])* $variant:ident = $word:literal)* $(,)?
        }
        $(=> terminal [$($terminal:ident),+ $(,)?])?
    )+) => {$(
        $(#[$doc])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Serialize, serde::Deserialize,
        )]
        pub enum $name {
            $(#[$first_doc])*
            #[doc = concat!("`", $first_word, "`")]
            #[default]
            #[serde(rename = $first_word)]
            $first,
            $(
                $(#[$variant_doc])*
                #[doc = concat!("`", $word, "`")]
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

            $(
                /// Whether nothing follows any more.
                pub const fn is_terminal(self) -> bool {
                    matches!(self, $(Self::$terminal)|+)
                }
            )?
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl schemars::JsonSchema for $name {
            fn inline_schema() -> bool {
                $inlined
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let words: Vec<_> = Self::ALL.iter().map(|word| word.as_str()).collect();
                schemars::json_schema!({ "type": "string", "enum": words })
            }
        }

        impl $crate::fact::payload::Words for $name {
            fn words(&self) -> Option<&str> {
                Some(self.as_str())
            }
        }
    )+};
    (inline $($rest:tt)+) => { $crate::fact::words! { @inlined true $($rest)+ } };
    ($($rest:tt)+) => { $crate::fact::words! { @inlined false $($rest)+ } };
}

pub(crate) use words;
