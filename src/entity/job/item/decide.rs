//! What follows from what an attempt of an item hears.

use cadre_cluster::{
    address::Address,
    host::{Decision, Input, Moment},
};

use super::{ItemCommand, ItemReply, ItemState, JobItem, Work};
use crate::{
    control::Error,
    entity::{Child, Close, Host, Message, Parent, Start},
    exec::{Draft, Ending, NewRun, Response, Run, split_name},
    fact::{
        Ids,
        id::{Id, ThreadId, TurnId},
        status::SubagentStatus,
    },
};

pub(super) fn decide(
    host: &Host,
    state: &ItemState,
    input: Input<JobItem>,
    moment: &Moment<'_>,
) -> Result<Decision<JobItem>, Error> {
    let Some(work) = &state.work else {
        return match input {
            Input::Message { message: Message::Start(start), .. } => Ok(begin(host, *start, moment)),
            Input::Command(_) => Err(Error::not_found("item run", moment.address.id())),
            Input::Message { from, message: Message::ChildReopened { .. } } => {
                Ok(Decision::nothing().send_to(from, &Message::Close(over())))
            }
            _ => Ok(Decision::nothing()),
        };
    };
    let draft = Draft::new(&host.engine, work.session.clone(), moment);
    let mut step = Step { work: work.clone(), draft };
    match input {
        Input::Command(ItemCommand::Respond(response)) => {
            step.respond(response)?;
            let reply = step.reply();
            return Ok(step.decision().reply(reply));
        }
        Input::Message { message: Message::Forget, .. } if work.closed => {
            return Ok(step.draft.decision(Some(None)));
        }
        Input::Message { from, message } => step.message(&from, message),
        Input::Timer { name } => {
            if let Some(name) = step.own(&name) {
                let ending = step.work.run.take_timer(name, &mut step.draft);
                step.ended(ending);
            }
        }
        Input::Progress { progress, .. } => step.work.run.take_progress(progress, &mut step.draft),
        Input::Effect { id, result } => {
            if let Some(name) = step.own(&id) {
                let ending = step.work.run.take_effect(name, result, &mut step.draft);
                step.ended(ending);
            }
        }
    }
    Ok(step.decision())
}

/// What is told to somebody who goes on below an attempt that is over.
fn over() -> Close {
    Close { reason: Some("the item that it worked for is over".into()), by: "runtime".into() }
}

fn begin(host: &Host, start: Start, moment: &Moment<'_>) -> Decision<JobItem> {
    let Child::Item(mut spec) = start.what else { return Decision::nothing() };
    let mut draft = Draft::new(&host.engine, start.session.clone(), moment);
    let former = spec.former.take();
    let mut around = Ids::default().with(spec.job.clone()).with(spec.item.clone()).with(spec.run.clone());
    if let Some(task) = &start.lineage.task {
        around = around.with(task.clone());
    }
    let new = NewRun {
        thread: ThreadId::with_suffix(spec.run.suffix()),
        turn: TurnId::with_suffix(spec.run.suffix()),
        around,
        agent: start.agent,
        model: None,
        attempt: spec.attempt,
        depth: start.depth,
        source: start.input,
        retries_max: spec.retries_max,
        budget: start.budget,
        history: None,
        deadline: spec.deadline_ms.map(|ms| draft.now.in_ms(ms)),
    };
    let mut run = Run::begin(new, "job", false, &mut draft);
    if let Some(former) = former {
        run = run.after(&former);
    }
    let work = Work {
        session: start.session,
        parent: start.parent,
        spec,
        status: SubagentStatus::Running,
        run,
        closed: false,
    };
    let mut step = Step { work, draft };
    let ending = step.work.run.advance(&mut step.draft);
    step.ended(ending);
    step.decision()
}

/// One input of an attempt that was started.
struct Step<'a> {
    work: Work,
    draft: Draft<'a>,
}

impl Step<'_> {
    fn decision(self) -> Decision<JobItem> {
        self.draft.decision(Some(Some(self.work)))
    }

    fn reply(&self) -> ItemReply {
        let spec = &self.work.spec;
        ItemReply {
            job: spec.job.clone(),
            item: spec.item.clone(),
            run: spec.run.clone(),
            status: self.work.status,
        }
    }

    /// The short name of a timer or an effect of this run.
    fn own<'n>(&self, name: &'n str) -> Option<&'n str> {
        let (turn, name) = split_name(name)?;
        (turn == self.work.run.turn.as_str()).then_some(name)
    }

    fn respond(&mut self, response: Response) -> Result<(), Error> {
        let action = response.action.clone();
        let (asked, ending) = self.work.run.respond(response, &mut self.draft);
        asked.taken(&action)?;
        self.ended(ending);
        Ok(())
    }

    fn message(&mut self, from: &Address, message: Message) {
        let ending = match message {
            Message::Close(close) => {
                if Parent::is(self.work.parent.as_ref(), from) {
                    self.close(close);
                }
                return;
            }
            // Its job has settled with it, so nobody would ever close what goes on below it.
            Message::ChildReopened { .. } if self.work.closed => {
                return self.draft.send(from.clone(), Message::Close(over()));
            }
            message => self.work.run.hear(from, message, &mut self.draft),
        };
        self.ended(ending);
    }

    fn close(&mut self, close: Close) {
        if self.work.status.is_terminal() {
            self.work.run.close_rest(&close, &mut self.draft);
            return self.tell_closed();
        }
        let ending = Ending::cancelled(close.reason, &close.by);
        let ending = self.work.run.close(ending, &mut self.draft);
        self.ended(ending);
    }

    /// The run has ended, and with it the attempt.
    fn ended(&mut self, ending: Option<Ending>) {
        let Some(ending) = ending else { return self.tell_closed() };
        let status = SubagentStatus::from(ending.status);
        self.work.status = status;
        let live = self.work.run.children.live() > 0;
        self.work.closed = !live;
        if let Some(Parent { address, slot }) = self.work.parent.clone() {
            let ended = Message::ChildEnded {
                parent: slot,
                // The job knows its attempts by index; what it has to be told is the item's id.
                id: self.work.spec.item.to_string(),
                status,
                live,
                error: ending.error,
            };
            self.draft.send(address, ended);
        }
    }

    /// Tells the job when the last of the children is closed after the attempt itself has ended.
    fn tell_closed(&mut self) {
        if self.work.status.is_terminal() && self.work.run.children.live() == 0 {
            Parent::tell_closed(self.work.parent.as_ref(), &mut self.work.closed, &mut self.draft);
        }
    }
}
