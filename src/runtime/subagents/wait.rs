//! Waiting for subagents.

use std::time::Duration;

use tokio::time::Instant;

use super::{
    super::{Request, Runtime, failure::unexpected, load::List},
    same_session,
};
use crate::{
    control::{
        Error,
        args::{WaitMode, WaitSubagents},
        result::{Answer, Waited, WaitedSubagent},
    },
    entity::{Subagent, records, subagent::State},
    fact::id::SubagentId,
};

/// How many of those that are waited for an answer names.
const WAITED_NAMED_MAX: usize = 1_000;

impl Runtime {
    pub(in crate::runtime) async fn wait_subagents(
        &self,
        request: &Request<'_>,
        args: WaitSubagents,
    ) -> Result<Answer<Waited>, Error> {
        let (session, parent) = match (&args.subagent_ids, &args.parent_id) {
            (Some(ids), _) => {
                let first = ids.first().ok_or_else(|| Error::invalid("subagentIds", "must not be empty"))?;
                let session = self.subagent(request, first).await?.session;
                if let Some(named) = &args.session_id {
                    same_session(&session, named, "sessionId", first)?;
                }
                (session, None)
            }
            (None, Some(parent)) => {
                if let Some(session) = &args.session_id {
                    self.session(&self.store.begin(), request, session).await?;
                }
                let root = self.root_of(request, args.session_id.as_ref(), parent.as_str()).await?;
                (root.session.clone(), Some(root))
            }
            (None, None) => return Err(Error::invalid("subagentIds", "say whom to wait for")),
        };
        let until = request.until.min(Instant::now() + Duration::from_millis(args.timeout_ms));
        let (args, parent, session) = (&args, &parent, &session);
        let look = |whatever: bool| async move {
            let mut seen = Seen::default();
            match (&args.subagent_ids, parent) {
                (Some(ids), _) => {
                    let tx = &self.store.begin();
                    for id in ids {
                        let state = self.load::<Subagent>(tx, request, id.as_str()).await?;
                        let state = state.filter(|state| state.work.is_some());
                        let state = state.ok_or_else(|| Error::not_found("subagent", id))?;
                        seen.see(waited(id.clone(), &state));
                    }
                }
                (None, Some(parent)) => {
                    let prefix = records::subagents(session, parent.place());
                    let mut after: Option<String> = None;
                    loop {
                        // Each page in its own: reading all of very many takes longer than a transaction may.
                        let tx = &self.store.begin();
                        let list = List {
                            prefix: prefix.clone(),
                            after: after.as_deref(),
                            field: "parentId",
                            newest_first: false,
                        };
                        let look = |id: String| async move {
                            let Ok(id) = SubagentId::parse(&id) else { return Ok(None) };
                            let state = self.load::<Subagent>(tx, request, id.as_str()).await?;
                            let state = state.filter(|state| parent.is_meant(&state.view));
                            Ok(state.map(|state| waited(id, &state)))
                        };
                        let (some, more) = self.page(tx, request, list, 1_000, look).await?;
                        some.into_iter().for_each(|waited| seen.see(waited));
                        after = more;
                        if after.is_none() {
                            break;
                        }
                    }
                }
                (None, None) => {}
            }
            let (total, ended) = (seen.total, seen.ended);
            let is_met = match args.mode {
                WaitMode::All => ended == total,
                WaitMode::Any => ended > 0 || total == 0,
            };
            let subagents = seen.named();
            let found = Waited { subagents, timed_out: !is_met, mode: args.mode, total, ended };
            Ok((is_met || whatever).then_some(found))
        };
        if let Some(found) = self.wait_for(request, session, until, || look(false)).await? {
            return Ok(Answer::read(found));
        }
        look(true).await?.map(Answer::read).ok_or_else(unexpected)
    }
}

/// What was seen of those that are waited for. Of very many some are kept: enough to name those that have ended.
#[derive(Default)]
struct Seen {
    total: u64,
    ended: u64,
    some: Vec<WaitedSubagent>,
}

impl Seen {
    fn see(&mut self, waited: WaitedSubagent) {
        let is_ended = waited.status.is_terminal();
        let of_its_kind = if is_ended { self.ended } else { self.total - self.ended };
        self.total += 1;
        self.ended += u64::from(is_ended);
        if of_its_kind < WAITED_NAMED_MAX as u64 {
            self.some.push(waited);
        }
    }

    /// As many as an answer names. When that is not all of them, those that have ended come first.
    fn named(mut self) -> Vec<WaitedSubagent> {
        if self.some.len() > WAITED_NAMED_MAX {
            self.some.sort_by_key(|waited| !waited.status.is_terminal());
            self.some.truncate(WAITED_NAMED_MAX);
        }
        self.some
    }
}

fn waited(id: SubagentId, state: &State) -> WaitedSubagent {
    WaitedSubagent {
        subagent_id: id,
        status: state.work.as_ref().map_or(state.view.status, |work| work.status),
        summary: state.view.summary.clone(),
        error: state.view.last_error.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::status::SubagentStatus;

    #[test]
    fn of_very_many_those_that_have_ended_are_named_first_and_all_are_counted() {
        let waited = |number: u32, status| WaitedSubagent {
            subagent_id: SubagentId::parse(&format!("sub_{number:06}")).unwrap(),
            status,
            summary: None,
            error: None,
        };
        let (running, done) = (SubagentStatus::Running, SubagentStatus::Completed);
        let mut seen = Seen::default();
        (0..5_000).for_each(|number| seen.see(waited(number, running)));
        (5_000..5_003).for_each(|number| seen.see(waited(number, done)));
        assert_eq!((seen.total, seen.ended), (5_003, 3));
        let named = seen.named();
        assert_eq!(named.len(), WAITED_NAMED_MAX);
        assert!(
            named[..3].iter().all(|one| one.status == done) && named[3].subagent_id.as_str() == "sub_000000"
        );
        let mut seen = Seen::default();
        (0..9_000).for_each(|number| seen.see(waited(number, done)));
        seen.see(waited(9_000, running));
        assert_eq!((seen.total, seen.ended, seen.some.len()), (9_001, 9_000, WAITED_NAMED_MAX + 1));
        let mut few = Seen::default();
        [running, done].into_iter().zip(0..).for_each(|(status, number)| few.see(waited(number, status)));
        assert_eq!(few.named()[0].status, running, "of few all are named, in their order");
    }
}
