//! Sessions.

use super::declare::results;
use crate::fact::{
    id::{SessionId, ThreadId},
    status::SessionStatus,
};

results! {
    /// How a session stands.
    SessionState {
        /// The session.
        session_id: SessionId,
        /// Active or archived.
        status: SessionStatus,
        ..
        /// Its first thread, when there is one.
        thread_id: Option<ThreadId>,
    }
}
