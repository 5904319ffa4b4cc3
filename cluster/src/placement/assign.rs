//! The target owner of every shard: rendezvous hashing with bounded load.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::address::ShardId;

/// How much more than its fair share a member may hold, in percent. Less evens the load out, more moves fewer
/// shards when members come and go.
const LOAD_SLACK_PERCENT: usize = 10;

/// The member, as an index into `members`, that should own each shard. Depends on nothing but the names and
/// the shard count; the order of `members` does not matter. Each shard goes to the member that hashes highest with it
/// among those that have room left, so a member that comes or goes moves little more than its own share.
pub fn assign(members: &[&str], shards: u16) -> Vec<Option<usize>> {
    if members.is_empty() {
        return vec![None; shards.into()];
    }
    let fair = usize::from(shards).div_ceil(members.len());
    let room = fair + fair * LOAD_SLACK_PERCENT / 100;
    let mut load = vec![0; members.len()];
    (0..shards)
        .map(|shard| {
            let best = (0..members.len())
                .filter(|index| load[*index] < room)
                .max_by_key(|index| (weight(members[*index], ShardId(shard)), members[*index]));
            let best = best.expect("the rooms of all members add up to at least the shards");
            load[best] += 1;
            Some(best)
        })
        .collect()
}

fn weight(member: &str, shard: ShardId) -> u64 {
    xxh3_64_with_seed(member.as_bytes(), u64::from(shard.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owners<'a>(members: &[&'a str], shards: u16) -> Vec<&'a str> {
        assign(members, shards).into_iter().map(|index| members[index.unwrap()]).collect()
    }

    #[test]
    fn every_node_computes_the_same_whatever_the_order() {
        assert_eq!(owners(&["a", "b", "c"], 256), owners(&["c", "a", "b"], 256));
    }

    #[test]
    fn nobody_gets_more_than_a_tenth_over_the_fair_share() {
        for count in 1..20 {
            let names: Vec<String> = (0..count).map(|index| format!("node-{index}")).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let owners = owners(&names, 256);
            for name in names {
                let load = owners.iter().filter(|owner| **owner == name).count();
                assert!(load <= 256usize.div_ceil(count) * 11 / 10, "{name} of {count} has {load}");
            }
        }
    }

    #[test]
    fn a_joining_member_takes_little_more_than_its_share() {
        let before = owners(&["a", "b", "c"], 256);
        let after = owners(&["a", "b", "c", "d"], 256);
        let moved = before.iter().zip(&after).filter(|(before, after)| before != after).count();
        assert!((48..=110).contains(&moved), "{moved} shards moved");
        let shuffled =
            before.iter().zip(&after).filter(|(before, after)| before != after && **after != "d").count();
        assert!(shuffled <= 30, "{shuffled} shards moved between members that stayed");
    }

    #[test]
    fn without_members_nobody_owns_anything() {
        assert_eq!(assign(&[], 3), vec![None, None, None]);
    }
}
