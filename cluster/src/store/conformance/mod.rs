//! What every driver has to do, as claims that can be put to any store.
//!
//! A claim is a function over a store and a prefix of its own. It panics when the store refutes it, and gives
//! the error back when the store could not be asked: on a store without faults that is a failure as well, on
//! one with faults the claim is put again under a fresh prefix. Claims use neither virtual time nor any
//! randomness but their own, and stay within what FoundationDB allows.
//!
//! A driver's test file makes one test of each:
//!
//! ```ignore
//! fn run(name: &str, claim: conformance::Claim) {
//!     // Open a store, and expect `claim(&store, prefix).await` to be `Ok`.
//! }
//! cadre_cluster::store_conformance!(run);
//! ```

#![allow(clippy::unwrap_used, reason = "a claim that does not hold is shown by a panic")]

pub mod basics;
pub mod conflicts;
pub mod limits;
pub mod own_writes;
pub mod ranges;
pub mod stamps;
pub mod stress;
pub mod versions;

use bytes::Bytes;
use futures::{TryStreamExt, future::BoxFuture};
use tokio::task::JoinSet;

use super::{
    Attempt, CommitError, Committed, KeyRange, KeyValue, RangeRead, ReadError, Store, Transaction, key_after,
};

/// What putting a claim came to when nothing refuted it.
pub type Outcome = Result<(), CommitError>;

/// A claim, to be put to a store under a prefix that nobody else uses.
pub type Claim = for<'a> fn(&'a Store, &'a [u8]) -> BoxFuture<'a, Outcome>;

/// Calls a macro with every claim: the one list of them all.
#[doc(hidden)]
#[macro_export]
macro_rules! __each_store_claim {
    ($then:ident $($argument:tt)*) => {
        $crate::$then! {
            [$($argument)*]
            basics::a_key_holds_what_was_set,
            basics::a_key_never_set_holds_nothing,
            basics::the_last_of_several_writes_wins,
            basics::a_cleared_key_is_gone,
            basics::an_empty_value_is_a_value,
            basics::binary_keys_keep_their_bytes_and_order,
            basics::neighbouring_prefixes_do_not_bleed,
            basics::a_dropped_transaction_writes_nothing,
            basics::writes_of_one_transaction_apply_in_order,
            basics::adds_count_from_nothing_wrap_and_keep_eight_bytes,
            own_writes::own_sets_and_clears_are_read_back,
            own_writes::own_adds_are_read_back,
            own_writes::ranges_show_own_writes_over_stored_ones,
            own_writes::what_was_cleared_here_is_skipped_not_paged_through,
            own_writes::what_one_read_here_is_what_is_stored_afterwards,
            conflicts::a_lost_update_is_refused,
            conflicts::write_skew_is_refused,
            conflicts::an_insert_into_a_range_that_was_read_is_refused,
            conflicts::a_cleared_range_over_what_was_read_is_refused,
            conflicts::adds_and_stamps_into_what_was_read_are_refused,
            conflicts::a_transaction_that_conflicts_writes_nothing,
            conflicts::an_added_read_conflict_is_minded,
            conflicts::a_page_minds_what_it_covers_and_no_more,
            conflicts::snapshot_reads_do_not_conflict,
            conflicts::blind_writes_do_not_conflict,
            conflicts::reads_of_own_writes_do_not_conflict,
            conflicts::read_only_transactions_do_not_conflict,
            conflicts::adds_do_not_conflict,
            versions::a_transaction_reads_at_one_version_throughout,
            versions::first_reads_made_at_once_see_one_version,
            versions::what_begins_after_a_confirmed_commit_sees_it,
            versions::a_commit_is_seen_whole_or_not_at_all,
            versions::a_read_only_commit_is_at_its_read_version,
            stamps::stamps_increase_in_commit_order,
            stamps::stamps_land_in_keys_and_values_where_asked,
            stamps::a_read_version_bounds_the_stamps_in_sight,
            stamps::stamps_become_visible_in_their_order,
            ranges::an_empty_or_inverted_range_or_no_limit_gives_nothing,
            ranges::limits_count_from_the_side_asked_for,
            ranges::pages_are_bounded_by_bytes_and_never_empty,
            ranges::a_big_range_streams_both_ways_in_bounded_pages,
            ranges::many_keys_are_cleared_at_once_and_written_again,
            limits::the_longest_key_and_value_are_held,
            limits::a_key_too_long_is_refused_with_everything_beside_it,
            limits::a_value_too_long_is_refused_with_everything_beside_it,
            limits::a_transaction_too_large_is_refused_whole,
            stress::adds_made_at_once_sum_up,
            stress::no_increment_of_a_counter_is_lost,
            stress::transfers_keep_their_sum_in_stamp_order,
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __store_claim_table {
    ([] $($module:ident :: $claim:ident,)*) => {
        &[$((stringify!($claim), |store, prefix| Box::pin($module::$claim(store, prefix)))),*]
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __store_claim_tests {
    ([$run:path] $($module:ident :: $claim:ident,)*) => {
        $(
            #[test]
            fn $claim() {
                $run(stringify!($claim), |store, prefix| {
                    Box::pin($crate::store::conformance::$module::$claim(store, prefix))
                });
            }
        )*
    };
}

/// Makes a test of every claim. Each calls the function given with the claim's name and the
/// [`Claim`](crate::store::conformance::Claim).
#[macro_export]
macro_rules! store_conformance {
    ($run:path) => {
        $crate::__each_store_claim! { __store_claim_tests $run }
    };
}

/// Every claim by its name.
pub const CLAIMS: &[(&str, Claim)] = __each_store_claim! { __store_claim_table };

/// Puts every claim, one after another.
pub async fn all(store: &Store, prefix: &[u8]) -> Outcome {
    for (name, claim) in CLAIMS {
        claim(store, &[prefix, name.as_bytes(), b"/"].concat()).await?;
    }
    Ok(())
}

/// A key under the claim's prefix.
fn key(prefix: &[u8], rest: impl AsRef<[u8]>) -> Bytes {
    [prefix, rest.as_ref()].concat().into()
}

/// Everything under the claim's prefix.
fn all_of(prefix: &[u8]) -> KeyRange {
    KeyRange::prefix(prefix.to_vec())
}

/// Commits what `write` does, again while it certainly was not written.
async fn commit(store: &Store, write: impl Fn(&mut Transaction)) -> Result<Committed, CommitError> {
    let mut attempt = Attempt::once();
    loop {
        let mut tx = store.begin();
        write(&mut tx);
        match tx.commit().await {
            Ok(committed) => return Ok(committed),
            Err(error) => attempt.again(error).await?,
        }
    }
}

/// Tries until it is clear what happened, for claims that hold either way: `None` is an unknown outcome.
async fn persist<F>(mut once: impl FnMut() -> F) -> Result<Option<Committed>, CommitError>
where
    F: Future<Output = Result<Committed, CommitError>>,
{
    let mut attempt = Attempt::once().failures_max(500);
    loop {
        match once().await {
            Ok(committed) => return Ok(Some(committed)),
            Err(CommitError::OutcomeUnknown) => return Ok(None),
            Err(error) => attempt.again(error).await?,
        }
    }
}

async fn set(store: &Store, key: &Bytes, value: &'static str) -> Result<Committed, CommitError> {
    commit(store, |tx| tx.set(key.clone(), value)).await
}

/// Reads a range to its end in a transaction of its own.
async fn read_all(store: &Store, range: KeyRange) -> Result<Vec<KeyValue>, CommitError> {
    let mut attempt = Attempt::once();
    loop {
        let read = RangeRead::new(range.clone());
        match store.begin().snapshot_stream(read).try_collect().await {
            Ok(pairs) => return Ok(pairs),
            Err(error) => attempt.again(ReadError::into(error)).await?,
        }
    }
}

/// Reads a range to its end page by page, minding all of it.
async fn read_through(tx: &Transaction, mut read: RangeRead) -> Result<Vec<KeyValue>, CommitError> {
    let mut pairs = Vec::new();
    loop {
        let page = tx.range(&read).await?;
        pairs.extend(page.pairs);
        match pairs.last() {
            Some(last) if page.more && read.reverse => read.range.end = last.key.clone(),
            Some(last) if page.more => read.range.begin = key_after(&last.key),
            _ => return Ok(pairs),
        }
    }
}

/// What all tasks gave back, or the first trouble.
async fn joined<T: 'static>(mut tasks: JoinSet<Result<T, CommitError>>) -> Result<Vec<T>, CommitError> {
    let mut all = Vec::with_capacity(tasks.len());
    while let Some(ended) = tasks.join_next().await {
        all.push(ended.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))?);
    }
    Ok(all)
}

/// What follows the prefix in each key.
fn names(prefix: &[u8], pairs: &[KeyValue]) -> Vec<Vec<u8>> {
    pairs.iter().map(|pair| pair.key[prefix.len()..].to_vec()).collect()
}

/// A commit that must have been refused as a conflict. Other trouble is given back.
fn assert_conflict(answer: Result<Committed, CommitError>, what: &str) -> Outcome {
    match answer {
        Err(CommitError::Conflict) => Ok(()),
        Err(trouble) => Err(trouble),
        Ok(committed) => panic!("{what} was committed at {}", committed.stamp),
    }
}
