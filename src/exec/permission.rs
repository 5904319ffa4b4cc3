//! The boundary to permission: may this call be made?

use crate::fact::{
    id::SessionId,
    payload::{Decision, PermissionEvaluated, PermissionRule},
};

/// What is to be judged.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PermissionRequest<'a> {
    /// The session, when there is one.
    pub session: Option<&'a SessionId>,
    /// The agent that asks.
    pub agent: &'a str,
    /// The tool, process or action.
    pub subject: &'a str,
    /// Whether it changes nothing.
    pub read_only: bool,
}

/// What follows, from the least strict to the strictest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Permit {
    /// Go on.
    Allow,
    /// Somebody has to decide.
    Ask,
    /// No, whatever anybody else says (P10).
    Deny,
}

impl From<Permit> for Decision {
    fn from(permit: Permit) -> Self {
        match permit {
            Permit::Allow => Self::Allow,
            Permit::Ask => Self::Ask,
            Permit::Deny => Self::Deny,
        }
    }
}

/// A judgement with its reasons.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ruling {
    /// What follows.
    pub permit: Permit,
    /// What decided: `mode`, `rule`, `default`.
    pub source: String,
    /// Why.
    pub reason: String,
    /// The rules that spoke.
    pub rules: Vec<String>,
    /// The mode that was on.
    pub mode: String,
}

impl Ruling {
    /// As a fact says it. What it is about is not in it.
    pub fn evaluated(&self) -> PermissionEvaluated {
        let decision = Decision::from(self.permit);
        let rule =
            |rule: &String| PermissionRule { rule: rule.clone(), decision, decisive: true, source: None };
        PermissionEvaluated {
            decision,
            source: self.source.clone(),
            reason: Some(self.reason.clone()),
            rules: self.rules.iter().map(rule).collect(),
            mode: Some(self.mode.clone()),
            ..Default::default()
        }
    }
}

/// Whoever judges. Pure: it decides from what it is configured with.
pub trait Permission: Send + Sync + 'static {
    /// Judges.
    fn evaluate(&self, request: &PermissionRequest<'_>) -> Ruling;
}

/// Lets read-only tools run and asks about all others.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReadOnlyRuns;

impl Permission for ReadOnlyRuns {
    fn evaluate(&self, request: &PermissionRequest<'_>) -> Ruling {
        let (permit, reason, rule) = if request.read_only {
            (Permit::Allow, "it changes nothing", "allow read-only")
        } else {
            (Permit::Ask, "it may change something", "ask otherwise")
        };
        Ruling {
            permit,
            source: "mode".into(),
            reason: reason.into(),
            rules: vec![rule.into()],
            mode: "default".into(),
        }
    }
}
