//! What the tests of hosting share: a test entity, a world of nodes on a store and a bus, and the claims.
#![allow(dead_code, reason = "each test program uses its part")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

pub mod bank;
pub mod claims;
pub mod faulty;
pub mod metrics;
pub mod probe;
pub mod world;

use std::time::Duration;

use tokio::time::Instant;

pub use world::World;

/// Far more than anything here takes, also on a machine that is busy with something else.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Runs one claim in a world of its own.
pub fn run<S, C>(setup: impl FnOnce() -> S, claim: impl FnOnce(World) -> C)
where
    S: Future<Output = World>,
    C: Future<Output = ()>,
{
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime starts").block_on(async {
        let world = setup().await;
        let bound = 3 * PATIENCE;
        tokio::time::timeout(bound, claim(world)).await.expect("the claim comes to an end");
    });
}

/// Waits for what comes about in the background.
pub async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds().await {
        assert!(Instant::now() < deadline, "does not come about: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// One test per claim, in a world made by `$setup`.
#[macro_export]
macro_rules! hosting_claims {
    ($setup:expr) => {
        $crate::hosting_claims!(@ $setup;
            commands::a_command_is_answered_with_the_cursor_of_its_event,
            commands::p3_the_same_key_has_the_same_answer_after_a_restart,
            commands::a_refusal_is_durable_under_its_key,
            commands::a_refusal_that_may_not_be_met_again_leaves_its_key_free,
            commands::a_key_used_for_another_command_is_refused,
            commands::keys_expire_and_are_swept,
            commands::many_commands_at_once_share_few_commits,
            commands::an_unknown_kind_is_named,
            commands::p9_more_keys_than_a_transaction_can_remove_are_swept,
            messages::p6_messages_are_applied_once_across_a_change_of_owner,
            messages::p7_messages_arrive_however_many_commands_wait,
            messages::p9_messages_that_nobody_can_take_keep_no_others_from_arriving_and_end_as_dead_letters,
            messages::ten_thousand_messages_to_one_entity_take_few_steps,
            timers::a_timer_fires_after_a_restart_and_not_early,
            timers::a_cancelled_timer_does_not_fire,
            timers::a_timer_is_not_forgotten_while_its_step_is_on_its_way,
            timers::p9_as_many_timers_as_allowed_can_be_set_anew,
            timers::a_clock_that_goes_back_does_not_take_time_back,
            effects::an_effect_ends_as_it_went,
            effects::p7_after_a_crash_an_effect_is_done_again_or_lost,
            effects::a_cancelled_effect_stops_and_says_nothing,
            effects::an_id_can_be_used_again_once_its_effect_has_ended,
            effects::an_effect_that_is_replaced_does_not_answer_for_the_new_one,
            effects::p7_pending_effects_are_taken_up_though_there_is_not_room_for_all_at_once,
            effects::what_an_effect_reports_is_durable_before_it_goes_on,
            effects::p7_a_result_that_cannot_be_applied_ends_as_a_failure,
            effects::p9_attempts_that_end_with_their_owner_count,
            effects::effects_start_at_once_after_the_clock_went_back,
            effects::a_callers_trace_context_reaches_what_follows_on_any_node,
            poison::a_command_that_breaks_the_entity_is_put_aside_and_its_neighbours_are_not,
            poison::a_message_that_cannot_be_applied_is_put_aside_and_the_rest_arrive,
            poison::an_unreadable_command_is_put_aside,
            poison::what_is_too_large_is_refused_by_name,
            poison::p9_dead_letters_are_kept_for_a_time,
            limits::p9_more_than_an_entity_may_have_waiting_is_busy_and_passes,
            limits::p9_more_than_a_node_may_have_waiting_is_busy_and_passes,
            limits::p9_more_bytes_than_a_node_may_hold_are_busy_and_pass,
            limits::idle_entities_leave_memory_and_come_back_as_they_were,
            limits::entities_that_are_over_leave_memory_at_once_and_come_back_as_they_were,
            limits::p6_what_arrives_as_an_entity_leaves_memory_is_not_lost,
            limits::p9_no_more_entities_are_live_than_allowed,
            feeds::a_private_fact_changes_the_state_and_leaves_neither_event_nor_gap,
            feeds::a_feed_is_read_page_by_page_in_order_and_whole,
            feeds::a_filtered_read_has_all_of_its_term_and_nothing_else,
            feeds::a_feed_is_read_backwards_page_by_page_in_order_and_whole,
            feeds::reading_backwards_says_where_kept_history_ends,
            feeds::p9_a_page_of_large_events_is_bounded_also_filtered_and_backwards,
            feeds::after_a_trim_an_old_cursor_gets_a_gap_and_a_new_one_does_not,
            feeds::a_trim_beyond_the_end_hides_nothing_that_comes_later,
            feeds::a_tail_is_woken_by_the_doorbell,
            feeds::a_tail_without_a_bus_looks_now_and_then,
            feeds::p4_a_filtered_tail_sees_its_own_in_order_while_others_are_appended,
            feeds::p4_a_filtered_tail_moves_on_where_nothing_matches_and_misses_nothing_after,
            feeds::a_filtered_tail_is_told_what_was_trimmed_before_it_came,
            feeds::p4_filtered_readers_miss_and_double_nothing_however_appends_and_trims_come_between,
            feeds::an_index_entry_without_its_event_is_named,
            feeds::p4_a_snapshot_and_the_tail_after_it_are_the_whole_feed,
            trims::a_reader_that_has_seen_all_that_was_trimmed_is_told_of_no_gap,
            trims::a_trim_removes_nothing_that_is_appended_while_it_runs,
            trims::of_two_trims_at_once_the_longer_counts,
            trims::p9_large_events_and_events_with_many_terms_are_trimmed_in_bounded_transactions,
            handover::p2_when_a_node_is_killed_the_other_takes_over_and_nothing_acked_is_lost,
            handover::a_drained_node_hands_over_without_an_error_and_with_a_short_stall,
            handover::p7_a_planned_handover_loses_no_effect,
            handover::p1_an_owner_that_was_robbed_unawares_tells_nobody_that_nothing_was_done,
            handover::the_last_node_drains_and_the_next_goes_on_at_once,
            handover::the_last_node_ends_although_an_effect_does_not,
            handover::what_no_node_can_be_called_and_no_cluster_can_be_is_refused,
            handover::a_node_whose_store_is_gone_does_not_wait_for_ever_to_leave,
            handover::a_second_node_of_the_same_name_is_turned_away,
            handover::p1_a_takeover_at_once_ends_the_first_which_serves_no_more,
            handover::a_cluster_of_another_shape_or_name_is_not_joined,
            handover::without_any_node_a_caller_learns_that_nothing_was_done,
            handover::when_nothing_can_be_sent_a_caller_learns_that_nothing_was_done,
            restores::p4_a_cursor_of_an_older_feed_epoch_sees_every_new_event_once,
            restores::p4_a_node_that_still_runs_when_a_feed_epoch_begins_commits_nothing_more,
            faults::when_the_store_is_gone_calls_say_so_and_all_goes_on_after,
            faults::when_nats_is_gone_for_a_moment_local_work_goes_on_and_the_rest_recovers,
            faults::p2_a_commit_that_was_done_and_not_confirmed_is_done_once,
            faults::p2_when_the_store_is_full_callers_are_told_and_nothing_that_waits_is_lost,
            faults::p7_an_attempt_that_is_due_while_the_store_is_full_is_made_afterwards,
            faults::p7_an_entity_that_waits_for_the_store_keeps_its_effects,
            faults::p6_timers_that_are_due_while_the_store_is_full_fire_once_afterwards,
            faults::p7_an_entity_that_cannot_be_read_hurts_nobody_else,
            faults::p7_a_node_that_does_not_progress_is_not_ready_and_says_why,
        );
    };
    (@ $setup:expr; $($module:ident::$claim:ident),* $(,)?) => {
        $(
            #[test]
            fn $claim() {
                $crate::common::run(|| $setup(stringify!($claim)), $crate::common::claims::$module::$claim);
            }
        )*
    };
}
