//! What a session snapshot says of tasks beside the tasks themselves.

use crate::{
    fact::{
        id::{ActionId, TaskId},
        payload::Object,
        status::{Availability, TaskStatus},
    },
    view::{TaskView, counts::TaskSummary, declare::views},
};

views! {
    /// An edge between a task and something else.
    TaskEdge {
        /// The task.
        from: TaskId,
        /// The other end.
        to: String,
        /// What it means.
        kind: String,
        ..
        /// How the other end stands.
        status: Option<String>,
    }

    /// What tasks have to do with each other.
    #[derive(Default)]
    TaskGraph {
        /// The tasks that are told of.
        nodes: Vec<TaskId>,
        /// Their edges.
        edges: Vec<TaskEdge>,
        /// Whether there are tasks or edges that are not told of.
        partial: bool,
    }

    /// A task that cannot go on by itself.
    BlockedTask {
        /// Which.
        task_id: TaskId,
        /// How it stands.
        status: TaskStatus,
        ..
        /// Why.
        reason: Option<String>,
        /// The tasks that it waits for.
        waiting_for: Vec<TaskId>,
        /// The decision that it waits for.
        action_id: Option<ActionId>,
    }

    /// How far the results of one task have come.
    TaskDelivery {
        /// Which.
        task_id: TaskId,
        /// How far.
        delivery_state: Object,
    }

    /// How far results have come to whoever wants them.
    #[derive(Default)]
    DeliverySummary {
        /// By task.
        tasks: Vec<TaskDelivery>,
        ..
        /// Why there is nothing: no task says.
        availability: Option<Availability>,
    }
}

impl TaskGraph {
    /// Of the tasks that are told of.
    pub fn of(tasks: &[TaskView], summary: &TaskSummary) -> Self {
        let edges = |task: &TaskView| {
            let from = task.task_id.clone();
            let edge = move |edge: &crate::view::Relationship| {
                Some(TaskEdge {
                    from: from.clone()?,
                    to: edge.target_id.clone(),
                    kind: edge.kind.clone(),
                    status: edge.status.clone(),
                })
            };
            task.relationships.iter().filter_map(edge).collect::<Vec<_>>()
        };
        Self {
            nodes: tasks.iter().filter_map(|task| task.task_id.clone()).collect(),
            edges: tasks.iter().flat_map(edges).collect(),
            partial: summary.total > tasks.len() as u64
                || tasks.iter().any(|task| task.relationships_omitted > 0),
        }
    }
}

impl BlockedTask {
    /// Those of the tasks that are told of.
    pub fn of(tasks: &[TaskView]) -> Vec<Self> {
        let blocked = |task: &TaskView| {
            Some(Self {
                task_id: task.task_id.clone()?,
                status: task.status,
                reason: task.status_reason.clone(),
                waiting_for: task.waiting_for.clone(),
                action_id: task.action_id.clone(),
            })
        };
        tasks.iter().filter(|task| task.is_blocked()).filter_map(blocked).collect()
    }
}

impl DeliverySummary {
    /// Of the tasks that are told of.
    pub fn of(tasks: &[TaskView]) -> Self {
        let said = |task: &TaskView| {
            Some(TaskDelivery {
                task_id: task.task_id.clone()?,
                delivery_state: task.delivery_state.clone()?,
            })
        };
        let tasks: Vec<_> = tasks.iter().filter_map(said).collect();
        let availability = tasks.is_empty().then_some(Availability::NotApplicable);
        Self { tasks, availability }
    }
}
