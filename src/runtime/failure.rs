//! Why a command could not be executed, as callers are told.

use std::fmt::Display;

use cadre_cluster::{codec::DecodeError, host::CallError, store::CommitError};
use rand::TryRngCore;

use crate::{
    blob::BlobError,
    control::{Code, Error},
};

/// A bug, or damage: trying again is of no use. What it was goes into the log, under the id that the caller gets.
pub(super) fn internal(what: &str, error: impl Display) -> Error {
    let incident = format!("inc_{:016x}", rand::rngs::OsRng.try_next_u64().unwrap_or_default());
    tracing::error!(%error, %incident, "{what}");
    Error::internal(incident)
}

/// What is stored is not what it should be.
pub(super) fn damaged(error: impl Display) -> Error {
    internal("what is stored is damaged", error)
}

/// What is stored cannot be read: by this version, or at all.
pub(super) fn undecodable(error: DecodeError) -> Error {
    match error {
        DecodeError::Version { .. } => {
            tracing::warn!(%error, "a newer version has stored this");
            Error::new(Code::Unavailable, "this node is too old to read what is stored, try again at another")
        }
        DecodeError::Empty { .. } | DecodeError::Malformed { .. } => damaged(error),
    }
}

/// A blob cannot be read or written right now, or is damaged.
pub(super) fn of_blob(error: BlobError) -> Error {
    match error {
        BlobError::Decode(error) => undecodable(error),
        error => unreadable(error),
    }
}

/// An entity gave no answer.
pub(super) fn of_call(error: CallError<Error>) -> Error {
    match error {
        CallError::Refused(refusal) => refusal,
        CallError::TooLarge { limit, actual } => Error::too_large(limit as u64, actual as u64),
        CallError::KeyTooLong { .. } => Error::invalid("Idempotency-Key", "is too long"),
        CallError::KeyReused => {
            Error::conflict("key_reused", "the idempotency key was used for another command")
        }
        CallError::Busy => Error::rate_limited(100, "too many commands wait for this entity"),
        CallError::Unavailable { reason } => Error::unavailable(reason),
        CallError::OutcomeUnknown => Error::deadline(),
        error @ (CallError::Address(_)
        | CallError::Poisoned { .. }
        | CallError::Misrouted { .. }
        | CallError::UnknownKind { .. }
        | CallError::Unreadable { .. }) => internal("a command could not be executed", error),
    }
}

/// An entity answered something that was not asked.
pub(super) fn unexpected() -> Error {
    internal("an entity answered something that was not asked", "unexpected reply")
}

/// The store cannot be read or written right now.
pub(super) fn unreadable(error: impl Display) -> Error {
    tracing::warn!(%error, "the store did not answer");
    Error::new(Code::Unavailable, "the store does not answer, try again")
}

impl From<CommitError> for Error {
    fn from(error: CommitError) -> Self {
        unreadable(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_is_not_worth_another_try_and_what_is_newer_is_at_another_node() {
        let name = "session";
        let damage = undecodable(DecodeError::Malformed { name, reason: "no".into() });
        assert_eq!((damage.code, damage.retryable), (Code::Internal, false));
        let newer = undecodable(DecodeError::Version { name, found: 9, known: 1 });
        assert_eq!((newer.code, newer.retryable), (Code::Unavailable, true));
        let blob = of_blob(BlobError::Decode(DecodeError::Empty { name: "blob" }));
        assert_eq!(blob.code, Code::Internal);
    }

    #[test]
    fn each_incident_has_an_id_of_its_own() {
        let incident = |error: Error| error.details["incidentId"].as_str().unwrap().to_owned();
        assert_ne!(incident(unexpected()), incident(unexpected()));
        assert_ne!(incident(damaged("the same")), incident(damaged("the same")));
    }
}
