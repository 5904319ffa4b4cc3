//! A job that is being got ready: its items are being written, and it is not there before all of them are.
//!
//! A hundred thousand items take many transactions, and whoever writes them may die among them. So the entity hears of it
//! before the first, and remembers that: whose items they are, so that those of two requests do not mix, and since when,
//! so that what nobody comes back to is removed. Whoever writes items checks in the same transaction that the preparation
//! stands. A retry of the request finds it and goes on; the job begins with `Create`, or with the `Start` of its task.

use cadre_cluster::{
    clock::Timestamp,
    host::{Decision, EffectResult, Input, Moment},
};
use serde::{Deserialize, Serialize};

use super::{Command, Create, Job, Kept, Reply, State, decide, removal};
use crate::{
    control::Error,
    entity::{Child, Host, Message, Parent, Start},
    exec::{Budget, Draft, Outcome},
    fact::{
        Failure,
        id::{Id, JobId, SessionId},
        status::{JobStatus, SubagentStatus},
    },
};

/// How long nobody may come back before what was written is removed: far longer than any command is tried.
pub const ABANDONED_AFTER_MS: u64 = 60 * 60 * 1000;

/// That items of a job are being written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preparation {
    /// The session that the job will belong to.
    pub session: SessionId,
    /// A hash of the whole request.
    pub fingerprint: u128,
    /// How many items there will be.
    pub items: u32,
    /// When it began. Names of what is written come from it, so that a later one never meets what this one left.
    pub since: Timestamp,
    /// Set once it is given up: every item below is removed.
    pub removed: Option<u32>,
}

impl Preparation {
    fn reply(&self, job: JobId) -> Reply {
        Reply {
            job,
            session: self.session.clone(),
            status: JobStatus::Accepted,
            prepared: Some(self.since),
            next: None,
        }
    }
}

/// What follows from what is heard while there is no job.
pub(super) fn decide(
    host: &Host,
    id: JobId,
    state: &State,
    input: Input<Job>,
    moment: &Moment<'_>,
) -> Result<Decision<Job>, Error> {
    let prepared = state.preparation.as_ref();
    match input {
        Input::Command(Command::Prepare { session, fingerprint, items }) => {
            let limit = host.engine.limits.job_items;
            if items == 0 || items as usize > limit {
                return Err(Error::invalid("items", format!("must be 1 to {limit}, not {items}")));
            }
            let preparation = match prepared {
                None => Preparation { session, fingerprint, items, since: moment.now, removed: None },
                Some(known) => standing(known, &id, fingerprint)?.clone(),
            };
            let mut draft = Draft::new(&host.engine, preparation.session.clone(), moment);
            draft.set_timer("abandoned", moment.now.in_ms(ABANDONED_AFTER_MS));
            let reply = preparation.reply(id);
            Ok(draft.decision(Some(Kept::Preparation(preparation))).reply(reply))
        }
        Input::Command(Command::Create(create)) => {
            let step = begin(host, id, *create, prepared, moment)?;
            let reply = step.reply();
            Ok(step.decision().reply(reply))
        }
        Input::Command(Command::Abandon { fingerprint }) => {
            let Some(known) = prepared.filter(|known| known.fingerprint == fingerprint) else {
                return Err(Error::not_found("job", id));
            };
            let reply = known.reply(id.clone());
            Ok(give_up(host, id, known, moment).reply(reply))
        }
        Input::Command(_) => Err(Error::not_found("job", id)),
        Input::Message { message: Message::Start(start), .. } => {
            let parent = start.parent.clone();
            match created(*start).and_then(|create| begin(host, id.clone(), create, prepared, moment)) {
                Ok(step) => Ok(step.decision()),
                Err(error) => Ok(refuse_parent(&id, parent, error)),
            }
        }
        Input::Timer { name } => Ok(match prepared {
            Some(known) if name == "abandoned" || name == "expire" => give_up(host, id, known, moment),
            _ => Decision::nothing(),
        }),
        Input::Effect { id: name, result } => Ok(match prepared {
            Some(known) if known.removed.is_some_and(|below| name == removal::name(below)) => {
                removed(host, id, known, result, moment)
            }
            _ => Decision::nothing(),
        }),
        Input::Message { .. } | Input::Progress { .. } => Ok(Decision::nothing()),
    }
}

/// A preparation that this request may go on with.
fn standing<'p>(known: &'p Preparation, id: &JobId, fingerprint: u128) -> Result<&'p Preparation, Error> {
    if known.removed.is_some() {
        let message = format!("what was left of the job {id} is being removed, try again");
        return Err(Error::unavailable(message));
    }
    if known.fingerprint != fingerprint {
        let message = format!("the job {id} is being created with other content");
        return Err(Error::conflict("preparing", message));
    }
    Ok(known)
}

fn begin<'a>(
    host: &'a Host,
    id: JobId,
    create: Create,
    prepared: Option<&Preparation>,
    moment: &Moment<'a>,
) -> Result<decide::Step<'a>, Error> {
    let Some(known) = prepared else {
        let message = format!("the items of the job {id} are not there, or not any more: try again");
        return Err(Error::unavailable(message));
    };
    standing(known, &id, create.fingerprint)?;
    decide::begin(host, id, create, moment)
}

/// What a parent asks for.
fn created(start: Start) -> Result<Create, Error> {
    let Start { session, parent, lineage, depth, what, budget, .. } = start;
    match what {
        Child::Job(new) => {
            let (fingerprint, items, mut spec) = (new.fingerprint, new.items, new.spec);
            spec.budget = Budget::lower(spec.budget, budget);
            Ok(Create { session, parent, lineage, depth, fingerprint, items, spec })
        }
        _ => Err(Error::invalid("", "that is no job")),
    }
}

/// Tells a parent that its job will not be.
pub(super) fn refuse_parent(id: &JobId, parent: Option<Parent>, error: Error) -> Decision<Job> {
    let Some(parent) = parent else { return Decision::nothing() };
    let ended = Message::ChildEnded {
        parent: parent.slot,
        id: id.to_string(),
        status: SubagentStatus::Failed,
        live: false,
        error: Some(Failure::new(error.code.as_str(), error.message)),
    };
    Decision::nothing().send_to::<Message>(parent.address, &ended)
}

/// Removes what was written, from where that stands.
fn give_up(host: &Host, id: JobId, known: &Preparation, moment: &Moment<'_>) -> Decision<Job> {
    let mut draft = Draft::new(&host.engine, known.session.clone(), moment);
    draft.cancel_timer("abandoned");
    let below = known.removed.unwrap_or(0);
    removal::look(&mut draft, &id, below, known.items);
    draft.decision(Some(Kept::Preparation(Preparation { removed: Some(below), ..known.clone() })))
}

/// Some of it is known, and goes with this step.
fn removed(
    host: &Host,
    id: JobId,
    known: &Preparation,
    result: EffectResult<Outcome>,
    moment: &Moment<'_>,
) -> Decision<Job> {
    let mut draft = Draft::new(&host.engine, known.session.clone(), moment);
    let below = known.removed.unwrap_or(0);
    let kept = match removal::clear(&mut draft, (&id, id.suffix()), below, known.items, result) {
        below if below >= known.items => Kept::Nothing,
        below => Kept::Preparation(Preparation { removed: Some(below), ..known.clone() }),
    };
    draft.decision(Some(kept))
}
