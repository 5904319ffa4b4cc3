//! The network's state and the journey of a message through it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, sleep_until},
};

use super::Faults;
use crate::{
    bus::{DEFAULT_MAX_PAYLOAD, DEFAULT_QUEUE_CAPACITY, Headers, Subject, interest::Interest},
    sim::{Dice, Lifeline, Trace},
};

/// What the nodes of one simulation share.
#[derive(Debug)]
pub(super) struct Network(Mutex<State>);

#[derive(Debug)]
pub(super) struct State {
    pub(super) faults: Faults,
    pub(super) death_notice: Duration,
    pub(super) max_payload: usize,
    pub(super) queue_capacity: usize,
    pub(super) trace: Option<Trace>,
    dice: Dice,
    blocked: BTreeSet<(String, String)>,
    outage: bool,
    ids: u64,
    interest: Interest<Listener>,
    patterns: BTreeMap<u64, Subject>,
    requests: BTreeMap<u64, oneshot::Sender<Bytes>>,
    /// What is under way, in the order of arrival.
    flights: BTreeMap<(Instant, u64), Flight>,
}

/// One subscription, as the server sees it.
#[derive(Debug, Clone)]
struct Listener {
    id: u64,
    node: Lifeline,
    queue: mpsc::Sender<Parcel>,
}

/// A message on its way or in a subscription's queue.
#[derive(Debug, Clone)]
pub(super) struct Parcel {
    pub(super) message: u64,
    pub(super) subject: Subject,
    pub(super) headers: Headers,
    pub(super) payload: Bytes,
    pub(super) request: Option<ReturnAddress>,
}

/// Where the answer to a request goes.
#[derive(Debug, Clone)]
pub(super) struct ReturnAddress {
    pub(super) request: u64,
    pub(super) node: Lifeline,
}

#[derive(Debug, Clone)]
struct Flight {
    from: Lifeline,
    to: Lifeline,
    cargo: Cargo,
}

#[derive(Debug, Clone)]
enum Cargo {
    Message { listener: u64, queue: mpsc::Sender<Parcel>, parcel: Parcel },
    Answer { request: u64, payload: Bytes },
}

impl Network {
    pub(super) fn new(dice: Dice) -> Self {
        Self(Mutex::new(State {
            faults: Faults::none(),
            death_notice: Duration::ZERO,
            max_payload: DEFAULT_MAX_PAYLOAD,
            queue_capacity: DEFAULT_QUEUE_CAPACITY,
            trace: None,
            dice,
            blocked: BTreeSet::new(),
            outage: false,
            ids: 0,
            interest: Interest::default(),
            patterns: BTreeMap::new(),
            requests: BTreeMap::new(),
            flights: BTreeMap::new(),
        }))
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a message to every listener; how many there are.
    pub(super) fn send(
        self: &Arc<Self>,
        from: &Lifeline,
        subject: &Subject,
        headers: Headers,
        payload: Bytes,
        request: Option<ReturnAddress>,
    ) -> usize {
        let mut state = self.state();
        let message = state.next_id();
        let mut listeners = Vec::new();
        state.interest.visit(subject, |listener| listeners.push(listener.clone()));
        state.note(format_args!("#{message} {} sends {subject} to {}", from.name(), listeners.len()));
        let parcel = Parcel { message, subject: subject.clone(), headers, payload, request };
        for Listener { id, node, queue } in &listeners {
            let cargo = Cargo::Message { listener: *id, queue: queue.clone(), parcel: parcel.clone() };
            self.launch(&mut state, Flight { from: from.clone(), to: node.clone(), cargo });
        }
        listeners.len()
    }

    /// Sends an answer to a request.
    pub(super) fn answer(self: &Arc<Self>, from: &Lifeline, to: &ReturnAddress, payload: Bytes) {
        let cargo = Cargo::Answer { request: to.request, payload };
        self.launch(&mut self.state(), Flight { from: from.clone(), to: to.node.clone(), cargo });
    }

    fn launch(self: &Arc<Self>, state: &mut State, flight: Flight) {
        let copies = if state.dice.chance(state.faults.duplicate) { 2 } else { 1 };
        for _ in 0..copies {
            if state.is_blocked(&flight) {
                state.note(format_args!("{flight} lost: parted"));
                continue;
            }
            if state.dice.chance(state.faults.drop) {
                state.note(format_args!("{flight} lost: dropped"));
                continue;
            }
            let delay = state.draw_delay();
            if delay.is_zero() {
                state.land(flight.clone());
                continue;
            }
            let due = Instant::now() + delay;
            let id = state.next_id();
            state.flights.insert((due, id), flight.clone());
            let network = Arc::downgrade(self);
            tokio::spawn(async move {
                sleep_until(due).await;
                if let Some(network) = network.upgrade() {
                    network.state().land_due();
                }
            });
        }
    }
}

impl State {
    pub(super) fn next_id(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }

    pub(super) fn block(&mut self, from: &str, to: &str) {
        self.note(format_args!("{from} is parted from {to}"));
        self.blocked.insert((from.to_owned(), to.to_owned()));
    }

    pub(super) fn unblock(&mut self, from: &str, to: &str) {
        if self.blocked.remove(&(from.to_owned(), to.to_owned())) {
            self.note(format_args!("{from} reaches {to} again"));
        }
    }

    pub(super) fn unblock_all(&mut self) {
        for (from, to) in mem::take(&mut self.blocked) {
            self.note(format_args!("{from} reaches {to} again"));
        }
    }

    pub(super) fn set_outage(&mut self, outage: bool) {
        if self.outage != outage {
            self.note(if outage { "the bus is down" } else { "the bus is up" });
            self.outage = outage;
        }
    }

    pub(super) fn is_down(&self) -> bool {
        self.outage
    }

    /// Puts a subscription in force.
    pub(super) fn listen(&mut self, node: &Lifeline, pattern: &Subject) -> (u64, mpsc::Receiver<Parcel>) {
        let id = self.next_id();
        let (queue, parcels) = mpsc::channel(self.queue_capacity);
        self.note(format_args!("{} listens to {pattern} as #{id}", node.name()));
        self.interest.insert(pattern, id, Listener { id, node: node.clone(), queue });
        self.patterns.insert(id, pattern.clone());
        (id, parcels)
    }

    /// Ends a subscription; does nothing when it has ended.
    pub(super) fn unlisten(&mut self, id: u64) {
        if let Some(pattern) = self.patterns.remove(&id) {
            self.note(format_args!("#{id} no longer listens to {pattern}"));
            self.interest.remove(&pattern, id);
        }
    }

    /// Opens a request, which waits for an answer until it is closed.
    pub(super) fn open_request(&mut self) -> (u64, oneshot::Receiver<Bytes>) {
        let id = self.next_id();
        let (answer, answered) = oneshot::channel();
        self.requests.insert(id, answer);
        (id, answered)
    }

    pub(super) fn close_request(&mut self, id: u64) {
        self.requests.remove(&id);
    }

    pub(super) fn note(&self, line: impl fmt::Display) {
        if let Some(trace) = &self.trace {
            trace.note(format_args!("bus: {line}"));
        }
    }

    fn is_blocked(&self, flight: &Flight) -> bool {
        // Cheap when nothing is parted, which is nearly always.
        !self.blocked.is_empty()
            && self.blocked.contains(&(flight.from.name().to_owned(), flight.to.name().to_owned()))
    }

    fn draw_delay(&self) -> Duration {
        let micros = |delay: &Duration| u64::try_from(delay.as_micros()).unwrap_or(u64::MAX);
        let (shortest, longest) = (micros(self.faults.delay.start()), micros(self.faults.delay.end()));
        if shortest >= longest {
            return Duration::from_micros(shortest);
        }
        Duration::from_micros(self.dice.between(shortest..=longest))
    }

    /// Lands what is due, in the order of arrival: timers alone would not keep it within a millisecond.
    fn land_due(&mut self) {
        let now = Instant::now();
        while let Some(first) = self.flights.first_entry()
            && first.key().0 <= now
        {
            let flight = first.remove();
            self.land(flight);
        }
    }

    fn land(&mut self, flight: Flight) {
        let label = if self.trace.is_some() { flight.to_string() } else { String::new() };
        let outcome = if self.outage {
            "lost: the bus is down"
        } else if self.is_blocked(&flight) {
            "lost: parted"
        } else if flight.to.is_cut() {
            "lost: the node is dead"
        } else {
            match flight.cargo {
                Cargo::Message { queue, parcel, .. } => match queue.try_send(parcel) {
                    Ok(()) => "arrives",
                    Err(mpsc::error::TrySendError::Full(_)) => "lost: the queue is full",
                    Err(mpsc::error::TrySendError::Closed(_)) => "lost: the subscription has ended",
                },
                Cargo::Answer { request, payload } => {
                    match self.requests.remove(&request).map(|answer| answer.send(payload)) {
                        Some(Ok(())) => "arrives",
                        _ => "lost: the request has ended",
                    }
                }
            }
        };
        self.note(format_args!("{label} {outcome}"));
    }
}

impl fmt::Display for Flight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cargo {
            Cargo::Message { listener, parcel, .. } => write!(f, "#{} to #{listener}", parcel.message)?,
            Cargo::Answer { request, .. } => write!(f, "answer to request #{request}")?,
        }
        write!(f, " ({} > {})", self.from.name(), self.to.name())
    }
}
