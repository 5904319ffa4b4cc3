//! What readers saw, and what is left of the feeds.

use std::collections::BTreeSet;

use super::{
    super::{
        bank::{self, Account, LEDGER},
        history::Appended,
        janitor::Swept,
        reader::Seen,
        record::Recorded,
        tree::FOREST,
        workload::TENANT,
    },
    Check, Remains, states,
};
use crate::{
    feed::{Cursor, Event, Gap, Term},
    host::Entity,
    keys,
    store::KeyValue,
};

/// A feed in the end.
pub(in super::super) struct Kept {
    pub feed: &'static str,
    pub appended: Vec<Appended>,
    /// How far it is trimmed.
    pub trimmed_to: Option<Cursor>,
    pub events: Vec<Event>,
    /// The keys of its index entries.
    pub index: Vec<KeyValue>,
}

impl Kept {
    fn remaining(&self) -> impl Iterator<Item = &Appended> {
        self.appended.iter().filter(|appended| Some(appended.event.cursor) > self.trimmed_to)
    }
}

impl Check {
    /// P4: each reader saw what the feed got after its start, once, in order, but for what it was told to be gone.
    pub(super) fn readers(&mut self, remains: &Remains) {
        for (number, seen) in remains.readers.iter().enumerate() {
            let feed = remains.feeds.iter().find(|kept| kept.feed == seen.reading.feed);
            let feed = &feed.expect("every feed that is read is kept").appended;
            let expected: Vec<&Event> = expected(seen, feed).collect();
            let same = seen.events.iter().eq(expected.iter().copied());
            self.expect(4, same, || {
                let differs = seen.events.iter().zip(&expected).position(|(seen, stored)| seen != *stored);
                format!(
                    "reader {number} of {:?} saw {} of {} events, first difference at {differs:?}",
                    seen.reading,
                    seen.events.len(),
                    expected.len()
                )
            });
            for (stood, gap) in &seen.gaps {
                self.gap(number, *stood, gap, feed, &remains.swept);
            }
            if let (Some(snapshot), LEDGER) = (&seen.snapshot, seen.reading.feed) {
                self.snapshot_and_tail(number, &snapshot.entities, &seen.events, &remains.accounts);
            }
        }
    }

    /// P4: a gap begins where the reader stood, ends with an event that it hides, and goes no further than a janitor
    /// wanted.
    fn gap(&mut self, number: usize, stood: Cursor, gap: &Gap, feed: &[Appended], swept: &[Swept]) {
        let wanted = swept.iter().flat_map(|swept| &swept.asked).any(|asked| gap.to <= *asked);
        let hides = gap.from < gap.to && feed.iter().any(|appended| appended.event.cursor == gap.to);
        self.expect(4, gap.from == stood && wanted && hides, || {
            format!("reader {number} stood at {stood} and was told of {gap:?}")
        });
    }

    /// P4, P5: a snapshot and the tail after it give what is served in the end.
    fn snapshot_and_tail(
        &mut self,
        number: usize,
        snapshot: &[KeyValue],
        tail: &[Event],
        stored: &[KeyValue],
    ) {
        let mut folded = states::<Account>(snapshot);
        for event in tail {
            let recorded = Recorded::<bank::Fact>::read(event);
            Account::apply(&mut folded.entry(recorded.who).or_default().1, &recorded.fact);
        }
        let stored = states::<Account>(stored);
        let same =
            folded.iter().all(|(who, (_, state))| stored.get(who).is_some_and(|(_, known)| known == state));
        self.expect(4, same && folded.len() == stored.len(), || {
            format!("snapshot and tail of reader {number} do not add up to what is stored")
        });
    }

    /// P4: a feed holds what it got and nobody trimmed, and its index holds the same.
    pub(super) fn feeds(&mut self, feeds: &[Kept], swept: &[Swept]) {
        for kept in feeds {
            let swept = || swept.iter().filter(|_| kept.feed == FOREST);
            let known = swept().flat_map(|swept| &swept.done).max().copied();
            let asked = swept().flat_map(|swept| &swept.asked).max().copied();
            self.expect(4, known <= kept.trimmed_to && kept.trimmed_to <= asked, || {
                format!("{} is trimmed to {:?}, not {known:?} to {asked:?}", kept.feed, kept.trimmed_to)
            });
            self.expect(4, kept.remaining().map(|appended| &appended.event).eq(&kept.events), || {
                format!("{} holds {} of {} events", kept.feed, kept.events.len(), kept.remaining().count())
            });
            let entries = kept.remaining().flat_map(|Appended { terms, place, .. }| {
                let entry = |term: &Term| {
                    let prefix = keys::index(TENANT, kept.feed, &term.index, &term.term);
                    [&prefix[..], &place[..]].concat()
                };
                terms.iter().map(entry)
            });
            let entries: BTreeSet<Vec<u8>> = entries.collect();
            let stored: BTreeSet<Vec<u8>> = kept.index.iter().map(|pair| pair.key.to_vec()).collect();
            self.expect(4, entries == stored, || {
                let missing = entries.difference(&stored).count();
                let orphans = stored.difference(&entries).count();
                format!("{missing} index entries of {} are missing, {orphans} lead nowhere", kept.feed)
            });
        }
    }
}

/// What a reader should have seen.
fn expected<'a>(seen: &'a Seen, feed: &'a [Appended]) -> impl Iterator<Item = &'a Event> {
    let start = seen.snapshot.as_ref().map(|snapshot| snapshot.cursor);
    let passes = |appended: &&Appended| {
        seen.reading.filter.as_ref().is_none_or(|filter| {
            appended.terms.iter().any(|term| term.index == filter.index && term.term == filter.term)
        })
    };
    let is_gone = |cursor: Cursor| seen.gaps.iter().any(|(_, gap)| gap.from < cursor && cursor <= gap.to);
    feed.iter()
        .filter(passes)
        .map(|appended| &appended.event)
        .filter(move |event| Some(event.cursor) > start && !is_gone(event.cursor))
}
