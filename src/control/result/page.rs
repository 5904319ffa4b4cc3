//! Pages of lists: `{<plural>: […], hasMore, cursor?}`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{control::words::words, fact::payload::Object};

macro_rules! pages {
    ($($(#[$doc:meta])+ $name:ident { $plural:ident })+) => {$(
        $(#[$doc])+
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "camelCase")]
        pub struct $name<T = Object> {
            /// This page.
            pub $plural: Vec<T>,
            /// Whether there are more after it.
            pub has_more: bool,
            /// The `after` of the next page, when there is one.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub cursor: Option<String>,
        }

        impl<T> $name<T> {
            /// The last page.
            pub fn last($plural: Vec<T>) -> Self {
                Self { $plural, has_more: false, cursor: None }
            }

            /// A page that another one follows, after `cursor`.
            pub fn more($plural: Vec<T>, cursor: impl Into<String>) -> Self {
                Self { $plural, has_more: true, cursor: Some(cursor.into()) }
            }
        }
    )+};
}

pages! {
    /// A page of sessions.
    Sessions { sessions }
    /// A page of tasks.
    Tasks { tasks }
    /// A page of subagents.
    Subagents { subagents }
    /// A page of jobs.
    Jobs { jobs }
}

/// A task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GetTaskResult<T = Object> {
    /// The task.
    pub task: T,
}

words! {
    /// Whether records are there.
    ItemsStatus {
        /// They are.
        Available = "available",
        /// They were, and were removed when their time was over.
        Expired = "expired",
    }
}

/// A job, and a page of its items.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GetJobResult<J = Object, I = Object> {
    /// The job.
    pub job: J,
    /// This page of its items, in their order.
    pub items: Vec<I>,
    /// Whether the items are there, or were removed since because the job has been over for long.
    pub items_status: ItemsStatus,
    /// Whether there are more after it.
    pub has_more: bool,
    /// The `itemsAfter` of the next page, when there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// The session as its snapshot tells it.
pub type SessionSnapshot = Object;
/// The thread as its read model tells it.
pub type ThreadRead = Object;
/// The tools that there are.
pub type ToolInventory = Object;
/// Where things run.
pub type ExecutionEnvironment = Object;
