//! Following sessions, and giving commands.

use std::time::Duration;

use axum::extract::ws::Message;
use serde_json::Value;
use tokio::time::Instant;

use super::{
    connection::{Connection, Done},
    encoding::Encoding,
    frame::{Command, Subscribe, Told},
    render,
    subscription::Subscription,
};
use crate::{
    control::{Error, Scope, result::Answer},
    fact::{
        Cursor, Payload,
        id::{ActionId, SessionId},
    },
    http::{command, events, query},
    runtime::{EventFilter, reader::Found},
};

/// What is sent before the next look at what else there is to do.
const BATCH_BYTES: usize = 32 * 1024;
/// How long to wait after the store did not answer.
const PAUSE: Duration = Duration::from_millis(500);

impl Connection {
    /// Follows a session. A session that is followed already is followed anew.
    pub(super) async fn subscribe(&mut self, wanted: Subscribe) -> Result<(), Error> {
        self.caller.require(Scope::Read)?;
        let session = wanted.session_id;
        let mut filter = EventFilter::default();
        query::check_types(&wanted.types)?;
        filter.types = wanted.types;
        events::exists(&self.app, &self.caller, &session).await?;
        let listens = self.app.runtime.listen(&self.caller, &self.taken.hold, &session).await?;
        let after = wanted.after.or(listens.acked);
        let wants_snapshot = wanted.snapshot.unwrap_or(after.is_none());
        let snapshot = match wants_snapshot || self.questions.decides() {
            true => Some(command::snapshot(&self.app, &self.caller, &session).await?),
            false => None,
        };
        let from = match (&snapshot, after) {
            (_, Some(after)) => after,
            (Some((_, cursor)), None) if wants_snapshot => *cursor,
            _ => Cursor::START,
        };
        let follower = self.app.runtime.follower(&self.caller, &session, from).await?;
        follower.ring(&self.notice.bell);
        if let Some(index) = self.subscriptions.iter().position(|known| known.session == session) {
            self.forget(index);
        }
        if let Some((snapshot, cursor)) = &snapshot {
            if wants_snapshot {
                self.say(&Told::Snapshot { session_id: &session, cursor: *cursor, snapshot });
            }
            self.ask_pending(&session, snapshot);
        }
        let (runtime, caller, taken, peer) =
            (self.app.runtime.clone(), self.caller.clone(), self.taken.clone(), self.peer.clone());
        let told = session.clone();
        self.tells.push(Box::pin(async move {
            runtime.tell_listens(&caller, &taken, &told, (&listens, &peer), (after, false)).await;
            Done::Say(Vec::new())
        }));
        self.subscriptions.push(Subscription { session, follower, filter, catches_up: true });
        Ok(())
    }

    /// Follows a session no more.
    pub(super) fn unsubscribe(&mut self, session: &SessionId) {
        let Some(index) = self.subscriptions.iter().position(|known| known.session == *session) else {
            return;
        };
        self.forget(index);
        let (runtime, caller, hold) = (self.app.runtime.clone(), self.caller.clone(), self.hold().clone());
        let session = session.clone();
        self.tells.push(Box::pin(async move {
            if let Err(error) = runtime.unlisten(&caller, &hold, &session).await {
                tracing::debug!(%session, %error, "a session was not told that a channel has left it");
            }
            Done::Say(Vec::new())
        }));
    }

    fn forget(&mut self, index: usize) {
        let known = self.subscriptions.swap_remove(index);
        known.follower.silence(&self.notice.bell);
    }

    /// What to send next: what was said, and then events of one session after the other while there is credit.
    pub(super) async fn batch(&mut self) -> Vec<Message> {
        let mut batch: Vec<Message> = self.outbox.drain(..).collect();
        if self.pause_until.is_some() {
            return batch;
        }
        let mut bytes = 0;
        for _ in 0..self.subscriptions.len() {
            if bytes >= BATCH_BYTES || self.credit.left() == 0 {
                break;
            }
            self.next %= self.subscriptions.len();
            let index = self.next;
            self.next += 1;
            if !self.subscriptions[index].is_due() {
                continue;
            }
            match self.advance(index, &mut batch).await {
                Ok(sent) => bytes += sent,
                Err(error) => {
                    tracing::debug!(%error, "a feed cannot be read now");
                    self.pause_until = Some(Instant::now() + PAUSE);
                    break;
                }
            }
        }
        batch
    }

    /// The next events of a session. How many bytes they take.
    async fn advance(&mut self, index: usize, batch: &mut Vec<Message>) -> Result<usize, Error> {
        let subscription = &mut self.subscriptions[index];
        let before = subscription.follower.position();
        let found = subscription.follower.find(self.credit.left()).await?;
        let events = match found {
            Found::Events(events) => events,
            Found::Gap(from, to) => return self.gap(index, (from, to), batch).await,
        };
        let (mut bytes, mut sent, mut questions, mut reached) = (0, 0, Vec::new(), before);
        for event in &events {
            if bytes >= BATCH_BYTES {
                // The rest is for the next batch.
                subscription.follower.go_to(reached);
                break;
            }
            reached = event.event.cursor;
            if !subscription.filter.passes(&event.event) {
                continue;
            }
            let frame = render::event(event, self.encoding, self.app.runtime.publisher());
            bytes += frame.len();
            sent += 1;
            batch.push(self.encoding.frame(frame));
            if let Payload::ActionRequired(required) = &event.event.fact.payload
                && let Some(action) = event.event.fact.ids.action()
                && self.questions.is_new(action, &subscription.session)
            {
                let request = serde_json::to_value(required).expect("payloads are JSON");
                questions.push((action.clone(), request));
            }
        }
        self.credit.take(sent);
        metrics::counter!("cadre_channel_events_total", "encoding" => self.encoding.name())
            .increment(sent as u64);
        if let Some(last) = events.last().filter(|_| !subscription.catches_up) {
            let lag = self.app.runtime.now().0.saturating_sub(last.event.fact.at.0);
            metrics::histogram!("cadre_channel_lag_seconds").record(lag as f64 / 1_000.0);
        }
        let session = subscription.session.clone();
        if subscription.catches_up && !subscription.follower.is_behind() {
            subscription.catches_up = false;
            let cursor = subscription.follower.position();
            batch.push(self.encoding.write(&Told::CaughtUp { session_id: &session, cursor }));
        }
        for (action, request) in questions {
            self.ask(session.clone(), action, request);
        }
        Ok(bytes)
    }

    /// What is missing is said, and a snapshot stands for it.
    async fn gap(
        &mut self,
        index: usize,
        (from, to): (Cursor, Cursor),
        batch: &mut Vec<Message>,
    ) -> Result<usize, Error> {
        let session = self.subscriptions[index].session.clone();
        let (snapshot, cursor) = match command::snapshot(&self.app, &self.caller, &session).await {
            Ok(snapshot) => snapshot,
            Err(error) => {
                // Until it can be given, the gap is where it was.
                self.subscriptions[index].follower.go_to(from);
                return Err(error);
            }
        };
        let (runtime, caller, told) = (self.app.runtime.clone(), self.caller.clone(), session.clone());
        self.tells.push(Box::pin(async move {
            runtime.snapshot_repaired(&caller, &told, from, to).await;
            Done::Say(Vec::new())
        }));
        let gap = Told::Gap { session_id: &session, from, to, reason: "trimmed" };
        batch.push(self.encoding.write(&gap));
        batch.push(self.encoding.write(&Told::Snapshot {
            session_id: &session,
            cursor,
            snapshot: &snapshot,
        }));
        let subscription = &mut self.subscriptions[index];
        subscription.follower.go_to(cursor);
        subscription.catches_up = true;
        self.ask_pending(&session, &snapshot);
        Ok(BATCH_BYTES)
    }

    /// Asks what a snapshot says is waited for.
    fn ask_pending(&mut self, session: &SessionId, snapshot: &Value) {
        let threads = snapshot["threads"].as_array().map(Vec::as_slice).unwrap_or_default();
        let pending = threads.iter().filter_map(|thread| thread["pendingRequests"].as_array()).flatten();
        for request in pending {
            if let Some(action) = request["actionId"].as_str().and_then(|action| ActionId::parse(action).ok())
                && self.questions.is_new(&action, session)
            {
                self.ask(session.clone(), action, request.clone());
            }
        }
    }

    /// Asks the client, unless it was decided meanwhile.
    fn ask(&mut self, session: SessionId, action: ActionId, request: Value) {
        let (runtime, caller, hold) = (self.app.runtime.clone(), self.caller.clone(), self.hold().clone());
        let encoding = self.encoding;
        self.tells.push(Box::pin(async move {
            if !runtime.is_pending(&caller, &action).await {
                return Done::Say(Vec::new());
            }
            runtime.tell_forwarded(&caller, &hold, &session, &action).await;
            let asked =
                Told::Permission { action_id: action.as_str(), session_id: &session, request: &request };
            Done::Say(vec![encoding.write(&asked)])
        }));
    }

    /// Executes a command.
    pub(super) fn execute(&mut self, wanted: Command) {
        let Command { id, name, args, idempotency_key } = wanted;
        let args = if args.is_null() { Value::Object(Default::default()) } else { args };
        let (app, caller, hold) = (self.app.clone(), self.caller.clone(), self.hold().clone());
        let encoding = self.encoding;
        let question = (name == "respond_action")
            .then(|| self.questions.session(args.get("actionId")?.as_str()?))
            .flatten()
            .map(|question| (question, args["decision"].as_str().unwrap_or_default().to_owned()));
        self.commands.push(Box::pin(async move {
            let deadline = command::patience(&app, &name, &args);
            let answer = match command::key_fits(idempotency_key.as_deref()) {
                Ok(()) => {
                    command::call(&app, &caller, &name, args, idempotency_key.as_deref(), deadline).await
                }
                Err(error) => Err(error),
            };
            if let Some(((action, session), decision)) = question {
                let said = (decision.as_str(), answer.is_ok());
                app.runtime.tell_returned(&caller, &hold, &session, &action, said).await;
            }
            Done::Say(vec![answered(encoding, &id, &answer)])
        }));
    }

    /// Answers a command.
    pub(super) fn answer(&mut self, id: &str, answer: &Result<Answer, Error>) {
        self.outbox.push_back(answered(self.encoding, id, answer));
    }
}

fn answered(encoding: Encoding, id: &str, answer: &Result<Answer, Error>) -> Message {
    match answer {
        Ok(answer) => {
            let (result, cursor) = (Some(&answer.result), answer.cursor);
            encoding.write(&Told::Result { id, result, cursor, error: None })
        }
        Err(error) => {
            let error = &error.to_json()["error"];
            encoding.write(&Told::Result { id, result: None, cursor: None, error: Some(error) })
        }
    }
}
