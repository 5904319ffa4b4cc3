//! How a task begins.

use cadre_cluster::host::{Decision, Moment};

use super::{Task, Work, decide::Step};
use crate::{
    control::Error,
    entity::{Child, Host, Message, Parent, Start, records},
    exec::{Children, Draft, Source},
    fact::{
        Failure, Ids,
        id::TaskId,
        payload::{TaskAccepted, TaskCreated, Visibility},
        status::{SubagentStatus, TaskStatus},
    },
};

/// What remembering one task that has to end first takes, beside its name.
const NEED_BYTES: usize = 24;
/// What is shown of what a task was told, at most.
const VIEW_BYTES_MAX: usize = 16 * 1024;

/// The input, apart when there is no room for it: an attempt has it once more.
fn keep_input(id: &TaskId, input: Source, draft: &mut Draft<'_>) -> Source {
    match input {
        Source::Inline(parts) if !draft.take_spare(2 * Source::Inline(parts.clone()).size()) => {
            let content = serde_json::to_vec(&parts).expect("parts serialize into memory without fail");
            Source::Stored(draft.keep(content, Ids::default().with(id.clone())))
        }
        input => input,
    }
}

/// What cannot be a task has ended before it began, and whoever wanted it hears of that.
pub(super) fn not_created(id: &TaskId, parent: Option<Parent>, error: Error) -> Decision<Task> {
    let Some(Parent { address, slot }) = parent else { return Decision::nothing() };
    let ended = Message::ChildEnded {
        parent: slot,
        id: id.to_string(),
        status: SubagentStatus::Failed,
        live: false,
        error: Some(Failure::new(error.code.as_str(), error.message)),
    };
    Decision::nothing().send_to(address, &ended)
}

pub(super) fn create<'a>(
    host: &'a Host,
    id: TaskId,
    start: Start,
    moment: &Moment<'a>,
) -> Result<Step<'a>, Error> {
    let fingerprint = start.fingerprint();
    let Child::Task(mut spec) = start.what else {
        return Err(Error::invalid("taskId", "this is the id of a task"));
    };
    let args = (*spec.0).clone();
    // Kept as what it needs, which changes.
    spec.0.depends_on = Vec::new();
    let mut draft = Draft::new(&host.engine, start.session.clone(), moment);
    let told = serde_json::to_vec(&spec.0).map_or(usize::MAX, |json| json.len());
    let needs: usize = args.depends_on.iter().map(|need| need.as_str().len() + NEED_BYTES).sum();
    let bytes = told.saturating_add(told.min(VIEW_BYTES_MAX)).saturating_add(needs);
    if !draft.take_spare(bytes) {
        return Err(Error::too_large(draft.spare as u64, bytes as u64));
    }
    // Without an agent and without anything to run, somebody outside does the work.
    let is_outside = args.agent.is_none() && start.input.size() == 0;
    let is_named = args.task_id.is_some();
    let source = keep_input(&id, start.input, &mut draft);
    let created = TaskCreated {
        status: TaskStatus::Accepted,
        objective: args.objective.clone(),
        title: args.title.clone(),
        task_kind: args.task_kind.clone(),
        visibility: Some(args.visibility.unwrap_or(Visibility::Foreground)),
        priority: args.priority.clone(),
        assignee: args.assignee.clone(),
        agent: args.agent.clone(),
        constraints: args.constraints.clone(),
        profile: args.profile.clone(),
        acceptance: args.acceptance.clone(),
        depends_on: args.depends_on.clone(),
        retry_policy: args.retry_policy,
        timeout_ms: args.timeout_ms,
        auto_start: args.auto_start,
        ..Default::default()
    };
    let mut step = Step {
        work: Work {
            id: id.clone(),
            session: start.session.clone(),
            parent: start.parent,
            lineage: start.lineage,
            fingerprint,
            agent: (!is_outside).then_some(start.agent),
            source,
            depth: start.depth,
            status: TaskStatus::Accepted,
            before_pause: None,
            waits_for: None,
            wanted: args.auto_start,
            attempts: 0,
            attempts_spent: 0,
            attempt: None,
            children: Children::default(),
            needs: Default::default(),
            watchers: Default::default(),
            ending: None,
            closed: false,
            // Others may wait for a name before there is anybody of that name: who does is looked up at the end.
            has_more_watchers: is_named,
            budget: start.budget,
            spec,
        },
        draft,
    };
    step.tell(created);
    step.draft.set_record(records::task(&start.session, &id), &[][..]);
    let parent = step.work.lineage.task.as_ref().map_or_else(Vec::new, |parent| parent.as_str().into());
    step.draft.set_record(records::any_task(&id), parent);
    if let Some(parent) = &step.work.lineage.task {
        step.draft.set_record(records::task_child(parent, &id), &[][..]);
    }
    step.draft.count(records::count(&start.session, "tasks", TaskStatus::Accepted.as_str()), 1);
    if !args.depends_on.is_empty() {
        step.look_for_cycle();
    }
    for need in args.depends_on {
        step.need(need, None);
    }
    if !step.is_blocked() {
        step.tell(TaskAccepted { status: TaskStatus::Accepted, ..Default::default() });
    }
    step.go_on();
    Ok(step)
}
