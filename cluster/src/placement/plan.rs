//! What a node should do next about its shards. A pure function of what it sees.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;

use super::{LeaseRecord, Liveness, MemberId, MemberRecord, assign};
use crate::address::ShardId;

/// Members and leases at one version of the store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct View {
    /// By name.
    pub members: BTreeMap<String, MemberRecord>,
    /// By shard; a shard that nobody ever claimed is missing.
    pub leases: BTreeMap<ShardId, LeaseRecord>,
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Take a shard that is free or whose owner is dead.
    Claim {
        /// The shard.
        shard: ShardId,
        /// Its lease as it was seen; `None` if there is none yet.
        seen: Option<LeaseRecord>,
    },
    /// Drain a shard and give it up: it belongs to another live member.
    Release {
        /// The shard.
        shard: ShardId,
    },
}

/// Compares what is with what should be, for the member `me`.
pub fn plan(
    view: &View,
    me: &MemberId,
    liveness: &Liveness,
    shards: u16,
    now: Instant,
    ttl: Duration,
) -> Vec<Action> {
    let alive = |name: &str, incarnation: u64| {
        name == me.name && incarnation == me.incarnation || liveness.is_alive(name, incarnation, now, ttl)
    };
    let candidates: Vec<&str> = view
        .members
        .iter()
        .filter(|(name, record)| !record.draining && alive(name, record.incarnation))
        .map(|(name, _)| name.as_str())
        .collect();
    let target = assign(&candidates, shards);
    let mut actions = Vec::new();
    for (index, target) in target.into_iter().enumerate() {
        let shard = ShardId(u16::try_from(index).expect("there are at most as many shards as a u16 counts"));
        let lease = view.leases.get(&shard);
        let owner = lease.and_then(|lease| lease.owner.as_ref());
        let current = view.members.get(&me.name).is_some_and(|record| record.incarnation == me.incarnation);
        let mine = current && target.is_some_and(|target| candidates[target] == me.name);
        match owner {
            Some(owner) if owner == me && target.is_some() && !mine => {
                actions.push(Action::Release { shard })
            }
            // Also our own, which `alive` counts as such.
            Some(owner) if alive(&owner.name, owner.incarnation) => {}
            _ if mine => actions.push(Action::Claim { shard, seen: lease.cloned() }),
            _ => {}
        }
    }
    actions
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::Epoch;

    const TTL: Duration = Duration::from_secs(2);
    const SHARDS: u16 = 16;

    struct World {
        view: View,
        liveness: Liveness,
        now: Instant,
    }

    fn id(name: &str) -> MemberId {
        MemberId { name: name.into(), incarnation: 1 }
    }

    impl World {
        fn of(names: &[&str]) -> Self {
            let record =
                MemberRecord { incarnation: 1, beat: 1, draining: false, joined: Default::default() };
            let members = names.iter().map(|name| (name.to_string(), record.clone())).collect();
            let mut world = Self {
                view: View { members, ..View::default() },
                liveness: Liveness::default(),
                now: Instant::now(),
            };
            world.see();
            world
        }

        fn see(&mut self) {
            self.liveness.observe(
                self.view.members.iter().map(|(name, record)| (name.as_str(), record)),
                self.now,
                TTL,
            );
        }

        fn plan(&self, me: &str) -> Vec<Action> {
            plan(&self.view, &id(me), &self.liveness, SHARDS, self.now, TTL)
        }

        /// Does what everybody plans, until nobody plans anything.
        fn settle(&mut self) -> usize {
            for round in 0.. {
                let names: Vec<String> = self.view.members.keys().cloned().collect();
                let mut changed = false;
                for name in names {
                    for action in self.plan(&name) {
                        changed = true;
                        match action {
                            Action::Claim { shard, seen } => {
                                assert_eq!(self.view.leases.get(&shard), seen.as_ref());
                                let epoch = Epoch(seen.map_or(0, |lease| lease.epoch.0) + 1);
                                let lease = LeaseRecord { shard, epoch, owner: Some(id(&name)) };
                                self.view.leases.insert(shard, lease);
                            }
                            Action::Release { shard } => {
                                self.view.leases.get_mut(&shard).unwrap().owner = None;
                            }
                        }
                    }
                }
                if !changed {
                    return round;
                }
            }
            unreachable!("an endless range ends only by returning")
        }
    }

    #[test]
    fn plans_settle_and_planning_twice_changes_nothing() {
        let mut world = World::of(&["a", "b", "c"]);
        assert!(world.settle() <= 2);
        assert_eq!(world.view.leases.len(), usize::from(SHARDS));
        assert!(world.plan("a").is_empty());
    }

    #[test]
    fn a_live_owner_is_never_claimed_from() {
        let mut world = World::of(&["a"]);
        world.settle();
        let record = world.view.members["a"].clone();
        world.view.members.insert("b".into(), record);
        world.see();
        assert!(world.plan("b").is_empty(), "b waits until a releases");
        assert!(world.plan("a").iter().all(|action| matches!(action, Action::Release { .. })));
        world.settle();
        let of_b = world.view.leases.values().filter(|lease| lease.owner == Some(id("b"))).count();
        assert!((5..=9).contains(&of_b), "{of_b}");
    }

    #[test]
    fn a_dead_owners_shards_are_claimed_after_the_ttl_and_not_before() {
        let mut world = World::of(&["a", "b"]);
        world.settle();
        for _ in 0..3 {
            world.now += (TTL - Duration::from_millis(1)) / 3;
            world.view.members.get_mut("b").unwrap().beat += 1;
            world.see();
        }
        assert!(world.plan("b").is_empty());
        world.now += Duration::from_millis(2);
        let claims = world.plan("b");
        assert!(!claims.is_empty() && claims.iter().all(|action| matches!(action, Action::Claim { .. })));
    }

    #[test]
    fn a_draining_member_gives_everything_away_and_takes_nothing() {
        let mut world = World::of(&["a", "b"]);
        world.settle();
        world.view.members.get_mut("a").unwrap().draining = true;
        world.settle();
        assert!(world.view.leases.values().all(|lease| lease.owner == Some(id("b"))));
    }

    #[test]
    fn the_last_member_keeps_its_shards_while_it_drains_because_nobody_else_could_serve_them() {
        let mut world = World::of(&["a"]);
        world.settle();
        world.view.members.get_mut("a").unwrap().draining = true;
        assert!(world.plan("a").is_empty());
    }
}
