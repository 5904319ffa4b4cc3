//! Part of a feed, as all who follow it share it.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::{
    control::Error,
    fact::{Cursor, Event, StoredEvent, id::SessionId},
};

/// In which form an event is sent. Each is made once for all who want it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A text frame of a channel.
    Json,
    /// A binary frame of a channel.
    MessagePack,
    /// A frame of Server-Sent Events.
    ServerSent,
}

/// An event with what is sent of it.
#[derive(Debug)]
pub struct SharedEvent {
    /// The event.
    pub event: Event,
    forms: [OnceLock<Bytes>; 3],
}

impl SharedEvent {
    /// The event in a form, made by the first who asks.
    pub fn rendered(&self, form: Form, render: impl FnOnce(&Event) -> Bytes) -> Bytes {
        self.forms[form as usize].get_or_init(|| render(&self.event)).clone()
    }
}

/// All events after one cursor and up to another.
#[derive(Debug)]
pub(super) struct Page {
    /// After this one.
    pub from: Cursor,
    /// Up to here.
    pub to: Cursor,
    /// What is missing before the events.
    pub gap: Option<(Cursor, Cursor)>,
    events: Vec<Arc<SharedEvent>>,
    /// How large the events are, as they are stored.
    pub bytes: usize,
}

impl Page {
    /// A page as it was read after a cursor.
    pub fn read(from: Cursor, page: cadre_cluster::feed::Page, session: &SessionId) -> Result<Self, Error> {
        let bytes = page.events.iter().map(|event| event.body.len()).sum();
        let events = page.events.into_iter().map(|event| {
            let stored = StoredEvent::decode(&event.body).map_err(|error| {
                tracing::error!(%session, cursor = %event.cursor, %error, "unreadable event");
                Error::unavailable(format!("the event at {} is unreadable by this version", event.cursor))
            })?;
            let event = stored.at(session.clone(), event.cursor);
            Ok(Arc::new(SharedEvent { event, forms: Default::default() }))
        });
        let events = events.collect::<Result<_, Error>>()?;
        let gap = page.gap.map(|gap| (gap.from, gap.to));
        Ok(Self { from, to: page.cursor, gap, events, bytes })
    }

    /// Whether everything right after a cursor is in it.
    pub fn has(&self, after: Cursor) -> bool {
        self.gap.is_none() && self.from <= after && after < self.to
    }

    /// The events after a cursor.
    pub fn after(&self, after: Cursor) -> &[Arc<SharedEvent>] {
        let first = self.events.partition_point(|event| event.event.cursor <= after);
        &self.events[first..]
    }
}
