//! Deliberately broken variants, to show that the checks can fail.
//!
//! Each breaks one promise. They exist only under the `simulation` feature, apply to the current thread (a
//! simulation runs on one), and cost nothing elsewhere: [`is_on`] is then a constant.

/// One way to break a promise on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sabotage {
    /// P1: commits do not check the fence.
    FenceOff,
    /// P2: a command is answered before its step has committed.
    AnswerBeforeCommit,
    /// P2: an effect's report is taken for durable before its step has committed.
    ReportBeforeCommit,
    /// P3: an answer is not recorded under its idempotency key.
    AnswerNotRecorded,
    /// P3: idempotency keys are forgotten before their time.
    KeyForgottenEarly,
    /// P3: a command without a key is sent again though it may have been done.
    KeylessSentAgain,
    /// P4: a tail takes the doorbell's cursor for its position.
    DoorbellIsTruth,
    /// P4: a snapshot's cursor is taken before the snapshot is read.
    SnapshotCursorFromAnotherRead,
    /// P4: of several events of one step, only the first is in its indexes.
    EventNotIndexed,
    /// P4: events are trimmed without a mark that says so.
    TrimNotMarked,
    /// P4: events are trimmed, and their index entries stay.
    IndexNotTrimmed,
    /// P5: a step changes state without a fact that says so.
    StateWithoutFact,
    /// P6: an inbox message is applied but not consumed in the same transaction.
    InboxNotConsumed,
    /// P6: a timer fires even after it was cancelled.
    CancelledTimerFires,
    /// P6: a timer fires when it is seen, not when it is due.
    TimerFiresEarly,
    /// P6: an input that cannot be applied is dropped without a dead letter.
    DeadLetterForgotten,
    /// P6: a message that cannot be applied is put aside twice.
    DeadLetterTwice,
    /// P7: nobody looks for work when a doorbell was lost.
    NoPeriodicLook,
    /// P7: effects that were pending when an owner died are forgotten.
    EffectsNotRedriven,
    /// P8: a node serves whoever came first, and its room is whoever's that takes it.
    TenantsNotToldApart,
    /// P9: inputs are admitted without a bound.
    AdmissionOff,
    /// P9: idempotency keys are never forgotten.
    KeysNotForgotten,
    /// P2, P6: a group commit with an unknown outcome is simply run again.
    UnknownIsFailed,
    /// P11: a parent answers a cancel before its children are closed.
    CancelAnsweredEarly,
    /// P11: an effect that was cancelled goes on, and its result counts.
    CancelledEffectEnds,
    /// P11: what an effect reports counts though it was cancelled.
    LateReportCounts,
    /// P11: a join fires again when a late child reports.
    JoinFiresTwice,
}

impl Sabotage {
    /// All of them.
    pub const ALL: [Self; 27] = [
        Self::FenceOff,
        Self::AnswerBeforeCommit,
        Self::ReportBeforeCommit,
        Self::AnswerNotRecorded,
        Self::KeyForgottenEarly,
        Self::KeylessSentAgain,
        Self::DoorbellIsTruth,
        Self::SnapshotCursorFromAnotherRead,
        Self::EventNotIndexed,
        Self::TrimNotMarked,
        Self::IndexNotTrimmed,
        Self::StateWithoutFact,
        Self::InboxNotConsumed,
        Self::CancelledTimerFires,
        Self::TimerFiresEarly,
        Self::DeadLetterForgotten,
        Self::DeadLetterTwice,
        Self::NoPeriodicLook,
        Self::EffectsNotRedriven,
        Self::TenantsNotToldApart,
        Self::AdmissionOff,
        Self::KeysNotForgotten,
        Self::UnknownIsFailed,
        Self::CancelAnsweredEarly,
        Self::CancelledEffectEnds,
        Self::LateReportCounts,
        Self::JoinFiresTwice,
    ];
}

/// Makes the switch for an enum of broken variants: `is_on`, and, under the feature `simulation` of the crate that has
/// the enum, `with`.
#[macro_export]
macro_rules! sabotage_switch {
    ($sabotage:ident) => {
        #[cfg(feature = "simulation")]
        mod switch {
            use std::cell::Cell;

            use super::$sabotage;

            thread_local! {
                static CHOSEN: Cell<Option<$sabotage>> = const { Cell::new(None) };
            }

            /// Whether this variant runs on the current thread.
            pub fn is_on(sabotage: $sabotage) -> bool {
                CHOSEN.get() == Some(sabotage)
            }

            /// Runs `body` with one promise broken on the current thread.
            pub fn with<T>(sabotage: Option<$sabotage>, body: impl FnOnce() -> T) -> T {
                struct Restore(Option<$sabotage>);
                impl Drop for Restore {
                    fn drop(&mut self) {
                        CHOSEN.set(self.0);
                    }
                }
                let _restore = Restore(CHOSEN.replace(sabotage));
                body()
            }
        }

        #[cfg(feature = "simulation")]
        pub use switch::{is_on, with};

        /// Whether this variant runs: never, in a build that serves users.
        #[cfg(not(feature = "simulation"))]
        #[inline(always)]
        pub const fn is_on(_: $sabotage) -> bool {
            false
        }
    };
}

sabotage_switch!(Sabotage);
