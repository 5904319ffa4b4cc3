//! What all commands have in common.

use std::fmt;

use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{error::Error, read, registry::AnyCommand, words::words};

words! {
    /// Whether a command changes something.
    Kind {
        /// It only reads.
        Read = "read",
        /// It writes facts.
        Write = "write",
    }

    /// What a credential must have for a command.
    Scope {
        /// See what happens.
        Read = "read",
        /// Give work, and control it.
        Submit = "submit",
        /// Decide what is waited for.
        Approve = "approve",
        /// Execute agents as a runner.
        Run = "run",
        /// Manage tenants, keys, quotas and nodes.
        Admin = "admin",
    }

    /// What a command belongs to.
    Group {
        /// Turns, their queue, and decisions.
        Turns = "turns",
        /// Sessions and threads.
        Sessions = "sessions",
        /// Tasks.
        Tasks = "tasks",
        /// Subagents.
        Subagents = "subagents",
        /// Jobs.
        Jobs = "jobs",
        /// Permissions and processes.
        Governance = "governance",
        /// Evidence, replays, reviews, benchmarks.
        Exports = "exports",
        /// Channels.
        Channels = "channels",
    }
}

/// The arguments of a command.
pub trait Arguments: Serialize + DeserializeOwned + JsonSchema + fmt::Debug + Clone + PartialEq {
    /// What types cannot say: bounds, and which arguments go together.
    fn check(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Arguments as somebody could send them.
    fn example() -> Value;
}

/// Arguments that are a command. The list of all of them is the [registry](super::registry).
pub trait Command: Arguments + Into<AnyCommand> {
    /// Its name on every surface.
    const NAME: &'static str;
    /// What it belongs to.
    const GROUP: Group;
    /// Whether it changes something.
    const KIND: Kind;
    /// What a credential must have.
    const SCOPE: Scope;
    /// What it does, in a few words.
    const SUMMARY: &'static str;
    /// What it answers with.
    type Result: Serialize + DeserializeOwned + JsonSchema;
}

/// Reads arguments and checks them.
pub fn parse<A: Arguments>(arguments: Value) -> Result<A, Error> {
    if !arguments.is_object() {
        return Err(Error::invalid("", "the arguments of a command are a JSON object"));
    }
    let arguments: A = read::from_value(arguments)?;
    arguments.check()?;
    Ok(arguments)
}
