//! The two ways to write a frame, agreed upon as the subprotocol of the WebSocket.

use std::io::Cursor;

use axum::extract::ws::{Message, Utf8Bytes};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How frames are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Encoding {
    /// Text frames.
    Json,
    /// Binary frames, the same shapes.
    MessagePack,
}

impl Encoding {
    /// Their subprotocols, the preferred first.
    pub(super) const SUBPROTOCOLS: [&'static str; 2] = ["cadre.v1.json", "cadre.v1.msgpack"];

    /// That of a subprotocol. A client that names none writes JSON.
    pub(super) fn of(subprotocol: Option<&str>) -> Option<Self> {
        match subprotocol {
            None | Some("cadre.v1.json") => Some(Self::Json),
            Some("cadre.v1.msgpack") => Some(Self::MessagePack),
            Some(_) => None,
        }
    }

    /// As a label.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::MessagePack => "msgpack",
        }
    }

    /// The value that a frame holds; why it cannot be read otherwise.
    pub(super) fn read(self, message: &Message) -> Result<Value, &'static str> {
        match (self, message) {
            (Self::Json, Message::Text(text)) => {
                serde_json::from_str(text).map_err(|_| "a frame that is not JSON")
            }
            (Self::MessagePack, Message::Binary(bytes)) => unpack(bytes),
            (Self::Json, _) => Err("a binary frame on a channel of text"),
            (Self::MessagePack, _) => Err("a text frame on a channel of MessagePack"),
        }
    }

    /// A frame with this in it.
    pub(super) fn write(self, frame: &impl Serialize) -> Message {
        match self {
            Self::Json => Message::Text(json(frame).into()),
            Self::MessagePack => Message::Binary(pack(frame)),
        }
    }

    /// The same as bytes, to be shared.
    pub(super) fn bytes(self, frame: &impl Serialize) -> Bytes {
        match self {
            Self::Json => json(frame).into(),
            Self::MessagePack => pack(frame),
        }
    }

    /// A frame of bytes that [`Self::bytes`] made.
    pub(super) fn frame(self, bytes: Bytes) -> Message {
        match self {
            // Looking whether it is UTF-8 is much quicker than sending it.
            Self::Json => Message::Text(Utf8Bytes::try_from(bytes).expect("JSON is UTF-8")),
            Self::MessagePack => Message::Binary(bytes),
        }
    }
}

fn json(frame: &impl Serialize) -> String {
    serde_json::to_string(frame).expect("what is sent is JSON")
}

fn pack(frame: &impl Serialize) -> Bytes {
    rmp_serde::to_vec_named(frame).expect("what is sent is MessagePack").into()
}

/// One value and nothing behind it, nested no deeper than JSON may be.
fn unpack(bytes: &[u8]) -> Result<Value, &'static str> {
    const DEPTH_MAX: usize = 128;
    let mut reader = rmp_serde::Deserializer::new(Cursor::new(bytes));
    reader.set_max_depth(DEPTH_MAX);
    let value = Value::deserialize(&mut reader).map_err(|_| "a frame that is not MessagePack")?;
    if reader.position() as usize != bytes.len() {
        return Err("a frame with something behind its end");
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn both_encodings_carry_the_same() {
        let frame = json!({ "op": "x", "list": [1, -2, 1.5, null, true, "é"], "deep": { "a": {} } });
        for encoding in [Encoding::Json, Encoding::MessagePack] {
            let message = encoding.write(&frame);
            assert_eq!(encoding.read(&message).unwrap(), frame, "{encoding:?}");
            assert_eq!(encoding.frame(encoding.bytes(&frame)), message);
        }
    }

    #[test]
    fn what_is_malformed_is_refused() {
        for text in ["", "{", "nul", "{\"a\":1}x"] {
            assert!(Encoding::Json.read(&Message::Text(text.into())).is_err(), "{text}");
        }
        let deep = [vec![0x91; 10_000], vec![0xc0]].concat();
        // Nothing; an unused code; a map that breaks off; something behind the end; bytes; a text that is not UTF-8.
        let bad: [&[u8]; 7] =
            [&[], &[0xc1], &[0x81, 0xa1], &[0xc0, 0xc0], &[0xc4, 1, 0], &[0xa1, 0xff], &deep];
        for bytes in bad {
            let message = Message::Binary(Bytes::copy_from_slice(bytes));
            assert!(Encoding::MessagePack.read(&message).is_err(), "{bytes:02x?}");
        }
        assert!(Encoding::Json.read(&Message::Binary(Bytes::from_static(b"{}"))).is_err());
        assert!(Encoding::MessagePack.read(&Message::Text("{}".into())).is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_do_any_harm(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(value) = Encoding::MessagePack.read(&Message::Binary(bytes.clone().into())) {
                let again = Encoding::MessagePack.read(&Encoding::MessagePack.write(&value)).unwrap();
                // Numbers that are none become nothing, as in JSON.
                prop_assert_eq!(again, value);
            }
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let _ = Encoding::Json.read(&Message::Text(text.into()));
        }

        #[test]
        fn a_frame_that_was_changed_does_no_harm(at in 0_usize..200, to in any::<u8>(), cut in 0_usize..200) {
            let frame = json!({
                "op": "command", "id": "a", "name": "submit_turn", "args": { "input": [{ "type": "text", "text": "é" }],
                "options": { "deadlineMs": 70_000, "x": [1, -1, 1.5, null, true] } }
            });
            let mut bytes = Encoding::MessagePack.bytes(&frame).to_vec();
            let len = bytes.len();
            bytes[at % len] = to;
            bytes.truncate(len - cut % len);
            let _ = Encoding::MessagePack.read(&Message::Binary(bytes.into()));
        }
    }

    #[test]
    fn a_subprotocol_names_the_encoding() {
        assert_eq!(Encoding::of(None), Some(Encoding::Json));
        for (name, encoding) in Encoding::SUBPROTOCOLS.iter().zip([Encoding::Json, Encoding::MessagePack]) {
            assert_eq!(Encoding::of(Some(name)), Some(encoding));
        }
        assert_eq!(Encoding::of(Some("cadre.v2.json")), None);
    }
}
