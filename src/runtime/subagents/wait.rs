//! Waiting for subagents.

use std::time::Duration;

use tokio::time::Instant;

use super::super::{Request, Runtime, load::List, turns::unexpected};
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
                (self.subagent(request, first).await?.session, None)
            }
            (None, Some(parent)) => {
                let root = self.root_of(request, None, parent.as_str()).await?;
                (root.session.clone(), Some(root))
            }
            (None, None) => return Err(Error::invalid("subagentIds", "say whom to wait for")),
        };
        let until = request.until.min(Instant::now() + Duration::from_millis(args.timeout_ms));
        let (args, parent, session) = (&args, &parent, &session);
        let look = |whatever: bool| async move {
            let mut seen = Vec::new();
            match (&args.subagent_ids, parent) {
                (Some(ids), _) => {
                    let tx = &self.store.begin();
                    for id in ids {
                        let state = self.load::<Subagent>(tx, request, id.as_str()).await?;
                        let state = state.filter(|state| state.work.is_some());
                        let state = state.ok_or_else(|| Error::not_found("subagent", id))?;
                        seen.push(waited(id.clone(), &state));
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
                        seen.extend(some);
                        after = more;
                        if after.is_none() {
                            break;
                        }
                    }
                }
                (None, None) => {}
            }
            let total = seen.len() as u64;
            let ended = seen.iter().filter(|waited| waited.status.is_terminal()).count() as u64;
            let is_met = match args.mode {
                WaitMode::All => ended == total,
                WaitMode::Any => ended > 0 || total == 0,
            };
            seen.truncate(WAITED_NAMED_MAX);
            let found = Waited { subagents: seen, timed_out: !is_met, mode: args.mode, total, ended };
            Ok((is_met || whatever).then_some(found))
        };
        if let Some(found) = self.wait_for(request, session, until, || look(false)).await? {
            return Ok(Answer::read(found));
        }
        look(true).await?.map(Answer::read).ok_or_else(unexpected)
    }
}

fn waited(id: SubagentId, state: &State) -> WaitedSubagent {
    WaitedSubagent {
        subagent_id: id,
        status: state.work.as_ref().map_or(state.view.status, |work| work.status),
        summary: None,
        error: state.view.last_error.clone(),
    }
}
