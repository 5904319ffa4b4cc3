//! What commands answer with.
//!
//! Results of commands that change something can be stored, because a repeated command gets the same answer. Read
//! models are made elsewhere; where one is an item of a result, the result is generic over it, and by default it is an
//! object of any shape.

mod answer;
mod benchmark;
mod channel;
mod declare;
mod export;
mod governance;
mod history;
mod job;
mod page;
mod session;
mod subagent;
mod task;
mod turn;

pub use self::{
    answer::*, benchmark::*, channel::*, export::*, governance::*, history::*, job::*, page::*, session::*,
    subagent::*, task::*, turn::*,
};
