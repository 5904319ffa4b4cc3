//! What the client library's error codes mean to a caller of ours.
//!
//! A code means one thing to a read and may mean another to a commit: an answer that got lost leaves a read to
//! be tried again, and a commit's outcome unknown. The codes that clients see are listed by name. For any
//! other, the client library's own predicates decide; and where they are silent, a commit is only said not
//! to have happened when the code is one that is raised before anything is sent.

use std::sync::Arc;

use foundationdb::FdbError;

use crate::store::{Commit, CommitError, Limits, Mutation, OpenError, ReadError};

/// Also what our own waiting ends with.
pub(super) const TRANSACTION_TIMED_OUT: i32 = 1031;
/// Also what a confirmed commit without a stamp ends with.
pub(super) const COMMIT_UNKNOWN_RESULT: i32 = 1021;

/// Also what a use after the client was stopped ends with.
pub(super) const SHUTDOWN_IN_PROGRESS: i32 = 1043;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    /// Somebody else wrote what was read.
    Conflict,
    /// The read version is no longer kept.
    TooOld,
    /// Not now. Nothing was written.
    NotNow,
    /// No answer. A commit may have happened.
    Lost,
    /// The named thing is over its limit.
    TooLarge(&'static str),
    /// The cluster takes no more data from us.
    Full,
    /// This driver asked for what cannot be had. Nothing was sent.
    Misuse,
    /// Something broke that should not. A commit may have happened.
    Broken,
}

const CODES: &[(i32, &str, Meaning)] = &[
    (1000, "operation_failed", Meaning::Broken),
    (1001, "wrong_shard_server", Meaning::Lost),
    (1004, "timed_out", Meaning::Lost),
    (1006, "all_alternatives_failed", Meaning::Lost),
    (1007, "transaction_too_old", Meaning::TooOld),
    (1008, "no_more_servers", Meaning::Lost),
    (1009, "future_version", Meaning::NotNow),
    (1011, "tlog_stopped", Meaning::Lost),
    (1012, "server_request_queue_full", Meaning::Lost),
    (1020, "not_committed", Meaning::Conflict),
    (COMMIT_UNKNOWN_RESULT, "commit_unknown_result", Meaning::Lost),
    (1022, "commit_unknown_result_fatal", Meaning::Lost),
    (1025, "transaction_cancelled", Meaning::Lost),
    (1026, "connection_failed", Meaning::Lost),
    (1027, "coordinators_changed", Meaning::Lost),
    (1029, "watch_cancelled", Meaning::NotNow),
    (1030, "request_maybe_delivered", Meaning::Lost),
    (TRANSACTION_TIMED_OUT, "transaction_timed_out", Meaning::Lost),
    (1032, "too_many_watches", Meaning::NotNow),
    (1034, "watches_disabled", Meaning::Misuse),
    (1036, "accessed_unreadable", Meaning::Misuse),
    (1037, "process_behind", Meaning::NotNow),
    (1038, "database_locked", Meaning::NotNow),
    (1039, "cluster_version_changed", Meaning::Lost),
    (1041, "lookup_failed", Meaning::Lost),
    (1042, "commit_proxy_memory_limit_exceeded", Meaning::NotNow),
    (SHUTDOWN_IN_PROGRESS, "shutdown_in_progress", Meaning::Lost),
    (1051, "batch_transaction_throttled", Meaning::NotNow),
    (1078, "grv_proxy_memory_limit_exceeded", Meaning::NotNow),
    (1100, "broken_promise", Meaning::Lost),
    (1101, "operation_cancelled", Meaning::Lost),
    (1211, "server_overloaded", Meaning::Lost),
    (1213, "tag_throttled", Meaning::NotNow),
    (1223, "proxy_tag_throttled", Meaning::NotNow),
    (1225, "storage_quota_exceeded", Meaning::Full),
    (1500, "platform_error", Meaning::Broken),
    (1510, "io_error", Meaning::Broken),
    (2000, "client_invalid_operation", Meaning::Misuse),
    (2002, "commit_read_incomplete", Meaning::Misuse),
    (2004, "key_outside_legal_range", Meaning::Misuse),
    (2005, "inverted_range", Meaning::Misuse),
    (2006, "invalid_option_value", Meaning::Misuse),
    (2007, "invalid_option", Meaning::Misuse),
    (2008, "network_not_setup", Meaning::Misuse),
    (2012, "range_limits_invalid", Meaning::Misuse),
    (2017, "used_during_commit", Meaning::Misuse),
    (2018, "invalid_mutation_type", Meaning::Misuse),
    (2021, "no_commit_version", Meaning::Misuse),
    (2100, "incompatible_protocol_version", Meaning::NotNow),
    (2101, "transaction_too_large", Meaning::TooLarge("transaction")),
    (2102, "key_too_large", Meaning::TooLarge("key")),
    (2103, "value_too_large", Meaning::TooLarge("value")),
    (2104, "connection_string_invalid", Meaning::NotNow),
    (2107, "tls_error", Meaning::NotNow),
    (2124, "all_external_clients_failed", Meaning::NotNow),
    (2125, "incompatible_client", Meaning::NotNow),
    (2130, "tenant_name_required", Meaning::Misuse),
    (2144, "tenant_locked", Meaning::NotNow),
    (4000, "unknown_error", Meaning::Broken),
    (4100, "internal_error", Meaning::Broken),
];

/// The codes that the client library raises by itself.
const CLIENT_CODES: std::ops::Range<i32> = 2000..3000;

fn meaning(error: FdbError) -> Meaning {
    let code = error.code();
    match CODES.binary_search_by_key(&code, |(code, ..)| *code) {
        Ok(found) => CODES[found].2,
        Err(_) if error.is_maybe_committed() => Meaning::Lost,
        Err(_) if error.is_retryable_not_committed() => Meaning::NotNow,
        Err(_) if CLIENT_CODES.contains(&code) => Meaning::Misuse,
        Err(_) => Meaning::Broken,
    }
}

fn reason(error: FdbError) -> String {
    format!("{error} (FoundationDB error {})", error.code())
}

/// Why a read of a key of so many bytes did not answer.
pub(super) fn read(error: FdbError, key_bytes: usize, limits: &Limits) -> ReadError {
    match meaning(error) {
        Meaning::TooOld => ReadError::TooOld,
        Meaning::NotNow | Meaning::Lost | Meaning::Full => ReadError::Unavailable { reason: reason(error) },
        Meaning::TooLarge(what @ "key") => {
            ReadError::TooLarge { what, limit: limits.key_bytes_max, actual: key_bytes }
        }
        Meaning::Conflict | Meaning::TooLarge(_) | Meaning::Misuse | Meaning::Broken => {
            ReadError::Failed(Arc::new(error))
        }
    }
}

/// Why a commit was not confirmed.
pub(super) fn commit(error: FdbError, commit: &Commit, limits: &Limits) -> CommitError {
    match meaning(error) {
        Meaning::Conflict => CommitError::Conflict,
        Meaning::TooOld => CommitError::TooOld,
        Meaning::NotNow => CommitError::Unavailable { reason: reason(error) },
        Meaning::Full => CommitError::Full { reason: reason(error) },
        Meaning::Lost | Meaning::Broken => {
            tracing::warn!(%error, code = error.code(), "the outcome of a commit is unknown");
            CommitError::OutcomeUnknown
        }
        Meaning::TooLarge(what) => {
            let (limit, actual) = measure(what, commit, limits);
            CommitError::TooLarge { what, limit, actual }
        }
        Meaning::Misuse => CommitError::Failed(Arc::new(error)),
    }
}

/// Why a cluster that was asked for our directory has no answer.
pub(super) fn open(error: FdbError) -> OpenError {
    let advice = match error.code() {
        1038 => "; unlock the database with fdbcli",
        2107 => "; check the files and rules of `tls`",
        2104 => "; check the cluster file",
        2100 | 2124 | 2125 => "; install the client library of the cluster's version",
        2130 => "; the cluster demands tenants, set its tenant_mode to disabled",
        _ => "",
    };
    OpenError::Unreachable { reason: format!("{}{advice}", reason(error)) }
}

/// The limit that was exceeded, and the largest thing that can have exceeded it.
fn measure(what: &'static str, commit: &Commit, limits: &Limits) -> (usize, usize) {
    let largest = |size: fn(&Mutation) -> usize| commit.mutations.iter().map(size).max().unwrap_or_default();
    match what {
        "key" => (limits.key_bytes_max, largest(Mutation::key_bytes)),
        "value" => (limits.value_bytes_max, largest(Mutation::value_bytes)),
        _ => (limits.transaction_bytes_max, commit.bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_of(code: i32) -> ReadError {
        read(FdbError::from_code(code), 7, &Limits::default())
    }

    fn commit_of(code: i32) -> CommitError {
        let mutations = vec![Mutation::Set { key: vec![0; 11].into(), value: vec![0; 12].into() }];
        commit(FdbError::from_code(code), &Commit { reads: vec![], mutations }, &Limits::default())
    }

    fn said(error: &impl std::fmt::Debug) -> String {
        let said = format!("{error:?}");
        said.split([' ', '(']).next().unwrap_or_default().to_owned()
    }

    #[test]
    fn each_code_tells_readers_and_writers_what_to_do_next() {
        for (code, read, commit) in [
            (1004, "Unavailable", "OutcomeUnknown"),
            (1006, "Unavailable", "OutcomeUnknown"),
            (1007, "TooOld", "TooOld"),
            (1009, "Unavailable", "Unavailable"),
            (1020, "Failed", "Conflict"),
            (1021, "Unavailable", "OutcomeUnknown"),
            (1022, "Unavailable", "OutcomeUnknown"),
            (1025, "Unavailable", "OutcomeUnknown"),
            (1026, "Unavailable", "OutcomeUnknown"),
            (1030, "Unavailable", "OutcomeUnknown"),
            (1031, "Unavailable", "OutcomeUnknown"),
            (1037, "Unavailable", "Unavailable"),
            (1038, "Unavailable", "Unavailable"),
            (1039, "Unavailable", "OutcomeUnknown"),
            (1042, "Unavailable", "Unavailable"),
            (1051, "Unavailable", "Unavailable"),
            (1078, "Unavailable", "Unavailable"),
            (1101, "Unavailable", "OutcomeUnknown"),
            (1213, "Unavailable", "Unavailable"),
            (1223, "Unavailable", "Unavailable"),
            (1225, "Unavailable", "Full"),
            (1510, "Failed", "OutcomeUnknown"),
            (2000, "Failed", "Failed"),
            (2004, "Failed", "Failed"),
            (2017, "Failed", "Failed"),
            (2101, "Failed", "TooLarge"),
            (2102, "TooLarge", "TooLarge"),
            (2103, "Failed", "TooLarge"),
            (2107, "Unavailable", "Unavailable"),
            (2125, "Unavailable", "Unavailable"),
            (4100, "Failed", "OutcomeUnknown"),
            // Not in the table: one of the cluster's, one of the client's, one from the future.
            (1216, "Failed", "OutcomeUnknown"),
            (2210, "Failed", "Failed"),
            (1999, "Failed", "OutcomeUnknown"),
        ] {
            assert_eq!(said(&read_of(code)), read, "a read answered with {code}");
            assert_eq!(said(&commit_of(code)), commit, "a commit answered with {code}");
        }
    }

    #[test]
    fn every_code_is_listed_once_in_order() {
        assert!(CODES.is_sorted_by(|(a, ..), (b, ..)| a < b));
    }

    #[test]
    fn the_client_library_does_not_contradict() {
        for code in 1..5000 {
            let error = FdbError::from_code(code);
            let unknown = matches!(commit_of(code), CommitError::OutcomeUnknown);
            assert!(!error.is_maybe_committed() || unknown, "{code} may have committed");
            let again = commit_of(code).is_retryable();
            assert!(!error.is_retryable_not_committed() || again, "{code} did not commit and may be retried");
        }
    }

    #[test]
    fn what_is_too_large_is_measured() {
        for (code, name, largest) in [(2102, "key", 11), (2103, "value", 12)] {
            let CommitError::TooLarge { what, actual, .. } = commit_of(code) else { panic!("{code}") };
            assert_eq!((what, actual), (name, largest));
        }
        let CommitError::TooLarge { what: "transaction", actual, .. } = commit_of(2101) else { panic!() };
        assert!(actual > 11 + 12);
    }

    #[test]
    fn an_unavailable_cluster_says_why() {
        let ReadError::Unavailable { reason } = read_of(1037) else { panic!() };
        assert!(reason.contains("1037"), "{reason}");
    }
}
