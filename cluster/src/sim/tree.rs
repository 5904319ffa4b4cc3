//! A tree that fans out and joins: every branch starts its children by messages, hears from each when it has
//! ended, and can be cancelled while all of that goes on.

use std::{collections::BTreeSet, time::Duration};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::record::Recorded;
use crate::{
    address::Address,
    codec::Stored,
    feed::{NewEvent, Term},
    host::{Decision, Entity, Input, Moment},
    sabotage::{Sabotage, is_on},
};

/// The kind. All branches of a tenant share the feed `forest`.
pub(super) struct Branch;

/// The feed of all trees.
pub(super) const FOREST: &str = "forest";

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct BranchState {
    pub phase: Phase,
    pub parent: Option<Address>,
    pub join: Join,
    pub children: BTreeSet<u32>,
    pub open: BTreeSet<u32>,
    pub joined: u32,
}

impl Stored for BranchState {
    const NAME: &'static str = "branch";
    const VERSION: u8 = 1;
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Phase {
    #[default]
    Unborn,
    Growing,
    Cancelling,
    Ended(End),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum End {
    Completed,
    Cancelled,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Join {
    #[default]
    All,
    Any,
}

/// What a branch grows into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Shape {
    pub width: u32,
    pub depth: u32,
    pub join: Join,
    pub work_ms: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Command {
    Plant(Shape),
    Cancel,
    Status,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Message {
    Grow { index: u32, shape: Shape },
    ChildEnded { index: u32 },
    Cancel,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Fact {
    Planted { parent: Option<(Address, u32)>, children: u32, join: Join },
    ChildEnded { index: u32 },
    Joined,
    Cancelling,
    Ended(End),
}

crate::stored! { Command: "tree command", Phase: "phase", Message: "tree message" }

#[async_trait]
impl Entity for Branch {
    const KIND: &'static str = "branch";
    type State = BranchState;
    type Command = Command;
    type Reply = Phase;
    type Refusal = String;
    type Message = Message;
    type Fact = Fact;
    type Effect = ();
    type Outcome = ();

    fn decide(
        &self,
        state: &BranchState,
        input: Input<Self>,
        moment: &Moment<'_>,
    ) -> Result<Decision<Self>, String> {
        match input {
            Input::Command(Command::Plant(shape)) if state.phase == Phase::Unborn => {
                Ok(plant(None, shape, moment).reply(Phase::Growing))
            }
            Input::Command(Command::Plant(_) | Command::Status) => Ok(Decision::nothing().reply(state.phase)),
            Input::Command(Command::Cancel) => {
                let decision = cancel(state, moment);
                let phase = phase_after(state, &decision);
                Ok(decision.reply(phase))
            }
            Input::Message { from, message: Message::Grow { index, shape } } => match state.phase {
                Phase::Unborn => Ok(plant(Some((from, index)), shape, moment)),
                _ => Err("grown already".into()),
            },
            Input::Message { message: Message::Cancel, .. } => Ok(cancel(state, moment)),
            Input::Message { message: Message::ChildEnded { index }, .. } => {
                Ok(child_ended(state, index, moment))
            }
            Input::Timer { .. } => Ok(match state.phase {
                Phase::Growing | Phase::Cancelling => end(state, Decision::nothing(), End::Completed, moment),
                Phase::Unborn | Phase::Ended(_) => Decision::nothing(),
            }),
            Input::Progress { .. } | Input::Effect { .. } => Err("a branch has no effects".into()),
        }
    }

    fn apply(state: &mut BranchState, fact: &Fact) {
        match fact {
            Fact::Planted { parent, children, join } => {
                state.phase = Phase::Growing;
                state.parent = parent.as_ref().map(|(parent, _)| parent.clone());
                state.children = (0..*children).collect();
                state.open = state.children.clone();
                state.join = *join;
            }
            Fact::ChildEnded { index } => {
                state.open.remove(index);
            }
            Fact::Joined => state.joined += 1,
            Fact::Cancelling => state.phase = Phase::Cancelling,
            Fact::Ended(end) => state.phase = Phase::Ended(*end),
        }
    }

    fn feed(&self, _: &BranchState, _: &Address) -> Option<String> {
        Some(FOREST.into())
    }

    fn event(&self, fact: &Fact, sequence: u64, moment: &Moment<'_>) -> Option<NewEvent> {
        let id = moment.address.id();
        let root = Term { index: "root".into(), term: id.split('.').next().unwrap_or_default().into() };
        let depth = Term { index: "depth".into(), term: id.matches('.').count().to_string() };
        Some(Recorded::event(moment, sequence, fact, vec![root, depth]))
    }

    fn is_over(&self, state: &BranchState) -> bool {
        matches!(state.phase, Phase::Ended(_))
    }

    fn idle_max(&self) -> Duration {
        Duration::from_secs(2)
    }
}

/// The address of a child.
pub(super) fn child(parent: &Address, index: u32) -> Address {
    Address::new(parent.tenant(), Branch::KIND, &format!("{}.{index}", parent.id()))
        .expect("the trees of a simulation are shallow")
}

/// Which child an address is of its parent.
pub(super) fn index_of(address: &Address) -> u32 {
    address.id().rsplit('.').next().and_then(|index| index.parse().ok()).unwrap_or(0)
}

fn plant(parent: Option<(Address, u32)>, shape: Shape, moment: &Moment<'_>) -> Decision<Branch> {
    let children = if shape.depth == 0 { 0 } else { shape.width };
    let mut decision = Decision::facts([Fact::Planted { parent, children, join: shape.join }]);
    let below = Shape { depth: shape.depth.saturating_sub(1), ..shape };
    for index in 0..children {
        let grow = Message::Grow { index, shape: below };
        decision = decision.send::<Branch>(child(moment.address, index), &grow);
    }
    if children == 0 {
        decision = decision.set_timer("work", moment.now.in_ms(shape.work_ms));
    }
    decision
}

fn child_ended(state: &BranchState, index: u32, moment: &Moment<'_>) -> Decision<Branch> {
    if !state.open.contains(&index) {
        return Decision::nothing();
    }
    let mut decision = Decision::facts([Fact::ChildEnded { index }]);
    let last = state.open.len() == 1;
    let fires = match state.join {
        Join::All => last,
        Join::Any => state.joined == 0 || is_on(Sabotage::JoinFiresTwice),
    };
    if fires && state.phase == Phase::Growing {
        decision = decision.fact(Fact::Joined);
    }
    if last && !matches!(state.phase, Phase::Ended(_)) {
        let how = if state.phase == Phase::Cancelling { End::Cancelled } else { End::Completed };
        decision = end(state, decision, how, moment);
    }
    decision
}

fn cancel(state: &BranchState, moment: &Moment<'_>) -> Decision<Branch> {
    match state.phase {
        Phase::Cancelling | Phase::Ended(_) => return Decision::nothing(),
        Phase::Unborn => return Decision::nothing(),
        Phase::Growing => {}
    }
    let mut decision = Decision::nothing();
    for index in &state.open {
        decision = decision.send::<Branch>(child(moment.address, *index), &Message::Cancel);
    }
    if state.open.is_empty() || is_on(Sabotage::CancelAnsweredEarly) {
        end(state, decision.cancel_timer("work"), End::Cancelled, moment)
    } else {
        decision.fact(Fact::Cancelling)
    }
}

fn end(state: &BranchState, decision: Decision<Branch>, how: End, moment: &Moment<'_>) -> Decision<Branch> {
    let decision = decision.fact(Fact::Ended(how));
    match &state.parent {
        Some(parent) => {
            let index = index_of(moment.address);
            decision.send::<Branch>(parent.clone(), &Message::ChildEnded { index })
        }
        None => decision,
    }
}

fn phase_after(state: &BranchState, decision: &Decision<Branch>) -> Phase {
    decision.facts.iter().fold(state.phase, |phase, fact| match fact {
        Fact::Cancelling => Phase::Cancelling,
        Fact::Ended(end) => Phase::Ended(*end),
        Fact::Planted { .. } | Fact::ChildEnded { .. } | Fact::Joined => phase,
    })
}
