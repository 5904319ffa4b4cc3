//! The arguments of every command, as callers send them.
//!
//! Absent optional arguments are `None` or empty. The types serialize every field, so that they can be part of stored
//! commands, whose structs are arrays; read from JSON they ignore unknown fields and take `null` for absent.

mod action;
mod benchmark;
mod budget;
mod channel;
mod declare;
mod export;
mod history;
mod input;
mod job;
mod limit;
mod output;
mod parent;
mod permission;
mod process;
mod queue;
mod schedule;
mod session;
mod subagent;
mod task;
mod task_control;
mod task_list;
mod task_outcome;
mod turn;

pub use self::{
    action::*, benchmark::*, budget::*, channel::*, export::*, history::*, job::*, limit::*, parent::*,
    permission::*, process::*, queue::*, schedule::*, session::*, subagent::*, task::*, task_control::*,
    task_list::*, task_outcome::*, turn::*,
};
