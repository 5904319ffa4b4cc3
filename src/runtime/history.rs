//! The commands about what later turns of a thread see of its past, and the records that they rest on.

use cadre_cluster::{
    codec, keys,
    store::{KeyRange, KeyValue, RangeRead, Transaction},
};
use futures::TryStreamExt;
use serde::{Deserialize, Serialize};

use super::{
    Request, Runtime,
    failure::{damaged, of_blob, undecodable, unexpected, unreadable},
};
use crate::{
    blob::BlobError,
    control::{
        Code, Error,
        args::{CompactContext, RollbackThread, SummaryText},
        check,
        result::{Answer, ContextCompacted, ThreadRolledBack},
    },
    entity::{
        Session, kind, records,
        session::{self, Command, Compaction, Reply, Rollback, Seen, at_rest},
    },
    fact::{
        id::{SessionId, ThreadId, TurnId},
        status::ThreadStatus,
    },
    view::{ThreadView, TurnView},
};

/// How many turns are looked at: those that are taken back at once, and the one that stays.
const LOOKED_AT_MAX: usize = *check::ROLLBACK_TURNS.end() as usize + 1;
/// Records that are read at once.
const PAGE: usize = 64;

/// What a rollback was found to be about when it was first asked for.
#[derive(Serialize, Deserialize)]
struct FoundRollback {
    rollback: Rollback,
    status: ThreadStatus,
    remaining: u64,
}

impl Runtime {
    pub(super) async fn rollback_thread(
        &self,
        request: &Request<'_>,
        args: RollbackThread,
    ) -> Result<Answer<ThreadRolledBack>, Error> {
        let session_id = args.session_id.clone();
        let found = match self.find_rollback(request, &args).await {
            Err(error) => {
                Err(self.not_own_thread(request, &session_id, args.thread_id.as_ref(), error).await)
            }
            found => found,
        };
        let found = settled(found)?;
        let FoundRollback { rollback, status, remaining } = self.first_found(request, found).await??;
        let result = ThreadRolledBack {
            session_id: session_id.clone(),
            thread_id: rollback.thread.clone(),
            status,
            turns: rollback.turns.iter().map(|(turn, _)| turn.clone()).collect(),
            remaining,
            to_turn_id: rollback.to.as_ref().map(|(turn, _)| turn.clone()),
        };
        if rollback.turns.is_empty() {
            return Ok(Answer::read(result));
        }
        let address = request.address(kind::SESSION, session_id.as_str());
        let command = Command::Rollback(Box::new(rollback));
        let called = self.ask::<Session>(request, &address, &command).await?;
        let Reply::Done = called.reply else { return Err(unexpected()) };
        Ok(Answer { result, cursor: called.cursor })
    }

    async fn find_rollback(
        &self,
        request: &Request<'_>,
        args: &RollbackThread,
    ) -> Result<FoundRollback, Error> {
        let tx = self.store.begin();
        let (state, work) = self.session(&tx, request, &args.session_id).await?;
        let thread = thread_at_rest(&state, &work, args.thread_id.as_ref())?;
        let left = thread.history_turns();
        let wanted = match (args.turns, &args.to_turn_id) {
            (Some(turns), _) if u64::from(turns) > left => {
                let message = format!("the history of the thread has only {left} turns, not {turns}");
                return Err(Error::invalid("turns", message));
            }
            (Some(turns), _) => Wanted::Number(turns as usize + 1),
            (None, Some(turn)) => Wanted::Turn(turn),
            (None, None) => return Err(Error::invalid("toTurnId", "is missing")),
        };
        let history = History { tx: &tx, request, session: &args.session_id, thread };
        let mut turns = self.last_turns(&history, &wanted).await?;
        // The last one that was looked at stays, unless all go.
        let stays = match wanted {
            Wanted::Number(number) => (turns.len() == number).then(|| turns.pop()).flatten(),
            Wanted::Turn(turn) if turns.last().is_some_and(|last| last.turn_id == *turn) => turns.pop(),
            Wanted::Turn(turn) => {
                return Err(self.not_there(&history, "toTurnId", turn, turns.len()).await?);
            }
        };
        turns.reverse();
        let gone = turns.len() as u64;
        let numbered = |turn: &TurnView| Some((turn.turn_id.clone(), turn.number?));
        let rollback = Rollback {
            thread: thread.thread_id.clone(),
            seen: Seen::of(thread),
            to: stays.as_ref().and_then(numbered),
            turns: turns.iter().filter_map(numbered).collect(),
            tool_calls: turns.iter().map(|turn| u64::from(turn.tool_calls_total)).sum(),
            reason: args.reason.clone(),
            by: request.by(),
        };
        let status = if gone > 0 { ThreadStatus::Idle } else { thread.status };
        Ok(FoundRollback { rollback, status, remaining: left.saturating_sub(gone) })
    }

    pub(super) async fn compact_context(
        &self,
        request: &Request<'_>,
        args: CompactContext,
    ) -> Result<Answer<ContextCompacted>, Error> {
        let session_id = args.session_id.clone();
        let thread = args.thread_id.clone();
        let found = match self.find_compaction(request, args).await {
            Err(error) => Err(self.not_own_thread(request, &session_id, thread.as_ref(), error).await),
            found => found,
        };
        let found = settled(found)?;
        let compaction = self.first_found(request, found).await??;
        let result = ContextCompacted {
            session_id: session_id.clone(),
            thread_id: compaction.thread.clone(),
            last_turn_id: compaction.last.clone(),
            turns: compaction.turns,
            first_turn_id: compaction.first.clone(),
        };
        let address = request.address(kind::SESSION, session_id.as_str());
        let command = Command::Compact(Box::new(compaction));
        let called = self.ask::<Session>(request, &address, &command).await?;
        let Reply::Done = called.reply else { return Err(unexpected()) };
        Ok(Answer { result, cursor: called.cursor })
    }

    async fn find_compaction(
        &self,
        request: &Request<'_>,
        args: CompactContext,
    ) -> Result<Compaction, Error> {
        let tx = self.store.begin();
        let (state, work) = self.session(&tx, request, &args.session_id).await?;
        let thread = thread_at_rest(&state, &work, args.thread_id.as_ref())?;
        if let SummaryText::Blob(blob) = &args.summary {
            match self.blobs.meta(&request.caller.tenant, blob).await {
                Ok(_) => {}
                Err(BlobError::NotFound { .. } | BlobError::Expired { .. }) => {
                    return Err(Error::not_found("blob", blob).with("field", "summary.ref"));
                }
                Err(error) => return Err(of_blob(error)),
            }
        }
        let history = History { tx: &tx, request, session: &args.session_id, thread };
        let wanted = args.up_to_turn_id.as_ref().map_or(Wanted::Number(1), Wanted::Turn);
        let looked_at = self.last_turns(&history, &wanted).await?;
        let is_meant = |turn: &&TurnView| args.up_to_turn_id.as_ref().is_none_or(|id| turn.turn_id == *id);
        let (last, number) = match (looked_at.last().filter(is_meant), &args.up_to_turn_id) {
            (Some(last), _) => (last.turn_id.clone(), last.number.unwrap_or(0)),
            (None, None) => {
                let message = format!("the history of the thread {} has no turns", thread.thread_id);
                return Err(Error::conflict(thread.status, message));
            }
            (None, Some(turn)) => {
                return Err(self.not_there(&history, "upToTurnId", turn, looked_at.len()).await?);
            }
        };
        if let Some(boundary) = thread.boundaries.last().map(|boundary| &boundary.last_turn_id)
            && *boundary != last
            && looked_at.iter().any(|turn| turn.turn_id == *boundary)
        {
            let message = format!(
                "a summary stands for the turns up to {boundary} already: roll back to before it, or sum up a later turn"
            );
            return Err(Error::conflict("compacted", message));
        }
        let after = looked_at.len().saturating_sub(1) as u64;
        Ok(Compaction {
            thread: thread.thread_id.clone(),
            seen: Seen::of(thread),
            first: self.first_turn(&history).await?,
            last,
            number,
            turns: u32::try_from(thread.history_turns().saturating_sub(after)).unwrap_or(u32::MAX),
            summary: args.summary,
            reason: args.reason,
            by: request.by(),
        })
    }

    /// The last turns of a history, the newest first: so many, or up to a certain one, but not more than are looked at.
    async fn last_turns(&self, history: &History<'_>, wanted: &Wanted<'_>) -> Result<Vec<TurnView>, Error> {
        let mut found: Vec<TurnView> = Vec::new();
        let mut at = history.thread.turn_count;
        while at > 0 {
            let page = history.page(at).await?;
            let back = history.back(&page).await?;
            let below = page.last().and_then(|turn| turn.number).unwrap_or(1);
            for turn in page {
                let Some(number) = turn.number.filter(|number| *number <= at) else { continue };
                // What was taken back leads to what was the last turn then.
                if let Some((_, back)) = back.iter().find(|(of, _)| *of == number) {
                    at = back.to;
                    continue;
                }
                let is_last = match wanted {
                    Wanted::Number(number) => found.len() + 1 >= *number,
                    Wanted::Turn(id) => turn.turn_id == **id,
                };
                found.push(turn);
                if is_last || found.len() >= LOOKED_AT_MAX {
                    return Ok(found);
                }
            }
            at = at.min(below.saturating_sub(1));
        }
        Ok(found)
    }

    /// The first turn of a history, when it is found at once.
    async fn first_turn(&self, history: &History<'_>) -> Result<Option<TurnId>, Error> {
        let first = history.turns(RangeRead::new(history.range(records::turns)).limit(PAGE)).await?;
        let back = history.back(&first).await?;
        let stays = |turn: &TurnView| back.iter().all(|(number, _)| Some(*number) != turn.number);
        Ok(first.into_iter().find(stays).map(|turn| turn.turn_id))
    }

    /// Why a turn is not among the last ones of a history.
    async fn not_there(
        &self,
        history: &History<'_>,
        field: &str,
        turn: &TurnId,
        looked_at: usize,
    ) -> Result<Error, Error> {
        self.known_turn(history.request, history.session, turn).await?;
        let thread = &history.thread.thread_id;
        Ok(match self.turn_end(history.request, history.session, turn).await? {
            Some((_, Some(other))) if other != *thread => {
                Error::invalid(field, format!("the turn {turn} is not of the thread {thread} but of {other}"))
            }
            _ if looked_at >= LOOKED_AT_MAX => {
                let message =
                    format!("is not one of the last {LOOKED_AT_MAX} turns: go back in several steps");
                Error::invalid(field, message)
            }
            Some(_) => {
                let message =
                    format!("the turn {turn} was taken back, and a history does not go forward again");
                Error::conflict("rolled_back", message)
            }
            None => Error::invalid(field, format!("the turn {turn} is not one of the session itself")),
        })
    }

    /// Says of turns that were taken back that they were.
    pub(super) async fn say_rolled_back(
        &self,
        tx: &Transaction,
        request: &Request<'_>,
        session: &SessionId,
        thread: &ThreadView,
        turns: &mut [TurnView],
    ) -> Result<(), Error> {
        let history = History { tx, request, session, thread };
        for (number, back) in history.back(turns).await? {
            if let Some(turn) = turns.iter_mut().find(|turn| turn.number == Some(number)) {
                turn.roll_back(back.at);
            }
        }
        Ok(())
    }

    /// The summary that stands for the beginning of a thread, whole, when it is kept here.
    pub(super) async fn summary_of(
        &self,
        tx: &Transaction,
        request: &Request<'_>,
        session: &SessionId,
        thread: &ThreadView,
    ) -> Result<Option<String>, Error> {
        let Some(boundary) = thread.boundaries.last() else { return Ok(None) };
        let path = records::summary(session, &thread.thread_id, &boundary.last_turn_id);
        let text = tx.snapshot_get(&keys::data(&request.caller.tenant, &path)).await.map_err(unreadable)?;
        text.map(|text| String::from_utf8(text.to_vec()).map_err(damaged)).transpose()
    }
}

/// Which turns are looked for.
enum Wanted<'a> {
    Number(usize),
    Turn(&'a TurnId),
}

/// The records of a thread's turns at one moment.
struct History<'a> {
    tx: &'a Transaction,
    request: &'a Request<'a>,
    session: &'a SessionId,
    thread: &'a ThreadView,
}

impl History<'_> {
    fn range(&self, records: fn(&SessionId, &ThreadId) -> Vec<u8>) -> KeyRange {
        let prefix = records(self.session, &self.thread.thread_id);
        KeyRange::prefix(keys::data(&self.request.caller.tenant, &prefix).to_vec())
    }

    /// Turns up to a number, the newest first.
    async fn page(&self, upto: u64) -> Result<Vec<TurnView>, Error> {
        let mut range = self.range(records::turns);
        let above = records::turn(self.session, &self.thread.thread_id, upto + 1);
        range.end = keys::data(&self.request.caller.tenant, &above);
        self.turns(RangeRead::new(range).limit(PAGE).reverse()).await
    }

    async fn turns(&self, read: RangeRead) -> Result<Vec<TurnView>, Error> {
        let pairs: Vec<KeyValue> = self.tx.snapshot_stream(read).try_collect().await.map_err(unreadable)?;
        pairs.iter().map(|pair| rmp_serde::from_slice(&pair.value).map_err(damaged)).collect()
    }

    /// Which of these turns were taken back, by their numbers. They are in the order of those.
    async fn back(&self, turns: &[TurnView]) -> Result<Vec<(u64, records::TurnBack)>, Error> {
        let ends = (turns.first().and_then(|turn| turn.number), turns.last().and_then(|turn| turn.number));
        let (Some(one), Some(other)) = ends else { return Ok(Vec::new()) };
        if self.thread.rolled_back == 0 {
            return Ok(Vec::new());
        }
        let tenant = &self.request.caller.tenant;
        let key = |number: u64| {
            keys::data(tenant, &records::turn_back(self.session, &self.thread.thread_id, number))
        };
        let range = KeyRange::new(key(one.min(other)), key(one.max(other) + 1));
        let read = RangeRead::new(range).limit(turns.len());
        let pairs: Vec<KeyValue> = self.tx.snapshot_stream(read).try_collect().await.map_err(unreadable)?;
        let start = keys::data(tenant, &[]).len();
        let back = pairs.iter().filter_map(|pair| {
            let number = records::turn_back_number(&pair.key[start..])?;
            Some(codec::decode(&pair.value).map(|back| (number, back)).map_err(undecodable))
        });
        back.collect()
    }
}

/// A thread of a session in which nothing runs or waits.
fn thread_at_rest<'a>(
    state: &'a session::State,
    work: &session::Work,
    id: Option<&ThreadId>,
) -> Result<&'a ThreadView, Error> {
    if work.archived {
        let message = format!("the session {} is archived and takes no new work", work.id);
        return Err(Error::conflict("archived", message));
    }
    let known = |thread: &&session::Thread| id.is_none_or(|id| thread.id == *id);
    let missing = || Error::not_found("thread", id.map_or("of the session", ThreadId::as_str));
    let thread = work.threads.iter().find(known).ok_or_else(missing)?;
    let view = state.view.thread(&thread.id).ok_or_else(missing)?;
    at_rest(thread, view)?;
    Ok(view)
}

/// What was found, refusals included, to be remembered under the key; what may be better the next time is not.
fn settled<T>(found: Result<T, Error>) -> Result<Result<T, Error>, Error> {
    match found {
        Err(error) if error.retryable || error.code == Code::Internal => Err(error),
        found => Ok(found),
    }
}
