//! The commands about sessions.

use super::{Request, Runtime, load::List};
use crate::{
    control::{
        Error,
        args::{ArchiveSession, CreateSession, ListSessions, UpdateSession},
        result::{Answer, SessionState, Sessions},
    },
    entity::{Named, Session, kind, records, session::Command},
    fact::{id::SessionId, status::SessionStatus},
    view::SessionView,
};

impl Runtime {
    pub(super) async fn create_session(
        &self,
        request: &Request<'_>,
        args: CreateSession,
    ) -> Result<Answer<SessionState>, Error> {
        self.check_agent(args.agent.as_deref())?;
        let session = args.session_id.clone().unwrap_or_else(|| request.ids().next());
        self.tell_session(request, session, Command::Create(Named(Box::new(args)))).await
    }

    /// Makes a session for something that has none.
    pub(super) async fn make_session(
        &self,
        request: &Request<'_>,
        session: &SessionId,
        title: Option<String>,
        agent: Option<String>,
    ) -> Result<(), Error> {
        let args = CreateSession { session_id: None, title, agent, metadata: Default::default() };
        let command = Command::Create(Named(Box::new(args)));
        let address = request.address(kind::SESSION, session.as_str());
        self.ask::<Session>(request, &address, &command).await.map(drop)
    }

    pub(super) async fn update_session(
        &self,
        request: &Request<'_>,
        args: UpdateSession,
    ) -> Result<Answer<SessionState>, Error> {
        self.check_agent(args.agent.as_deref())?;
        let session = args.session_id.clone();
        self.tell_session(request, session, Command::Update(Named(Box::new(args)))).await
    }

    pub(super) async fn archive_session(
        &self,
        request: &Request<'_>,
        args: ArchiveSession,
    ) -> Result<Answer<SessionState>, Error> {
        self.tell_session(request, args.session_id, Command::Archive).await
    }

    async fn tell_session(
        &self,
        request: &Request<'_>,
        session: SessionId,
        command: Command,
    ) -> Result<Answer<SessionState>, Error> {
        let address = request.address(kind::SESSION, session.as_str());
        let called = self.ask::<Session>(request, &address, &command).await?;
        let (_, work) = self.session(&self.store.begin(), request, &session).await?;
        let status = if work.archived { SessionStatus::Archived } else { SessionStatus::Active };
        let thread_id = work.threads.first().map(|thread| thread.id.clone());
        Ok(Answer { result: SessionState { session_id: session, status, thread_id }, cursor: called.cursor })
    }

    pub(super) async fn list_sessions(
        &self,
        request: &Request<'_>,
        args: ListSessions,
    ) -> Result<Answer<Sessions<SessionView>>, Error> {
        let tx = self.store.begin();
        let after = args.after.as_deref();
        let list = List { prefix: records::sessions(), after, field: "after", newest_first: true };
        let (tx, wanted) = (&tx, args.status);
        let look = |id: String| async move {
            let Some(state) = self.load::<Session>(tx, request, &id).await? else { return Ok(None) };
            let Some(work) = &state.work else { return Ok(None) };
            let status = if work.archived { SessionStatus::Archived } else { SessionStatus::Active };
            let passes = wanted.is_none_or(|wanted| wanted == status);
            Ok(passes.then(|| SessionView { session_id: Some(work.id.clone()), ..state.view.0 }))
        };
        let (sessions, more) = self.served_page(tx, request, list, args.limit.get(), look).await?;
        Ok(Answer::read(Sessions { sessions, has_more: more.is_some(), cursor: more }))
    }
}
