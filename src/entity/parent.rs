//! Starting single children by command, for every entity that can be a parent.

use super::{Child, Lineage, Message, Start, SubagentSpec, kind, session::fingerprint};
use crate::{
    control::{Error, args::SpawnSubagent},
    exec::{Budget, Children, Draft, Group, Names, Source},
    fact::id::{Id, SubagentId, ThreadId, TurnId},
    scripted::Join,
};

/// Who starts a child by command, and from where.
pub struct Spawner<'a> {
    /// The turn that the child belongs to, if any.
    pub turn: Option<&'a TurnId>,
    /// Its ids.
    pub lineage: Lineage,
    /// The agent to take when none is named.
    pub agent: &'a str,
    /// How deep the parent is.
    pub depth: u32,
    /// What the parent may use up, when that is less than what the node allows.
    pub budget: Option<Budget>,
}

/// What the caller is told of a new subagent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spawned {
    /// Its id.
    pub subagent: SubagentId,
    /// Its thread.
    pub thread: ThreadId,
    /// Its first turn.
    pub turn: TurnId,
}

impl Spawner<'_> {
    /// Starts one subagent.
    pub fn spawn(
        self,
        children: &mut Children,
        args: SpawnSubagent,
        source: Source,
        draft: &mut Draft<'_>,
    ) -> Result<Spawned, Error> {
        let limits = &draft.engine.limits;
        if children.len() >= limits.children_open {
            let message = format!("the parent has {} children that are not closed", children.len());
            return Err(Error::rate_limited(1_000, message));
        }
        if !draft.take_spare(Group::BYTES_MAX) {
            let message =
                "the parent has too much going on to start another: wait until some of it has ended";
            return Err(Error::rate_limited(1_000, message));
        }
        if self.depth >= limits.depth {
            let message = format!("subagents may be {} deep", limits.depth);
            return Err(Error::invalid("parentSubagentId", message));
        }
        let fingerprint = fingerprint(&(&args, &source));
        let (subagent, thread, turn) = match args.subagent_id {
            Some(id) => (id, draft.ids.next(), draft.ids.next()),
            None => {
                let id: SubagentId = draft.ids.next();
                let suffix = id.suffix().to_owned();
                (id, ThreadId::with_suffix(&suffix), TurnId::with_suffix(&suffix))
            }
        };
        let spec = SubagentSpec {
            role: args.role,
            nickname: args.nickname,
            isolation: args.isolation,
            model_policy: args.model_policy.map(|policy| serde_json::Value::from(policy).to_string()),
            deadline_ms: args.deadline_ms,
            thread: Some(thread.clone()),
            turn: Some(turn.clone()),
            fingerprint,
        };
        let start = Start {
            session: draft.session.clone(),
            parent: None,
            lineage: self.lineage,
            agent: args.agent.unwrap_or_else(|| self.agent.to_owned()),
            input: source,
            depth: self.depth + 1,
            what: Child::Subagent(spec),
            budget: Budget::lower(self.budget, args.budget.map(Budget::from)),
        };
        let names = Names::one(kind::SUBAGENT, subagent.as_str());
        children.add(Group::new(names, 1, Join::None, None, start));
        if !children.work(self.turn, draft) {
            draft.go_on(Message::GoOn { turn: self.turn.cloned() });
        }
        Ok(Spawned { subagent, thread, turn })
    }
}
