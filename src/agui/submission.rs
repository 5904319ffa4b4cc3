//! A run as a command: what `submit_turn` is given.
//!
//! What the user says comes first, as it was said: so a script for the scripted agent is the first text. What the model
//! should know besides (context, other messages, tools) follows as parts of their own. `metadata.agui` says how many of
//! the parts are the user's, under which names the client knows the run, and a hash of the body.

use serde_json::{Map, Value, json};

use super::{
    input::RunInput,
    message::Content,
    names,
    prompt::{build_context_prompt, build_messages_prompt, build_tools_prompt},
};
use crate::{
    control::Error,
    fact::{
        Part,
        id::{BlobRef, Id, child_suffix},
        payload::Object,
    },
};

/// What is remembered of a message's id; longer ones are replaced by our own.
const MESSAGE_ID_CHARS_MAX: usize = 128;

/// An image that was found to be what it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Where it is kept.
    pub blob: BlobRef,
    /// What it is.
    pub media_type: String,
}

/// A question of more than this is kept for the history: the fact of a turn does not show it all.
const SHOWN_BYTES_MAX: usize = 2 * 1024;

/// What the user said, when it is too large for a fact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// Where it is kept; the same for the same run and body.
    pub blob: BlobRef,
    /// The parts, as JSON.
    pub content: Vec<u8>,
}

/// What is kept of a run for the history, before its turn is submitted.
pub fn kept(input: &RunInput, images: &[Image]) -> Option<Kept> {
    let content =
        serde_json::to_vec(&asked(input, images)).expect("parts serialize into memory without fail");
    let base = format!("{}/{}", names::turn(&input.thread_id, &input.run_id), input.digest());
    let blob = BlobRef::with_suffix(&child_suffix(&base, 0));
    (content.len() > SHOWN_BYTES_MAX).then_some(Kept { blob, content })
}

/// Where images are in the user's message: the field that names each, and its URL.
pub fn urls(input: &RunInput) -> Vec<(String, &str)> {
    let Some(Content::Blocks(blocks)) = input.asked().and_then(|asked| asked.content.as_ref()) else {
        return Vec::new();
    };
    let binaries = blocks.iter().enumerate().filter_map(|(at, block)| Some((at, block.binary()?.url?)));
    binaries.map(|(at, url)| (format!("messages[0].content[{at}].url"), url)).collect()
}

/// The arguments of `submit_turn`. `images` are those of [`urls`], in the same order.
pub fn arguments(input: &RunInput, images: &[Image]) -> Result<Value, Error> {
    let mut parts = asked(input, images);
    let own = parts.len();
    let others = input.messages.get(1..).unwrap_or_default();
    let prompts = [
        build_context_prompt(input.context.as_deref().unwrap_or_default()),
        build_messages_prompt(others),
        build_tools_prompt(input.tools.as_deref().unwrap_or_default()),
    ];
    parts.extend(prompts.into_iter().flatten().map(Part::text));
    let session =
        names::session(&input.thread_id).ok_or_else(|| Error::invalid("threadId", "must be a valid UUID"))?;
    let mut about = json!({
        "threadId": input.thread_id,
        "runId": input.run_id,
        "parts": own,
        "digest": input.digest(),
    });
    if let Some(parent) = input.parent_run_id.as_ref().filter(|id| id.chars().count() <= MESSAGE_ID_CHARS_MAX)
    {
        about["parentRunId"] = json!(parent);
    }
    let id = input.asked().map(|asked| &asked.id).filter(|id| id.chars().count() <= MESSAGE_ID_CHARS_MAX);
    if let Some(id) = id.filter(|id| !id.is_empty()) {
        about["messageId"] = json!(id);
    }
    if let Some(kept) = kept(input, images) {
        about["inputRef"] = json!(kept.blob);
    }
    let mut arguments = json!({
        "sessionId": session,
        "turnId": names::turn(&input.thread_id, &input.run_id),
        "input": parts,
        "metadata": { "agui": about },
    });
    if let Some(agent) = input.agent() {
        arguments["agent"] = json!(agent);
    }
    Ok(arguments)
}

fn asked(input: &RunInput, images: &[Image]) -> Vec<Part> {
    let mut images = images.iter();
    match input.asked().and_then(|asked| asked.content.as_ref()) {
        Some(Content::Text(text)) => vec![Part::text(text)],
        Some(Content::Blocks(blocks)) => {
            let part = |block: &super::message::Block| match (&block.text, block.binary()) {
                (Some(text), None) => Some(Part::text(text)),
                (_, Some(_)) => images.next().map(|image| Part::Blob {
                    blob: image.blob.clone(),
                    media_type: image.media_type.clone(),
                }),
                (None, None) => None,
            };
            blocks.iter().filter_map(part).collect()
        }
        _ => Vec::new(),
    }
}

/// What a turn's metadata says about the run that it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Remembered {
    /// The id of the user's message.
    pub message: Option<String>,
    /// Where what the user said is kept, when the fact does not show it.
    pub kept: Option<BlobRef>,
    /// How many parts of the input are the user's; all when nothing is said.
    pub parts: Option<usize>,
}

impl Remembered {
    /// As [`arguments`] wrote it.
    pub fn of(metadata: &Object) -> Self {
        let none = Map::new();
        let about = metadata.get("agui").and_then(Value::as_object).unwrap_or(&none);
        let parts = about.get("parts").and_then(Value::as_u64);
        Self {
            message: about.get("messageId").and_then(Value::as_str).map(str::to_owned),
            kept: about.get("inputRef").and_then(Value::as_str).and_then(|kept| BlobRef::parse(kept).ok()),
            parts: parts.and_then(|parts| usize::try_from(parts).ok()),
        }
    }
}
