use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn weight(weight: u16) -> NonZeroU16 {
    NonZeroU16::new(weight).unwrap()
}

/// What is taken, by tenant, while all of them wait.
fn served(queue: &mut FairQueue<(usize, u64)>, items: usize) -> BTreeMap<usize, u64> {
    let mut served = BTreeMap::new();
    for _ in 0..items {
        let (tenant, cost) = queue.pop().expect("there is enough");
        *served.entry(tenant).or_default() += cost;
    }
    served
}

#[test]
fn p8_one_item_of_a_quiet_tenant_waits_for_no_more_than_one_of_each_other() {
    let mut queue = FairQueue::default();
    for n in 0..10_000 {
        queue.push(if n % 2 == 0 { "noisy" } else { "loud" }, NonZeroU16::MIN, 1, "flood");
    }
    for _ in 0..100 {
        queue.pop();
    }
    queue.push("quiet", NonZeroU16::MIN, 1, "quiet");
    let before = std::iter::from_fn(|| queue.pop()).position(|item| item == "quiet");
    assert!(before.is_some_and(|before| before <= 2), "{before:?}");
}

#[test]
fn a_tenant_that_was_idle_has_saved_up_nothing() {
    let mut queue = FairQueue::default();
    queue.push("late", NonZeroU16::MIN, 1, (1, 1));
    for _ in 0..1_000 {
        queue.push("busy", NonZeroU16::MIN, 1, (0, 1));
    }
    served(&mut queue, 501);
    for _ in 0..100 {
        queue.push("late", NonZeroU16::MIN, 1, (1, 1));
    }
    let shares = served(&mut queue, 100);
    assert!(shares[&0].abs_diff(shares[&1]) <= 2, "{shares:?}");
}

#[test]
fn p9_a_tenant_with_nothing_waiting_is_forgotten() {
    let mut queue = FairQueue::default();
    // Somebody waits all the while, so that it never gets quiet.
    for _ in 0..40_000 {
        queue.push("steady", NonZeroU16::MIN, 1, ());
    }
    for n in 0..20_000 {
        queue.push(&format!("passer-by {n}"), NonZeroU16::MIN, 1, ());
        queue.pop();
        queue.pop();
    }
    assert!(queue.flows.len() <= 2 * TIDY_AT_LEAST, "{} are remembered", queue.flows.len());
    assert_eq!(queue.tenants(), usize::from(!queue.is_empty()));
}

#[derive(Debug, Clone)]
enum Move {
    Push { tenant: usize, cost: u64 },
    Pop,
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let push = (0..6usize, 1..50u64).prop_map(|(tenant, cost)| Move::Push { tenant, cost });
    proptest::collection::vec(prop_oneof![2 => push, 1 => Just(Move::Pop)], 1..400)
}

proptest! {
    #[test]
    fn it_never_rests_while_somebody_waits_and_keeps_each_tenants_order(moves in moves()) {
        let mut queue = FairQueue::default();
        let mut waiting: BTreeMap<usize, VecDeque<usize>> = BTreeMap::new();
        for (n, step) in moves.into_iter().enumerate() {
            match step {
                Move::Push { tenant, cost } => {
                    queue.push(&tenant.to_string(), weight(tenant as u16 + 1), cost, (tenant, n));
                    waiting.entry(tenant).or_default().push_back(n);
                }
                Move::Pop => match queue.pop() {
                    Some((tenant, n)) => {
                        prop_assert_eq!(waiting.get_mut(&tenant).and_then(VecDeque::pop_front), Some(n));
                    }
                    None => prop_assert!(waiting.values().all(VecDeque::is_empty)),
                },
            }
            prop_assert_eq!(queue.len(), waiting.values().map(VecDeque::len).sum::<usize>());
            prop_assert_eq!(queue.tenants(), waiting.values().filter(|items| !items.is_empty()).count());
        }
        while let Some((tenant, n)) = queue.pop() {
            prop_assert_eq!(waiting.get_mut(&tenant).and_then(VecDeque::pop_front), Some(n));
        }
        prop_assert!(waiting.values().all(VecDeque::is_empty));
    }

    #[test]
    fn p8_who_waits_all_the_while_is_served_by_weight(
        tenants in proptest::collection::vec((1..20u16, proptest::collection::vec(1..50u64, 1..20)), 2..6),
        before in 0..300usize,
        during in 1..600usize,
    ) {
        const EACH: usize = 1_000;
        let mut queue = FairQueue::default();
        for (tenant, (share, costs)) in tenants.iter().enumerate() {
            for cost in costs.iter().cycle().take(EACH) {
                queue.push(&tenant.to_string(), weight(*share), *cost, (tenant, *cost));
            }
        }
        served(&mut queue, before);
        let served = served(&mut queue, during);
        let by_weight = |tenant: usize| {
            served.get(&tenant).copied().unwrap_or(0) as f64 / f64::from(tenants[tenant].0)
        };
        let largest = |tenant: usize| {
            tenants[tenant].1.iter().copied().max().unwrap_or(0) as f64 / f64::from(tenants[tenant].0)
        };
        for one in 0..tenants.len() {
            for two in 0..one {
                let apart = (by_weight(one) - by_weight(two)).abs();
                let bound = largest(one) + largest(two) + 0.001;
                prop_assert!(apart <= bound, "{one} and {two} are {apart} apart, the bound is {bound}");
            }
        }
    }

    #[test]
    fn p8_nobody_starves_whatever_the_others_weigh(others in 1..8u16, heavy in 1..u16::MAX, cost in 1..1_000u64) {
        let mut queue = FairQueue::default();
        let mut turns = 0u64;
        queue.push("light", NonZeroU16::MIN, cost, true);
        queue.push("light", NonZeroU16::MIN, cost, true);
        let mut left = 2;
        while left > 0 {
            for other in 0..others {
                // Somebody heavier has always something more.
                queue.push(&other.to_string(), weight(heavy), cost, false);
            }
            if queue.pop() == Some(true) {
                left -= 1;
            }
            turns += 1;
            let bound = (u64::from(heavy) + 2) * u64::from(others) + 2;
            prop_assert!(turns <= bound, "after {turns} turns it still waits");
        }
    }
}
