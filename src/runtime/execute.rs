//! Commands, executed.

use std::time::Duration;

use cadre_cluster::feed::Cursor;
use serde_json::Value;

use super::{Caller, Runtime};
use crate::control::Error;

/// What a command is answered.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// Its result.
    pub result: Value,
    /// The position of the last fact that it caused.
    pub cursor: Option<Cursor>,
}

impl Runtime {
    /// Executes a command by name: the door behind HTTP, channel and command line. `key` makes it once (P3); `deadline`
    /// is how long the caller waits.
    pub async fn call(
        &self,
        caller: &Caller,
        name: &str,
        arguments: Value,
        key: Option<&str>,
        deadline: Duration,
    ) -> Result<Answer, Error> {
        let _ = (caller, arguments, key, deadline);
        Err(Error::not_found("command", name))
    }
}
