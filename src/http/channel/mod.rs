//! Channels over WebSocket: follow sessions, give commands, come back after anything.
//!
//! A connection is one task that waits in one place for whatever comes first: a frame of the client, something new in a
//! session that it follows, the answer to a command, a timer. It sends a batch of a few kilobytes at a time and reads the
//! next events only when that batch is with the client and the client has credit left, so that one who does not read costs
//! one batch (P9) and nobody else's time. What must outlive the connection is in the store (`runtime::channels`).

mod connection;
mod credit;
mod encoding;
mod following;
mod frame;
mod holders;
mod permission;
mod render;
mod subscription;

use axum::{
    extract::{State, WebSocketUpgrade, ws::rejection::WebSocketUpgradeRejection},
    http::HeaderValue,
    response::Response,
};

pub(super) use self::holders::Holders;
use self::{connection::Connection, encoding::Encoding};
use super::{App, body::SMALL_BODY_BYTES_MAX, credential::Asking, refusal::Refusal};
use crate::control::{Code, Error};

/// How much is read from the network at once. Frames are small, and every connection has such a buffer.
const READ_BYTES: usize = 4 * 1024;
/// The largest frame that is read. One over [`SMALL_BODY_BYTES_MAX`] is refused, and one over this breaks the connection: a
/// client that is still sending then never hears why.
const DISCARDED_BYTES_MAX: usize = 2 * SMALL_BODY_BYTES_MAX;
/// How much is collected before it is written to the network.
const WRITE_BYTES: usize = 8 * 1024;

/// `GET /v1/channel`
pub(super) async fn open(
    State(app): State<App>,
    Asking(caller): Asking,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Refusal> {
    let mut upgrade = upgrade.map_err(|error| {
        let message = format!("a channel is a WebSocket: {error}");
        Error::new(Code::InvalidArgument, message).with("field", "Upgrade")
    })?;
    let asked = upgrade.requested_protocols().next().is_some();
    let known = |wanted: &HeaderValue| {
        Encoding::SUBPROTOCOLS.iter().find(|known| wanted.as_bytes() == known.as_bytes()).copied()
    };
    let chosen = upgrade.requested_protocols().filter_map(known).min();
    if asked && chosen.is_none() {
        let known = Encoding::SUBPROTOCOLS.join(", ");
        return Err(Error::invalid("Sec-WebSocket-Protocol", format_args!("must be one of {known}")).into());
    }
    let encoding = Encoding::of(chosen).unwrap_or(Encoding::Json);
    if let Some(chosen) = chosen {
        upgrade.set_selected_protocol(HeaderValue::from_static(chosen));
    }
    let place = app.holders.admit()?;
    Ok(upgrade
        .read_buffer_size(READ_BYTES)
        .write_buffer_size(WRITE_BYTES)
        .max_message_size(DISCARDED_BYTES_MAX)
        .max_frame_size(DISCARDED_BYTES_MAX)
        .on_upgrade(move |socket| async move {
            let _place = place;
            // On the heap: the task is as large as its largest moment, and most of its time nothing happens.
            Box::pin(Connection::serve(app, caller, encoding, socket)).await;
        }))
}
