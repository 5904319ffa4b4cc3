//! The kinds of entities that a node can host.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use ractor::{Actor, ActorCell, ActorRef, SpawnErr};

use super::{
    Entity,
    actor::{EntityActor, EntityArgs},
    work::EntityMessage,
};

/// A registry of kinds, filled before a node starts.
#[derive(Clone, Default)]
pub struct Kinds(BTreeMap<&'static str, Arc<dyn Kind>>);

impl Kinds {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// One more.
    ///
    /// # Panics
    /// When the kind is there already.
    pub fn with<E: Entity>(mut self, entity: E) -> Self {
        let before = self.0.insert(E::KIND, Arc::new(Typed(Arc::new(entity))));
        assert!(before.is_none(), "two entities of kind {}", E::KIND);
        self
    }

    pub(super) fn get(&self, kind: &str) -> Option<&Arc<dyn Kind>> {
        self.0.get(kind)
    }
}

/// A kind without its types.
#[async_trait]
pub(super) trait Kind: Send + Sync {
    async fn spawn(&self, args: EntityArgs, shard: ActorCell) -> Result<ActorRef<EntityMessage>, SpawnErr>;

    fn idle_max(&self) -> std::time::Duration;
}

struct Typed<E>(Arc<E>);

#[async_trait]
impl<E: Entity> Kind for Typed<E> {
    async fn spawn(&self, args: EntityArgs, shard: ActorCell) -> Result<ActorRef<EntityMessage>, SpawnErr> {
        let actor = EntityActor { entity: self.0.clone() };
        let (actor, _running) = Actor::spawn_linked(None, actor, args, shard).await?;
        Ok(actor)
    }

    fn idle_max(&self) -> std::time::Duration {
        self.0.idle_max()
    }
}
