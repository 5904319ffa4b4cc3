//! The summaries of a session snapshot, each honest about what no fact says.
//!
//! A session sees its own facts only: tasks, subagents and jobs tell of theirs, and of those only counts by status are at
//! hand. So a summary of what happens below, too, says that it is `partial` when there is something below.

use std::collections::BTreeMap;

use crate::{
    fact::{
        id::{JobId, SubagentId, TaskId, ThreadId, TurnId},
        payload::Usage,
        status::{Availability, JobStatus, JoinStatus, SessionStatus, SubagentStatus},
    },
    view::{
        ItemCounts, JobView, PermissionState, RoutingDecision, SessionView, SnapshotParts, SubagentView,
        counts::{JobCounts, SubagentCounts},
        declare::views,
        summary::{Channels, LimitEntry, Outputs, Sandbox},
    },
};

views! {
    /// Which model answers, what it cost, and what limits say.
    #[derive(Default)]
    RoutingLimitSummary {
        /// The last decision.
        #[serde(flatten)]
        routing: RoutingDecision,
        ..
        /// Why there is no decision.
        routing_availability: Option<Availability>,
        /// What was paid.
        cost_usd: Option<f64>,
        /// Why it is not known what was paid in all.
        cost_availability: Option<Availability>,
        /// What the last estimate was.
        estimated_cost_usd: Option<f64>,
        /// What models used.
        usage: Option<Usage>,
        /// Limits and quotas by name.
        limits: BTreeMap<String, LimitEntry>,
        /// How many more there are.
        limits_omitted: u32,
        /// How often somebody said: not so fast.
        rate_limit_hits: u32,
        /// How often something stopped because nothing was left.
        quota_blocks: u32,
        /// Whether cost, use and limits of what is below the session are missing.
        partial: bool,
    }

    /// What was decided about permissions, and what waits for a decision.
    #[derive(Default)]
    PermissionSummary {
        /// What was decided.
        #[serde(flatten)]
        decided: PermissionState,
        /// How many decisions are waited for.
        pending_approvals: u32,
        ..
        /// How many tasks and subagents wait for a decision or for something that only somebody else can give.
        waiting_below: u64,
        /// Whether what was decided below the session is missing.
        partial: bool,
        /// Why there is nothing: nothing was asked, or only below the session something may have been.
        availability: Option<Availability>,
        /// How many hooks were asked.
        hook_runs: u32,
        /// How many hooks gave no answer.
        hook_failures: u32,
        /// How often a policy changed.
        policy_changes: u32,
    }

    /// The bounds in which things ran.
    #[derive(Default)]
    SandboxSummary {
        /// The last bounds.
        #[serde(flatten)]
        sandbox: Sandbox,
        ..
        /// Whether the bounds of what is below the session are missing.
        partial: bool,
        /// Why there are none: no fact says that any were applied.
        availability: Option<Availability>,
    }

    /// Output too large for facts.
    #[derive(Default)]
    OutputSummary {
        /// Of the session's own turns.
        #[serde(flatten)]
        outputs: Outputs,
        ..
        /// Whether outputs of what is below the session are missing.
        partial: bool,
        /// Why that is not all.
        availability: Option<Availability>,
    }

    /// Who listens from afar.
    #[derive(Default)]
    ChannelSummary {
        /// The last channels.
        #[serde(flatten)]
        channels: Channels,
        ..
        /// Why there are none.
        availability: Option<Availability>,
    }

    /// One job in short.
    JobProgressEntry {
        /// Which.
        job_id: JobId,
        /// How it stands.
        status: JobStatus,
        /// How many items stand how.
        counts: ItemCounts,
    }

    /// One subagent in short, and where it is in the tree.
    SubagentEntry {
        /// Which.
        subagent_id: SubagentId,
        /// How it stands.
        status: SubagentStatus,
        /// Whether `resume_subagent` has something to go on with.
        recoverable: bool,
        ..
        /// The subagent that made it.
        parent_subagent_id: Option<SubagentId>,
        /// The task that it works for.
        parent_task_id: Option<TaskId>,
        /// The turn that made it.
        parent_turn_id: Option<TurnId>,
        /// The thread that it has for itself.
        thread_id: Option<ThreadId>,
    }

    /// Subagents and jobs.
    #[derive(Default)]
    SubagentJobSummary {
        /// How many subagents stand how.
        subagents: SubagentCounts,
        /// How many jobs stand how.
        jobs: JobCounts,
        ..
        /// The newest subagents.
        graph: Vec<SubagentEntry>,
        /// Jobs in short.
        job_progress: Vec<JobProgressEntry>,
        /// Whether there are subagents or jobs that are not told of.
        partial: bool,
    }

    /// How facts are joined with traces.
    TelemetrySummary {
        /// The traces that the session's own facts named last, the latest at the end.
        trace_ids: Vec<String>,
        /// Whether facts and traces can be joined. `unknown` when only what is below the session may name any.
        join_status: JoinStatus,
    }
}

impl RoutingLimitSummary {
    /// Of a session, below which there is something, or is not.
    pub fn of(view: &SessionView, partial: bool) -> Self {
        let limits = view.summary.limits.clone().unwrap_or_default();
        let paid = limits.cost_usd.or(limits.usage.as_ref().and_then(|usage| usage.cost_usd));
        Self {
            routing: view.summary.routing.clone().unwrap_or_default(),
            routing_availability: view.summary.routing.is_none().then_some(Availability::Unknown),
            cost_usd: paid,
            cost_availability: (paid.is_none() || partial).then_some(Availability::Unknown),
            estimated_cost_usd: limits.estimated_cost_usd,
            usage: limits.usage,
            limits: limits.limits,
            limits_omitted: limits.limits_omitted,
            rate_limit_hits: limits.rate_limit_hits,
            quota_blocks: limits.quota_blocks,
            partial,
        }
    }
}

impl PermissionSummary {
    /// Of a session, below which there is something, or is not, of which so much waits.
    pub fn of(view: &SessionView, partial: bool, waiting_below: u64) -> Self {
        let turns = view.threads.iter().flat_map(|thread| &thread.turns);
        let pending =
            |turn: &crate::view::TurnView| turn.pending_requests.len() as u32 + turn.pending_omitted;
        let pending_approvals = turns.map(pending).fold(0, u32::saturating_add);
        let nothing = view.summary.permission.is_none() && pending_approvals == 0 && waiting_below == 0;
        let why = if partial { Availability::Unknown } else { Availability::NotApplicable };
        Self {
            decided: view.summary.permission.clone().unwrap_or_default(),
            pending_approvals,
            waiting_below,
            partial,
            availability: nothing.then_some(why),
            hook_runs: view.summary.hook_runs,
            hook_failures: view.summary.hook_failures,
            policy_changes: view.summary.policy_changes,
        }
    }
}

impl SandboxSummary {
    /// Of a session, below which there is something, or is not.
    pub fn of(view: &SessionView, partial: bool) -> Self {
        let sandbox = view.summary.sandbox.clone();
        let availability = sandbox.is_none().then_some(Availability::Unknown);
        Self { sandbox: sandbox.unwrap_or_default(), partial, availability }
    }
}

impl OutputSummary {
    /// Of a session, below which there is something, or is not.
    pub fn of(view: &SessionView, partial: bool) -> Self {
        let outputs = view.summary.output.clone().unwrap_or_default();
        Self { outputs, partial, availability: partial.then_some(Availability::Unknown) }
    }
}

impl ChannelSummary {
    /// Of a session.
    pub fn of(view: &SessionView) -> Self {
        let channels = view.summary.channels.clone();
        let availability = channels.is_none().then_some(Availability::NotApplicable);
        Self { channels: channels.unwrap_or_default(), availability }
    }
}

impl SubagentJobSummary {
    /// From counts, and subagents and jobs as many as are told of.
    pub fn of(parts: &SnapshotParts) -> Self {
        let SnapshotParts { subagent_counts, job_counts, subagents, jobs, view, .. } = parts;
        let is_open = view.status == SessionStatus::Active;
        let child = |subagent: &SubagentView| {
            let ended = subagent.status.is_terminal() && subagent.status != SubagentStatus::Completed;
            Some(SubagentEntry {
                subagent_id: subagent.subagent_id.clone()?,
                status: subagent.status,
                recoverable: ended && is_open,
                parent_subagent_id: subagent.parent_subagent_id.clone(),
                parent_task_id: subagent.parent_task_id.clone(),
                parent_turn_id: subagent.parent_turn_id.clone(),
                thread_id: subagent.thread_id.clone(),
            })
        };
        let (counted, job_counts) = (SubagentCounts::from(subagent_counts), JobCounts::from(job_counts));
        let entry = |job: &JobView| {
            Some(JobProgressEntry { job_id: job.job_id.clone()?, status: job.status, counts: job.counts })
        };
        Self {
            partial: counted.total > subagents.len() as u64 || job_counts.total > jobs.len() as u64,
            subagents: counted,
            jobs: job_counts,
            graph: subagents.iter().filter_map(child).collect(),
            job_progress: jobs.iter().filter_map(entry).collect(),
        }
    }
}

impl TelemetrySummary {
    /// Of a session, below which there is something, or is not.
    pub fn of(view: &SessionView, has_children: bool) -> Self {
        let trace_ids = view.summary.trace_ids.clone();
        let join_status = match (trace_ids.is_empty(), has_children) {
            (false, _) => JoinStatus::Joined,
            (true, true) => JoinStatus::Unknown,
            (true, false) => JoinStatus::NotApplicable,
        };
        Self { trace_ids, join_status }
    }
}
