//! What the threads of a session have in common: room.
//!
//! A session may have many threads, each with a long queue and turns at work, under ids of 128 characters that their
//! caller chose. Limits on each of these alone would have to be so low that ordinary sessions met them, or else all of
//! them together would not fit into a record. So there is one limit on the length of all threads, and an order in which
//! things are left out when it is passed: steps and text of turns that were not heard of for long, then turns that have
//! not begun, then questions, then the rest of the queue, then boundaries that do not count now. Totals stay, and so does how each thread stands.

use super::{bound, thread::ThreadView, turn::TurnView};
use crate::fact::{Fact, payload::Payload};

/// How many turns are told of with their steps and text; others only with totals.
pub(super) const DETAILED_TURNS_MAX: usize = 8;
/// How long the threads of a session may be as JSON: a little less than half of a record. Threads alone, without turns, are never longer.
pub(super) const THREADS_BYTES_MAX: usize = 46 * 1024;
/// Fewer open turns and threads than these are never too long, and are not measured.
const TURNS_MEASURED: usize = 3;
const THREADS_MEASURED: usize = 5;
const PENDING_MEASURED: usize = 5;
const QUEUE_MEASURED: usize = 17;

/// Leaves out what there is no room for, after a fact was taken in.
pub(super) fn keep_small(threads: &mut [ThreadView], fact: &Fact) {
    let detailed = threads.iter().flat_map(|thread| &thread.turns).filter(|turn| turn.has_detail()).count();
    if detailed > DETAILED_TURNS_MAX {
        shed_quietest(threads, Some(fact));
    }
    if !may_be_long(threads, fact) {
        return;
    }
    while bound::json_len(&threads) > THREADS_BYTES_MAX {
        let left_out = shed_quietest(threads, Some(fact))
            || forget_waiting_turn(threads)
            || shed_quietest(threads, None)
            || forget_question(threads)
            || forget_queued(threads)
            || forget_boundary(threads)
            || forget_turn(threads);
        if !left_out {
            return;
        }
    }
}

fn may_be_long(threads: &[ThreadView], fact: &Fact) -> bool {
    // Text only takes the place of what was counted before.
    if matches!(fact.payload, Payload::ReasoningDelta(_) | Payload::ToolArgs(_)) {
        return false;
    }
    let turns = || threads.iter().flat_map(|thread| &thread.turns);
    threads.len() >= THREADS_MEASURED
        || turns().count() >= TURNS_MEASURED
        || turns().map(|turn| turn.pending_requests.len()).sum::<usize>() >= PENDING_MEASURED
        || threads.iter().map(|thread| thread.queue.len()).sum::<usize>() >= QUEUE_MEASURED
}

/// The turn with steps or text that was not heard of for longest; not the one that the fact is about.
fn shed_quietest(threads: &mut [ThreadView], but: Option<&Fact>) -> bool {
    let turns = threads.iter_mut().flat_map(|thread| &mut thread.turns);
    let about = but.and_then(|fact| fact.ids.turn());
    let quietest = turns
        .filter(|turn| turn.has_detail() && about != Some(&turn.turn_id))
        .min_by_key(|turn| turn.updated_at);
    quietest.map(TurnView::shed).is_some()
}

/// The last turn that has not begun, of the thread that has most turns. It is told of again when it begins.
fn forget_waiting_turn(threads: &mut [ThreadView]) -> bool {
    let waiting = |thread: &ThreadView| thread.turns.iter().rposition(|turn| !turn.is_active());
    let longest =
        threads.iter_mut().filter(|thread| waiting(thread).is_some()).max_by_key(|thread| thread.turns.len());
    let Some(thread) = longest else { return false };
    let Some(index) = waiting(thread) else { return false };
    let turn = thread.turns.remove(index);
    // It waits all the same, and the thread must go on saying so.
    if !thread.queue.contains(&turn.turn_id) {
        thread.queue_omitted = thread.queue_omitted.saturating_add(1);
    }
    true
}

/// The last question of the turn that has most.
fn forget_question(threads: &mut [ThreadView]) -> bool {
    let turns = threads.iter_mut().flat_map(|thread| &mut thread.turns);
    turns.max_by_key(|turn| turn.pending_requests.len()).is_some_and(TurnView::forget_last_pending)
}

/// The end of the longest queue.
fn forget_queued(threads: &mut [ThreadView]) -> bool {
    let Some(thread) = threads.iter_mut().max_by_key(|thread| thread.queue.len()) else { return false };
    let forgotten = thread.queue.pop().is_some();
    thread.queue_omitted = thread.queue_omitted.saturating_add(u32::from(forgotten));
    forgotten
}

/// The oldest boundary of the thread that has most.
fn forget_boundary(threads: &mut [ThreadView]) -> bool {
    let most = threads.iter_mut().max_by_key(|thread| thread.boundaries.len());
    most.is_some_and(ThreadView::forget_boundary)
}

/// The last turn of the thread that has most, though it has begun: its end will be told of.
fn forget_turn(threads: &mut [ThreadView]) -> bool {
    let longest = threads.iter_mut().max_by_key(|thread| thread.turns.len());
    longest.is_some_and(|thread| thread.turns.pop().is_some())
}
