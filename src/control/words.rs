//! Closed vocabularies of the control plane: those of facts, with schemas that stand where they are used.

/// Declares enums of words; the first is the default.
macro_rules! words {
    ($($rest:tt)+) => { $crate::fact::words! { inline $($rest)+ } };
}

pub(crate) use words;
