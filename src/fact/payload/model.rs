//! What models are asked and answer, and how a run stands.

use super::{Object, declare::payloads};
use crate::fact::failure::Failure;

payloads! {
    /// What models used.
    Usage {
        /// Tokens read.
        input_tokens: u64,
        /// Tokens written.
        output_tokens: u64,
        ..
        /// Of those read, how many came from a cache.
        cached_tokens: Option<u64>,
        /// What it cost.
        cost_usd: Option<f64>,
    }

    /// How a run stands, for people who watch it.
    RunStatus {
        /// Which part of the loop.
        phase: String,
        ..
        /// In a few words.
        title: Option<String>,
        /// In more words.
        detail: Option<String>,
        /// What has been reached.
        checkpoints: Vec<Checkpoint>,
        /// The producer's own.
        metadata: Object,
    }

    /// A point that a run reaches.
    Checkpoint {
        /// Which.
        name: String,
        ..
        /// How it stands.
        status: Option<String>,
        /// In words.
        detail: Option<String>,
    }

    /// A provider was asked.
    ModelRequested {
        /// Which model.
        model: String,
        /// Which attempt of the step, from 1.
        attempt: u32,
        /// Which step of the turn, from 1.
        step: u32,
        ..
        /// Whose.
        provider: Option<String>,
        /// How many messages it was given.
        messages: Option<u32>,
        /// How many tools it was offered.
        tools: Option<u32>,
    }

    /// More text of the answer.
    ModelDelta {
        /// The text.
        text: String,
        ..
        /// Where it begins in the answer, in bytes.
        offset: Option<u64>,
    }

    /// The provider's answer is whole. The turn may go on.
    ModelCompleted {
        /// How much text it had.
        text_bytes: u64,
        /// How many tool calls it asks for.
        calls: u32,
        ..
        /// Why the model stopped.
        stop_reason: Option<String>,
        /// What it used.
        usage: Option<Usage>,
        /// How long it took.
        duration_ms: Option<u64>,
        /// Which model answered.
        model: Option<String>,
    }

    /// The provider gave no answer.
    ModelFailed {
        /// What happened.
        error: Failure,
        /// Which attempt of the step, from 1.
        attempt: u32,
        ..
        /// Whether another attempt follows.
        will_retry: bool,
        /// Which model it was.
        model: Option<String>,
        /// How long it took.
        duration_ms: Option<u64>,
    }

    /// More of what a model thinks.
    ReasoningDelta {
        /// The text.
        text: String,
    }

    /// What a model thought, in short.
    ReasoningSummary {
        /// The text.
        text: String,
    }
}
