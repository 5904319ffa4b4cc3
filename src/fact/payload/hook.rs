//! Hooks and policies: where others govern what happens.

use serde_json::Value;

use super::{Object, declare::payloads};
use crate::fact::{failure::Failure, part::Ref, words::words};

words! {
    /// What follows from a hook that fails.
    FailurePolicy { Closed = "fail_closed", Open = "fail_open", Ask = "ask" }
}

payloads! {
    /// A hook is asked.
    HookStarted {
        /// Which.
        hook: String,
        /// When: `before_tool`, `after_turn`, …
        point: String,
        ..
        /// What it is given.
        input: Option<Value>,
        /// What it is given, when that is kept elsewhere.
        input_ref: Option<Ref>,
        /// What it is about.
        subject: Option<String>,
    }

    /// A hook answered.
    HookCompleted {
        /// Which.
        hook: String,
        /// When.
        point: String,
        ..
        /// What it says: `allow`, `deny`, `modify`, …
        outcome: Option<String>,
        /// What it gives back.
        output: Option<Value>,
        /// What it gives back, when that is kept elsewhere.
        output_ref: Option<Ref>,
        /// Why.
        reason: Option<String>,
        /// How long it took.
        duration_ms: Option<u64>,
    }

    /// A hook gave no answer.
    HookFailed {
        /// Which.
        hook: String,
        /// When.
        point: String,
        /// What happened.
        error: Failure,
        /// What follows from it.
        failure_policy: FailurePolicy,
        ..
        /// How long it took.
        duration_ms: Option<u64>,
    }

    /// A policy is different.
    PolicyChanged {
        /// Which.
        policy: String,
        ..
        /// Its version.
        version: Option<String>,
        /// What changed: `added`, `updated`, `removed`.
        change: Option<String>,
        /// By whom.
        by: Option<String>,
        /// Why.
        reason: Option<String>,
        /// What it says.
        content: Object,
    }
}
