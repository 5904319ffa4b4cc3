//! What holds whatever facts come.

use std::collections::BTreeMap;

use proptest::{collection::vec, prelude::*};
use serde::{Serialize, de::DeserializeOwned};

use super::{
    id,
    random::{LARGE, SMALL, Size, fact},
};
use crate::{
    fact::{
        Fact, Failure, Ref, Timestamp, Trace,
        id::{ItemId, JobId, SubagentId, TaskId, ThreadId},
        payload::{
            CompactionBoundary, ContextCompactionCompleted, Payload, ThreadStarted, TurnFailed, TurnStarted,
        },
        scope::{ThreadScope, TurnScope},
        status::TurnStatus,
    },
    view::{
        ItemView, JobView, ReadModels, SessionView, SubagentView, TaskView, TurnView, shed::THREADS_BYTES_MAX,
    },
};

/// The largest that the JSON of each view may be. A record has 96 KiB, and entities keep more than their view.
const SESSION_MAX: usize = 80 * 1024;
const TURN_MAX: usize = 16 * 1024;
const TASK_MAX: usize = 64 * 1024;
const SUBAGENT_MAX: usize = 20 * 1024;
const JOB_MAX: usize = 12 * 1024;
const ITEM_MAX: usize = 20 * 1024;

fn size(view: &impl Serialize) -> usize {
    serde_json::to_string(view).unwrap().len()
}

fn read_back<V: Serialize + DeserializeOwned>(view: &V) -> V {
    serde_json::from_str(&serde_json::to_string(view).unwrap()).unwrap()
}

/// Every view at once, each fed every fact.
#[derive(Debug, Clone, PartialEq)]
struct Views {
    session: SessionView,
    ended: Vec<TurnView>,
    turn: TurnView,
    task: TaskView,
    subagent: SubagentView,
    job: JobView,
    item: ItemView,
}

impl Views {
    fn new() -> Self {
        Self {
            session: SessionView::default(),
            ended: Vec::new(),
            turn: TurnView::new(id("u1")),
            task: TaskView::default(),
            subagent: SubagentView::default(),
            job: JobView::default(),
            item: ItemView::new(id("i1")),
        }
    }

    fn apply(&mut self, fact: &Fact) {
        self.ended.extend(self.session.apply(fact));
        self.turn.apply(fact);
        self.task.apply(fact);
        self.subagent.apply(fact);
        if let Some(change) = self.job.apply(fact) {
            self.item.change(&change);
        }
        self.item.apply(fact);
    }

    fn read_back(&self) -> Self {
        Self {
            session: read_back(&self.session),
            ended: self.ended.iter().map(read_back).collect(),
            turn: read_back(&self.turn),
            task: read_back(&self.task),
            subagent: read_back(&self.subagent),
            job: read_back(&self.job),
            item: read_back(&self.item),
        }
    }

    fn stays_small(&self) {
        let sizes = [
            ("session", size(&self.session), SESSION_MAX),
            ("turn", size(&self.turn), TURN_MAX),
            ("task", size(&self.task), TASK_MAX),
            ("subagent", size(&self.subagent), SUBAGENT_MAX),
            ("job", size(&self.job), JOB_MAX),
            ("item", size(&self.item), ITEM_MAX),
        ];
        for (name, size, max) in sizes {
            assert!(size <= max, "a {name} of {size} bytes");
        }
        assert!(self.ended.iter().all(|turn| size(turn) <= TURN_MAX));
    }
}

/// The entities of one feed.
const STREAMS: [&str; 8] = [
    "session:sess_1",
    "task:task_1",
    "task:task_2",
    "subagent:sub_1",
    "subagent:sub_2",
    "job:job_1",
    "item:job_2/i1",
    "cron:x",
];

/// A fact as the entity of that stream tells it: items name themselves.
fn own(fact: Fact, stream: usize) -> Fact {
    if STREAMS[stream].starts_with("item:") {
        return fact.with(id::<JobId>("job_2")).with(id::<ItemId>("i1"));
    }
    fact
}

/// Two of three facts belong to one of a dozen traces.
fn trace_of(fact: &Fact) -> Option<Trace> {
    let at = fact.at.0;
    (!at.is_multiple_of(3)).then(|| Trace { trace_id: format!("{:032x}", at % 12).into(), span_id: None })
}

/// Turns that are over say that they were taken back.
fn roll_back(turns: &mut BTreeMap<ThreadId, Vec<TurnView>>, fact: &Fact) {
    let Payload::HistoryRollbackCompleted(rollback) = &fact.payload else { return };
    let Some(over) = fact.ids.thread().and_then(|thread| turns.get_mut(thread)) else { return };
    for turn in
        over.iter_mut().filter(|turn| rollback.error.is_none() && rollback.turns.contains(&turn.turn_id))
    {
        turn.roll_back(fact.at);
    }
}

fn facts(sizes: Size, len: usize) -> impl Strategy<Value = Vec<Fact>> {
    vec(any::<u64>().prop_map(move |seed| fact(seed, sizes)), 0..len)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn a_view_that_is_stored_and_read_in_the_middle_ends_as_one_that_was_not(
        facts in facts(SMALL, 160),
        middle in 0_usize..160,
    ) {
        let mut whole = Views::new();
        let mut pieces = Views::new();
        for (index, fact) in facts.iter().enumerate() {
            whole.apply(fact);
            pieces.apply(fact);
            if index == middle {
                pieces = pieces.read_back();
            }
        }
        prop_assert_eq!(&pieces.read_back(), &whole);
        prop_assert_eq!(pieces, whole);
    }

    #[test]
    fn numbers_of_turns_have_no_gaps(facts in facts(SMALL, 160)) {
        let mut models = ReadModels::new(id("sess_1"));
        facts.iter().for_each(|fact| models.apply("session:sess_1", fact));
        for thread in &models.session.threads {
            let ended = models.turns.get(&thread.thread_id).cloned().unwrap_or_default();
            let numbers: Vec<_> = ended.iter().filter_map(|turn| turn.number).collect();
            prop_assert_eq!(numbers, (1..=thread.turn_count).collect::<Vec<_>>());
            prop_assert!(ended.iter().all(|turn| turn.status.is_terminal()));
            prop_assert!(thread.turns.iter().all(|turn| !turn.status.is_terminal()));
        }
    }

    #[test]
    fn a_feed_of_many_entities_folds_to_what_each_keeps_of_its_own_facts(
        facts in vec((any::<u64>().prop_map(|seed| fact(seed, SMALL)), 0_usize..STREAMS.len()), 0..160),
    ) {
        let mut models = ReadModels::new(id("sess_1"));
        let facts: Vec<_> = facts.into_iter().map(|(fact, stream)| (own(fact, stream), STREAMS[stream])).collect();
        for (fact, stream) in &facts {
            models.apply_traced(stream, fact, trace_of(fact).as_ref());
        }
        // One entity after the other, each with nothing but its own facts.
        let of = |wanted: &'static str| facts.iter().filter(move |(_, stream)| *stream == wanted).map(|(fact, _)| fact);
        let mut session = SessionView { session_id: Some(id("sess_1")), ..SessionView::default() };
        let mut turns: BTreeMap<ThreadId, Vec<TurnView>> = BTreeMap::new();
        for fact in of("session:sess_1") {
            let ended = session.apply_traced(fact, trace_of(fact).as_ref());
            if let Payload::HistoryRollbackCompleted(_) = &fact.payload {
                roll_back(&mut turns, fact);
            }
            if let (Some(turn), Some(thread)) = (ended, fact.ids.thread()) {
                turns.entry(thread.clone()).or_default().push(turn);
            }
        }
        prop_assert_eq!(&models.session, &session);
        prop_assert_eq!(&models.turns, &turns);
        for (name, stream) in [("task_1", "task:task_1"), ("task_2", "task:task_2")] {
            let mut kept =
                TaskView { session_id: Some(id("sess_1")), task_id: Some(id(name)), ..TaskView::default() };
            of(stream).for_each(|fact| kept.apply(fact));
            let heard = of(stream).next().is_some();
            prop_assert_eq!(models.tasks.get(&id::<TaskId>(name)), heard.then_some(&kept));
        }
        for (name, stream) in [("sub_1", "subagent:sub_1"), ("sub_2", "subagent:sub_2")] {
            let (session_id, subagent_id) = (Some(id("sess_1")), Some(id(name)));
            let mut kept = SubagentView { session_id, subagent_id, ..SubagentView::default() };
            of(stream).for_each(|fact| kept.apply(fact));
            let heard = of(stream).next().is_some();
            prop_assert_eq!(models.subagents.get(&id::<SubagentId>(name)), heard.then_some(&kept));
        }
        let mut job = JobView { session_id: Some(id("sess_1")), job_id: Some(id("job_1")), ..JobView::default() };
        of("job:job_1").for_each(|fact| drop(job.apply(fact)));
        prop_assert_eq!(models.jobs.get(&id::<JobId>("job_1")), of("job:job_1").next().map(|_| &job));
        // What its job says of an item is part of it as well. This one's job says nothing: it is of another.
        let mut item = ItemView::new(id("i1"));
        of("item:job_2/i1").for_each(|fact| item.apply(fact));
        let heard = of("item:job_2/i1").next().is_some();
        prop_assert_eq!(models.items.get(&(Some(id("job_2")), id("i1"))), heard.then_some(&item));
        prop_assert_eq!(models.unknown, of("cron:x").count() as u64);
    }
}

#[test]
fn views_stay_small_whatever_comes() {
    for ids in [3, 12, 200] {
        let mut views = Views::new();
        for seed in 0..700 {
            views.apply(&fact(seed, Size { ids, ..LARGE }));
            if views.turn.status.is_terminal() {
                views.turn = TurnView::new(id("u1"));
            }
            if seed % 10 == 0 {
                views.stays_small();
            }
        }
        views.stays_small();
    }
}

#[test]
fn a_session_of_as_many_threads_as_can_be_tells_of_all_of_them() {
    let long = |number: usize, kind: &str| format!("{kind}{number:x<126}");
    let words = "\"".repeat(500);
    let mut view = SessionView::default();
    for number in 0..SessionView::THREADS_MAX + 2 {
        let scope = || TurnScope { thread: id(&long(number, "t")), turn: id(&long(number, "u")) };
        let started = ThreadStarted {
            title: Some(words.clone()),
            agent: Some(words.clone()),
            source: Some(words.clone()),
            parent_thread_id: Some(id(&long(number, "p"))),
            subagent_id: Some(id(&long(number, "s"))),
            ..Default::default()
        };
        let error = Failure::new(words.clone(), words.clone());
        let failed = TurnFailed { status: TurnStatus::Failed, error, ..Default::default() };
        view.apply(&Fact::new(Timestamp(u64::MAX), ThreadScope { thread: scope().thread }, started));
        view.apply(&Fact::new(Timestamp(u64::MAX), scope(), TurnStarted::default()));
        view.apply(&Fact::new(Timestamp(u64::MAX), scope(), failed));
        for boundary in 0..3 {
            let compacted = ContextCompactionCompleted {
                boundary: CompactionBoundary {
                    last_turn_id: Some(id(&long(boundary * 100 + number, "b"))),
                    turns: Some(u32::MAX),
                    ..Default::default()
                },
                summary_ref: Some(Ref::parse(&words[..128]).unwrap()),
                ..Default::default()
            };
            view.apply(&Fact::new(Timestamp(u64::MAX), scope(), compacted));
        }
        for _ in 0..4 {
            let turn = TurnScope { turn: id(&long(number, "v")), ..scope() };
            view.apply(&Fact::new(Timestamp(u64::MAX), turn, TurnStarted::default()));
        }
    }
    assert_eq!(view.threads.len(), SessionView::THREADS_MAX);
    assert!(view.omitted > 0);
    assert!(view.threads.iter().all(|thread| thread.turn_count == 1 && thread.last_outcome.is_some()));
    assert!(view.threads.iter().all(|thread| !thread.boundaries.is_empty()));
    assert!(size(&view.threads) <= THREADS_BYTES_MAX, "{} bytes", size(&view.threads));
}
