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
        // On the heap, as each command below is: what waits in another must not be as large as the largest of all.
        let executed = Box::pin(self.execute(caller, command, key, deadline));
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
            AnyCommand::SubmitTurn(args) => json(Box::pin(self.submit_turn(request, *args)).await),
            AnyCommand::InterruptTurn(args) => json(Box::pin(self.interrupt_turn(request, *args)).await),
            AnyCommand::ResumeThread(args) => json(Box::pin(self.resume_thread(request, *args)).await),
            AnyCommand::RemoveQueuedTurn(args) => {
                json(Box::pin(self.remove_queued_turn(request, *args)).await)
            }
            AnyCommand::PromoteQueuedTurn(args) => {
                json(Box::pin(self.promote_queued_turn(request, *args)).await)
            }
            AnyCommand::RespondAction(args) => json(Box::pin(self.respond_action(request, *args)).await),
            AnyCommand::CreateSession(args) => json(Box::pin(self.create_session(request, *args)).await),
            AnyCommand::UpdateSession(args) => json(Box::pin(self.update_session(request, *args)).await),
            AnyCommand::ArchiveSession(args) => json(Box::pin(self.archive_session(request, *args)).await),
            AnyCommand::RollbackThread(args) => json(Box::pin(self.rollback_thread(request, *args)).await),
            AnyCommand::CompactContext(args) => json(Box::pin(self.compact_context(request, *args)).await),
            AnyCommand::GetSession(args) => json(Box::pin(self.get_session(request, *args)).await),
            AnyCommand::GetThreadRead(args) => json(Box::pin(self.get_thread_read(request, *args)).await),
            AnyCommand::ListSessions(args) => json(Box::pin(self.list_sessions(request, *args)).await),
            AnyCommand::GetToolInventory(args) => {
                json(Box::pin(self.get_tool_inventory(request, *args)).await)
            }
            AnyCommand::GetExecutionEnvironment(args) => {
                json(Box::pin(self.get_execution_environment(request, *args)).await)
            }
            AnyCommand::CreateTask(args) => json(Box::pin(self.create_task(request, *args)).await),
            AnyCommand::UpdateTask(args) => json(Box::pin(self.update_task(request, *args)).await),
            AnyCommand::StartTask(args) => json(Box::pin(self.start_task(request, *args)).await),
            AnyCommand::AppendTaskProgress(args) => {
                json(Box::pin(self.append_task_progress(request, *args)).await)
            }
            AnyCommand::PauseTask(args) => json(Box::pin(self.pause_task(request, *args)).await),
            AnyCommand::ResumeTask(args) => json(Box::pin(self.resume_task(request, *args)).await),
            AnyCommand::CancelTask(args) => json(Box::pin(self.cancel_task(request, *args)).await),
            AnyCommand::RetryTask(args) => json(Box::pin(self.retry_task(request, *args)).await),
            AnyCommand::CompleteTask(args) => json(Box::pin(self.complete_task(request, *args)).await),
            AnyCommand::FailTask(args) => json(Box::pin(self.fail_task(request, *args)).await),
            AnyCommand::GetTask(args) => json(Box::pin(self.get_task(request, *args)).await),
            AnyCommand::ListTasks(args) => json(Box::pin(self.list_tasks(request, *args)).await),
            AnyCommand::LinkTasks(args) => json(Box::pin(self.link_tasks(request, *args)).await),
            AnyCommand::UnlinkTasks(args) => json(Box::pin(self.unlink_tasks(request, *args)).await),
            AnyCommand::SpawnSubagent(args) => json(Box::pin(self.spawn_subagent(request, *args)).await),
            AnyCommand::SendSubagentInput(args) => {
                json(Box::pin(self.send_subagent_input(request, *args)).await)
            }
            AnyCommand::WaitSubagents(args) => json(Box::pin(self.wait_subagents(request, *args)).await),
            AnyCommand::ResumeSubagent(args) => json(Box::pin(self.resume_subagent(request, *args)).await),
            AnyCommand::CloseSubagent(args) => json(Box::pin(self.close_subagent(request, *args)).await),
            AnyCommand::ListSubagents(args) => json(Box::pin(self.list_subagents(request, *args)).await),
            AnyCommand::EvaluatePermission(args) => {
                json(Box::pin(self.evaluate_permission(request, *args)).await)
            }
            AnyCommand::ResolvePermission(args) => {
                json(Box::pin(self.resolve_permission(request, *args)).await)
            }
            AnyCommand::WriteProcessStdin(args) => {
                json(Box::pin(self.write_process_stdin(request, *args)).await)
            }
            AnyCommand::TerminateProcess(args) => {
                json(Box::pin(self.terminate_process(request, *args)).await)
            }
            AnyCommand::CreateJob(args) => json(Box::pin(self.create_job(request, *args)).await),
            AnyCommand::ListJobs(args) => json(Box::pin(self.list_jobs(request, *args)).await),
            AnyCommand::GetJob(args) => json(Box::pin(self.get_job(request, *args)).await),
            AnyCommand::RetryJobItem(args) => json(Box::pin(self.retry_job_item(request, *args)).await),
            AnyCommand::CancelJob(args) => json(Box::pin(self.cancel_job(request, *args)).await),
            AnyCommand::ExportEvidence(args) => json(Box::pin(self.export_evidence(request, *args)).await),
            AnyCommand::ExportReplay(args) => json(Box::pin(self.export_replay(request, *args)).await),
            AnyCommand::ExportReview(args) => json(Box::pin(self.export_review(request, *args)).await),
            AnyCommand::StartBenchmarkTrial(args) => {
                json(Box::pin(self.start_benchmark_trial(request, *args)).await)
            }
            AnyCommand::RecordBenchmarkReward(args) => {
                json(Box::pin(self.record_benchmark_reward(request, *args)).await)
            }
            AnyCommand::ExportBenchmarkTrial(args) => {
                json(Box::pin(self.export_benchmark_trial(request, *args)).await)
            }
            AnyCommand::CompareBenchmarkRuns(args) => {
                json(Box::pin(self.compare_benchmark_runs(request, *args)).await)
            }
            AnyCommand::ReconnectChannel(args) => {
                json(Box::pin(self.reconnect_channel(request, *args)).await)
            }
            AnyCommand::AckEvents(args) => json(Box::pin(self.ack_events(request, *args)).await),
        }
    }
}

fn json<R: serde::Serialize>(answer: Result<Answer<R>, Error>) -> Result<Answer, Error> {
    answer.map(Answer::into_json)
}
