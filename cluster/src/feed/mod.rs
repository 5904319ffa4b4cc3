//! Feeds: ordered, gapless, resumable.
//!
//! Many entities append to one feed without contention, because an event's key ends in the stamp of the
//! commit that wrote it: the order of the feed is the order of the commits. A [`Cursor`] is such a position.
//! A reader asks the store for what comes after its cursor; a doorbell only tells it that asking is
//! worthwhile, and a slow periodic look covers doorbells that were lost (P4).

mod cursor;
mod event;
mod read;
mod tail;
mod trim;

pub use cursor::{Cursor, InvalidCursor};
pub use event::{Event, EventRecord, NewEvent, Term};
pub use read::{Error, Feed, Filter, Gap, Page};
pub(crate) use tail::hint;
pub use tail::{Tail, TailConfig, doorbell_subject};
pub use trim::{Error as TrimError, Trimmed, trim};
