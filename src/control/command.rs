//! What all commands have in common.

use std::fmt;

use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{error::Error, read};

/// The arguments of a command.
pub trait Arguments: Serialize + DeserializeOwned + JsonSchema + fmt::Debug + Clone + PartialEq {
    /// What types cannot say: bounds, and which arguments go together.
    fn check(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Arguments as somebody could send them.
    fn example() -> Value;
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
