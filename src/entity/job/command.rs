//! What is asked of a job, and what it answers.

use cadre_cluster::clock::Timestamp;
use serde::{Deserialize, Serialize};

use super::Create;
use crate::fact::{
    id::{ItemId, JobId, SessionId},
    status::{ItemStatus, JobStatus},
};

/// What a caller asks of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Command {
    /// Be got ready: the items are about to be written.
    Prepare {
        /// The session that the job will belong to, unless it was got ready before.
        session: SessionId,
        /// A hash of the whole request.
        fingerprint: u128,
        /// How many items there will be.
        items: u32,
    },
    /// Be. The records of all items are there.
    Create(Box<Create>),
    /// Be not, after all: what was written for that request goes.
    Abandon {
        /// A hash of the whole request.
        fingerprint: u128,
    },
    /// Try an item again.
    Retry {
        /// Its place.
        index: u32,
        /// Its id.
        item: ItemId,
        /// How its record says that it stands; pending when it has none.
        status: ItemStatus,
        /// Who wants it.
        by: String,
    },
    /// End, with everything below.
    Cancel {
        /// Why.
        reason: Option<String>,
        /// Who wants it.
        by: String,
    },
}

/// What a caller is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    /// The job.
    pub job: JobId,
    /// Its session.
    pub session: SessionId,
    /// How it stands.
    pub status: JobStatus,
    /// Since when it is being got ready, while it is not there.
    pub prepared: Option<Timestamp>,
    /// When it runs next.
    pub next: Option<Timestamp>,
}
