//! What a body must keep to, in the order and the words of the protocol. The texts are a contract.

use std::fmt::Display;

use serde_json::Value;

use super::{
    input::RunInput,
    message::{Content, Message, Role},
    names,
    prompt::Ordered,
};
use crate::control::{Code, Error};

/// The largest body: 256 KiB.
pub const BODY_BYTES_MAX: usize = 262_144;
/// The longest id of a run, in characters.
pub const RUN_ID_CHARS_MAX: usize = 128;
/// The most messages.
pub const MESSAGES_MAX: usize = 200;
/// All words of a user's message, in characters.
pub const TEXT_CHARS_MAX: usize = 10_000;
/// Parts of the user's message. What follows them in the input of a turn has to fit in, too.
const BLOCKS_MAX: usize = 1_000;

/// The first rule, known before anything is read.
pub fn size(bytes: usize) -> Result<(), Error> {
    if bytes <= BODY_BYTES_MAX {
        return Ok(());
    }
    let error = Error::new(Code::PayloadTooLarge, "RunAgentInput payload exceeds size limit");
    Err(error.with("limit", BODY_BYTES_MAX).with("actual", bytes))
}

/// All others.
pub(super) fn check(input: &RunInput) -> Result<(), Error> {
    if names::uuid(&input.thread_id).is_none() {
        return Err(broken("threadId", "threadId must be a valid UUID"));
    }
    if input.run_id.chars().count() > RUN_ID_CHARS_MAX {
        return Err(broken("runId", "runId exceeds length limit"));
    }
    if input.messages.len() > MESSAGES_MAX {
        return Err(broken("messages", "RunAgentInput.messages exceeds limit"));
    }
    let users = || input.messages.iter().enumerate().filter(|(_, message)| message.role == Role::User);
    for (index, message) in users() {
        let texts = message.content.as_ref().map(Content::texts).unwrap_or_default();
        if texts.iter().map(|text| text.chars().count()).sum::<usize>() > TEXT_CHARS_MAX {
            let field = format!("messages[{index}].content");
            return Err(broken(field, "RunAgentInput user message text exceeds limit"));
        }
    }
    if users().count() != 1 {
        return Err(broken("messages", "RunAgentInput.messages must contain exactly one user message"));
    }
    let Some(user) = input.messages.first().filter(|message| message.role == Role::User) else {
        return Err(broken("messages[0].role", "RunAgentInput.messages[0].role must be user"));
    };
    check_user(user)?;
    // What the table does not say, but a turn needs.
    if input.run_id.is_empty() {
        return Err(Error::invalid("runId", "must not be empty"));
    }
    for (index, message) in input.messages.iter().enumerate() {
        check_message(&format!("messages[{index}]"), message)?;
    }
    for (index, tool) in input.tools.iter().flatten().enumerate() {
        if !matches!(tool.parameters, Ordered::Object(_)) {
            return Err(Error::invalid(format!("tools[{index}].parameters"), "must be an object"));
        }
    }
    check_agent(input.forwarded_props.as_ref())
}

fn check_user(user: &Message) -> Result<(), Error> {
    let Some(Content::Blocks(blocks)) = &user.content else { return Ok(()) };
    let field = |index: usize, name: &str| format!("messages[0].content[{index}].{name}");
    let binaries = || blocks.iter().enumerate().filter_map(|(at, block)| Some((at, block.binary()?)));
    for (index, binary) in binaries() {
        if !binary.mime_type.is_some_and(|mime| mime.starts_with("image/")) {
            return Err(broken(field(index, "mimeType"), "binary content requires image mimeType"));
        }
    }
    for (index, binary) in binaries() {
        if binary.url.is_none_or(str::is_empty) {
            return Err(broken(field(index, "url"), "binary content requires url"));
        }
    }
    for (index, binary) in binaries() {
        if binary.has_data {
            return Err(broken(field(index, "data"), "binary content data is not allowed"));
        }
    }
    Ok(())
}

fn check_message(field: &str, message: &Message) -> Result<(), Error> {
    let content = format!("{field}.content");
    match (message.role, &message.content) {
        (Role::User, Some(Content::Text(text))) if text.is_empty() => {
            return Err(Error::invalid(content, "must not be empty"));
        }
        (Role::User, Some(Content::Blocks(blocks))) => {
            if blocks.is_empty() || blocks.len() > BLOCKS_MAX {
                let found = blocks.len();
                return Err(Error::invalid(
                    content,
                    format_args!("must have 1 to {BLOCKS_MAX} parts, not {found}"),
                ));
            }
            for (index, block) in blocks.iter().enumerate() {
                let text = format!("{content}[{index}].text");
                match (block.kind.as_str(), &block.text) {
                    ("text", None) => return Err(Error::invalid(text, "is missing")),
                    ("text", Some(words)) if words.is_empty() => {
                        return Err(Error::invalid(text, "must not be empty"));
                    }
                    ("text" | "binary" | "image", _) => {}
                    (kind, _) => {
                        let kind: String = kind.chars().take(40).collect();
                        let message = format_args!("must be text or binary, not {kind:?}");
                        return Err(Error::invalid(format!("{content}[{index}].type"), message));
                    }
                }
            }
        }
        (Role::User | Role::System | Role::Developer | Role::Tool, None) => {
            return Err(Error::invalid(content, "is missing"));
        }
        (Role::Activity, _) => {}
        (_, Some(Content::Object(_))) => {
            return Err(Error::invalid(content, "must be a text or a list of parts, not an object"));
        }
        _ => {}
    }
    if message.role == Role::Tool && message.tool_call_id.is_none() {
        return Err(Error::invalid(format!("{field}.toolCallId"), "is missing"));
    }
    Ok(())
}

fn check_agent(props: Option<&Value>) -> Result<(), Error> {
    match props.and_then(|props| props.get("agent")) {
        None | Some(Value::Null | Value::String(_)) => Ok(()),
        Some(_) => Err(Error::invalid("forwardedProps.agent", "must be a text")),
    }
}

/// A rule of the table: its text and nothing else.
fn broken(field: impl Into<String>, text: impl Display) -> Error {
    Error::new(Code::InvalidArgument, text.to_string()).with("field", field.into())
}
