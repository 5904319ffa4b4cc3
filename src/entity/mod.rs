//! The entities: session, task, subagent, job and item, each a pure core that a node hosts.
//!
//! An entity's state has two halves. Its *view* is what is served, and only facts change it, by the same fold that a
//! replay uses (P5). Its *work* is what it needs in order to go on, which is nobody else's business and replaced as a
//! whole by each step. Children are started, closed and joined by messages alone.

#[cfg(test)]
mod golden;
mod host;
pub mod job;
mod message;
mod named;
pub mod parent;
pub mod records;
pub mod session;
#[cfg(test)]
mod stage;
pub mod subagent;
pub mod task;

pub use host::{Host, index_term, stream};
pub use job::{Job, JobItem};
pub use message::{Child, Close, ItemSpec, Lineage, Message, Parent, Reopened, Slot, Start, SubagentSpec};
pub use named::Named;
pub use session::Session;
pub use subagent::Subagent;
pub use task::Task;

/// The kinds in addresses.
pub mod kind {
    /// A session with its threads.
    pub const SESSION: &str = "session";
    /// A task.
    pub const TASK: &str = "task";
    /// A subagent.
    pub const SUBAGENT: &str = "subagent";
    /// A job.
    pub const JOB: &str = "job";
    /// An item of a job.
    pub const ITEM: &str = "item";
}
