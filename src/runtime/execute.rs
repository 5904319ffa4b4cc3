//! Commands, executed: one exhaustive match over all there are.

use std::time::Duration;

use cadre_cluster::trace;
use serde_json::Value;
use tracing::Instrument;

use super::{Caller, Request, Runtime, request::Admitted, span};
use crate::control::{AnyCommand, Error, registry, result::Answer};

impl Runtime {
    /// Executes a command by name: the door behind HTTP, channel and command line. `key` makes it happen once (P3);
    /// `deadline` is how long the caller waits.
    pub async fn call(
        &self,
        caller: &Caller,
        name: &str,
        arguments: Value,
        key: Option<&str>,
        deadline: Duration,
    ) -> Result<Answer, Error> {
        let begun = tokio::time::Instant::now();
        // What somebody may not do is said before what is wrong with it. Here, because every surface comes through here.
        let spec = registry().find(name).and_then(|spec| caller.require(spec.scope));
        let command = spec.and_then(|()| AnyCommand::parse(name, arguments));
        let span = span::of_command(caller, name);
        let context = trace::join(&span, trace::current());
        let executed = self.execute(caller, command, key, deadline);
        let answer = trace::within(context, executed).instrument(span.clone()).await;
        span::end(&span, &answer);
        // Only names that exist become labels: anybody can make up others.
        if !matches!(&answer, Err(error) if error.code == crate::control::Code::NotFound) {
            let outcome = answer.as_ref().map_or_else(|error| error.code.as_str(), |_| "ok");
            let labels = [("command", name.to_owned()), ("outcome", outcome.to_owned())];
            metrics::counter!("cadre_commands_total", &labels).increment(1);
            metrics::histogram!("cadre_command_seconds", "command" => name.to_owned())
                .record(begun.elapsed());
        }
        answer
    }

    async fn execute(
        &self,
        caller: &Caller,
        command: Result<AnyCommand, Error>,
        key: Option<&str>,
        deadline: Duration,
    ) -> Result<Answer, Error> {
        let command = command?;
        let request = match self.admit(caller, &command, key, deadline).await? {
            Admitted::New(request) => request,
            Admitted::Known(answer) => return answer,
        };
        // A session answers a submit by itself, whole, in the step that takes it.
        let is_remembered = matches!(command, AnyCommand::SubmitTurn(_));
        let answer = self.run(&request, command).await;
        if is_remembered { answer } else { self.remember(&request, answer).await }
    }

    async fn run(&self, request: &Request<'_>, command: AnyCommand) -> Result<Answer, Error> {
        match command {
            AnyCommand::SubmitTurn(args) => json(self.submit_turn(request, *args).await),
            AnyCommand::InterruptTurn(args) => json(self.interrupt_turn(request, *args).await),
            AnyCommand::ResumeThread(args) => json(self.resume_thread(request, *args).await),
            AnyCommand::RemoveQueuedTurn(args) => json(self.remove_queued_turn(request, *args).await),
            AnyCommand::PromoteQueuedTurn(args) => json(self.promote_queued_turn(request, *args).await),
            AnyCommand::RespondAction(args) => json(self.respond_action(request, *args).await),
            AnyCommand::CreateSession(args) => json(self.create_session(request, *args).await),
            AnyCommand::UpdateSession(args) => json(self.update_session(request, *args).await),
            AnyCommand::ArchiveSession(args) => json(self.archive_session(request, *args).await),
            AnyCommand::RollbackThread(args) => json(self.rollback_thread(request, *args).await),
            AnyCommand::CompactContext(args) => json(self.compact_context(request, *args).await),
            AnyCommand::GetSession(args) => json(self.get_session(request, *args).await),
            AnyCommand::GetThreadRead(args) => json(self.get_thread_read(request, *args).await),
            AnyCommand::ListSessions(args) => json(self.list_sessions(request, *args).await),
            AnyCommand::GetToolInventory(args) => json(self.get_tool_inventory(request, *args).await),
            AnyCommand::GetExecutionEnvironment(args) => {
                json(self.get_execution_environment(request, *args).await)
            }
            AnyCommand::CreateTask(args) => json(self.create_task(request, *args).await),
            AnyCommand::UpdateTask(args) => json(self.update_task(request, *args).await),
            AnyCommand::StartTask(args) => json(self.start_task(request, *args).await),
            AnyCommand::AppendTaskProgress(args) => json(self.append_task_progress(request, *args).await),
            AnyCommand::PauseTask(args) => json(self.pause_task(request, *args).await),
            AnyCommand::ResumeTask(args) => json(self.resume_task(request, *args).await),
            AnyCommand::CancelTask(args) => json(self.cancel_task(request, *args).await),
            AnyCommand::RetryTask(args) => json(self.retry_task(request, *args).await),
            AnyCommand::CompleteTask(args) => json(self.complete_task(request, *args).await),
            AnyCommand::FailTask(args) => json(self.fail_task(request, *args).await),
            AnyCommand::GetTask(args) => json(self.get_task(request, *args).await),
            AnyCommand::ListTasks(args) => json(self.list_tasks(request, *args).await),
            AnyCommand::LinkTasks(args) => json(self.link_tasks(request, *args).await),
            AnyCommand::UnlinkTasks(args) => json(self.unlink_tasks(request, *args).await),
            AnyCommand::SpawnSubagent(args) => json(self.spawn_subagent(request, *args).await),
            AnyCommand::SendSubagentInput(args) => json(self.send_subagent_input(request, *args).await),
            AnyCommand::WaitSubagents(args) => json(self.wait_subagents(request, *args).await),
            AnyCommand::ResumeSubagent(args) => json(self.resume_subagent(request, *args).await),
            AnyCommand::CloseSubagent(args) => json(self.close_subagent(request, *args).await),
            AnyCommand::ListSubagents(args) => json(self.list_subagents(request, *args).await),
            AnyCommand::EvaluatePermission(args) => json(self.evaluate_permission(request, *args).await),
            AnyCommand::ResolvePermission(args) => json(self.resolve_permission(request, *args).await),
            AnyCommand::WriteProcessStdin(args) => json(self.write_process_stdin(request, *args).await),
            AnyCommand::TerminateProcess(args) => json(self.terminate_process(request, *args).await),
            AnyCommand::CreateJob(args) => json(self.create_job(request, *args).await),
            AnyCommand::ListJobs(args) => json(self.list_jobs(request, *args).await),
            AnyCommand::GetJob(args) => json(self.get_job(request, *args).await),
            AnyCommand::RetryJobItem(args) => json(self.retry_job_item(request, *args).await),
            AnyCommand::CancelJob(args) => json(self.cancel_job(request, *args).await),
            AnyCommand::ExportEvidence(args) => json(self.export_evidence(request, *args).await),
            AnyCommand::ExportReplay(args) => json(self.export_replay(request, *args).await),
            AnyCommand::ExportReview(args) => json(self.export_review(request, *args).await),
            AnyCommand::StartBenchmarkTrial(args) => json(self.start_benchmark_trial(request, *args).await),
            AnyCommand::RecordBenchmarkReward(args) => {
                json(self.record_benchmark_reward(request, *args).await)
            }
            AnyCommand::ExportBenchmarkTrial(args) => json(self.export_benchmark_trial(request, *args).await),
            AnyCommand::CompareBenchmarkRuns(args) => json(self.compare_benchmark_runs(request, *args).await),
            AnyCommand::ReconnectChannel(args) => json(self.reconnect_channel(request, *args).await),
            AnyCommand::AckEvents(args) => json(self.ack_events(request, *args).await),
        }
    }
}

fn json<R: serde::Serialize>(answer: Result<Answer<R>, Error>) -> Result<Answer, Error> {
    answer.map(Answer::into_json)
}
