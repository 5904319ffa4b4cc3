//! stub
#![allow(missing_docs)]
use crate::fact::{Fact, id::ThreadId};
use serde::{Deserialize, Serialize};
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionView {}
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnView {
    pub thread_id: ThreadId,
    pub number: u64,
}
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SubagentView {}
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskView {}
impl SessionView {
    pub fn apply(&mut self, _: &Fact) -> Option<TurnView> {
        None
    }
}
impl SubagentView {
    pub fn apply(&mut self, _: &Fact) {}
}
impl TaskView {
    pub fn apply(&mut self, _: &Fact) {}
}
