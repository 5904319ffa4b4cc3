//! The tools that a turn may call.

use crate::{
    fact::{
        Fact,
        id::{ThreadId, TurnId},
        payload::ToolCatalogResolved,
        time::Time,
    },
    view::{
        bound::{self, NAME_MAX, WORD_MAX, cut, cut_some},
        declare::views,
    },
};

views! {
    /// One tool.
    ToolEntry {
        /// What it is called.
        name: String,
        ..
        /// Who provides it.
        source: Option<String>,
        /// Whether it changes nothing.
        read_only: bool,
        /// Whether several calls may run at once.
        parallel_safe: bool,
    }

    /// The tools that were chosen for a turn.
    Tools {
        /// How many there are.
        count: u32,
        /// When they were chosen.
        at: Time,
        ..
        /// The turn for which they were chosen.
        turn_id: Option<TurnId>,
        /// Its thread.
        thread_id: Option<ThreadId>,
        /// Which, as many as there is room for.
        tools: Vec<ToolEntry>,
        /// How many were left out.
        omitted: u32,
    }
}

impl Tools {
    /// How many tools are told of by name.
    pub const TOOLS_MAX: usize = 32;

    pub(super) fn new(fact: &Fact, catalog: &ToolCatalogResolved) -> Self {
        let entry = |tool: &crate::fact::payload::ToolInfo| ToolEntry {
            name: cut(&tool.name, NAME_MAX),
            source: cut_some(tool.source.as_deref(), WORD_MAX),
            read_only: tool.read_only,
            parallel_safe: tool.parallel_safe,
        };
        Self {
            count: catalog.count,
            at: bound::time(fact.at),
            turn_id: fact.ids.turn().cloned(),
            thread_id: fact.ids.thread().cloned(),
            tools: catalog.tools.iter().take(Self::TOOLS_MAX).map(entry).collect(),
            omitted: catalog.omitted.len() as u32,
        }
    }
}
