//! Reading a session's feed.

use cadre_cluster::feed::{Cursor, Feed, Filter, Page, Tail, TailConfig};

use super::{Caller, Runtime, failure::undecodable};
use crate::{
    control::Error,
    entity::index_term,
    fact::{
        Event, EventType, StoredEvent,
        id::{SessionId, SubagentId, TaskId, ThreadId, TurnId},
    },
    sabotage::{Sabotage, is_on},
};

/// What of a feed somebody wants to see.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventFilter {
    /// Only of this task.
    pub task: Option<TaskId>,
    /// Only of this subagent.
    pub subagent: Option<SubagentId>,
    /// Only of this turn.
    pub turn: Option<TurnId>,
    /// Only these classes: `tool.*`, `turn.completed`.
    pub types: Vec<String>,
}

impl EventFilter {
    /// Whether an event passes.
    pub fn passes(&self, event: &Event) -> bool {
        let ids = &event.fact.ids;
        self.task.as_ref().is_none_or(|task| ids.task() == Some(task))
            && self.subagent.as_ref().is_none_or(|subagent| ids.subagent() == Some(subagent))
            && self.turn.as_ref().is_none_or(|turn| ids.turn() == Some(turn))
            && (self.types.is_empty()
                || self.types.iter().any(|type_| matches(type_, event.fact.event_type())))
    }

    /// Whether an index finds it: then nobody else reads the same.
    pub fn is_indexed(&self) -> bool {
        self.index().is_some()
    }

    /// The index that finds most of it.
    fn index(&self) -> Option<Filter> {
        let term = match (&self.task, &self.subagent, &self.turn) {
            (_, _, Some(turn)) => index_term(turn),
            (_, Some(subagent), _) => index_term(subagent),
            (Some(task), _, _) => index_term(task),
            (None, None, None) => return None,
        };
        Some(Filter { index: term.index, term: term.term })
    }
}

/// Whether a class is meant by a pattern: itself, or its family followed by `.*`.
fn matches(pattern: &str, class: EventType) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => class.as_str().starts_with(start),
        None => class.as_str() == pattern,
    }
}

/// Part of a feed.
#[derive(Debug, Clone, PartialEq)]
pub struct EventPage {
    /// In order.
    pub events: Vec<Event>,
    /// Where to go on.
    pub cursor: Cursor,
    /// Whether there is more right now.
    pub more: bool,
    /// What is missing before the events, when it is no longer kept: from, to.
    pub gap: Option<(Cursor, Cursor)>,
}

/// A reader that follows a feed.
pub struct Follow {
    tail: Tail,
    session: SessionId,
    filter: EventFilter,
}

impl Follow {
    /// The next events. Safe to drop while waiting.
    pub async fn next(&mut self) -> Result<EventPage, Error> {
        loop {
            let page = self.tail.next().await.map_err(|error| Error::unavailable(error.to_string()))?;
            let page = read(page, &self.session, &self.filter)?;
            if !page.events.is_empty() || page.gap.is_some() {
                return Ok(page);
            }
        }
    }

    /// Where it stands.
    pub fn position(&self) -> Cursor {
        self.tail.position()
    }
}

impl Runtime {
    /// The feed of a session.
    pub(super) fn feed(&self, caller: &Caller, session: &SessionId) -> Feed {
        Feed::new(self.store.clone(), &caller.tenant, session.as_str(), self.feed_epoch)
    }

    /// Part of a session's feed, after a position.
    pub async fn events(
        &self,
        caller: &Caller,
        session: &SessionId,
        after: Cursor,
        limit: usize,
        filter: &EventFilter,
    ) -> Result<EventPage, Error> {
        let feed = self.feed(caller, session);
        let page = match filter.index() {
            Some(index) => feed.read_filtered(&index, after, limit).await,
            None => feed.read(after, limit).await,
        };
        read(page.map_err(|error| Error::unavailable(error.to_string()))?, session, filter)
    }

    /// The first event of a thread, found by what its id shares with others.
    pub(super) async fn events_of(
        &self,
        request: &super::Request<'_>,
        session: &SessionId,
        thread: &ThreadId,
    ) -> Result<Option<Event>, Error> {
        let term = index_term(thread);
        let index = Filter { index: term.index, term: term.term };
        let page = self.feed(request.caller, session).read_filtered(&index, Cursor::START, 16).await;
        let page = page.map_err(|error| Error::unavailable(error.to_string()))?;
        let page = read(page, session, &EventFilter::default())?;
        Ok(page.events.into_iter().find(|event| event.fact.ids.thread() == Some(thread)))
    }

    /// The latest of what a session's feed says after a position, in order.
    pub(super) async fn events_lately(
        &self,
        request: &super::Request<'_>,
        session: &SessionId,
        after: Cursor,
    ) -> Result<Vec<Event>, Error> {
        // Whoever ends last says so last; only what else goes on in the session comes between.
        const LATELY: usize = 256;
        let end = self.end_of_feed(request, session).await?;
        let page = self.feed(request.caller, session).read_before(end, LATELY).await;
        let page = page.map_err(|error| Error::unavailable(error.to_string()))?;
        let mut events = read(page, session, &EventFilter::default())?.events;
        events.retain(|event| event.cursor > after);
        Ok(events)
    }

    /// The fact with which a turn begins.
    pub(super) async fn first_event_of(
        &self,
        request: &super::Request<'_>,
        session: &SessionId,
        turn: &TurnId,
    ) -> Result<Option<Event>, Error> {
        let filter = EventFilter { turn: Some(turn.clone()), ..EventFilter::default() };
        let mut after = Cursor::START;
        loop {
            let page = self.events(request.caller, session, after, 8, &filter).await?;
            if let Some(event) = page.events.into_iter().next() {
                return Ok(Some(event));
            }
            if !page.more {
                return Ok(None);
            }
            after = page.cursor;
        }
    }

    /// Follows a session's feed from a position.
    pub fn follow(&self, caller: &Caller, session: &SessionId, after: Cursor, filter: EventFilter) -> Follow {
        let cluster = &self.settings.host.cluster;
        let feed = self.feed(caller, session);
        let mut tail = Tail::new(feed, cluster, self.bus.clone(), after, TailConfig::default());
        if let Some(index) = filter.index() {
            tail = tail.filtered(index);
        }
        Follow { tail, session: session.clone(), filter }
    }
}

fn read(page: Page, session: &SessionId, filter: &EventFilter) -> Result<EventPage, Error> {
    let events = page.events.into_iter().map(|event| {
        let stored = StoredEvent::decode(&event.body).map_err(|error| {
            tracing::warn!(%session, cursor = %event.cursor, "an event cannot be read");
            undecodable(error)
        })?;
        Ok(stored.at(session.clone(), event.cursor))
    });
    let events = events.collect::<Result<Vec<Event>, Error>>()?;
    let mut events: Vec<Event> = events.into_iter().filter(|event| filter.passes(event)).collect();
    if page.more && is_on(Sabotage::PageCutShort) {
        events.pop();
    }
    let gap = page.gap.map(|gap| (gap.from, gap.to));
    Ok(EventPage { events, cursor: page.cursor, more: page.more, gap })
}
