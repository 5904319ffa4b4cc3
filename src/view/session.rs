//! A session as a whole.

use super::{
    bound::{self, NAME_MAX, TEXT_MAX},
    declare::views,
    incident::Incident,
    shed,
    summary::Summary,
    thread::ThreadView,
    turn::TurnView,
};
use crate::fact::{
    Fact, Trace,
    id::{SessionId, ThreadId},
    payload::{Object, Payload},
    status::SessionStatus,
    time::Time,
};

views! {
    /// A session: its shell, its threads, and summaries of what its own facts say.
    ///
    /// It is kept by the session's entity, which changes it only with [`apply_traced`](Self::apply_traced), as a replay
    /// does.
    #[derive(Default)]
    SessionView {
        /// Active or archived.
        status: SessionStatus,
        ..
        /// Its id. No fact says it: whoever owns the view sets it.
        session_id: Option<SessionId>,
        /// What people call it.
        title: Option<String>,
        /// The agent of its turns, unless they name another.
        agent: Option<String>,
        /// The caller's own.
        metadata: Object,
        /// When it began.
        created_at: Option<Time>,
        /// When something last happened in it.
        updated_at: Option<Time>,
        /// Its threads, in the order in which they began.
        threads: Vec<ThreadView>,
        /// How many facts were of threads for which there was no room.
        omitted: u64,
        /// What people should know, the latest last.
        incidents: Vec<Incident>,
        /// How many incidents there were.
        incidents_total: u64,
        /// Summaries of its own facts.
        summary: Summary,
    }
}

impl SessionView {
    /// How many threads a session can have. Its owner refuses more; facts of more are counted and not told of.
    pub const THREADS_MAX: usize = 32;
    /// How many open turns are told of, in all threads.
    pub const OPEN_TURNS_MAX: usize = 64;
    /// How many incidents are told of for a thread.
    pub const THREAD_INCIDENTS_MAX: usize = 10;
    /// How many incidents are told of.
    pub const INCIDENTS_MAX: usize = 12;
    /// How much of the caller's own is kept.
    pub const METADATA_MAX: usize = 4096;

    /// A thread.
    pub fn thread(&self, thread_id: &ThreadId) -> Option<&ThreadView> {
        self.threads.iter().find(|thread| thread.thread_id == *thread_id)
    }

    /// The incidents of a thread.
    pub fn incidents_of(&self, thread_id: &ThreadId) -> Vec<Incident> {
        let mine = |incident: &&Incident| incident.thread_id.as_ref() == Some(thread_id);
        self.incidents.iter().filter(mine).cloned().collect()
    }

    /// Takes in a fact of this session and the trace that it belongs to, as [`apply`](Self::apply).
    pub fn apply_traced(&mut self, fact: &Fact, trace: Option<&Trace>) -> Option<TurnView> {
        if let Some(trace) = trace {
            self.summary.traced(trace);
        }
        self.apply(fact)
    }

    /// Takes in a fact of this session. Gives back the turn that ended with it, numbered: it is no part of the state
    /// any more, so its owner writes it as a record of its own.
    pub fn apply(&mut self, fact: &Fact) -> Option<TurnView> {
        let at = bound::time(fact.at);
        self.updated_at = self.updated_at.max(Some(at));
        match &fact.payload {
            Payload::SessionCreated(created) => {
                self.created_at.get_or_insert(at);
                self.status = created.status;
                self.title = bound::cut_some(created.title.as_deref(), TEXT_MAX);
                self.agent = bound::cut_some(created.agent.as_deref(), NAME_MAX);
                self.metadata = bound::object(&created.metadata, Self::METADATA_MAX);
            }
            Payload::SessionUpdated(updated) => {
                self.status = updated.status.unwrap_or(self.status);
                bound::set_text(&mut self.title, updated.title.as_deref(), TEXT_MAX);
                bound::set_text(&mut self.agent, updated.agent.as_deref(), NAME_MAX);
                if let Some(metadata) = &updated.metadata {
                    self.metadata = bound::object(metadata, Self::METADATA_MAX);
                }
            }
            _ => {}
        }
        if let Some(incident) = Incident::of(fact) {
            self.incident(incident);
        }
        self.summary.apply(fact);
        let ended = self.in_thread(fact);
        shed::keep_small(&mut self.threads, fact);
        ended
    }

    fn in_thread(&mut self, fact: &Fact) -> Option<TurnView> {
        let thread_id = fact.ids.thread()?;
        let room = self.room(fact);
        let index = match self.threads.iter().position(|thread| thread.thread_id == *thread_id) {
            Some(index) => index,
            None if !begins(&fact.payload) => return None,
            None if self.threads.len() >= Self::THREADS_MAX => {
                self.omitted = self.omitted.saturating_add(1);
                return None;
            }
            None => {
                let mut thread = ThreadView::new(thread_id.clone());
                thread.created_at = Some(bound::time(fact.at));
                self.threads.push(thread);
                self.threads.len() - 1
            }
        };
        self.threads[index].apply(fact, room)
    }

    fn room(&self, fact: &Fact) -> bool {
        let begins = matches!(fact.payload, Payload::TurnSubmitted(_) | Payload::TurnStarted(_));
        begins && self.threads.iter().map(|thread| thread.turns.len()).sum::<usize>() < Self::OPEN_TURNS_MAX
    }

    fn incident(&mut self, incident: Incident) {
        self.incidents_total = self.incidents_total.saturating_add(1);
        let alike = |kept: &Incident| kept.thread_id == incident.thread_id;
        if self.incidents.iter().filter(|kept| alike(kept)).count() >= Self::THREAD_INCIDENTS_MAX
            && let Some(oldest) = self.incidents.iter().position(alike)
        {
            self.incidents.remove(oldest);
        }
        bound::push_last(&mut self.incidents, incident, Self::INCIDENTS_MAX);
    }
}

/// Whether a thread begins with this, when it was not heard of before.
fn begins(payload: &Payload) -> bool {
    matches!(
        payload,
        Payload::ThreadStarted(_)
            | Payload::ThreadUpdated(_)
            | Payload::TurnSubmitted(_)
            | Payload::TurnStarted(_)
            | Payload::TurnCompleted(_)
            | Payload::TurnFailed(_)
            | Payload::QueueChanged(_)
    )
}
