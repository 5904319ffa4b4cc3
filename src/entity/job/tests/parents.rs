//! Whose word ends a job, and an attempt at an item.

use cadre_cluster::host::Input;
use serde_json::json;

use crate::{
    entity::{
        Child, Close, ItemSpec, Job, JobItem, Lineage, Message, Named, Parent, Slot, Start,
        job::{Command, Create, Spec},
        kind,
        stage::{self, Stage, script, session_id, somebody},
    },
    exec::Source,
    fact::{
        id::{ItemId, JobId, RunId},
        status::{JobStatus, SubagentStatus},
    },
};

fn close() -> Message {
    Message::Close(Close { reason: None, by: "test".into() })
}

fn parent(kind: &str, id: &str) -> Option<Parent> {
    Some(Parent { address: somebody(kind, id), slot: Slot { turn: None, group: 0 } })
}

#[test]
fn only_its_task_closes_a_job_and_only_its_job_an_attempt() {
    let mut job = Stage::new(Job::new(stage::host(Vec::new()), stage::store()), "job_stage");
    let create = Create {
        session: session_id(),
        parent: parent(kind::TASK, "task_above"),
        lineage: Lineage::default(),
        depth: 1,
        fingerprint: 7,
        items: 1,
        spec: Named(Box::new(Spec::default())),
    };
    let prepare = Command::Prepare { session: session_id(), fingerprint: 7, items: 1 };
    job.give(Input::Command(prepare)).unwrap();
    job.give(Input::Command(Command::Create(Box::new(create)))).unwrap();
    assert!(job.hear(close()).is_empty(), "somebody names it");
    assert_eq!(job.state.work.as_ref().unwrap().status, JobStatus::Running);
    let from = somebody(kind::TASK, "task_above");
    job.give(Input::Message { from, message: close() }).unwrap();
    assert_eq!(job.state.work.as_ref().unwrap().status, JobStatus::Cancelled);

    let mut item = Stage::new(JobItem(stage::host(Vec::new())), "run_1");
    let spec = ItemSpec {
        job: JobId::parse("job_stage").unwrap(),
        item: ItemId::parse("item_1").unwrap(),
        run: RunId::parse("run_1").unwrap(),
        attempt: 1,
        deadline_ms: None,
        retries_max: 0,
        former: None,
    };
    let start = Start {
        session: session_id(),
        parent: parent(kind::JOB, "job_stage"),
        lineage: Lineage::default(),
        agent: "scripted".into(),
        input: Source::Inline(script(&json!([{ "sleep": 9_000 }]))),
        depth: 1,
        what: Child::Item(spec),
        budget: None,
    };
    item.hear(Message::Start(Box::new(start)));
    item.hear(close());
    assert_eq!(item.state.work.as_ref().unwrap().status, SubagentStatus::Running);
    let from = somebody(kind::JOB, "job_stage");
    item.give(Input::Message { from, message: close() }).unwrap();
    assert_eq!(item.state.work.as_ref().unwrap().status, SubagentStatus::Cancelled);
}
