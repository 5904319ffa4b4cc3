//! Frames of Server-Sent Events.

use std::fmt::Write as _;

use bytes::Bytes;
use serde::Serialize;

use crate::fact::Cursor;

/// Frames that are sent together.
#[derive(Debug, Default)]
pub(super) struct Frames(String);

impl Frames {
    /// With one more. `data` must be JSON without line breaks, as serde writes it.
    #[must_use]
    pub(super) fn with(mut self, event: &str, id: Option<Cursor>, data: &impl Serialize) -> Self {
        let data = serde_json::to_string(data).expect("what is served is JSON");
        if let Some(id) = id {
            let _ = writeln!(self.0, "id: {id}");
        }
        let _ = write!(self.0, "event: {event}\ndata: {data}\n\n");
        self
    }

    /// With one that [`Self::into_bytes`] gave.
    #[must_use]
    pub(super) fn with_rendered(mut self, frame: &Bytes) -> Self {
        self.0.push_str(std::str::from_utf8(frame).expect("frames are text"));
        self
    }

    /// A sign of life that readers ignore.
    pub(super) fn comment() -> Self {
        Self(": still here\n\n".into())
    }

    /// As they are sent.
    pub(super) fn into_bytes(self) -> Bytes {
        self.0.into()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_frame_is_lines_and_an_empty_one() {
        let frames = Frames::default().with("fact", Some(Cursor::START), &json!({ "text": "a\nb" })).with(
            "bye",
            None,
            &json!({}),
        );
        let id = "0".repeat(32);
        let text =
            format!("id: {id}\nevent: fact\ndata: {{\"text\":\"a\\nb\"}}\n\nevent: bye\ndata: {{}}\n\n");
        assert_eq!(frames.into_bytes(), text);
    }
}
