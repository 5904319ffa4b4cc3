//! Turns that are taken back, and summaries that stand for turns.

use proptest::prelude::*;

use super::{Story, id, thread, turn};
use crate::{
    fact::{
        Failure,
        id::TurnId,
        payload::*,
        scope::SessionScope,
        status::{Availability, ThreadStatus, TurnStatus},
    },
    view::{ReadModels, ThreadView, snapshot::ThreadRead},
};

fn begun() -> Story {
    Story::default()
        .then(SessionScope {}, SessionCreated::default())
        .then(thread("t1"), ThreadStarted::default())
}

fn ends(story: Story, name: &str) -> Story {
    let started = TurnStarted { agent: "scripted".into(), attempt: 1, ..Default::default() };
    let completed = TurnCompleted { status: TurnStatus::Completed, ..Default::default() };
    story.then(turn(name), started).then(turn(name), completed)
}

fn back(story: Story, gone: &[&str]) -> Story {
    let turns: Vec<TurnId> = gone.iter().map(|turn| id(turn)).collect();
    let started = HistoryRollbackStarted { turns: turns.clone(), ..Default::default() };
    let completed = HistoryRollbackCompleted { turns, ..Default::default() };
    story.then(thread("t1"), started).then(thread("t1"), completed)
}

fn summed(story: Story, last: &str) -> Story {
    let boundary = CompactionBoundary { last_turn_id: Some(id(last)), turns: Some(1), ..Default::default() };
    let started = ContextCompactionStarted { trigger: "command".into(), ..Default::default() };
    let completed =
        ContextCompactionCompleted { boundary, summary: Some("In short.".into()), ..Default::default() };
    story.then(turn(last), started).then(turn(last), completed)
}

fn fold(story: &Story) -> ReadModels {
    let mut models = ReadModels::new(id("sess_1"));
    story.facts.iter().for_each(|fact| models.apply("session:sess_1", fact));
    models
}

#[test]
fn turns_that_were_taken_back_say_so_and_count_no_more() {
    let models = fold(&back(ends(ends(begun(), "u1"), "u2"), &["u2"]));
    let thread = &models.session.threads[0];
    assert_eq!((thread.turn_count, thread.rolled_back, thread.history_turns()), (2, 1, 1));
    // The last turn is gone, and how the one before it ended is not the last outcome of anything.
    assert_eq!((thread.status, &thread.last_outcome), (ThreadStatus::Idle, &None));
    let turns = &models.turns[&thread.thread_id];
    assert!(turns[0].rolled_back_at.is_none());
    assert!(turns[1].rolled_back_at > turns[1].completed_at);
    let history = models.session.summary.history.as_ref().unwrap();
    assert_eq!((history.rollbacks, history.last_rollback.as_ref().unwrap().turns), (1, 1));
    let read = ThreadRead::of(&models.session, thread, None);
    assert_eq!((read.context.turns, read.context.rolled_back, read.context.boundary), (1, 1, None));
}

#[test]
fn a_rollback_that_was_not_possible_changes_nothing() {
    let story = summed(ends(begun(), "u1"), "u1");
    let failed = HistoryRollbackCompleted {
        turns: vec![id("u1")],
        error: Some(Failure::new("unavailable", "not now")),
        ..Default::default()
    };
    let models = fold(&story.then(thread("t1"), failed));
    let thread = &models.session.threads[0];
    assert_eq!((thread.history_turns(), thread.boundaries.len()), (1, 1));
    assert_eq!(thread.status, ThreadStatus::Completed);
    assert!(models.turns[&thread.thread_id][0].rolled_back_at.is_none());
    assert!(models.session.summary.context.as_ref().unwrap().last_compaction.is_some());
}

#[test]
fn a_summary_goes_with_its_last_turn_and_the_one_before_it_stands_again() {
    let story = summed(ends(summed(ends(begun(), "u1"), "u1"), "u2"), "u2");
    let models = fold(&story);
    let context = models.session.summary.context.as_ref().unwrap();
    let last = context.last_compaction.as_ref().unwrap();
    assert_eq!((last.last_turn_id.as_ref(), last.thread_id.as_ref()), (Some(&id("u2")), Some(&id("t1"))));
    // Nobody counted, and nobody guesses.
    assert_eq!(last.tokens_availability, Some(Availability::Unknown));
    assert_eq!((last.tokens_before, last.tokens_after), (None, None));
    let boundary = |models: &ReadModels| {
        let thread = &models.session.threads[0];
        ThreadRead::of(&models.session, thread, None).context.boundary.map(|it| it.last_turn_id)
    };
    assert_eq!(boundary(&models), Some(id("u2")));
    let story = back(ends(story, "u3"), &["u3"]);
    assert_eq!(boundary(&fold(&story)), Some(id("u2")), "a rollback to the boundary leaves it");
    let story = back(story, &["u2"]);
    assert_eq!(boundary(&fold(&story)), Some(id("u1")));
    assert!(fold(&story).session.summary.context.unwrap().last_compaction.is_none());
    assert_eq!(boundary(&fold(&back(story, &["u1"]))), None);
}

/// What happens to a thread, at random: a turn ends, some of the last are taken back, a summary stands for some.
#[derive(Debug, Clone, Copy)]
enum Step {
    Ends,
    Back(usize),
    Sum(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => Just(Step::Ends),
        1 => (1_usize..4).prop_map(Step::Back),
        1 => (0_usize..3).prop_map(Step::Sum),
    ];
    proptest::collection::vec(step, 0..40)
}

proptest! {
    #[test]
    fn p5_a_folded_history_has_the_turns_that_were_not_taken_back(steps in steps()) {
        let mut story = begun();
        // What should be there: turns, and up to which of them a summary stands.
        let (mut history, mut sums): (Vec<String>, Vec<String>) = Default::default();
        let mut number = 0;
        for step in steps {
            story = match step {
                Step::Ends => {
                    number += 1;
                    history.push(format!("u{number}"));
                    ends(story, &format!("u{number}"))
                }
                Step::Back(turns) => {
                    let gone = history.split_off(history.len().saturating_sub(turns));
                    sums.retain(|sum| !gone.contains(sum));
                    let gone: Vec<&str> = gone.iter().map(String::as_str).collect();
                    back(story, &gone)
                }
                Step::Sum(place) => {
                    let Some(last) = history.iter().rev().nth(place).cloned() else { continue };
                    sums.retain(|sum| *sum != last);
                    sums.push(last.clone());
                    if sums.len() > ThreadView::BOUNDARIES_MAX {
                        sums.remove(0);
                    }
                    summed(story, &last)
                }
            };
        }
        let mut models = ReadModels::new(id("sess_1"));
        story.facts.iter().for_each(|fact| models.apply("session:sess_1", fact));
        let thread = &models.session.threads[0];
        let turns = models.turns.values().flatten();
        let left: Vec<_> = turns.filter(|turn| turn.rolled_back_at.is_none()).collect();
        let left: Vec<&str> = left.iter().map(|turn| turn.turn_id.as_str()).collect();
        prop_assert_eq!(left, history.iter().map(String::as_str).collect::<Vec<_>>());
        prop_assert_eq!(thread.history_turns(), history.len() as u64);
        let boundaries: Vec<&str> = thread.boundaries.iter().map(|it| it.last_turn_id.as_str()).collect();
        prop_assert_eq!(boundaries, sums.iter().map(String::as_str).collect::<Vec<_>>());
        let last = models.session.summary.context.as_ref().and_then(|context| context.last_compaction.as_ref());
        let last = last.and_then(|last| last.last_turn_id.as_ref()).map(TurnId::as_str);
        prop_assert!(last.is_none_or(|last| sums.iter().any(|sum| sum == last)));
    }
}
