//! Turns: submitted, queued, started.

use super::{NamedTurn, Queued, Reply, Unfinished, decide::Step};
use crate::{
    control::{Code, Error, args::SubmitTurn},
    entity::records,
    exec::{Budget, Failures, History, NewRun, Run, STEP_RETRIES_MAX, Source},
    fact::{
        Fact, Failure, Ids, Part,
        id::{ThreadId, TurnId},
        payload::{Payload, QueueChange, QueueChanged, TurnFailed, TurnSubmitted, WhenBusy},
        scope::{ThreadScope, TurnScope},
        status::TurnStatus,
    },
    sabotage::{Sabotage, is_on},
};

/// What a turn takes in the state of its session without its input: while it waits, while it runs and makes a call or two,
/// and while children of it live on.
const TURN_BYTES_MAX: usize = 2 * 1024;
/// What a session carries about of all its inputs; the rest is fetched when it is needed.
const INLINE_BYTES_MAX: usize = 24 * 1024;
/// How many turns of one session run at once, in as many threads.
const RUNS_MAX: usize = 12;
/// How many turns that callers have named are remembered.
const NAMED_MAX: usize = 64;
/// Before it comes only what is put to the front later.
const RANK_FIRST: u8 = 0;
/// How much of its input a turn's first fact shows.
const SHOWN_BYTES_MAX: usize = 4 * 1024;

impl Step<'_> {
    pub(super) fn submit(&mut self, args: SubmitTurn, source: Source, from: &str) -> Result<Reply, Error> {
        let fingerprint = super::decide::fingerprint(&(&args, &source));
        if let Some(turn) = &args.turn_id
            && let Some(reply) = self.submitted_before(turn, fingerprint)?
        {
            return Ok(reply);
        }
        self.require_open()?;
        let index = match &args.thread_id {
            Some(id) => match self.thread(id) {
                Ok(index) => index,
                Err(_) => self.start_thread(Some(id.clone()))?,
            },
            None if self.work.threads.is_empty() => self.start_thread(None)?,
            None => 0,
        };
        let options = args.options.clone();
        let when_busy = options.when_busy;
        let is_busy = self.work.threads[index].run.is_some();
        if is_busy {
            match when_busy {
                WhenBusy::Reject => {
                    let message = format!("the thread {} is busy", self.work.threads[index].id);
                    return Err(Error::conflict("running", message));
                }
                WhenBusy::Steer => {
                    let reply = self.steer(index, source)?;
                    if let (Some(named), Reply::Submitted { turn, .. }) = (&args.turn_id, &reply) {
                        self.remember(named, index, fingerprint, Some(turn.clone()));
                        self.remember_named(named, index, fingerprint, Some(turn.clone()));
                    }
                    return Ok(reply);
                }
                WhenBusy::Queue | WhenBusy::Interrupt => {}
            }
        }
        let limit = self.draft.engine.limits.queued_turns;
        let waiting: usize = self.work.threads.iter().map(|thread| thread.queue.len()).sum();
        if waiting >= limit {
            return Err(Error::rate_limited(1_000, format!("{limit} turns wait already")));
        }
        if !self.draft.take_spare(TURN_BYTES_MAX) {
            let message = format!(
                "the session {} has too much going on to take another turn: wait until some of it has ended",
                self.work.id
            );
            return Err(Error::rate_limited(1_000, message));
        }
        let turn = args.turn_id.clone().unwrap_or_else(|| self.draft.ids.next());
        self.remember(&turn, index, fingerprint, None);
        if args.turn_id.is_some() {
            self.remember_named(&turn, index, fingerprint, None);
        }
        let agent = args.agent.clone().or_else(|| self.work.agent.clone());
        let agent = agent.unwrap_or_else(|| crate::scripted::AGENT.into());
        let (shown, source) = self.keep_input(source, index, &turn);
        if when_busy == WhenBusy::Reject && !self.is_free(index) {
            let message = format!(
                "the turn would have to wait: the session {} has {} threads with a running turn, or too much going on",
                self.work.id,
                self.running()
            );
            return Err(Error::conflict("queued", message));
        }
        let queued = Queued {
            turn: turn.clone(),
            agent: agent.clone(),
            model: options.model.clone(),
            source,
            rank: rank(options.priority.as_deref()),
            deadline: options.deadline_ms.map(|ms| self.draft.now.in_ms(ms)),
            attempt: 1,
            budget: options.budget.map(Budget::from),
            failures: Failures::default(),
        };
        let submitted = TurnSubmitted {
            source: from.to_owned(),
            input_ref: match &queued.source {
                Source::Stored(blob) => Some(blob.clone().into()),
                Source::Inline(_) => None,
            },
            input: shown,
            agent: Some(agent),
            model: options.model,
            when_busy: Some(options.when_busy),
            deadline_ms: options.deadline_ms,
            priority: options.priority,
            metadata: args.metadata,
            ..Default::default()
        };
        let first = when_busy == WhenBusy::Interrupt;
        let position = self.take_turn(index, queued, submitted, first);
        let thread = self.work.threads[index].id.clone();
        Ok(Reply::Submitted { thread, turn, position })
    }

    /// The id of a turn is taken, and the same request for it is recognised for as long as the session is there.
    fn remember(&mut self, turn: &TurnId, index: usize, fingerprint: u128, answered: Option<TurnId>) {
        let thread = self.work.threads[index].id.clone();
        let known = records::KnownTurn { thread, fingerprint, answered };
        self.draft.set_record(records::known_turn(turn, &self.work.id), known.encode());
    }

    /// The session itself recognises it lately.
    fn remember_named(&mut self, turn: &TurnId, index: usize, fingerprint: u128, answered: Option<TurnId>) {
        let (turn, thread) = (turn.clone(), self.work.threads[index].id.clone());
        self.work.named.push_back(NamedTurn { turn, thread, fingerprint, answered });
        if self.work.named.len() > NAMED_MAX {
            self.work.named.pop_front();
        }
    }

    /// A turn starts at once when it can, and waits otherwise. Where it waits, from 1.
    fn take_turn(
        &mut self,
        index: usize,
        queued: Queued,
        submitted: TurnSubmitted,
        first: bool,
    ) -> Option<u32> {
        let (turn, thread) = (queued.turn.clone(), self.work.threads[index].id.clone());
        let scope = TurnScope { thread: thread.clone(), turn: turn.clone() };
        if self.is_free(index) {
            self.draft.tell(scope, TurnSubmitted { status: TurnStatus::Accepted, ..submitted });
            self.begin(index, queued);
            if self.work.threads[index].run.is_none() {
                self.start_next_with_room();
            }
            return None;
        }
        let queue = &mut self.work.threads[index].queue;
        // Who was put to the front is not overtaken by whoever comes later and is more urgent.
        let (rank, at) = if first {
            (RANK_FIRST, 0)
        } else {
            (queued.rank, queue.iter().position(|other| other.rank > queued.rank).unwrap_or(queue.len()))
        };
        let queued = Queued { rank, ..queued };
        if let Some(deadline) = queued.deadline {
            self.draft.set_timer(format!("{turn}/deadline"), deadline);
        }
        queue.insert(at, queued);
        let queue_position = Some(u32::try_from(at + 1).unwrap_or(u32::MAX));
        self.draft.tell(scope, TurnSubmitted { status: TurnStatus::Queued, queue_position, ..submitted });
        self.tell_queue(index, QueueChange::Added, Some(turn.clone()), None);
        if first {
            self.interrupt_running(index, "a newer turn takes its place", "submit");
        }
        // When it waits for room alone, what this step has taken for it may be more than it needs.
        self.looks_again = true;
        // What its fact says, also when the turn before it was over at once and it runs by now.
        queue_position
    }

    /// Whether a turn would start at once.
    fn is_free(&self, index: usize) -> bool {
        self.work.threads[index].run.is_none()
            && self.work.threads[index].queue.is_empty()
            && self.running() < RUNS_MAX
            && self.draft.spare > TURN_BYTES_MAX
    }

    fn submitted_before(&self, turn: &TurnId, fingerprint: u128) -> Result<Option<Reply>, Error> {
        let known = self.work.named.iter().find(|named| named.turn == *turn);
        let Some(NamedTurn { thread, fingerprint: known, answered, .. }) = known else {
            let taken = self.active(turn.as_str()).is_some();
            return if taken { Err(exists(turn)) } else { Ok(None) };
        };
        if *known != fingerprint {
            return Err(exists(turn));
        }
        // What was steered is answered with the turn that heard it.
        let turn = answered.as_ref().unwrap_or(turn);
        let waits = |thread: &super::Thread| thread.queue.iter().position(|queued| queued.turn == *turn);
        let position = self.work.threads.iter().find_map(waits);
        let position = position.map(|at| u32::try_from(at + 1).unwrap_or(u32::MAX));
        Ok(Some(Reply::Submitted { thread: thread.clone(), turn: turn.clone(), position }))
    }

    /// The input reaches the running turn at its next step.
    fn steer(&mut self, index: usize, source: Source) -> Result<Reply, Error> {
        let Source::Inline(input) = source else {
            let limit = Source::INLINE_BYTES_MAX as u64;
            let message = format!("a turn that runs hears at most {limit} bytes at once");
            let error = Error::new(Code::PayloadTooLarge, message).with("limit", limit);
            return Err(error.with("field", "input"));
        };
        let thread = &mut self.work.threads[index];
        let id = thread.id.clone();
        let Some(run) = thread.run.as_mut().filter(|run| !run.is_closing()) else {
            return Err(Error::conflict("cancelling", "the running turn is being cancelled"));
        };
        let turn = run.turn.clone();
        run.steer(input.clone()).map_err(|error| error.with("field", "input"))?;
        let size = Source::Inline(input.clone()).size();
        if !self.draft.take_spare(size) {
            return Err(Error::rate_limited(
                1_000,
                "the session has too much going on to hear more right now",
            ));
        }
        self.tell_queue(index, QueueChange::Steered, Some(turn.clone()), Some(input));
        Ok(Reply::Submitted { thread: id, turn, position: None })
    }

    /// Keeps an input in the state or apart from it. What of it a fact shows comes first.
    fn keep_input(&mut self, source: Source, index: usize, turn: &TurnId) -> (Vec<Part>, Source) {
        let Source::Inline(parts) = source else { return (Vec::new(), source) };
        let size = Source::Inline(parts.clone()).size();
        let shown = if size <= SHOWN_BYTES_MAX { parts.clone() } else { Vec::new() };
        let threads = self.work.threads.iter();
        let carried: usize = threads
            .map(|thread| {
                let queued: usize = thread.queue.iter().map(|queued| queued.source.size()).sum();
                queued
                    + thread.run.as_ref().map_or(0, |run| run.source().size())
                    + thread.unfinished.as_ref().map_or(0, |unfinished| unfinished.source.size())
            })
            .sum();
        let fits = size <= Source::INLINE_BYTES_MAX && carried + size <= INLINE_BYTES_MAX;
        if fits && self.draft.take_spare(size) {
            return (shown, Source::Inline(parts));
        }
        let content = serde_json::to_vec(&parts).expect("parts serialize into memory without fail");
        let about = Ids::default().with(self.work.threads[index].id.clone()).with(turn.clone());
        (shown, Source::Stored(self.draft.keep(content, about)))
    }

    pub(super) fn running(&self) -> usize {
        self.work.threads.iter().filter(|thread| thread.run.is_some()).count()
    }

    /// Something has ended. How much room that makes shows in the next step, and turns that wait for room alone have to
    /// be looked at then.
    pub(super) fn start_next_with_room(&mut self) {
        self.start_next();
        self.looks_again = true;
    }

    /// Whether a turn waits for nothing but room.
    pub(super) fn has_next(&self) -> bool {
        self.running() < RUNS_MAX && self.next_thread().is_some()
    }

    fn next_thread(&self) -> Option<usize> {
        self.work.threads.iter().position(|thread| thread.run.is_none() && !thread.queue.is_empty())
    }

    /// Starts waiting turns, as many as may run.
    pub(super) fn start_next(&mut self) {
        // What waits goes on waiting while children of former turns take the room.
        while self.running() < RUNS_MAX
            && self.draft.spare > TURN_BYTES_MAX
            && !is_on(Sabotage::QueueStandsStill)
        {
            let Some(index) = self.next_thread() else { return };
            // Turns may end as they begin, so a whole queue could pass by.
            if self.draft.quota.answers == 0 {
                self.looks_again = true;
                return;
            }
            self.draft.quota.answers -= 1;
            let Some(queued) = self.work.threads[index].queue.pop_front() else { return };
            self.tell_queue(index, QueueChange::Started, Some(queued.turn.clone()), None);
            self.begin(index, queued);
        }
    }

    /// The next turn of a thread. It may have ended when this returns; the one behind it is not begun here, so that a queue
    /// of turns that all end at once does not nest.
    fn begin(&mut self, index: usize, queued: Queued) {
        self.work.threads[index].unfinished = None;
        let history = self.history(index);
        let new = NewRun {
            thread: self.work.threads[index].id.clone(),
            turn: queued.turn,
            around: Ids::default(),
            agent: queued.agent,
            model: queued.model,
            attempt: queued.attempt,
            depth: 0,
            source: queued.source,
            retries_max: STEP_RETRIES_MAX,
            budget: queued.budget,
            history,
            deadline: queued.deadline,
        };
        let mut run = Run::begin(new, "queue", true, &mut self.draft).knowing(queued.failures);
        let ending = run.advance(&mut self.draft);
        self.work.threads[index].run = Some(run);
        if let Some(ending) = ending {
            self.over(index, &ending);
        }
    }

    /// What a turn of a thread sees of those that have ended, also in this very step.
    fn history(&self, index: usize) -> Option<History> {
        let thread = &self.work.threads[index].id;
        let known = self.view.threads.iter().find(|view| view.thread_id == *thread);
        let ends = |fact: &&Fact| {
            let is_end = matches!(fact.payload, Payload::TurnCompleted(_) | Payload::TurnFailed(_));
            is_end && fact.ids.thread() == Some(thread)
        };
        let ended = self.draft.facts.iter().filter(ends).count() as u64;
        self.work.threads[index].past.seen(thread, known.map_or(0, |view| view.turn_count) + ended)
    }

    /// A thread goes on: with what waits, or once more with what did not complete.
    pub(super) fn resume(&mut self, thread: &ThreadId, by: &str) -> Result<Reply, Error> {
        self.require_open()?;
        let index = self.thread(thread)?;
        if let Some(run) = &self.work.threads[index].run {
            return Ok(Reply::Resumed { turn: Some(run.turn.clone()), started: false, waits: false });
        }
        let Some(Unfinished { agent, source, attempt, budget, model, failures, .. }) =
            self.work.threads[index].unfinished.take()
        else {
            return Ok(Reply::Resumed { turn: None, started: false, waits: false });
        };
        let turn: TurnId = self.draft.ids.next();
        let (shown, source) = self.keep_input(source, index, &turn);
        let submitted = TurnSubmitted {
            source: "resume".into(),
            input: shown,
            agent: Some(agent.clone()),
            model: model.clone(),
            metadata: [("resumedBy".to_owned(), by.into())].into_iter().collect(),
            ..Default::default()
        };
        let queued = Queued {
            turn: turn.clone(),
            agent,
            model,
            source,
            rank: RANK_FIRST,
            deadline: None,
            attempt: attempt + 1,
            budget,
            failures,
        };
        // What nobody has asked for under this name is another turn than whatever is submitted under it.
        self.remember(&turn, index, 0, None);
        let waits = self.take_turn(index, queued, submitted, false).is_some();
        Ok(Reply::Resumed { turn: Some(turn), started: true, waits })
    }

    pub(super) fn remove_queued(
        &mut self,
        thread: &ThreadId,
        turn: &TurnId,
        by: &str,
    ) -> Result<Reply, Error> {
        let index = self.thread(thread)?;
        let at = self.queued_at(index, turn)?;
        self.work.threads[index].queue.remove(at);
        self.cancel_queued(index, turn, TurnStatus::Cancelled, Some("removed from the queue"), by);
        self.tell_queue_by(index, QueueChange::Removed, turn, by);
        Ok(Reply::Done)
    }

    pub(super) fn promote_queued(
        &mut self,
        thread: &ThreadId,
        turn: &TurnId,
        by: &str,
    ) -> Result<Reply, Error> {
        let index = self.thread(thread)?;
        let at = self.queued_at(index, turn)?;
        if let Some(queued) = self.work.threads[index].queue.remove(at) {
            self.work.threads[index].queue.push_front(Queued { rank: RANK_FIRST, ..queued });
        }
        self.tell_queue_by(index, QueueChange::Promoted, turn, by);
        Ok(Reply::Done)
    }

    fn queued_at(&self, index: usize, turn: &TurnId) -> Result<usize, Error> {
        if self.active(turn.as_str()).is_some() {
            return Err(Error::conflict("running", format!("the turn {turn} is running, not queued")));
        }
        let queue = &self.work.threads[index].queue;
        let found = queue.iter().position(|queued| queued.turn == *turn);
        found.ok_or_else(|| Error::not_found("queued turn", turn.as_str()))
    }

    /// A turn that never ran is over. What it took is room for others.
    pub(super) fn cancel_queued(
        &mut self,
        index: usize,
        turn: &TurnId,
        status: TurnStatus,
        reason: Option<&str>,
        by: &str,
    ) {
        self.looks_again = true;
        self.draft.cancel_timer(format!("{turn}/deadline"));
        let code = if status == TurnStatus::TimedOut { "deadline_exceeded" } else { "cancelled" };
        let failed = TurnFailed {
            status,
            error: Failure::new(code, reason.unwrap_or("it was cancelled")),
            reason: reason.map(str::to_owned),
            by: Some(by.to_owned()),
            ..Default::default()
        };
        let thread = self.work.threads[index].id.clone();
        self.draft.tell(TurnScope { thread, turn: turn.clone() }, failed);
        metrics::counter!("cadre_turns_total", "status" => status.as_str()).increment(1);
    }

    /// A turn's time is over before it ran.
    pub(super) fn expire_queued(&mut self, turn: &str) {
        for index in 0..self.work.threads.len() {
            let queue = &mut self.work.threads[index].queue;
            let Some(at) = queue.iter().position(|queued| queued.turn.as_str() == turn) else { continue };
            let Some(queued) = queue.remove(at) else { continue };
            let reason = Some("the deadline passed while it waited");
            self.cancel_queued(index, &queued.turn, TurnStatus::TimedOut, reason, "deadline");
            self.tell_queue(index, QueueChange::Removed, Some(queued.turn), None);
        }
    }

    pub(super) fn tell_queue(
        &mut self,
        index: usize,
        change: QueueChange,
        turn: Option<TurnId>,
        input: Option<Vec<Part>>,
    ) {
        let changed = QueueChanged {
            change,
            changed_turn_id: turn,
            input: input.unwrap_or_default(),
            ..Default::default()
        };
        self.tell_changed(index, changed);
    }

    /// Somebody has changed it by a command about one turn.
    fn tell_queue_by(&mut self, index: usize, change: QueueChange, turn: &TurnId, by: &str) {
        let (turn, by) = (Some(turn.clone()), Some(by.to_owned()));
        self.tell_changed(index, QueueChanged { change, changed_turn_id: turn, by, ..Default::default() });
    }

    fn tell_changed(&mut self, index: usize, changed: QueueChanged) {
        let thread = &self.work.threads[index];
        // What a turn hears is part of it, also where nothing but that turn is looked at.
        let heard = changed.changed_turn_id.clone().filter(|_| changed.change == QueueChange::Steered);
        let of = heard.map_or_else(Ids::default, |turn| Ids::default().with(turn));
        let queue = thread.queue.iter().map(|queued| queued.turn.clone()).collect();
        let scope = ThreadScope { thread: thread.id.clone() };
        self.draft.tell_within(&of, scope, QueueChanged { queue, ..changed });
    }
}

/// How urgent a turn is: smaller comes first.
fn rank(priority: Option<&str>) -> u8 {
    match priority {
        Some("urgent" | "high") => RANK_FIRST,
        Some("low" | "background") => 2,
        _ => 1,
    }
}

fn exists(turn: &TurnId) -> Error {
    Error::conflict("exists", format!("the turn {turn} exists with other content"))
}
