//! Weighted fair queueing: whose turn it is when several tenants have work waiting.
//!
//! First come, first served gives most to whoever asks for most: one step of a quiet tenant waits behind ten thousand of
//! a noisy one. Here every tenant that has something waiting gets on in proportion to its weight, and each tenant's
//! items keep their order (start-time fair queueing: Goyal, Vin and Cheng, 1996).
//!
//! There is a virtual time: it is the start of the item that was served last. An item starts when the one before it of
//! the same tenant ends, but not before now, and it ends by its cost, divided by the tenant's weight, later. The item
//! with the earliest start is next. So a tenant that was idle begins now: it has saved up nothing, and waits for no more
//! than one item of each other tenant. Between two tenants that wait all the while, what they were served, by weight,
//! differs by no more than the largest item of each.
//!
//! With one tenant it is a queue with a look into a map. A tenant is forgotten when the virtual time has come to the end
//! of its last item, or when nobody waits: so there are as many as had something waiting lately.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap, VecDeque},
    num::NonZeroU16,
};

use xxhash_rust::xxh3::Xxh3DefaultBuilder;

/// How much of a node each tenant gets while several have work waiting.
pub trait Weights: std::fmt::Debug + Send + Sync + 'static {
    /// The tenant's weight: twice the weight, twice the share. Asked for every step, so it has to be quick.
    fn weight(&self, tenant: &str) -> NonZeroU16;
}

/// The same for everybody.
#[derive(Debug, Clone, Copy, Default)]
pub struct EqualWeights;

impl Weights for EqualWeights {
    fn weight(&self, _: &str) -> NonZeroU16 {
        NonZeroU16::MIN
    }
}

/// Items of many tenants, taken in a fair order.
#[derive(Debug)]
pub(super) struct FairQueue<T> {
    now: u128,
    flows: Vec<Flow<T>>,
    by_tenant: HashMap<Box<str>, usize, Xxh3DefaultBuilder>,
    /// Places in `flows` that nobody has.
    free: Vec<usize>,
    /// The flows with something waiting, by the start of their first item; among equals, who came first.
    ready: BinaryHeap<Reverse<(u128, u64, usize)>>,
    arrivals: u64,
    len: usize,
    /// With so many flows it is time to forget some.
    tidy_at: usize,
}

#[derive(Debug)]
struct Flow<T> {
    tenant: Box<str>,
    /// When its last item that was served ends.
    end: u128,
    items: VecDeque<Item<T>>,
}

#[derive(Debug)]
struct Item<T> {
    /// How long it takes, in virtual time.
    takes: u128,
    item: T,
}

/// So fine that no weight makes an item free.
const UNITS: u128 = 1 << 32;
const TIDY_AT_LEAST: usize = 64;

impl<T> Default for FairQueue<T> {
    fn default() -> Self {
        Self {
            now: 0,
            flows: Vec::new(),
            by_tenant: HashMap::default(),
            free: Vec::new(),
            ready: BinaryHeap::new(),
            arrivals: 0,
            len: 0,
            tidy_at: TIDY_AT_LEAST,
        }
    }
}

impl<T> FairQueue<T> {
    /// Queues an item behind those of the same tenant.
    pub fn push(&mut self, tenant: &str, weight: NonZeroU16, cost: u64, item: T) {
        let index = match self.by_tenant.get(tenant) {
            Some(index) => *index,
            None => self.add(tenant),
        };
        let flow = &mut self.flows[index];
        if flow.items.is_empty() {
            flow.end = flow.end.max(self.now);
            self.arrivals += 1;
            self.ready.push(Reverse((flow.end, self.arrivals, index)));
        }
        let takes = u128::from(cost.max(1)) * UNITS / u128::from(weight.get());
        flow.items.push_back(Item { takes, item });
        self.len += 1;
    }

    /// The next item.
    pub fn pop(&mut self) -> Option<T> {
        let Reverse((start, _, index)) = self.ready.pop()?;
        let flow = &mut self.flows[index];
        let Item { takes, item } = flow.items.pop_front().expect("a flow that is ready has an item");
        flow.end = start + takes;
        self.now = start;
        self.len -= 1;
        if !flow.items.is_empty() {
            self.arrivals += 1;
            self.ready.push(Reverse((flow.end, self.arrivals, index)));
        }
        if self.len == 0 {
            self.forget_all();
        }
        Some(item)
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many items wait.
    pub fn len(&self) -> usize {
        self.len
    }

    /// How many tenants have something waiting.
    pub fn tenants(&self) -> usize {
        self.ready.len()
    }

    fn add(&mut self, tenant: &str) -> usize {
        if self.by_tenant.len() >= self.tidy_at {
            self.tidy();
        }
        let flow = Flow { tenant: tenant.into(), end: self.now, items: VecDeque::new() };
        let index = match self.free.pop() {
            Some(index) => {
                self.flows[index] = flow;
                index
            }
            None => {
                self.flows.push(flow);
                self.flows.len() - 1
            }
        };
        self.by_tenant.insert(tenant.into(), index);
        index
    }

    /// Forgets who waits for nothing and would start now. Only as often as the number of tenants doubles.
    fn tidy(&mut self) {
        let Self { flows, by_tenant, free, now, .. } = self;
        by_tenant.retain(|_, index| {
            let flow = &mut flows[*index];
            let keep = !flow.items.is_empty() || flow.end > *now;
            if !keep {
                flow.tenant = Box::default();
                flow.items = VecDeque::new();
                free.push(*index);
            }
            keep
        });
        self.tidy_at = (self.by_tenant.len() * 2).max(TIDY_AT_LEAST);
    }

    /// Nobody waits, so nobody is ahead or behind. A single tenant, which is the usual case, keeps its place.
    fn forget_all(&mut self) {
        self.now = 0;
        self.ready.clear();
        match self.flows.as_mut_slice() {
            [flow] => flow.end = 0,
            _ => {
                self.flows.clear();
                self.by_tenant.clear();
                self.free.clear();
                self.tidy_at = TIDY_AT_LEAST;
            }
        }
    }
}

#[cfg(test)]
mod tests;
