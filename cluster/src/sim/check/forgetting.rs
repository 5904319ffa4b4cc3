//! Idempotency keys: what they keep apart while they are remembered, and that they are forgotten.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{
    super::{bank::Fact, env::SKEW_MAX, record::Recorded},
    Check, Remains,
};
use crate::{
    clock::Timestamp,
    codec::{self, Stored},
    keys,
};

/// An expiry list as the store has it.
#[derive(Serialize, Deserialize)]
struct Listed {
    keys: Vec<String>,
}

impl Stored for Listed {
    const NAME: &'static str = "expiry list";
    const VERSION: u8 = 1;
}

impl Check {
    /// P3: the same key has one effect and one answer, as long as it is remembered. How long that is, the clocks of
    /// its owners say, each in its way.
    pub(super) fn once(&mut self, remains: &Remains, ledger: &[Recorded<Fact>]) {
        let mut done: BTreeMap<&str, Timestamp> = BTreeMap::new();
        for recorded in ledger {
            let (op, true) = recorded.fact.op() else { continue };
            if let Some(before) = done.insert(op, recorded.at) {
                let over = recorded.at.after(2 * SKEW_MAX) >= before.after(remains.keys_ttl);
                self.expect(3, over, || format!("{op} was done at {before} and again at {}", recorded.at));
            }
        }
        for contradiction in &remains.log.contradictions {
            self.broken(3, contradiction.clone());
        }
        // A refusal that is forgotten may become something else.
        for told in remains.log.told.iter().filter(|_| !remains.forgets) {
            let holds = told.answer.is_ok() || !done.contains_key(told.command.op());
            self.expect(3, holds, || format!("refused and yet done: {told:?}"));
        }
    }

    /// P9: what is recorded under keys is on a list of what expires, and gone when that is over.
    pub(super) fn forgetting(&mut self, remains: &Remains) {
        let recorded: BTreeSet<_> = remains.answers.iter().map(|pair| pair.key.clone()).collect();
        let mut listed = BTreeSet::new();
        for pair in &remains.expiries {
            let who = keys::expiry_owner(&pair.key).expect("a range of expiry lists holds those");
            let list: Listed = codec::decode(&pair.value).expect("an expiry list is stored as one");
            listed.extend(list.keys.iter().map(|key| keys::idempotency(&who, key)));
        }
        self.expect(9, recorded == listed, || {
            let leaked = recorded.difference(&listed).count();
            let gone = listed.difference(&recorded).count();
            format!("{leaked} recorded answers never expire, {gone} are gone before")
        });
        let left = if remains.forgets { recorded.len() } else { 0 };
        self.expect(9, left == 0, || format!("{left} answers are kept past their time"));
        for op in &remains.log.unforgotten {
            self.broken(9, format!("the key of {op} is remembered past its time"));
        }
    }
}
