//! The runtime's own records, one function per family: paths below a tenant's data.
//!
//! | path | value | written by |
//! |---|---|---|
//! | `(SESSION, created, id)` | nothing: sessions in the order of their creation | the session |
//! | `(TASK, session, id)` | nothing | the task |
//! | `(TASK_ALL, id)` | nothing | the task |
//! | `(TASK_CHILD, parent, id)` | nothing | the task |
//! | `(SUBAGENT, session, kind of the parent, parent, id)` | nothing | the subagent |
//! | `(JOB, session, id)` | nothing | the job |
//! | `(JOB_ALL, id)` | nothing | the job |
//! | `(TASK_JOB, task, id)` | nothing | the job |
//! | `(ITEM, job, index)` | what the item is, [`crate::entity::job::ItemRecord`], until it expires | the control plane, before the job |
//! | `(ITEM_VIEW, job, index)` | how an item that ever began stands, [`crate::view::ItemView`], until it expires | the job |
//! | `(TURN, session, thread, number)` | a turn that is over, [`crate::view::TurnView`] | the session |
//! | `(TURN_BACK, session, thread, number)` | that a turn was taken back, [`TurnBack`] | the session |
//! | `(SUMMARY, session, thread, turn)` | the text that stands for the history up to a turn | the session |
//! | `(TURN_KNOWN, turn, session)` | a turn that was submitted, [`KnownTurn`] | the session |
//! | `(ACTION, id)` | who asks, and how that has ended, [`Owner`] | the asking entity |
//! | `(COUNT, session, what, status)` | how many (added to) | every entity of the session |
//! | `(BLOB, ref)`, `(BLOB, ref, n)` | what it is; a piece of it | whoever spills |
//! | `(BLOB_EXPIRY, at, ref)` | nothing | with the blob |
//! | `(KEY, key)` | what a caller's idempotency key stands for | the control plane |
//! | `(KEY_EXPIRY, at, key)` | nothing | with the key |
//! | `(TRIAL, id)` | a benchmark trial, [`crate::export::Trial`] | the control plane |
//! | `(EDGE, from, to)` | nothing: a task that blocks another | the control plane |
//! | `(CHANNEL, id)` | a channel | gateways |
//! | `(LISTENED, channel, session)` | what a channel has acknowledged of a session | gateways |
//! | `(CHANNEL_EXPIRY, at, id)` | nothing | with the channel |
//!
//! And below the cluster's own:
//!
//! | path | value | written by |
//! |---|---|---|
//! | `(SIGNING)` | the keys of [`crate::signing`] | whoever needs them first |

use cadre_cluster::{clock::Timestamp, codec};
use foundationdb_tuple::{pack, unpack};
use serde::{Deserialize, Serialize};

use crate::fact::{
    id::{ActionId, BlobRef, ChannelId, JobId, SessionId, TaskId, ThreadId, TrialId, TurnId},
    status::ActionStatus,
};

const SESSION: i64 = 1;
const TASK: i64 = 2;
const TASK_ALL: i64 = 3;
const TASK_CHILD: i64 = 4;
const SUBAGENT: i64 = 5;
const JOB: i64 = 6;
const JOB_ALL: i64 = 7;
const ITEM: i64 = 8;
const TURN: i64 = 9;
const ACTION: i64 = 10;
const COUNT: i64 = 11;
const BLOB: i64 = 12;
const BLOB_EXPIRY: i64 = 13;
const EDGE: i64 = 14;
const KEY: i64 = 15;
const KEY_EXPIRY: i64 = 16;
const ITEM_VIEW: i64 = 17;
const TURN_KNOWN: i64 = 20;
const TRIAL: i64 = 24;
const TASK_JOB: i64 = 30;
const TURN_BACK: i64 = 40;
const SUMMARY: i64 = 41;
const CHANNEL: i64 = 50;
const LISTENED: i64 = 51;
const CHANNEL_EXPIRY: i64 = 52;

const SIGNING: i64 = 1;

/// A turn that was submitted, for as long as its session is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownTurn {
    /// In which thread.
    pub thread: ThreadId,
    /// A hash of the request, to recognise the same one.
    pub fingerprint: u128,
    /// The turn that heard its input instead, when it was steered there.
    #[serde(default)]
    pub answered: Option<TurnId>,
}

impl KnownTurn {
    /// As it is stored.
    pub fn encode(&self) -> bytes::Bytes {
        codec::encode(self)
    }
}

/// A turn that was taken back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnBack {
    /// When.
    pub at: Timestamp,
    /// The number of the turn that was the last one then; 0 when none was left.
    pub to: u64,
}

impl TurnBack {
    /// As it is stored.
    pub fn encode(&self) -> bytes::Bytes {
        codec::encode(self)
    }
}

/// Which entity asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// Its kind.
    pub kind: String,
    /// Its id.
    pub id: String,
    /// How its question has ended, once it has.
    #[serde(default)]
    pub status: Option<ActionStatus>,
}

impl Owner {
    /// As it is stored.
    pub fn encode(&self) -> bytes::Bytes {
        codec::encode(self)
    }
}

cadre_cluster::stored! { Owner: "owner", KnownTurn: "known turn", TurnBack: "turn taken back" }

/// A turn that was submitted to a session.
pub fn known_turn(turn: &TurnId, session: &SessionId) -> Vec<u8> {
    pack(&(TURN_KNOWN, turn.as_str(), session.as_str()))
}

/// The sessions to which a turn of that id was submitted.
pub fn turn_sessions(turn: &TurnId) -> Vec<u8> {
    pack(&(TURN_KNOWN, turn.as_str()))
}

/// A session in the list of all.
pub fn session(created: Timestamp, id: &SessionId) -> Vec<u8> {
    pack(&(SESSION, created.0, id.as_str()))
}

/// All sessions.
pub fn sessions() -> Vec<u8> {
    pack(&(SESSION,))
}

/// A task of a session.
pub fn task(session: &SessionId, id: &TaskId) -> Vec<u8> {
    pack(&(TASK, session.as_str(), id.as_str()))
}

/// All tasks of a session.
pub fn tasks(session: &SessionId) -> Vec<u8> {
    pack(&(TASK, session.as_str()))
}

/// A task in the list of all, with the one that it is a part of.
pub fn any_task(id: &TaskId) -> Vec<u8> {
    pack(&(TASK_ALL, id.as_str()))
}

/// All tasks.
pub fn all_tasks() -> Vec<u8> {
    pack(&(TASK_ALL,))
}

/// A child of a task.
pub fn task_child(parent: &TaskId, id: &TaskId) -> Vec<u8> {
    pack(&(TASK_CHILD, parent.as_str(), id.as_str()))
}

/// All children of a task.
pub fn task_children(parent: &TaskId) -> Vec<u8> {
    pack(&(TASK_CHILD, parent.as_str()))
}

/// A subagent below its parent: a subagent, a task, or the session itself. Callers choose ids, so those of two kinds may
/// be the same text.
pub fn subagent(session: &SessionId, (kind, parent): (&str, &str), id: &str) -> Vec<u8> {
    pack(&(SUBAGENT, session.as_str(), kind, parent, id))
}

/// All subagents of a session.
pub fn all_subagents(session: &SessionId) -> Vec<u8> {
    pack(&(SUBAGENT, session.as_str()))
}

/// All subagents below a parent.
pub fn subagents(session: &SessionId, (kind, parent): (&str, &str)) -> Vec<u8> {
    pack(&(SUBAGENT, session.as_str(), kind, parent))
}

/// A job of a session.
pub fn job(session: &SessionId, id: &JobId) -> Vec<u8> {
    pack(&(JOB, session.as_str(), id.as_str()))
}

/// All jobs of a session.
pub fn jobs(session: &SessionId) -> Vec<u8> {
    pack(&(JOB, session.as_str()))
}

/// A job in the list of all.
pub fn any_job(id: &JobId) -> Vec<u8> {
    pack(&(JOB_ALL, id.as_str()))
}

/// All jobs.
pub fn all_jobs() -> Vec<u8> {
    pack(&(JOB_ALL,))
}

/// A job of a task.
pub fn task_job(task: &TaskId, id: &JobId) -> Vec<u8> {
    pack(&(TASK_JOB, task.as_str(), id.as_str()))
}

/// All jobs of a task.
pub fn task_jobs(task: &TaskId) -> Vec<u8> {
    pack(&(TASK_JOB, task.as_str()))
}

/// An item of a job.
pub fn item(job: &JobId, index: u32) -> Vec<u8> {
    pack(&(ITEM, job.as_str(), i64::from(index)))
}

/// All items of a job.
pub fn items(job: &JobId) -> Vec<u8> {
    pack(&(ITEM, job.as_str()))
}

/// How an item stands, if it ever began.
pub fn item_view(job: &JobId, index: u32) -> Vec<u8> {
    pack(&(ITEM_VIEW, job.as_str(), i64::from(index)))
}

/// How all items of a job stand that ever began.
pub fn item_views(job: &JobId) -> Vec<u8> {
    pack(&(ITEM_VIEW, job.as_str()))
}

/// Which item a path of [`items`] or [`item_views`] is about.
pub fn item_index(path: &[u8]) -> Option<u32> {
    let (_, _, index): (i64, String, i64) = unpack(path).ok()?;
    u32::try_from(index).ok()
}

/// A turn that is over.
pub fn turn(session: &SessionId, thread: &ThreadId, number: u64) -> Vec<u8> {
    pack(&(TURN, session.as_str(), thread.as_str(), number))
}

/// All turns of a thread that are over.
pub fn turns(session: &SessionId, thread: &ThreadId) -> Vec<u8> {
    pack(&(TURN, session.as_str(), thread.as_str()))
}

/// That a turn was taken back.
pub fn turn_back(session: &SessionId, thread: &ThreadId, number: u64) -> Vec<u8> {
    pack(&(TURN_BACK, session.as_str(), thread.as_str(), number))
}

/// All turns of a thread that were taken back.
pub fn turns_back(session: &SessionId, thread: &ThreadId) -> Vec<u8> {
    pack(&(TURN_BACK, session.as_str(), thread.as_str()))
}

/// Which number an entry of [`turns_back`] is about.
pub fn turn_back_number(path: &[u8]) -> Option<u64> {
    let (_, _, _, number): (i64, String, String, u64) = unpack(path).ok()?;
    Some(number)
}

/// What stands for the history of a thread up to a turn.
pub fn summary(session: &SessionId, thread: &ThreadId, turn: &TurnId) -> Vec<u8> {
    pack(&(SUMMARY, session.as_str(), thread.as_str(), turn.as_str()))
}

/// Who asks.
pub fn action(id: &ActionId) -> Vec<u8> {
    pack(&(ACTION, id.as_str()))
}

/// How many of `what` have this status.
pub fn count(session: &SessionId, what: &str, status: &str) -> Vec<u8> {
    pack(&(COUNT, session.as_str(), what, status))
}

/// All counts of one kind.
pub fn counts(session: &SessionId, what: &str) -> Vec<u8> {
    pack(&(COUNT, session.as_str(), what))
}

/// What a blob is. Also the start of the keys of its pieces.
pub fn blob(id: &BlobRef) -> Vec<u8> {
    pack(&(BLOB, id.as_str()))
}

/// A piece of a blob.
pub fn blob_piece(id: &BlobRef, number: u64) -> Vec<u8> {
    pack(&(BLOB, id.as_str(), number))
}

/// When a blob expires.
pub fn blob_expiry(at: Timestamp, id: &BlobRef) -> Vec<u8> {
    pack(&(BLOB_EXPIRY, at.0, id.as_str()))
}

/// What has expired by `now`: from here, to here.
pub fn blobs_expired(now: Timestamp) -> (Vec<u8>, Vec<u8>) {
    (pack(&(BLOB_EXPIRY,)), pack(&(BLOB_EXPIRY, now.0.saturating_add(1))))
}

/// Since when which blob has expired, as an entry of [`blobs_expired`] says.
pub fn expired_blob(path: &[u8]) -> Option<(Timestamp, BlobRef)> {
    let (_, at, id): (i64, u64, String) = unpack(path).ok()?;
    Some((Timestamp(at), BlobRef::parse(&id).ok()?))
}

/// A task that blocks another.
pub fn edge(from: &TaskId, to: &TaskId) -> Vec<u8> {
    pack(&(EDGE, from.as_str(), to.as_str()))
}

/// All tasks that a task blocks.
pub fn edges(from: &TaskId) -> Vec<u8> {
    pack(&(EDGE, from.as_str()))
}

/// A benchmark trial.
pub fn trial(id: &TrialId) -> Vec<u8> {
    pack(&(TRIAL, id.as_str()))
}

/// A channel.
pub fn channel(id: &ChannelId) -> Vec<u8> {
    pack(&(CHANNEL, id.as_str()))
}

/// A session that a channel has listened to.
pub fn listened(channel: &ChannelId, session: &SessionId) -> Vec<u8> {
    pack(&(LISTENED, channel.as_str(), session.as_str()))
}

/// All sessions that a channel has listened to.
pub fn all_listened(channel: &ChannelId) -> Vec<u8> {
    pack(&(LISTENED, channel.as_str()))
}

/// When a channel is forgotten.
pub fn channel_expiry(at: Timestamp, id: &ChannelId) -> Vec<u8> {
    pack(&(CHANNEL_EXPIRY, at.0, id.as_str()))
}

/// The channels that are to be forgotten by `now`: from here, to here.
pub fn channels_expired(now: Timestamp) -> (Vec<u8>, Vec<u8>) {
    (pack(&(CHANNEL_EXPIRY,)), pack(&(CHANNEL_EXPIRY, now.0.saturating_add(1))))
}

/// Since when which channel is to be forgotten, as an entry of [`channels_expired`] says.
pub fn expired_channel(path: &[u8]) -> Option<(Timestamp, ChannelId)> {
    let (_, at, id): (i64, u64, String) = unpack(path).ok()?;
    Some((Timestamp(at), ChannelId::parse(&id).ok()?))
}

/// What a key stands for.
pub fn key(key: &str) -> Vec<u8> {
    pack(&(KEY, key))
}

/// When a key expires.
pub fn key_expiry(at: Timestamp, key: &str) -> Vec<u8> {
    pack(&(KEY_EXPIRY, at.0, key))
}

/// The keys that have expired by `now`: from here, to here.
pub fn keys_expired(now: Timestamp) -> (Vec<u8>, Vec<u8>) {
    (pack(&(KEY_EXPIRY,)), pack(&(KEY_EXPIRY, now.0.saturating_add(1))))
}

/// Since when which key has expired, as an entry of [`keys_expired`] says.
pub fn expired_key(path: &[u8]) -> Option<(Timestamp, String)> {
    let (_, at, key): (i64, u64, String) = unpack(path).ok()?;
    Some((Timestamp(at), key))
}

/// The keys that sign tokens, of the cluster as a whole.
pub fn signing_keys() -> Vec<u8> {
    pack(&(SIGNING,))
}

/// The last part of a path: the id that a list entry is about.
pub fn last_id(path: &[u8]) -> Option<String> {
    let elements: Vec<foundationdb_tuple::Element<'_>> = unpack(path).ok()?;
    elements.last()?.as_str().map(str::to_owned)
}
