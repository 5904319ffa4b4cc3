//! A whole session: the answer of `get_session`.

use crate::{
    fact::{
        Cursor,
        id::SessionId,
        payload::Object,
        status::{Availability, SessionStatus},
        time::Time,
    },
    view::{
        Incident, TaskView,
        counts::TaskSummary,
        declare::views,
        summary::{Benchmarks, ContextBoundary, History},
    },
};

use super::{
    ArtifactSummary, BlockedTask, ChannelSummary, DeliverySummary, EvidenceSummary, ExecutionEnvironment,
    HistoryCursor, HistoryPosition, OutputSummary, PermissionSummary, RoutingLimitSummary, SandboxSummary,
    SnapshotParts, SubagentJobSummary, TaskGraph, TelemetrySummary, ThreadRead, ToolInventory,
};

views! {
    /// Benchmarks, or why there are none.
    #[derive(Default)]
    BenchmarkSummary {
        /// What is known.
        #[serde(flatten)]
        benchmarks: Benchmarks,
        ..
        /// Why there is nothing.
        availability: Option<Availability>,
    }

    /// A whole session.
    SessionSnapshot {
        /// The version of the schemas.
        schema_version: String,
        /// Who serves it.
        runtime_id: String,
        /// Its id.
        session_id: SessionId,
        /// Active or archived.
        status: SessionStatus,
        /// When something last happened in it.
        updated_at: Time,
        /// Its threads, in the order in which they began.
        threads: Vec<ThreadRead>,
        /// Its tasks, as many as were asked for.
        tasks: Vec<TaskView>,
        /// How many tasks stand how.
        task_summary: TaskSummary,
        /// What tasks have to do with each other.
        task_graph: TaskGraph,
        /// Tasks that cannot go on by themselves.
        blocked_tasks: Vec<BlockedTask>,
        /// How far results have come.
        delivery_state: DeliverySummary,
        /// Which model answers, what it cost, and what limits say.
        routing_limit_summary: RoutingLimitSummary,
        /// How facts are joined with traces.
        telemetry_summary: TelemetrySummary,
        /// The last pieces of evidence.
        evidence_refs: Vec<String>,
        /// What was exported, and what was found then.
        evidence_summary: EvidenceSummary,
        /// What was decided about permissions.
        permission_state: PermissionSummary,
        /// The bounds in which things ran.
        sandbox_state: SandboxSummary,
        /// Where things run.
        execution_environment: ExecutionEnvironment,
        /// Subagents and jobs.
        subagent_job_summary: SubagentJobSummary,
        /// Who listens from afar.
        channel_summary: ChannelSummary,
        /// Output too large for facts.
        output_summary: OutputSummary,
        /// What was loaded, put together again or taken back.
        history_summary: History,
        /// Artifacts, of the session and of its tasks.
        artifact_summary: ArtifactSummary,
        /// Benchmarks.
        benchmark_summary: BenchmarkSummary,
        /// The tools of the last turn that chose any.
        tool_inventory: ToolInventory,
        /// Where older turns are.
        history: HistoryCursor,
        ..
        /// The workspace, when the caller's own names one.
        workspace_id: Option<String>,
        /// What people call it.
        title: Option<String>,
        /// The agent of its turns, unless they name another.
        agent: Option<String>,
        /// The caller's own.
        metadata: Object,
        /// When it began.
        created_at: Option<Time>,
        /// What people should know, of all threads and of none.
        incidents: Vec<Incident>,
        /// How many incidents there were.
        incidents_total: u64,
        /// What the last turn knows, and what was summed up.
        context_boundary: Option<ContextBoundary>,
        /// Up to where all this is true: the tail begins right after it.
        #[schemars(with = "Option<String>")]
        cursor: Option<Cursor>,
    }
}

impl SessionSnapshot {
    /// Puts a snapshot together. The same parts give the same snapshot, wherever they come from.
    pub fn assemble(parts: SnapshotParts) -> Self {
        let view = &parts.view;
        let summary = &view.summary;
        let session_id = parts.session_id.clone();
        let threads = view.threads.iter();
        let threads: Vec<_> =
            threads.map(|thread| ThreadRead::of(view, thread, parts.turns_of(&thread.thread_id))).collect();
        let own = |mut task: TaskView| {
            task.session_id = Some(session_id.clone());
            task.task_id.is_some().then_some(task)
        };
        let tasks: Vec<_> = parts.tasks.iter().cloned().filter_map(own).collect();
        let task_summary = TaskSummary::from(&parts.task_counts);
        let partial = parts.has_children();
        let evidence_refs = evidence_refs(&parts, &tasks);
        let has_more = threads.iter().any(|thread| thread.history.has_more);
        let before = HistoryPosition::before(&view.threads, &parts.turns).to_string();
        let workspace = view.metadata.get("workspaceId").and_then(|id| id.as_str());
        Self {
            schema_version: parts.publisher.schema_version.clone(),
            runtime_id: parts.publisher.runtime_id.clone(),
            status: view.status,
            updated_at: view.updated_at.or(view.created_at).unwrap_or_default(),
            task_graph: TaskGraph::of(&tasks, &task_summary),
            blocked_tasks: BlockedTask::of(&tasks),
            delivery_state: DeliverySummary::of(&tasks),
            routing_limit_summary: RoutingLimitSummary::of(view, partial),
            telemetry_summary: TelemetrySummary::of(view, partial),
            evidence_summary: EvidenceSummary::of(view, &evidence_refs),
            evidence_refs,
            permission_state: PermissionSummary::of(view, partial, parts.waiting_below()),
            sandbox_state: SandboxSummary::of(view, partial),
            execution_environment: ExecutionEnvironment::of(&session_id, view, None),
            subagent_job_summary: SubagentJobSummary::of(&parts),
            channel_summary: ChannelSummary::of(view),
            output_summary: OutputSummary::of(view, partial),
            history_summary: summary.history.clone().unwrap_or_default(),
            benchmark_summary: BenchmarkSummary {
                availability: summary.benchmark.is_none().then_some(Availability::NotApplicable),
                benchmarks: summary.benchmark.clone().unwrap_or_default(),
            },
            tool_inventory: ToolInventory::of(&session_id, view),
            history: HistoryCursor { has_more, before: has_more.then_some(before) },
            workspace_id: workspace.map(str::to_owned),
            title: view.title.clone(),
            agent: view.agent.clone(),
            metadata: view.metadata.clone(),
            created_at: view.created_at,
            incidents: view.incidents.clone(),
            incidents_total: view.incidents_total,
            context_boundary: summary.context.clone(),
            artifact_summary: ArtifactSummary::of(view, &tasks, &task_summary),
            cursor: parts.cursor,
            session_id,
            threads,
            tasks,
            task_summary,
        }
    }
}

fn evidence_refs(parts: &SnapshotParts, tasks: &[TaskView]) -> Vec<String> {
    let recent = parts.view.summary.evidence.iter().flat_map(|evidence| &evidence.recent);
    let mut refs: Vec<String> = recent.map(|entry| entry.evidence_id.to_string()).collect();
    for evidence in tasks.iter().flat_map(|task| &task.evidence_refs) {
        if !refs.iter().any(|known| known == evidence.as_str()) {
            refs.push(evidence.to_string());
        }
    }
    refs
}
