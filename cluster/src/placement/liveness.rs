//! Who is alive, judged by watching heartbeats change.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;

use super::MemberRecord;

/// What one node has seen of the others' heartbeats.
#[derive(Debug, Default)]
pub struct Liveness {
    seen: BTreeMap<String, Sighting>,
    looked: Option<Instant>,
}

#[derive(Debug, Clone, Copy)]
struct Sighting {
    incarnation: u64,
    beat: u64,
    since: Instant,
}

impl Liveness {
    /// Takes note of the members as they are in the store now. Who did not look for half a `ttl` was blind:
    /// the silence it remembers may be its own, so everybody starts afresh.
    pub fn observe<'a>(
        &mut self,
        members: impl IntoIterator<Item = (&'a str, &'a MemberRecord)>,
        now: Instant,
        ttl: Duration,
    ) {
        let mut before = std::mem::take(&mut self.seen);
        if self.looked.replace(now).is_some_and(|looked| now.duration_since(looked) > ttl / 2) {
            before.clear();
        }
        for (name, record) in members {
            let unchanged = before
                .get(name)
                .filter(|seen| (seen.incarnation, seen.beat) == (record.incarnation, record.beat));
            let since = unchanged.map_or(now, |seen| seen.since);
            let sighting = Sighting { incarnation: record.incarnation, beat: record.beat, since };
            self.seen.insert(name.to_owned(), sighting);
        }
    }

    /// Whether this life of the member showed itself within the last `ttl`. A life that is not in the store at
    /// all is over.
    pub fn is_alive(&self, name: &str, incarnation: u64, now: Instant, ttl: Duration) -> bool {
        self.seen
            .get(name)
            .is_some_and(|seen| seen.incarnation == incarnation && now.duration_since(seen.since) < ttl)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(2);

    fn record(incarnation: u64, beat: u64) -> MemberRecord {
        MemberRecord { incarnation, beat, draining: false, joined: Default::default() }
    }

    #[test]
    fn a_member_is_dead_only_after_a_whole_ttl_without_a_beat_seen_here() {
        let start = Instant::now();
        let mut liveness = Liveness::default();
        liveness.observe([("a", &record(1, 5))], start, TTL);
        assert!(liveness.is_alive("a", 1, start + TTL / 2, TTL));
        liveness.observe([("a", &record(1, 5))], start + TTL / 2, TTL);
        assert!(!liveness.is_alive("a", 1, start + TTL, TTL), "an unchanged beat is no sign of life");
        liveness.observe([("a", &record(1, 6))], start + TTL, TTL);
        assert!(liveness.is_alive("a", 1, start + TTL, TTL));
    }

    #[test]
    fn who_could_not_look_blames_nobody() {
        let start = Instant::now();
        let mut liveness = Liveness::default();
        liveness.observe([("a", &record(1, 5))], start, TTL);
        liveness.observe([("a", &record(1, 5))], start + 5 * TTL, TTL);
        assert!(liveness.is_alive("a", 1, start + 5 * TTL, TTL), "the store stalled, not the member");
    }

    #[test]
    fn a_former_life_is_over_as_soon_as_the_next_is_seen() {
        let start = Instant::now();
        let mut liveness = Liveness::default();
        liveness.observe([("a", &record(2, 0))], start, TTL);
        assert!(!liveness.is_alive("a", 1, start, TTL));
        assert!(!liveness.is_alive("b", 1, start, TTL));
    }
}
