//! Facts: what has happened, as typed events in one envelope.
//!
//! A [`Fact`] is made by an entity: a [payload] of one class and the [ids](scope) that the class needs.

#[allow(clippy::module_inception, reason = "the module is named for what it holds many of, the file for one")]
mod fact;
pub mod failure;
pub mod id;
pub mod part;
pub mod payload;
pub mod scope;
pub mod status;
pub mod time;
mod words;

pub use cadre_cluster::{clock::Timestamp, feed::Cursor};

pub use self::{
    fact::Fact,
    failure::{Failure, RetryPolicy},
    id::{Id, IdSource},
    part::{OutputRef, Part, Ref},
    payload::{Class, EventType, Payload},
    scope::Ids,
    time::Time,
};
