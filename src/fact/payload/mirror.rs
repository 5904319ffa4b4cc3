//! What of a payload stands at the top of the envelope as well, where readers of the standard look for it.

use std::collections::BTreeMap;

use super::{Benchmark, Comparison, Payload, Reward, Trajectory};
use crate::fact::part::Ref;

/// References by name.
pub(in crate::fact) type Refs = BTreeMap<String, Ref>;

/// The parts that are repeated.
#[derive(Debug, Default)]
pub(in crate::fact) struct Mirror<'a> {
    pub status: Option<&'a str>,
    pub refs: Option<&'a Refs>,
    pub benchmark: Option<&'a Benchmark>,
    pub comparison: Option<&'a Comparison>,
    pub reward: Option<&'a Reward>,
    pub trajectory: Option<&'a Trajectory>,
}

impl Payload {
    /// How whatever it is about stands, when it says so.
    pub fn status(&self) -> Option<&str> {
        self.mirror().status
    }
}

/// Something that is one word, when it is there.
pub(crate) trait Words {
    fn words(&self) -> Option<&str>;
}

impl Words for String {
    fn words(&self) -> Option<&str> {
        Some(self)
    }
}

impl<W: Words> Words for Option<W> {
    fn words(&self) -> Option<&str> {
        self.as_ref()?.words()
    }
}

/// A field of a payload as a field of [`Mirror`].
pub(super) trait Mirrored<'a, T> {
    fn mirrored(&'a self) -> Option<T>;
}

impl<'a, W: Words> Mirrored<'a, &'a str> for W {
    fn mirrored(&'a self) -> Option<&'a str> {
        self.words()
    }
}

macro_rules! mirrored {
    ($($type:ty),+) => {$(
        impl<'a> Mirrored<'a, &'a $type> for $type {
            fn mirrored(&'a self) -> Option<&'a $type> {
                Some(self)
            }
        }

        impl<'a> Mirrored<'a, &'a $type> for Option<$type> {
            fn mirrored(&'a self) -> Option<&'a $type> {
                self.as_ref()
            }
        }
    )+};
}

mirrored!(Refs, Benchmark, Comparison, Reward, Trajectory);
