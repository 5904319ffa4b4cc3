//! The commands about permission, processes and channels.

use super::{Request, Runtime};
use crate::{
    control::{
        Error,
        args::{
            AckEvents, EvaluatePermission, ReconnectChannel, ResolvePermission, TerminateProcess,
            WriteProcessStdin,
        },
        result::{Acked, Answer, PermissionState, PermissionVerdict, ProcessState, Reconnected, VerdictRule},
    },
    exec::{HookPoint, HookRequest, PermissionRequest, Response, Ruling},
    fact::status::ActionStatus,
};

impl Runtime {
    pub(super) async fn evaluate_permission(
        &self,
        request: &Request<'_>,
        args: EvaluatePermission,
    ) -> Result<Answer<PermissionVerdict>, Error> {
        self.session(&self.store.begin(), request, &args.session_id).await?;
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
        let rules = ruling.rules.into_iter().map(|rule| VerdictRule {
            rule,
            decision: by_rules.into(),
            decisive: !is_hook,
            source: None,
        });
        Ok(Answer::read(PermissionVerdict {
            decision: ruling.permit.into(),
            source: ruling.source,
            reason: Some(ruling.reason),
            mode: Some(ruling.mode),
            rules: rules.collect(),
        }))
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
        let cursor = self.respond(request, response).await?;
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

    pub(super) async fn reconnect_channel(
        &self,
        _: &Request<'_>,
        args: ReconnectChannel,
    ) -> Result<Answer<Reconnected>, Error> {
        // Nothing opens channels yet, so there is none of any name.
        Err(Error::not_found("channel", args.channel_id))
    }

    pub(super) async fn ack_events(&self, _: &Request<'_>, args: AckEvents) -> Result<Answer<Acked>, Error> {
        Err(Error::not_found("channel", args.channel_id))
    }
}
