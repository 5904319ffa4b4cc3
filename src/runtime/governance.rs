//! The commands about permission and processes.

use cadre_cluster::feed::Cursor;

use super::{Request, Runtime};
use crate::{
    control::{
        Error,
        args::{EvaluatePermission, ResolvePermission, TerminateProcess, WriteProcessStdin},
        result::{Answer, PermissionState, PermissionVerdict, ProcessState, VerdictRule},
    },
    entity::{Named, Session, kind, session::Command},
    exec::{HookPoint, HookRequest, PermissionRequest, Response, Ruling},
    fact::{
        id::{SessionId, TurnId},
        payload::PermissionEvaluated,
        status::{ActionStatus, TurnStatus},
    },
};

impl Runtime {
    pub(super) async fn evaluate_permission(
        &self,
        request: &Request<'_>,
        args: EvaluatePermission,
    ) -> Result<Answer<PermissionVerdict>, Error> {
        let (_, work) = self.session(&self.store.begin(), request, &args.session_id).await?;
        if let Some(turn) = &args.turn_id
            && !request.repeated
            && !work.threads.iter().any(|thread| thread.expects(turn))
        {
            return Err(self.not_expected(request, &args.session_id, turn).await);
        }
        let subject = args.tool.as_deref().or(args.process.as_deref()).or(args.action.as_deref());
        let subject = subject.ok_or_else(|| Error::invalid("tool", "say what is to be judged"))?;
        let tool = args.tool.as_deref().and_then(|tool| self.engine.tool(tool));
        if let (Some(name), None) = (&args.tool, tool) {
            return Err(Error::not_found("tool", name).with("field", "tool"));
        }
        let asked = PermissionRequest {
            session: Some(&args.session_id),
            agent: crate::scripted::AGENT,
            subject,
            read_only: tool.is_some_and(|tool| tool.spec().read_only),
        };
        let ruling = self.engine.permission.evaluate(&asked);
        let arguments = args.args.as_ref().map(ToString::to_string);
        let about = HookRequest {
            tool: args.tool.as_deref(),
            args: arguments.as_deref(),
            ..HookRequest::new(HookPoint::BeforeTool, asked.agent)
        };
        let left = tool.and_then(|_| self.engine.hooks_would_leave(&about));
        let by_rules = ruling.permit;
        let is_hook = left.as_ref().is_some_and(|(permit, _)| ruling.permit < *permit);
        let ruling = match left.filter(|_| is_hook) {
            Some((permit, reason)) => Ruling { permit, source: "hook".into(), reason, ..ruling },
            None => ruling,
        };
        let evaluated = PermissionEvaluated {
            tool: args.tool.clone(),
            process: args.process.clone(),
            action: args.action.clone(),
            ..ruling.evaluated()
        };
        let cursor = self.record_evaluated(request, &args, evaluated).await?;
        let rules = ruling.rules.into_iter().map(|rule| VerdictRule {
            rule,
            decision: by_rules.into(),
            decisive: !is_hook,
            source: None,
        });
        let result = PermissionVerdict {
            decision: ruling.permit.into(),
            source: ruling.source,
            reason: Some(ruling.reason),
            mode: Some(ruling.mode),
            rules: rules.collect(),
        };
        Ok(Answer { result, cursor })
    }

    /// Why nothing can be judged in a turn that the session does not expect to go on.
    async fn not_expected(&self, request: &Request<'_>, session: &SessionId, turn: &TurnId) -> Error {
        let known = self.known_turn(request, session, turn).await;
        let ended = match known.map_err(|error| error.with("field", "turnId")) {
            Ok(()) => self.turn_end(request, session, turn).await,
            Err(error) => Err(error),
        };
        match ended {
            Ok(Some((status, _))) => {
                let message = format!("the turn {turn} is over: nothing is decided in it any more");
                Error::conflict(status, message).with("field", "turnId")
            }
            Ok(None) => {
                let message = format!("the turn {turn} is not one of the session itself: leave it out");
                Error::conflict(TurnStatus::Running, message).with("field", "turnId")
            }
            Err(error) => error,
        }
    }

    /// Tells the session what was judged, in the turn that was named.
    async fn record_evaluated(
        &self,
        request: &Request<'_>,
        args: &EvaluatePermission,
        evaluated: PermissionEvaluated,
    ) -> Result<Option<Cursor>, Error> {
        let command = Command::Evaluated {
            thread: args.thread_id.clone(),
            turn: args.turn_id.clone(),
            evaluated: Named(Box::new(evaluated)),
        };
        let address = request.address(kind::SESSION, args.session_id.as_str());
        match self.ask::<Session>(request, &address, &command).await {
            Err(error) => {
                let (session, thread) = (&args.session_id, args.thread_id.as_ref());
                Err(self.not_own_thread(request, session, thread, error).await)
            }
            Ok(called) => Ok(called.cursor),
        }
    }

    pub(super) async fn resolve_permission(
        &self,
        request: &Request<'_>,
        args: ResolvePermission,
    ) -> Result<Answer<PermissionState>, Error> {
        let response = Response {
            action: args.action_id.clone(),
            decision: args.decision.as_str().to_owned(),
            by: request.by(),
            reason: args.reason,
            payload: None,
        };
        let (cursor, _) = self.respond(request, response).await?;
        let result = PermissionState {
            action_id: args.action_id,
            status: ActionStatus::Resolved,
            decision: args.decision,
            scope: args.scope,
        };
        Ok(Answer { result, cursor })
    }

    pub(super) async fn write_process_stdin(
        &self,
        _: &Request<'_>,
        args: WriteProcessStdin,
    ) -> Result<Answer<ProcessState>, Error> {
        // No tool starts processes yet, so there is none of any name.
        Err(Error::not_found("process", args.process_id))
    }

    pub(super) async fn terminate_process(
        &self,
        _: &Request<'_>,
        args: TerminateProcess,
    ) -> Result<Answer<ProcessState>, Error> {
        Err(Error::not_found("process", args.process_id))
    }
}
