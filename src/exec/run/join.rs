//! What a run starts in others, and waits for.

use cadre_cluster::address::Address;
use serde_json::json;

use super::{Ending, Phase, Run, Source};
use crate::{
    entity::{Child, Message, Start},
    exec::{Draft, Group, OpenCall, ToolOutput, call::CallState, children::Names},
    fact::Failure,
    scripted::Join,
};

impl Run {
    pub(super) fn start(&self, agent: String, input: Source, what: Child, draft: &Draft<'_>) -> Start {
        Start {
            session: draft.session.clone(),
            parent: None,
            lineage: self.lineage(),
            agent,
            input,
            depth: self.depth + 1,
            what,
            budget: self.budget(draft.engine),
        }
    }

    /// Starts a group, and waits for it if that is wanted.
    pub(super) fn join(&mut self, index: usize, mut group: Group, draft: &mut Draft<'_>) {
        group.call = Some(self.calls[index].id.clone());
        draft.room.groups = draft.room.groups.saturating_sub(1);
        let number = self.children.add(group);
        self.calls[index].state = CallState::Joining { group: number, since: draft.now };
        self.children.work(Some(&self.turn), draft);
        self.check_joined(number, None, draft);
    }

    /// Observes all groups that are joined.
    pub(super) fn observe_joins(&mut self, draft: &mut Draft<'_>) {
        let joining = self.calls.iter().filter_map(|call| match call.state {
            CallState::Joining { group, .. } => Some(group),
            _ => None,
        });
        for group in joining.collect::<Vec<_>>() {
            self.check_joined(group, None, draft);
        }
    }

    /// Observes a group that is joined; `error` is why its last child never was.
    fn check_joined(&mut self, number: u32, error: Option<&Failure>, draft: &mut Draft<'_>) {
        let Some(group) = self.children.group(number).filter(|group| group.is_joined()) else { return };
        let joining =
            |call: &OpenCall| matches!(call.state, CallState::Joining { group, .. } if group == number);
        let Some(index) = self.calls.iter().position(joining) else { return };
        let mut structured = group.tally.to_json(group.started);
        if !group.troubled.is_empty() {
            structured["notCompleted"] = group.troubled.clone().into();
            if let Some(Failure { code, message, retryable, .. }) = error {
                structured["error"] = json!({ "code": code, "message": message, "retryable": retryable });
            }
        }
        if let Names::Listed(names) = &group.names
            && let [(kind, id)] = names.as_slice()
        {
            structured[format!("{kind}Id")] = id.clone().into();
        }
        let output = ToolOutput { structured: Some(structured.to_string()), ..ToolOutput::default() };
        self.children.joined(number);
        self.returned(index, output, draft);
    }

    /// One of its children has something to say, or its owner goes on with it.
    pub fn hear(&mut self, from: &Address, message: Message, draft: &mut Draft<'_>) -> Option<Ending> {
        match message {
            Message::GoOn { .. } => {}
            Message::ChildEnded { parent, id, status, live, error } => {
                self.children.ended(parent.group, &id, status, live);
                self.check_joined(parent.group, error.as_ref(), draft);
            }
            // Some time after the child had ended.
            Message::ChildClosed { parent } => self.children.closed(parent.group),
            // A child that had ended goes on, and is closed again if the others were told to close.
            Message::ChildReopened { parent, again } => {
                self.children.reopened(parent.group, from, &again, draft);
                if self.phase == Phase::Leaving && self.children.is_of(parent.group, Join::Any) {
                    draft.send(from.clone(), Message::Close(Self::race_over()));
                }
            }
            Message::Start(_)
            | Message::Close(_)
            | Message::Watch { .. }
            | Message::Unwatch { .. }
            | Message::DependencyEnded { .. }
            | Message::Forget => return None,
        }
        self.advance(draft)
    }
}
