//! The entities that are measured: a counter that counts, and a pair that sends messages to and fro.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use cadre_cluster::{
    address::Address,
    codec::Stored,
    feed::NewEvent,
    host::{Decision, Entity, Input, Moment},
};
use serde::{Deserialize, Serialize};

/// Counts commands, one fact each.
pub struct Counter {
    /// How long it stays in memory unused.
    pub idle_max: Duration,
    /// Whether one command is all that is expected of it.
    pub is_fleeting: bool,
}

/// The counter's state, with as much beside it as a small session would have.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Count {
    count: u64,
    ballast: String,
}

impl Stored for Count {
    const NAME: &'static str = "count";
    const VERSION: u8 = 1;
}

/// One more.
#[derive(Debug, Serialize, Deserialize)]
pub struct Bump {
    /// What its event carries.
    pub note: String,
}

cadre_cluster::stored! { Bump: "bump", Serve: "serve", Ball: "ball" }

#[async_trait]
impl Entity for Counter {
    const KIND: &'static str = "counter";
    type State = Count;
    type Command = Bump;
    type Reply = u64;
    type Refusal = String;
    type Message = ();
    type Fact = Bump;
    type Effect = ();
    type Outcome = ();

    fn decide(&self, state: &Count, input: Input<Self>, _: &Moment<'_>) -> Result<Decision<Self>, String> {
        match input {
            Input::Command(bump) => Ok(Decision::facts([bump]).reply(state.count + 1)),
            Input::Message { .. } | Input::Timer { .. } | Input::Progress { .. } | Input::Effect { .. } => {
                Err("only counts".into())
            }
        }
    }

    fn apply(state: &mut Count, _: &Bump) {
        state.count += 1;
        if state.ballast.is_empty() {
            state.ballast = "x".repeat(200);
        }
    }

    fn feed(&self, _: &Count, address: &Address) -> Option<String> {
        Some(format!("feed-{}", address.id()))
    }

    fn event(&self, fact: &Bump, _: u64, _: &Moment<'_>) -> Option<NewEvent> {
        Some(NewEvent { terms: Vec::new(), body: fact.note.clone().into_bytes().into() })
    }

    fn is_over(&self, state: &Count) -> bool {
        self.is_fleeting && state.count > 0
    }

    fn idle_max(&self) -> Duration {
        self.idle_max
    }
}

/// Sends a ball back as often as the command says.
pub struct Player {
    /// Counts every message that was applied.
    pub applied: Arc<AtomicU64>,
}

/// A player has nothing to remember but how often it played.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Played(u64);

impl Stored for Played {
    const NAME: &'static str = "played";
    const VERSION: u8 = 1;
}

/// Starts a game.
#[derive(Debug, Serialize, Deserialize)]
pub struct Serve {
    /// With whom.
    pub to: Address,
    /// How many balls are in the air.
    pub balls: u32,
    /// How often each is sent back.
    pub rounds: u64,
}

/// A ball, with the rounds it has left.
#[derive(Debug, Serialize, Deserialize)]
pub struct Ball(u64);

#[async_trait]
impl Entity for Player {
    const KIND: &'static str = "player";
    type State = Played;
    type Command = Serve;
    type Reply = ();
    type Refusal = String;
    type Message = Ball;
    type Fact = ();
    type Effect = ();
    type Outcome = ();

    fn decide(&self, _: &Played, input: Input<Self>, _: &Moment<'_>) -> Result<Decision<Self>, String> {
        match input {
            Input::Command(Serve { to, balls, rounds }) => {
                let serve = |decision: Decision<Self>, _| decision.send::<Self>(to.clone(), &Ball(rounds));
                Ok((0..balls).fold(Decision::facts([()]).reply(()), serve))
            }
            Input::Message { from, message: Ball(left) } => {
                self.applied.fetch_add(1, Ordering::Relaxed);
                let decision = Decision::facts([()]);
                Ok(if left == 0 { decision } else { decision.send::<Self>(from, &Ball(left - 1)) })
            }
            Input::Timer { .. } | Input::Progress { .. } | Input::Effect { .. } => Err("only plays".into()),
        }
    }

    fn apply(state: &mut Played, (): &()) {
        state.0 += 1;
    }

    fn feed(&self, _: &Played, _: &Address) -> Option<String> {
        None
    }

    fn event(&self, (): &(), _: u64, _: &Moment<'_>) -> Option<NewEvent> {
        None
    }
}
