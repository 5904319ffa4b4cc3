//! Every event of a session from one cursor to another, in bounded memory.

use cadre_cluster::feed::Cursor;

use crate::{
    control::Error,
    fact::{Event, id::SessionId},
    runtime::{EventFilter, Request, Runtime},
};

/// Events that are in memory at once.
const PAGE_EVENTS: usize = 500;

impl Runtime {
    /// Shows every event after one cursor and up to another, with whether something before it is missing. Says up to
    /// where history is no longer kept, when it is not.
    pub(in crate::runtime) async fn each_event(
        &self,
        request: &Request<'_>,
        session: &SessionId,
        mut after: Cursor,
        to: Cursor,
        mut look: impl FnMut(&Event, bool) -> Result<(), Error>,
    ) -> Result<Option<Cursor>, Error> {
        let mut trimmed = None;
        loop {
            if request.left().is_zero() {
                return Err(Error::deadline());
            }
            let filter = EventFilter::default();
            let page = self.events(request.caller, session, after, PAGE_EVENTS, &filter).await?;
            trimmed = trimmed.max(page.gap.map(|(_, to)| to));
            for event in &page.events {
                if event.cursor > to {
                    return Ok(trimmed);
                }
                look(event, trimmed.is_some())?;
            }
            if !page.more {
                return Ok(trimmed);
            }
            after = page.cursor;
        }
    }
}
