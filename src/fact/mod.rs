//! Facts: what has happened, as typed events in one envelope.
//!
//! A [`Fact`] is made by an entity: a [payload] of one class and the [ids](scope) that the class needs. It is kept as a
//! [`StoredEvent`] in the feed of its session, read as an [`Event`] that knows its place there, and sent in an
//! [`Envelope`].

mod event;
#[allow(clippy::module_inception, reason = "the module is named for what it holds many of, the file for one")]
mod fact;
pub mod failure;
pub mod id;
mod ids;
pub mod part;
pub mod payload;
mod received;
mod schema;
pub mod scope;
pub mod status;
mod stored;
#[cfg(test)]
mod tests;
pub mod time;
mod trace;
mod words;

pub use cadre_cluster::{clock::Timestamp, feed::Cursor};

pub(crate) use self::words::words;

pub use self::{
    event::{Envelope, Event, Publisher},
    fact::Fact,
    failure::{Failure, RetryPolicy},
    id::{Id, IdSource},
    ids::{Ids, Slot},
    part::{OutputRef, Part, Ref},
    payload::{Class, EventType, Payload},
    received::Received,
    schema::event_schema,
    stored::StoredEvent,
    time::Time,
    trace::Trace,
};
