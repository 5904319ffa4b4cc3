//! Identities. Every kind of thing has its own type, so that one cannot stand in for another.
//!
//! A caller may bring its own id: `[A-Za-z0-9._:-]`, at most 128 characters. One that Cadre makes is a prefix
//! and 26 characters of Crockford base32: 48 bits of time, so that ids sort by age, then 80 random bits, so that they
//! cannot be guessed. Whatever needs a second id at a moment when nothing random is at hand derives it with
//! [`child_suffix`].

use std::{borrow::Cow, fmt, str::FromStr, sync::Arc};

use cadre_cluster::clock::Timestamp;
use rand::{RngCore, SeedableRng, rngs::StdRng};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use xxhash_rust::xxh3::xxh3_128;

const LEN_MAX: usize = 128;
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const TIME_LEN: usize = 10;
const RANDOM_LEN: usize = 16;

/// Why a text is not an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{found:?} is not a {kind}: 1 to 128 characters of A-Z a-z 0-9 . _ : -")]
pub struct InvalidId {
    /// Which type was asked for.
    pub kind: &'static str,
    /// The text, cut to its first 40 characters.
    pub found: String,
}

/// What all ids can do.
pub trait Id: Sized + Clone + Eq + Ord + fmt::Display {
    /// What ids made by Cadre begin with, before the underscore.
    const PREFIX: &'static str;

    /// The id that a text is.
    fn parse(text: &str) -> Result<Self, InvalidId>;

    /// As text.
    fn as_str(&self) -> &str;

    /// What comes after the prefix of its kind; the whole id when a caller chose another form.
    fn suffix(&self) -> &str {
        let rest = self.as_str().strip_prefix(Self::PREFIX).and_then(|rest| rest.strip_prefix('_'));
        rest.filter(|rest| !rest.is_empty()).unwrap_or(self.as_str())
    }

    /// The id of this kind with that suffix: `sub_X` has the thread `thrd_X`. A suffix that would make the id too
    /// long, or is no part of an id, is replaced by one derived from it.
    fn with_suffix(suffix: &str) -> Self {
        let text = format!("{}_{suffix}", Self::PREFIX);
        Self::parse(&text).unwrap_or_else(|_| Self::with_suffix(&child_suffix(suffix, 0)))
    }
}

/// Another suffix, always the same for the same base and index. The time of the base is kept, so that what it names
/// sorts beside its parent; without one it sorts first.
pub fn child_suffix(base: &str, index: u64) -> String {
    let made = base.len() == TIME_LEN + RANDOM_LEN && base.bytes().all(|byte| ALPHABET.contains(&byte));
    let mut suffix = String::with_capacity(TIME_LEN + RANDOM_LEN);
    suffix.push_str(if made { &base[..TIME_LEN] } else { "0000000000" });
    push_base32(&mut suffix, xxh3_128(&[base.as_bytes(), &index.to_be_bytes()].concat()), RANDOM_LEN);
    suffix
}

/// The lowest `5 * len` bits, highest first.
fn push_base32(text: &mut String, bits: u128, len: usize) {
    for place in (0..len).rev() {
        text.push(char::from(ALPHABET[(bits >> (5 * place)) as usize & 31]));
    }
}

/// Makes ids at one moment, from one seed: the same input gives the same ids.
#[derive(Debug, Clone)]
pub struct IdSource {
    now: Timestamp,
    random: StdRng,
}

impl IdSource {
    /// Ids of this moment.
    pub fn new(now: Timestamp, seed: u64) -> Self {
        Self { now, random: StdRng::seed_from_u64(seed) }
    }

    /// The next id.
    #[allow(clippy::should_implement_trait, reason = "an iterator makes one type, this makes any")]
    pub fn next<I: Id>(&mut self) -> I {
        let mut suffix = String::with_capacity(TIME_LEN + RANDOM_LEN);
        push_base32(&mut suffix, u128::from(self.now.0) & ((1 << 48) - 1), TIME_LEN);
        let random = (u128::from(self.random.next_u64()) << 64) | u128::from(self.random.next_u64());
        push_base32(&mut suffix, random, RANDOM_LEN);
        I::with_suffix(&suffix)
    }
}

fn valid(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b':' | b'-');
    (1..=LEN_MAX).contains(&text.len()) && text.bytes().all(allowed)
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident = $prefix:literal;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The id that a text is.
            pub fn parse(text: &str) -> Result<Self, InvalidId> {
                if valid(text) {
                    return Ok(Self(text.into()));
                }
                Err(InvalidId { kind: stringify!($name), found: text.chars().take(40).collect() })
            }

            /// As text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl Id for $name {
            const PREFIX: &'static str = $prefix;

            fn parse(text: &str) -> Result<Self, InvalidId> {
                Self::parse(text)
            }

            fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                Self::parse(text)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Text;

                impl de::Visitor<'_> for Text {
                    type Value = $name;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str(concat!("a ", stringify!($name)))
                    }

                    fn visit_str<E: de::Error>(self, text: &str) -> Result<$name, E> {
                        $name::parse(text).map_err(E::custom)
                    }
                }

                deserializer.deserialize_str(Text)
            }
        }

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "pattern": "^[A-Za-z0-9._:-]{1,128}$" })
            }
        }
    )+};
}

ids! {
    /// A durable container of work, as its user sees it.
    SessionId = "sess";
    /// An ordered context of execution within a session.
    ThreadId = "thrd";
    /// One cycle of submitted input.
    TurnId = "turn";
    /// A unit of work with an objective.
    TaskId = "task";
    /// One execution of a task.
    RunId = "run";
    /// One attempt, where it is counted apart from its run.
    AttemptId = "atpt";
    /// An ordered item of a turn.
    StepId = "step";
    /// One tool call.
    CallId = "call";
    /// A decision that is waited for.
    ActionId = "actn";
    /// A child agent.
    SubagentId = "sub";
    /// A deliverable.
    ArtifactId = "artf";
    /// A trace, replay, verification or review.
    EvidenceId = "evid";
    /// A batch of items.
    JobId = "job";
    /// One item of a job.
    ItemId = "item";
    /// A command or long-lived process.
    ProcessId = "proc";
    /// A remote channel.
    ChannelId = "chan";
    /// One request to a model provider.
    RequestId = "mreq";
    /// A stored blob.
    BlobRef = "blob";
    /// One trial of a benchmark.
    TrialId = "tria";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_an_id_is_refused() {
        for text in ["", "a b", "a/b", "é", "a\n", &"x".repeat(129)] {
            let refused = TurnId::parse(text).unwrap_err();
            assert_eq!(refused.kind, "TurnId");
            assert!(serde_json::from_value::<TurnId>(text.into()).is_err(), "{text}");
        }
        for text in ["a", "A.b_c:d-9", &"x".repeat(128)] {
            assert_eq!(serde_json::from_value::<TurnId>(text.into()).unwrap().as_str(), text);
        }
    }

    #[test]
    fn made_ids_sort_by_time_and_are_not_repeated() {
        let mut earlier = IdSource::new(Timestamp(1_700_000_000_000), 1);
        let mut later = IdSource::new(Timestamp(1_700_000_000_001), 1);
        let ids: Vec<TurnId> = (0..1000).map(|_| earlier.next()).collect();
        let unique: std::collections::BTreeSet<_> = ids.iter().collect();
        assert_eq!(unique.len(), 1000);
        assert!(ids.iter().all(|id| id.as_str().starts_with("turn_") && id.suffix().len() == 26));
        let next: TurnId = later.next();
        assert!(ids.iter().all(|id| *id < next));
    }

    #[test]
    fn the_same_seed_makes_the_same_ids() {
        let mut source = IdSource::new(Timestamp(1_700_000_000_000), 7);
        assert!(source.next::<SessionId>().as_str().starts_with("sess_01hf7yat00"));
        assert_eq!(source.clone().next::<RunId>().suffix(), source.next::<RunId>().suffix());
    }

    #[test]
    fn a_suffix_names_the_same_thing_in_another_kind() {
        let subagent = SubagentId::parse("sub_X").unwrap();
        assert_eq!(ThreadId::with_suffix(subagent.suffix()).as_str(), "thrd_X");
        assert_eq!(SubagentId::parse("mine").unwrap().suffix(), "mine");
        assert_eq!(SubagentId::parse("task_X").unwrap().suffix(), "task_X");
        assert_eq!(SubagentId::parse("sub_").unwrap().suffix(), "sub_");
    }

    #[test]
    fn a_suffix_too_long_for_an_id_is_replaced_by_one_derived_from_it() {
        let long = "x".repeat(128);
        let thread = ThreadId::with_suffix(&long);
        assert_eq!(thread.suffix(), child_suffix(&long, 0));
        assert_eq!(thread, ThreadId::with_suffix(&long));
    }

    #[test]
    fn child_suffixes_keep_the_time_and_differ_by_base_and_index() {
        let base = IdSource::new(Timestamp(1_700_000_000_000), 1).next::<TurnId>();
        let child = child_suffix(base.suffix(), 3);
        assert_eq!(child.len(), 26);
        assert_eq!(child[..10], base.suffix()[..10]);
        assert_eq!(child, child_suffix(base.suffix(), 3));
        assert_ne!(child, child_suffix(base.suffix(), 4));
        assert_ne!(child_suffix(&child, 0), child_suffix(base.suffix(), 0));
        assert!(child_suffix("mine", 0).starts_with("0000000000"));
    }
}
