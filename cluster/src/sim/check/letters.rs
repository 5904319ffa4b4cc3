//! What cannot be applied, and where it is put.

use std::collections::BTreeMap;

use super::{
    super::{
        bank::{Fact, cursed},
        record::Recorded,
        workload::Exploded,
    },
    Check,
};
use crate::{
    address::Address,
    codec,
    host::DeadLetter,
    keys,
    store::{KeyValue, Stamp},
};

/// A dead letter as it is stored.
pub(in super::super) struct Letter {
    who: Address,
    stamp: Stamp,
    letter: DeadLetter,
}

impl Letter {
    pub fn read(pair: &KeyValue) -> Self {
        Self {
            who: keys::dead_letter_owner(&pair.key).expect("a range of dead letters holds those"),
            stamp: keys::stamp_of(&pair.key).expect("a dead letter's key is stamped").0,
            letter: codec::decode(&pair.value).expect("a dead letter is stored as one"),
        }
    }

    /// What it is about, as far as its reason tells.
    fn what(&self) -> &str {
        let reason = &self.letter.reason;
        let what = reason.find("cursed <").map_or(reason.as_str(), |at| &reason[at..]);
        what.split_inclusive('>').next().unwrap_or_default()
    }
}

impl Check {
    /// P6, P9: what cannot be applied is put aside with the entity it was for, a message once, and nothing else is.
    pub(super) fn letters(&mut self, letters: &[Letter], exploded: &[Exploded], ledger: &[Recorded<Fact>]) {
        /// A call of five seconds tries at most three times in vain, and the bus doubles what it carries; the rest
        /// is for steps of which nobody knows whether they committed.
        const LETTERS_PER_CALL_MAX: u64 = 16;
        let mut stamps: BTreeMap<(&Address, &str, String), Vec<Stamp>> = BTreeMap::new();
        for letter in letters {
            let about = (&letter.who, letter.letter.input.as_str(), letter.what().to_owned());
            stamps.entry(about).or_default().push(letter.stamp);
        }
        for recorded in ledger {
            let Fact::CurseSent { op, to } = &recorded.fact else { continue };
            let times = stamps.remove(&(to, "message", cursed(op))).map_or(0, |stamps| stamps.len());
            self.expect(6, times == 1, || format!("the curse {op} was put aside {times} times at {to}"));
        }
        for Exploded { who, op, calls } in exploded {
            // A command that is not known to be put aside is sent again: once or more, one step at a time.
            let mut stamps = stamps.remove(&(who, "command", cursed(op))).unwrap_or_default();
            let times = stamps.len();
            self.expect(2, times > 0, || format!("{op} is said to be put aside at {who} and is not"));
            self.expect(9, times as u64 <= calls * LETTERS_PER_CALL_MAX, || {
                format!("{op} was put aside {times} times in {calls} calls")
            });
            stamps.dedup();
            self.expect(6, stamps.len() == times, || format!("{op} was put aside twice by one step"));
        }
        self.expect(6, stamps.is_empty(), || format!("put aside: {:?}", stamps.keys()));
    }
}
