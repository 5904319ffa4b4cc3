//! P4: each reader saw what is in the feed, once, in order.

use super::{super::remains::Remains, Check};

impl Check {
    pub(super) fn readers(&mut self, remains: &Remains) {
        for (number, seen) in remains.readers.iter().enumerate() {
            let Some(session) = remains.own().find(|session| session.id == seen.session.as_str()) else {
                self.expect(4, seen.events.is_empty(), || format!("reader {number} saw what is not there"));
                continue;
            };
            // What came after it was told to stop, it need not have seen.
            let expected = session.events.iter().filter(|event| seen.filter.passes(event));
            let expected: Vec<_> = expected.filter(|event| !is_of_the_end(event)).collect();
            let found: Vec<_> = seen.events.iter().filter(|event| !is_of_the_end(event)).collect();
            self.expect(4, found == expected, || {
                let differs = found.iter().zip(&expected).position(|(seen, stored)| seen != stored);
                format!(
                    "reader {number} of {} saw {} of {} events, first difference at {differs:?}",
                    seen.session,
                    found.len(),
                    expected.len()
                )
            });
        }
    }
}

/// Whether an event comes from the exports that the checks themselves make.
fn is_of_the_end(event: &crate::fact::Event) -> bool {
    matches!(event.fact.payload, crate::fact::Payload::EvidenceChanged(_))
}
