//! Everything a run may reach, by name.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::{
    Budget, builtin,
    hook::Hook,
    permission::{Permission, ReadOnlyRuns},
    provider::Provider,
    router::{Route, Router, RoutingRequest},
    tool::Tool,
};
use crate::{
    blob::{Blobs, Retention},
    fact::payload::ToolInfo,
    scripted::{self, Scripted},
};

/// The boundaries of the execution loop. One for all entities of a node.
pub struct Engine {
    /// Which model answers.
    pub router: Box<dyn Router>,
    /// What may be called.
    pub permission: Box<dyn Permission>,
    /// Governance that is plugged in.
    pub hooks: Vec<Box<dyn Hook>>,
    /// Where large things are kept.
    pub blobs: Option<Blobs>,
    /// How much there may be of everything.
    pub limits: Limits,
    /// What one run may use up: whoever asks for one can only ask for less.
    pub budget: Budget,
    providers: BTreeMap<String, Arc<dyn Provider>>,
    tools: BTreeMap<String, Arc<dyn Tool>>,
}

/// How much there may be (P9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Threads of one session.
    pub threads: usize,
    /// Turns that wait in one session.
    pub queued_turns: usize,
    /// Bytes of the input of one turn, task, subagent or item.
    pub input_bytes: usize,
    /// Children of one parent that were asked for one by one and are not closed.
    pub children_open: usize,
    /// Edges of one task.
    pub task_edges: usize,
    /// Attempts of one task.
    pub task_attempts: u32,
    /// Items of one job.
    pub job_items: usize,
    /// How long the items of a job are kept after it has ended, in milliseconds. The job itself stays.
    pub job_items_kept_ms: u64,
    /// How much of one output is kept, in bytes.
    pub output_bytes: usize,
    /// How deep subagents may start subagents.
    pub depth: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            threads: crate::view::SessionView::THREADS_MAX,
            queued_turns: 256,
            input_bytes: 1024 * 1024,
            children_open: 256,
            task_edges: 256,
            task_attempts: 100,
            job_items: 100_000,
            // As long as what the items have put out: nobody can follow a reference to what is gone.
            job_items_kept_ms: Retention::BLOBS_DEFAULT.as_millis() as u64,
            output_bytes: Retention::default().output_bytes(),
            depth: 1_000,
        }
    }
}

impl Engine {
    /// The scripted agent and the built-in tools.
    pub fn scripted(blobs: Option<Blobs>) -> Self {
        let mut engine = Self {
            router: Box::new(ByAgent),
            permission: Box::new(ReadOnlyRuns),
            hooks: Vec::new(),
            blobs,
            limits: Limits::default(),
            budget: Budget::default(),
            providers: BTreeMap::new(),
            tools: BTreeMap::new(),
        };
        engine.add_provider(Arc::new(Scripted::default()));
        for tool in builtin::tools() {
            engine.add_tool(tool);
        }
        engine
    }

    /// Makes a provider available.
    pub fn add_provider(&mut self, provider: Arc<dyn Provider>) {
        self.providers.insert(provider.name().to_owned(), provider);
    }

    /// Makes a tool available.
    pub fn add_tool(&mut self, tool: Arc<dyn Tool>) {
        self.tools.insert(tool.spec().name.clone(), tool);
    }

    /// A provider by name.
    pub fn provider(&self, name: &str) -> Option<&Arc<dyn Provider>> {
        self.providers.get(name)
    }

    /// A tool by name.
    pub fn tool(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.get(name)
    }

    /// How long what an entity keeps apart is kept.
    pub fn kept_for(&self) -> Duration {
        self.blobs.as_ref().map_or(Retention::BLOBS_DEFAULT, Blobs::ttl)
    }

    /// Whether there is such an agent.
    pub fn knows_agent(&self, agent: &str) -> bool {
        let request = RoutingRequest { agent, model: None };
        matches!(self.router.route(&request), Route::Single { .. })
    }

    /// What runs may call, as facts say it.
    pub fn inventory(&self) -> Vec<ToolInfo> {
        let info = |tool: &Arc<dyn Tool>| {
            let spec = tool.spec();
            ToolInfo {
                name: spec.name.clone(),
                description: Some(spec.description.clone()),
                read_only: spec.read_only,
                parallel_safe: spec.parallel_safe,
                source: Some("builtin".into()),
            }
        };
        self.tools.values().map(info).collect()
    }
}

/// An agent has the provider of its name.
struct ByAgent;

impl Router for ByAgent {
    fn route(&self, request: &RoutingRequest<'_>) -> Route {
        if request.agent != scripted::AGENT {
            return Route::NotPossible { reason: format!("there is no agent {}", request.agent) };
        }
        Route::Single {
            provider: scripted::AGENT.into(),
            model: request.model.unwrap_or(scripted::AGENT).to_owned(),
            source: if request.model.is_some() { "explicit" } else { "agent" }.into(),
        }
    }
}
