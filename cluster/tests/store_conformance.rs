//! The conformance suite can fail: every defect that a driver may have is found by the claims about it.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use async_trait::async_trait;
use bytes::Bytes;
use cadre_cluster::{
    sim::{Dice, Lifeline},
    store::{
        Commit, CommitError, Committed, Driver, KeyRange, Mutation, Page, RangeRead, ReadError, Session,
        Stamp, Store, Transaction, Version, conformance::CLAIMS, key_after, simulated::SimStore,
    },
};

/// What a driver gets wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Defect {
    None,
    /// Last writer wins.
    MindsNoReads,
    /// Keys are checked, the gaps between them are not.
    MindsOnlyKeys,
    /// A whole range is minded where a page was read.
    MindsTooMuch,
    /// Every read sees the latest version.
    ReadsAtManyVersions,
    /// What was just confirmed is not visible yet.
    ReadsStaleVersions,
    /// A commit becomes visible in two halves.
    CommitsInParts,
    IncludesTheEnd,
    IgnoresReverse,
    IgnoresTargetBytes,
    /// A page that is not the last one says it is.
    ForgetsMore,
    /// Adding is reading and writing.
    AddsBySetting,
    /// The stamp in the store is not the one in the answer.
    AnswersAnotherStamp,
    /// An empty value is stored as no value.
    DropsEmptyValues,
    AppliesClearsLast,
}

struct Defective {
    inner: Store,
    defect: Defect,
    stale: Arc<tokio::sync::Mutex<Option<Transaction>>>,
}

impl Driver for Defective {
    fn name(&self) -> &'static str {
        "defective"
    }

    fn session(&self) -> Box<dyn Session> {
        Box::new(DefectiveSession {
            inner: self.inner.clone(),
            tx: tokio::sync::OnceCell::new(),
            defect: self.defect,
            stale: self.stale.clone(),
        })
    }
}

struct DefectiveSession {
    inner: Store,
    tx: tokio::sync::OnceCell<Transaction>,
    defect: Defect,
    stale: Arc<tokio::sync::Mutex<Option<Transaction>>>,
}

impl DefectiveSession {
    async fn tx(&self) -> Result<&Transaction, ReadError> {
        let begin = || async {
            let new = self.inner.begin();
            new.read_version().await?;
            if self.defect != Defect::ReadsStaleVersions {
                return Ok(new);
            }
            Ok(self.stale.lock().await.replace(new).unwrap_or_else(|| self.inner.begin()))
        };
        self.tx.get_or_try_init(begin).await
    }
}

#[async_trait]
impl Session for DefectiveSession {
    async fn read_version(&self) -> Result<Version, ReadError> {
        self.tx().await?.read_version().await
    }

    async fn get(&self, key: &[u8]) -> Result<Option<Bytes>, ReadError> {
        if self.defect == Defect::ReadsAtManyVersions {
            return self.inner.begin().snapshot_get(key).await;
        }
        self.tx().await?.snapshot_get(key).await
    }

    async fn range(&self, read: &RangeRead) -> Result<Page, ReadError> {
        let mut read = read.clone();
        match self.defect {
            Defect::IncludesTheEnd => read.range.end = key_after(&read.range.end),
            Defect::IgnoresReverse => read.reverse = false,
            Defect::IgnoresTargetBytes => read.target_bytes = usize::MAX,
            Defect::ReadsAtManyVersions => return self.inner.begin().snapshot_range(&read).await,
            _ => {}
        }
        let page = self.tx().await?.snapshot_range(&read).await?;
        Ok(if self.defect == Defect::ForgetsMore { Page { more: false, ..page } } else { page })
    }

    async fn commit(mut self: Box<Self>, commit: Commit) -> Result<Committed, CommitError> {
        let Commit { mut reads, mut mutations } = commit;
        if !reads.is_empty() {
            self.tx().await?;
        }
        let mut tx = self.tx.take().unwrap_or_else(|| self.inner.begin());
        match self.defect {
            Defect::MindsNoReads => reads.clear(),
            Defect::MindsOnlyKeys => reads.retain(|range| range.end == key_after(&range.begin)),
            Defect::MindsTooMuch => {
                let wider = |read: &KeyRange| KeyRange::new(read.begin.clone(), &b"\xff"[..]);
                reads = reads.iter().map(wider).collect();
            }
            Defect::CommitsInParts if mutations.len() > 1 => {
                let mut first = self.inner.begin();
                mutations.drain(..1).for_each(|mutation| first.write(mutation));
                first.commit().await?;
                tokio::task::yield_now().await;
            }
            Defect::AddsBySetting => {
                for mutation in &mut mutations {
                    if let Mutation::Add { key, delta } = mutation {
                        let value = Mutation::added(tx.get(key).await?.as_deref(), *delta);
                        *mutation = Mutation::Set { key: key.clone(), value };
                    }
                }
            }
            Defect::DropsEmptyValues => mutations.iter_mut().for_each(|mutation| {
                if let Mutation::Set { key, value } = mutation
                    && value.is_empty()
                {
                    *mutation = Mutation::Clear { key: key.clone() };
                }
            }),
            Defect::AppliesClearsLast => {
                mutations.sort_by_key(|mutation| matches!(mutation, Mutation::ClearRange { .. }));
            }
            _ => {}
        }
        reads.into_iter().for_each(|read| tx.add_read_conflict(read));
        mutations.into_iter().for_each(|mutation| tx.write(mutation));
        let mut committed = tx.commit().await?;
        if self.defect == Defect::AnswersAnotherStamp {
            committed.stamp = Stamp::last_of(committed.version());
        }
        Ok(committed)
    }
}

fn refutes(defect: Defect, name: &str) -> bool {
    let (_, claim) = CLAIMS.iter().find(|(known, _)| *known == name).expect("a claim of that name");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let inner = SimStore::new(Dice::new(1)).connect(Lifeline::new("node"));
    let store = Store::new(Defective { inner, defect, stale: Arc::default() });
    let put = AssertUnwindSafe(|| {
        runtime.expect("a runtime without I/O starts").block_on(claim(&store, b"prefix/"))
    });
    !matches!(catch_unwind(put), Ok(Ok(())))
}

#[track_caller]
fn assert_found(defect: Defect, claims: &[&str]) {
    for claim in claims {
        assert!(refutes(defect, claim), "{defect:?} passes {claim}");
    }
}

#[test]
fn a_store_without_defects_refutes_nothing() {
    for (claim, _) in CLAIMS {
        assert!(!refutes(Defect::None, claim), "{claim}");
    }
}

#[test]
fn conflicts_that_go_unnoticed_are_found() {
    assert_found(
        Defect::MindsNoReads,
        &[
            "a_lost_update_is_refused",
            "write_skew_is_refused",
            "an_insert_into_a_range_that_was_read_is_refused",
            "a_cleared_range_over_what_was_read_is_refused",
            "adds_and_stamps_into_what_was_read_are_refused",
            "a_transaction_that_conflicts_writes_nothing",
            "an_added_read_conflict_is_minded",
            "no_increment_of_a_counter_is_lost",
            "transfers_keep_their_sum_in_stamp_order",
        ],
    );
    assert_found(
        Defect::MindsOnlyKeys,
        &["an_insert_into_a_range_that_was_read_is_refused", "an_added_read_conflict_is_minded"],
    );
}

#[test]
fn conflicts_that_are_none_are_found() {
    assert_found(
        Defect::MindsTooMuch,
        &["a_page_minds_what_it_covers_and_no_more", "an_added_read_conflict_is_minded"],
    );
    assert_found(Defect::AddsBySetting, &["adds_do_not_conflict"]);
}

#[test]
fn torn_moving_and_stale_views_are_found() {
    assert_found(
        Defect::ReadsAtManyVersions,
        &["a_transaction_reads_at_one_version_throughout", "a_read_version_bounds_the_stamps_in_sight"],
    );
    assert_found(
        Defect::ReadsStaleVersions,
        &["what_begins_after_a_confirmed_commit_sees_it", "the_last_of_several_writes_wins"],
    );
    assert_found(Defect::CommitsInParts, &["a_commit_is_seen_whole_or_not_at_all"]);
}

#[test]
fn wrong_pages_are_found() {
    assert_found(Defect::IncludesTheEnd, &["limits_count_from_the_side_asked_for"]);
    assert_found(Defect::IgnoresReverse, &["limits_count_from_the_side_asked_for"]);
    assert_found(Defect::IgnoresTargetBytes, &["pages_are_bounded_by_bytes_and_never_empty"]);
    assert_found(Defect::ForgetsMore, &["pages_are_bounded_by_bytes_and_never_empty"]);
}

#[test]
fn wrong_writes_are_found() {
    assert_found(Defect::AnswersAnotherStamp, &["stamps_land_in_keys_and_values_where_asked"]);
    assert_found(Defect::DropsEmptyValues, &["an_empty_value_is_a_value"]);
    assert_found(Defect::AppliesClearsLast, &["writes_of_one_transaction_apply_in_order"]);
}
