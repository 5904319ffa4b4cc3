//! Deliberately broken variants of the runtime, to show that the checks of its simulation can fail.
//!
//! Each breaks one promise. As those of [`cadre_cluster::sabotage`], they exist only under the `simulation` feature,
//! apply to the current thread, and cost nothing elsewhere: [`is_on`] is then a constant.

/// One way to break a promise on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sabotage {
    /// P2: progress of a task is answered and not told.
    ProgressNotTold,
    /// P3: what an entity is asked, it is asked without the caller's key.
    KeyNotPassedOn,
    /// P3: a command that is sent again makes its ids anew.
    IdsMadeAnew,
    /// P4: of a page that another one follows, the last event is left out.
    PageCutShort,
    /// P5: a pause changes the task, and no fact says so.
    ChangeNotTold,
    /// P5: a subagent that is resumed is not counted as running.
    ResumeNotCounted,
    /// P5: how an item ended is told, and not kept.
    ItemEndNotKept,
    /// P6: a question expires before the time that its fact names.
    QuestionExpiresEarly,
    /// P7: nobody starts the next turn when one has ended.
    QueueStandsStill,
    /// P8: an entity is looked up in the tenant of whoever asked before.
    TenantMixedUp,
    /// P10: a question that nobody answered in time counts as answered with yes.
    ExpiredIsApproval,
    /// P11: the end of a child is counted twice.
    ChildEndCountedTwice,
    /// P11: a subagent says twice that it has ended.
    TerminalFactTwice,
    /// P11: a task takes progress after its end.
    LateFactAfterTerminal,
    /// P11: the last child of a group is not told to close, and counts as closed.
    CancelForgetsChild,
    /// P11: who is resumed below somebody who was told to close is not told.
    OrderForgotten,
    /// P11: a cancel is answered as done while the tree goes on.
    CancelAnsweredEarly,
    /// P11: a task's attempt that failed and is tried again never says that it has ended.
    FailedAttemptForgotten,
}

impl Sabotage {
    /// All of them.
    pub const ALL: [Self; 18] = [
        Self::ProgressNotTold,
        Self::KeyNotPassedOn,
        Self::IdsMadeAnew,
        Self::PageCutShort,
        Self::ChangeNotTold,
        Self::ResumeNotCounted,
        Self::ItemEndNotKept,
        Self::QuestionExpiresEarly,
        Self::QueueStandsStill,
        Self::TenantMixedUp,
        Self::ExpiredIsApproval,
        Self::ChildEndCountedTwice,
        Self::TerminalFactTwice,
        Self::LateFactAfterTerminal,
        Self::CancelForgetsChild,
        Self::OrderForgotten,
        Self::CancelAnsweredEarly,
        Self::FailedAttemptForgotten,
    ];
}

cadre_cluster::sabotage_switch!(Sabotage);

/// The tenant of whoever asked before.
#[cfg(feature = "simulation")]
pub(crate) fn tenant_before(asks: &str) -> String {
    use std::cell::RefCell;

    thread_local! {
        static BEFORE: RefCell<Option<String>> = const { RefCell::new(None) };
    }
    BEFORE.replace(Some(asks.to_owned())).unwrap_or_else(|| asks.to_owned())
}
