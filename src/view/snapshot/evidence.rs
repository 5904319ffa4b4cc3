//! What was exported of a session.

use crate::{
    fact::status::Availability,
    view::{SessionView, declare::views, summary::Evidence},
};

views! {
    /// What was exported of a session, and what was found then.
    #[derive(Default)]
    EvidenceSummary {
        /// What is known.
        #[serde(flatten)]
        evidence: Evidence,
        ..
        /// The traces that it can be joined with: those that the session's own facts named last.
        trace_ids: Vec<String>,
        /// Why there is nothing: nothing was exported, or it is others that say of evidence where it is.
        availability: Option<Availability>,
    }
}

impl EvidenceSummary {
    /// Of a session, of which those pieces of evidence are named.
    pub fn of(view: &SessionView, named: &[String]) -> Self {
        let availability = match (&view.summary.evidence, named.is_empty()) {
            (Some(_), _) => None,
            (None, true) => Some(Availability::NotApplicable),
            (None, false) => Some(Availability::Unknown),
        };
        Self {
            evidence: view.summary.evidence.clone().unwrap_or_default(),
            trace_ids: view.summary.trace_ids.clone(),
            availability,
        }
    }
}
