//! Decisions that are asked for through a channel.
//!
//! A client that can decide says so in its hello. It is then asked whatever a session that it follows waits for, once on
//! each connection. The question is a fact of the session, and so is the answer; what becomes of the answer is decided by
//! `respond_action`, as everywhere (P10).

use std::collections::BTreeMap;

use crate::fact::id::{ActionId, SessionId};

/// What was asked on this connection.
#[derive(Debug)]
pub(super) struct Questions {
    decides: bool,
    asked: BTreeMap<ActionId, SessionId>,
}

impl Questions {
    /// What is remembered: past it the oldest may be asked again.
    const ASKED_MAX: usize = 1_024;

    /// For a client that can decide, or not.
    pub(super) fn new(decides: bool) -> Self {
        Self { decides, asked: BTreeMap::new() }
    }

    /// Whether the client can decide.
    pub(super) fn decides(&self) -> bool {
        self.decides
    }

    /// Whether this is to be asked now.
    pub(super) fn is_new(&mut self, action: &ActionId, session: &SessionId) -> bool {
        if !self.decides || self.asked.contains_key(action) {
            return false;
        }
        if self.asked.len() >= Self::ASKED_MAX {
            self.asked.pop_first();
        }
        self.asked.insert(action.clone(), session.clone());
        true
    }

    /// The session of a question that was asked here.
    pub(super) fn session(&self, action: &str) -> Option<(ActionId, SessionId)> {
        let action = ActionId::parse(action).ok()?;
        let session = self.asked.get(&action)?.clone();
        Some((action, session))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_asked_once_and_only_of_those_who_decide() {
        let (session, action) = (SessionId::parse("s").unwrap(), ActionId::parse("actn_1").unwrap());
        assert!(!Questions::new(false).is_new(&action, &session));
        let mut questions = Questions::new(true);
        assert!(questions.is_new(&action, &session));
        assert!(!questions.is_new(&action, &session));
        assert_eq!(questions.session("actn_1"), Some((action, session)));
        assert_eq!(questions.session("actn_2"), None);
        assert_eq!(questions.session("not an id"), None);
    }

    #[test]
    fn p9_what_is_remembered_is_bounded() {
        let session = SessionId::parse("s").unwrap();
        let mut questions = Questions::new(true);
        for number in 0..3_000 {
            questions.is_new(&ActionId::parse(&format!("actn_{number:05}")).unwrap(), &session);
        }
        assert_eq!(questions.asked.len(), Questions::ASKED_MAX);
    }
}
