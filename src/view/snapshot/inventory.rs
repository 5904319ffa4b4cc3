//! The tools that can be called.

use crate::{
    fact::{
        id::{SessionId, ThreadId, TurnId},
        status::Availability,
        time::Time,
    },
    view::{SessionView, declare::views, summary::ToolEntry},
};

views! {
    /// The tools that the last turn could call: the answer of `get_tool_inventory`.
    ToolInventory {
        /// The session.
        session_id: SessionId,
        /// Which, as many as there is room for.
        tools: Vec<ToolEntry>,
        ..
        /// Why there is nothing here: the tools of a session are known once a turn has chosen them.
        availability: Option<Availability>,
        /// How many there are.
        count: Option<u32>,
        /// How many were left out.
        omitted: u32,
        /// The turn that chose them.
        turn_id: Option<TurnId>,
        /// Its thread.
        thread_id: Option<ThreadId>,
        /// When.
        resolved_at: Option<Time>,
    }
}

impl ToolInventory {
    /// The tools of a session.
    pub fn of(session_id: &SessionId, view: &SessionView) -> Self {
        let tools = view.summary.tools.as_ref();
        Self {
            session_id: session_id.clone(),
            tools: tools.map(|tools| tools.tools.clone()).unwrap_or_default(),
            availability: tools.is_none().then_some(Availability::Unknown),
            count: tools.map(|tools| tools.count),
            omitted: tools.map_or(0, |tools| tools.omitted),
            turn_id: tools.and_then(|tools| tools.turn_id.clone()),
            thread_id: tools.and_then(|tools| tools.thread_id.clone()),
            resolved_at: tools.map(|tools| tools.at),
        }
    }
}
