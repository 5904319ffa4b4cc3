//! One thing that has happened.

use cadre_cluster::clock::Timestamp;

use super::{
    ids::{Ids, Slot},
    payload::{Class, EventType, Payload},
};

/// One thing that has happened: when, to what, and what it was.
///
/// Facts that lack an id of their class do not compile:
///
/// ```
/// use cadre::fact::{Fact, Timestamp, id::*, payload::TurnStarted, scope::TurnScope};
///
/// let scope = TurnScope { thread: ThreadId::parse("thrd_1")?, turn: TurnId::parse("turn_1")? };
/// let fact = Fact::new(Timestamp(0), scope, TurnStarted::default());
/// assert_eq!(fact.event_type().as_str(), "turn.started");
/// # Ok::<(), InvalidId>(())
/// ```
///
/// ```compile_fail,E0308
/// use cadre::fact::{Fact, Timestamp, id::*, payload::ToolStarted, scope::TurnScope};
///
/// let scope = TurnScope { thread: ThreadId::parse("thrd_1")?, turn: TurnId::parse("turn_1")? };
/// let fact = Fact::new(Timestamp(0), scope, ToolStarted::default());
/// # Ok::<(), InvalidId>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Fact {
    /// When it happened.
    pub at: Timestamp,
    /// What it happened to.
    pub ids: Ids,
    /// What its producer calls it, when that is not the name of its class.
    pub native: Option<Box<str>>,
    /// What happened.
    pub payload: Payload,
}

impl Fact {
    /// A fact of a class.
    pub fn new<C: Class>(at: Timestamp, scope: C::Scope, payload: C) -> Self {
        Self { at, ids: scope.into(), native: None, payload: payload.into() }
    }

    /// A fact that its producer has another name for. Readers that know only the classes still understand it.
    pub fn vendor<C: Class>(at: Timestamp, scope: C::Scope, native: &str, payload: C) -> Self {
        Self { native: Some(native.into()), ..Self::new(at, scope, payload) }
    }

    /// With the ids of its surroundings, where it has none of its own.
    #[must_use]
    pub fn within(mut self, around: &Ids) -> Self {
        self.ids.fill(around);
        self
    }

    /// With one more id.
    #[must_use]
    pub fn with<I: Slot>(mut self, id: I) -> Self {
        id.put(&mut self.ids);
        self
    }

    /// The name of its class.
    pub fn event_type(&self) -> EventType {
        self.payload.event_type()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::{id::*, payload::TurnStarted, scope::TurnScope};

    #[test]
    fn a_vendor_name_leaves_the_class_as_it_is() {
        let scope =
            TurnScope { thread: ThreadId::parse("thrd_1").unwrap(), turn: TurnId::parse("turn_1").unwrap() };
        let fact = Fact::vendor(Timestamp(1), scope, "acme.turn.go", TurnStarted::default());
        assert_eq!(
            (fact.native.as_deref(), fact.event_type().as_str()),
            (Some("acme.turn.go"), "turn.started")
        );
    }

    #[test]
    fn facts_stay_small() {
        assert!(size_of::<Fact>() <= 160, "{} bytes", size_of::<Fact>());
    }
}
