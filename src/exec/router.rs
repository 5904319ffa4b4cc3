//! The boundary to routing: which model answers?

/// What is to be routed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RoutingRequest<'a> {
    /// The agent.
    pub agent: &'a str,
    /// The model that was asked for, if any.
    pub model: Option<&'a str>,
}

/// Where it goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// There was one candidate.
    Single {
        /// The provider.
        provider: String,
        /// Its model.
        model: String,
        /// What decided: `agent`, `explicit`.
        source: String,
    },
    /// There was none.
    NotPossible {
        /// Why.
        reason: String,
    },
}

/// Whoever routes. Pure.
pub trait Router: Send + Sync + 'static {
    /// Routes.
    fn route(&self, request: &RoutingRequest<'_>) -> Route;
}
