//! What the query of a request asks for.

use axum::{extract::Query, http::Uri};

use super::refusal::Refusal;
use crate::{
    control::{Error, args::Limit},
    fact::{
        Cursor,
        id::{InvalidId, SessionId},
    },
    runtime::EventFilter,
};

/// More classes than this are a mistake.
const TYPES_MAX: usize = 64;

/// The part of a feed that somebody wants.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Wanted {
    /// After this position.
    pub after: Option<Cursor>,
    /// At most so many.
    pub limit: Limit,
    /// Only those that pass.
    pub filter: EventFilter,
}

impl Wanted {
    /// As a query says it. Names that mean nothing here are ignored.
    pub(super) fn of(uri: &Uri) -> Result<Self, Refusal> {
        let Query(pairs) = Query::<Vec<(String, String)>>::try_from_uri(uri)
            .map_err(|_| Error::invalid("", "the query is not readable"))?;
        let mut wanted = Self::default();
        for (name, value) in pairs {
            match name.as_str() {
                "after" => wanted.after = Some(cursor("after", &value)?),
                "limit" => wanted.limit = Limit::parse(&value)?,
                "taskId" => wanted.filter.task = Some(value.parse().map_err(|e| invalid(&name, e))?),
                "subagentId" => wanted.filter.subagent = Some(value.parse().map_err(|e| invalid(&name, e))?),
                "turnId" => wanted.filter.turn = Some(value.parse().map_err(|e| invalid(&name, e))?),
                "types" => types(&value, &mut wanted.filter.types)?,
                _ => {}
            }
        }
        Ok(wanted)
    }
}

/// The session that a path names.
pub(super) fn session(text: &str) -> Result<SessionId, Error> {
    SessionId::parse(text).map_err(|error| invalid("sessionId", error))
}

/// A position.
pub(super) fn cursor(field: &str, text: &str) -> Result<Cursor, Error> {
    text.parse().map_err(|error| Error::invalid(field, error))
}

fn invalid(field: &str, error: InvalidId) -> Error {
    Error::invalid(field, error)
}

/// Classes and families: `turn.completed,tool.*`.
fn types(text: &str, types: &mut Vec<String>) -> Result<(), Error> {
    types.extend(text.split(',').map(|pattern| pattern.trim().to_owned()));
    check_types(types)
}

/// Whether these are classes and families, and not too many.
pub(super) fn check_types(types: &[String]) -> Result<(), Error> {
    for pattern in types {
        let name = pattern.strip_suffix('*').unwrap_or(pattern);
        let word = |byte: u8| byte.is_ascii_lowercase() || byte == b'.' || byte == b'_';
        if pattern.is_empty() || pattern.len() > 64 || !name.bytes().all(word) {
            let message = "must be classes of events such as turn.completed,tool.*";
            return Err(Error::invalid("types", message));
        }
    }
    if types.len() > TYPES_MAX {
        return Err(Error::invalid(
            "types",
            format_args!("must be at most {TYPES_MAX}, not {}", types.len()),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse;

    use super::*;

    fn of(query: &str) -> Result<Wanted, Refusal> {
        Wanted::of(&format!("/x?{query}").parse().unwrap())
    }

    #[test]
    fn a_query_says_what_is_wanted() {
        assert_eq!(of("").unwrap(), Wanted::default());
        let wanted = of("limit=7&taskId=task_1&types=tool.*,turn.completed&unknown=1").unwrap();
        assert_eq!(wanted.limit.get(), 7);
        assert_eq!(wanted.filter.task.as_ref().map(|task| task.as_str()), Some("task_1"));
        assert_eq!(wanted.filter.types, ["tool.*", "turn.completed"]);
        assert_eq!(of("limit=100000").unwrap().limit, Limit::MAX);
        let after = Cursor::START.to_string();
        assert_eq!(of(&format!("after={after}")).unwrap().after, Some(Cursor::START));
    }

    #[test]
    fn what_is_malformed_is_refused() {
        let bad = ["after=", "after=xyz", "limit=0", "limit=-1", "limit=ten", "limit=", "turnId=a%20b"];
        for query in bad.iter().chain(&["types=", "types=a,,b", "types=Tool", "types=*tool", "taskId="]) {
            assert_eq!(of(query).unwrap_err().into_response().status(), 400, "{query}");
        }
    }
}
