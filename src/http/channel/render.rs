//! Events as frames. A frame does not depend on who gets it, so all who follow a session in one encoding share it.

use bytes::Bytes;
use serde::Serialize;

use super::encoding::Encoding;
use crate::{
    fact::{Cursor, Envelope, Publisher, id::SessionId},
    runtime::reader::{Form, SharedEvent},
};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EventFrame<'a> {
    op: &'static str,
    session_id: &'a SessionId,
    cursor: Cursor,
    event: Envelope<'a>,
}

/// The frame of an event.
pub(super) fn event(event: &SharedEvent, encoding: Encoding, publisher: &Publisher) -> Bytes {
    let form = match encoding {
        Encoding::Json => Form::Json,
        Encoding::MessagePack => Form::MessagePack,
    };
    event.rendered(form, |event| {
        let (session_id, cursor) = (&event.session, event.cursor);
        encoding.bytes(&EventFrame { op: "event", session_id, cursor, event: publisher.envelope(event) })
    })
}
