//! Processes: which run, and how the others ended.

use super::count;
use crate::{
    fact::{
        Fact,
        id::{ProcessId, ThreadId, TurnId},
        payload::Payload,
        status::ProcessStatus,
        time::Time,
    },
    view::{
        bound::{self, NAME_MAX, TEXT_MAX, WORD_MAX, cut, cut_some},
        declare::views,
    },
};

views! {
    /// One process that runs.
    ProcessEntry {
        /// Which.
        process_id: ProcessId,
        /// What was run.
        command: String,
        /// Since when.
        started_at: Time,
        ..
        /// Where.
        cwd: Option<String>,
        /// Its bounds.
        sandbox: Option<String>,
        /// Which network it has.
        network: Option<String>,
        /// Whether it has a terminal.
        terminal: bool,
        /// Whether it outlives its turn.
        background: bool,
        /// How much it has said, in bytes.
        output_bytes: u64,
        /// How much it was told, in bytes.
        input_bytes: u64,
        /// In which thread.
        thread_id: Option<ThreadId>,
        /// In which turn.
        turn_id: Option<TurnId>,
    }

    /// The processes of a session.
    #[derive(Default)]
    Processes {
        ..
        /// How many began.
        started: u32,
        /// How many ended with success.
        completed: u32,
        /// How many failed or took too long.
        failed: u32,
        /// How many were ended.
        terminated: u32,
        /// Of how many it cannot be known how they ended.
        lost: u32,
        /// Where the last one began.
        cwd: Option<String>,
        /// Those that run.
        active: Vec<ProcessEntry>,
        /// How many more run than there is room to tell.
        active_omitted: u32,
    }
}

impl Processes {
    /// How many running processes are told of.
    pub const ACTIVE_MAX: usize = 4;

    pub(super) fn apply(&mut self, fact: &Fact) {
        let Some(process) = fact.ids.process() else { return };
        match &fact.payload {
            Payload::ProcessStarted(started) => {
                count(&mut self.started);
                self.cwd = cut_some(started.cwd.as_deref(), TEXT_MAX).or(self.cwd.take());
                self.active.retain(|kept| kept.process_id != *process);
                if self.active.len() >= Self::ACTIVE_MAX {
                    return count(&mut self.active_omitted);
                }
                let mut command = String::new();
                for (index, word) in started.command.iter().enumerate() {
                    bound::append(&mut command, if index == 0 { "" } else { " " }, TEXT_MAX);
                    bound::append(&mut command, word, TEXT_MAX);
                }
                self.active.push(ProcessEntry {
                    process_id: process.clone(),
                    command: cut(&command, TEXT_MAX),
                    started_at: bound::time(fact.at),
                    cwd: cut_some(started.cwd.as_deref(), TEXT_MAX),
                    sandbox: cut_some(started.sandbox.as_deref(), NAME_MAX),
                    network: cut_some(started.network.as_deref(), WORD_MAX),
                    terminal: started.terminal,
                    background: started.background,
                    output_bytes: 0,
                    input_bytes: 0,
                    thread_id: fact.ids.thread().cloned(),
                    turn_id: fact.ids.turn().cloned(),
                });
            }
            Payload::ProcessOutput(output) => {
                let size = output.size_bytes.or(output.text.as_ref().map(|text| text.len() as u64));
                if let (Some(entry), Some(size)) = (self.entry(process), size) {
                    entry.output_bytes = entry.output_bytes.saturating_add(size);
                }
            }
            Payload::ProcessInput(input) => {
                if let Some(entry) = self.entry(process) {
                    entry.input_bytes = entry.input_bytes.saturating_add(input.size_bytes);
                }
            }
            Payload::ProcessCompleted(_) => self.ended(process, ProcessStatus::Completed),
            Payload::ProcessFailed(failed) => self.ended(process, failed.status),
            Payload::ProcessTerminated(_) => self.ended(process, ProcessStatus::Terminated),
            _ => {}
        }
    }

    fn entry(&mut self, process: &ProcessId) -> Option<&mut ProcessEntry> {
        self.active.iter_mut().find(|entry| entry.process_id == *process)
    }

    fn ended(&mut self, process: &ProcessId, status: ProcessStatus) {
        let before = self.active.len();
        self.active.retain(|kept| kept.process_id != *process);
        if self.active.len() == before {
            self.active_omitted = self.active_omitted.saturating_sub(1);
        }
        match status {
            ProcessStatus::Completed => count(&mut self.completed),
            ProcessStatus::Terminated => count(&mut self.terminated),
            ProcessStatus::Lost => count(&mut self.lost),
            ProcessStatus::Running | ProcessStatus::Failed | ProcessStatus::TimedOut => {
                count(&mut self.failed)
            }
        }
    }
}
