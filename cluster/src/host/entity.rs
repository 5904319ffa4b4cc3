//! What an entity is: a pure core and the effects it asks for.

use std::time::Duration;

use async_trait::async_trait;
use serde::{Serialize, de::DeserializeOwned};

use super::{
    decision::Decision,
    effect::{EffectContext, EffectError, EffectResult},
};
use crate::{address::Address, clock::Timestamp, codec::Stored, feed::NewEvent};

/// One kind of entity.
///
/// [`Entity::decide`] reads and may refuse; [`Entity::apply`] cannot fail; neither awaits, looks at a clock or
/// draws a random number. The host does the rest. An instance holds configuration only and is shared by all
/// entities of its kind on a node.
///
/// What is stored or sent to another node carries a version: during a rolling upgrade, and after it, the new binary
/// reads what the old one left in inboxes, pending effects and recorded answers.
#[async_trait]
pub trait Entity: Send + Sync + 'static {
    /// The kind in addresses and subjects.
    const KIND: &'static str;
    /// What it knows of itself. Kept small: history, outputs and children are records of their own.
    type State: Stored + Default + Send + Sync + 'static;
    /// What a caller asks.
    type Command: Stored + Send + 'static;
    /// What a caller is told. Kept as long as its idempotency key.
    type Reply: Stored + Send + 'static;
    /// Why a caller is told no. Kept like a reply.
    type Refusal: Stored + std::fmt::Debug + Send + 'static;
    /// What other entities tell it.
    type Message: Stored + Send + 'static;
    /// What has happened to it.
    type Fact: Send + 'static;
    /// Work outside the store that it asks for.
    type Effect: Stored + Send + 'static;
    /// What that work came to. Never leaves the process.
    type Outcome: Serialize + DeserializeOwned + Send + 'static;

    /// What follows from an input. An `Err` answers a command with a refusal; for anything else it means that
    /// the input cannot be applied, and makes it a dead letter.
    fn decide(
        &self,
        state: &Self::State,
        input: Input<Self>,
        moment: &Moment<'_>,
    ) -> Result<Decision<Self>, Self::Refusal>;

    /// Whether a refusal is remembered under the caller's key, as answers are. One that another try may not meet (there was
    /// no room just now) should not be: whoever tries again under the same key would be refused until the key expires.
    fn is_kept(refusal: &Self::Refusal) -> bool {
        let _ = refusal;
        true
    }

    /// Changes the state as a fact says. Replay calls nothing else.
    fn apply(state: &mut Self::State, fact: &Self::Fact);

    /// The feed that the entity's events go to; `None` before it is known, and then its facts are private.
    fn feed(&self, state: &Self::State, address: &Address) -> Option<String>;

    /// A fact as an event of the feed; `None` for a private one, which changes the state and is nobody else's business.
    /// `sequence` is the number that the event gets: this entity's events count from 1 without a gap, and facts that
    /// are none do not count. What is to be rebuilt from the feed must not depend on private facts.
    fn event(&self, fact: &Self::Fact, sequence: u64, moment: &Moment<'_>) -> Option<NewEvent>;

    /// Does the work. Dropped when the effect is cancelled, its deadline passes or the node stops. It shares the threads
    /// that serve everybody else: what blocks belongs on a thread of its own, and a deadline cannot end it.
    async fn perform(
        &self,
        effect: Self::Effect,
        context: EffectContext,
    ) -> Result<Self::Outcome, EffectError> {
        let _ = (effect, context);
        Err(EffectError::fatal("this kind of entity has no effects"))
    }

    /// Whether nothing more is expected of an entity: it then leaves memory as soon as nothing waits for it, instead of
    /// after [`Self::idle_max`]. Only a hint: what arrives later, or at the same moment, finds it as it was.
    fn is_over(&self, state: &Self::State) -> bool {
        let _ = state;
        false
    }

    /// Whether nothing of it is worth keeping: its record is then removed, provided that it has no timers and no effects
    /// left. What arrives later finds it as if it had never been, and its events would count from 1 again: so this is
    /// for entities that told nothing, or that nobody will address any more.
    fn is_forgotten(&self, state: &Self::State) -> bool {
        let _ = state;
        false
    }

    /// How long an entity of this kind may be idle before it leaves memory.
    fn idle_max(&self) -> Duration {
        Duration::from_secs(60)
    }
}

/// The circumstances of a step.
#[derive(Debug, Clone, Copy)]
pub struct Moment<'a> {
    /// The entity.
    pub address: &'a Address,
    /// The time; never earlier than at the entity's last step.
    pub now: Timestamp,
    /// Randomness for this input, to make ids of. Nobody can tell it from those of other inputs; it is as hard to guess
    /// as the node's own seed.
    pub seed: u64,
    /// The W3C trace context of what caused this input, as a `traceparent` header. Messages and effects that follow
    /// carry it on.
    pub trace: Option<&'a str>,
    /// How many bytes of its record were left when the entity was last stored. Whatever makes a state grow has to look:
    /// an input that makes it too large to be stored cannot be applied.
    pub room_bytes: usize,
}

/// Something that an entity has to react to.
#[derive(Debug)]
pub enum Input<E: Entity + ?Sized> {
    /// A caller waits for the answer.
    Command(E::Command),
    /// Another entity's step sent it.
    Message {
        /// Who sent it.
        from: Address,
        /// What it says.
        message: E::Message,
    },
    /// A timer that this entity set is due.
    Timer {
        /// Its name.
        name: String,
    },
    /// An effect that goes on says how far it is; see [`EffectContext::report`].
    Progress {
        /// Its id.
        id: String,
        /// How far.
        progress: E::Outcome,
    },
    /// An effect has ended, one way or another. A result that cannot be applied comes once more, as a failure.
    Effect {
        /// Its id.
        id: String,
        /// How.
        result: EffectResult<E::Outcome>,
    },
}
