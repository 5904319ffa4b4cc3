//! What clients do: commands of all kinds, drawn, to what they know of.

use serde_json::{Value, json};

use super::{
    client::Client,
    known::{Action, Known, SESSIONS, Turn},
    script::Scripts,
};

/// A client at work.
pub(super) struct Worker {
    pub client: Client,
    pub scripts: Scripts,
}

impl Worker {
    /// How often it looks back when its work is done.
    const LOOKS_BACK: u32 = 3;

    /// Works until it has done `operations`, and then takes turns back and sums them up.
    pub async fn work(self, operations: u64) {
        for _ in 0..operations {
            self.client.pause(0..=900).await;
            match self.client.dice.between(0..=59) {
                0..=11 => self.submit().await,
                12..=14 => self.interrupt().await,
                15..=16 => self.change_queue().await,
                17..=18 => self.resume_thread().await,
                19..=24 => self.respond().await,
                25..=30 => self.create_task().await,
                31..=37 => self.steer_task().await,
                38..=39 => self.link().await,
                40..=43 => self.spawn().await,
                44..=47 => self.steer_subagent().await,
                48..=49 => self.wait().await,
                50..=52 => self.create_job().await,
                53..=55 => self.steer_job().await,
                56 => self.update_session().await,
                57 => self.archive().await,
                _ => self.replay().await,
            }
        }
        for _ in 0..Self::LOOKS_BACK {
            self.client.pause(0..=900).await;
            self.look_back().await;
        }
    }

    fn known(&self) -> &Known {
        &self.client.known
    }

    fn chance(&self, probability: f64) -> bool {
        self.client.dice.chance(probability)
    }

    fn session(&self) -> &'static str {
        self.client.dice.pick::<&'static str>(&SESSIONS)
    }

    /// An id that nobody has, in words of its own.
    fn named(&self, prefix: &str) -> String {
        format!("{prefix}_own{}", self.known().number())
    }

    /// Words that nobody else uses, to find the fact that says them.
    fn words(&self) -> String {
        format!("words {}", self.known().number())
    }

    fn turn(&self) -> Option<Turn> {
        self.known().pick(&self.client.dice, |ids| &ids.turns)
    }

    fn a_task(&self) -> Option<(String, String)> {
        if self.chance(0.03) {
            return Some((self.session().into(), "task_nobody".into()));
        }
        self.known().pick(&self.client.dice, |ids| &ids.tasks)
    }

    async fn submit(&self) {
        let session = if self.chance(0.05) { self.named("sess") } else { self.session().into() };
        let when_busy = *self.client.dice.pick(&["queue", "queue", "queue", "reject", "interrupt", "steer"]);
        let mut args = json!({
            "sessionId": session,
            "input": self.scripts.input(0),
            "options": { "whenBusy": when_busy },
            "metadata": { "words": self.words() },
        });
        if self.chance(0.5) {
            args["threadId"] = format!("thrd_{session}_{}", self.client.dice.between(1..=2)).into();
        }
        if self.chance(0.5) {
            args["turnId"] = self.named("turn").into();
        }
        if self.chance(0.2) {
            args["options"]["deadlineMs"] = self.client.dice.between(100..=8_000).into();
        }
        if self.chance(0.2) {
            args["options"]["priority"] = (*self.client.dice.pick(&["low", "high"])).into();
        }
        if let Some(told) = self.client.tell("submit_turn", args).await {
            let text = |field: &str| told[field].as_str().unwrap_or_default().to_owned();
            self.known().ids().add_turn(&text("sessionId"), &text("threadId"), &text("turnId"));
        }
    }

    async fn interrupt(&self) {
        let Some(Turn { session, thread, turn }) = self.turn() else { return };
        let mut args =
            json!({ "sessionId": session, "reason": self.words(), "clearQueue": self.chance(0.3) });
        match self.client.dice.between(0..=2) {
            0 => args["turnId"] = turn.into(),
            1 => args["threadId"] = thread.into(),
            _ => {}
        }
        self.cancel("interrupt_turn", args).await;
    }

    /// Ends something, often while somebody goes on with what has ended below it.
    async fn cancel(&self, name: &'static str, args: Value) {
        let resumes = async {
            for _ in 0..if self.chance(0.6) { 4 } else { 0 } {
                self.client.pause(0..=120).await;
                let picked = self.known().pick(&self.client.dice, |ids| &ids.subagents);
                let Some((_, subagent)) = picked else { return };
                let args = json!({ "subagentId": subagent, "reason": self.words() });
                self.client.tell("resume_subagent", args).await;
            }
        };
        tokio::join!(self.client.tell(name, args), resumes);
    }

    async fn change_queue(&self) {
        let Some(Turn { session, thread, turn }) = self.turn() else { return };
        let name = *self.client.dice.pick(&["remove_queued_turn", "promote_queued_turn"]);
        let args = json!({ "sessionId": session, "threadId": thread, "turnId": turn });
        self.client.tell(name, args).await;
    }

    async fn resume_thread(&self) {
        let Some(Turn { session, thread, .. }) = self.turn() else { return };
        self.client.tell("resume_thread", json!({ "sessionId": session, "threadId": thread })).await;
    }

    /// Changes what later turns of a thread see of its past.
    async fn look_back(&self) {
        let Some(Turn { session, thread, turn }) = self.turn() else { return };
        let mut args = json!({ "sessionId": session, "threadId": thread, "reason": self.words() });
        let name = match self.client.dice.between(0..=3) {
            0 => {
                args["turns"] = self.client.dice.between(1..=3).into();
                "rollback_thread"
            }
            1 => {
                args["toTurnId"] = turn.into();
                "rollback_thread"
            }
            part => {
                if part == 2 {
                    args["upToTurnId"] = turn.into();
                }
                args["summary"] = self.words().into();
                "compact_context"
            }
        };
        self.client.tell(name, args).await;
    }

    /// Decides something: most often what was asked last, sometimes in words that were not offered, sometimes what is
    /// decided already.
    async fn respond(&self) {
        let Some(Action { id, decisions }) = self.known().pick(&self.client.dice, |ids| &ids.actions) else {
            return self.submit().await;
        };
        let decision = match self.client.dice.between(0..=9) {
            0 => "perhaps",
            1..=5 => decisions.first().map_or("allow", String::as_str),
            _ => self.client.dice.pick(&decisions),
        };
        let args = json!({ "actionId": id, "decision": decision, "reason": self.words() });
        self.client.tell("respond_action", args).await;
    }

    async fn create_task(&self) {
        let mut args = json!({
            "sessionId": self.session(),
            "objective": self.words(),
            "autoStart": !self.chance(0.15),
        });
        if self.chance(0.75) {
            args["agent"] = "scripted".into();
            args["input"] = self.scripts.input(0);
        } else if self.chance(0.3) {
            args["constraints"] = json!({ "heartbeatMs": self.client.dice.between(500..=6_000) });
        }
        if self.chance(0.6) {
            args["taskId"] = self.named("task").into();
        }
        if self.chance(0.3) {
            let needs: Vec<String> = (0..2).filter_map(|_| self.a_task()).map(|(_, task)| task).collect();
            args["dependsOn"] = needs.into();
        }
        if self.chance(0.3)
            && let Some((session, parent)) = self.a_task()
        {
            args["parentTaskId"] = parent.into();
            args["sessionId"] = session.into();
        }
        if let Some(policy) = self.scripts.retry_policy() {
            args["retryPolicy"] = policy;
        }
        if self.chance(0.3) {
            args["timeoutMs"] = self.client.dice.between(200..=6_000).into();
        }
        if self.chance(0.1) {
            args["acceptance"] = json!([{ "artifact": "artf_proof" }]);
        }
        if let Some(told) = self.client.tell("create_task", args).await {
            let text = |field: &str| told[field].as_str().unwrap_or_default().to_owned();
            self.known().ids().add_task(&text("sessionId"), &text("taskId"));
        }
    }

    async fn steer_task(&self) {
        let Some((_, task)) = self.a_task() else { return self.create_task().await };
        let words = self.words();
        let (name, args) = match self.client.dice.between(0..=15) {
            0..=3 => ("cancel_task", json!({ "reason": words, "propagate": !self.chance(0.2) })),
            4..=5 => ("retry_task", json!({ "reason": words })),
            6..=7 => ("pause_task", json!({ "reason": words })),
            8..=9 => ("resume_task", json!({})),
            10 => ("start_task", json!({})),
            11..=12 => ("append_task_progress", json!({ "summary": words, "percent": 40.0 })),
            13 => ("complete_task", json!({ "summary": words, "artifacts": ["artf_proof"] })),
            14 => {
                let error = json!({ "code": "drawn", "message": words, "retryable": self.chance(0.5) });
                ("fail_task", json!({ "error": error }))
            }
            _ => ("update_task", json!({ "title": words })),
        };
        let mut args = args;
        args["taskId"] = task.into();
        if name == "cancel_task" {
            return self.cancel(name, args).await;
        }
        self.client.tell(name, args).await;
    }

    async fn link(&self) {
        let (Some((_, from)), Some((_, to))) = (self.a_task(), self.a_task()) else { return };
        let name = *self.client.dice.pick(&["link_tasks", "link_tasks", "unlink_tasks"]);
        let kind = *self.client.dice.pick(&["depends_on", "depends_on", "blocks", "source"]);
        self.client.tell(name, json!({ "from": from, "to": to, "kind": kind, "reason": self.words() })).await;
    }

    async fn spawn(&self) {
        let mut args =
            json!({ "sessionId": self.session(), "input": self.scripts.input(1), "role": self.words() });
        match self.client.dice.between(0..=3) {
            0 => {}
            1 => {
                let Some(Turn { session, turn, .. }) = self.turn() else { return };
                args["sessionId"] = session.into();
                args["turnId"] = turn.into();
            }
            2 => {
                let Some((session, task)) = self.a_task() else { return };
                args["sessionId"] = session.into();
                args["taskId"] = task.into();
            }
            _ => {
                let picked = self.known().pick(&self.client.dice, |ids| &ids.subagents);
                let Some((session, parent)) = picked else { return };
                args["sessionId"] = session.into();
                args["parentSubagentId"] = parent.into();
            }
        }
        if self.chance(0.5) {
            args["subagentId"] = self.named("sub").into();
        }
        if self.chance(0.2) {
            args["deadlineMs"] = self.client.dice.between(100..=6_000).into();
        }
        let session = args["sessionId"].as_str().unwrap_or_default().to_owned();
        if let Some(told) = self.client.tell("spawn_subagent", args).await {
            self.known().ids().add_subagent(&session, told["subagentId"].as_str().unwrap_or_default());
        }
    }

    async fn steer_subagent(&self) {
        let Some((_, subagent)) = self.known().pick(&self.client.dice, |ids| &ids.subagents) else {
            return self.spawn().await;
        };
        let words = self.words();
        let (name, args) = match self.client.dice.between(0..=6) {
            0..=2 => ("close_subagent", json!({ "subagentId": subagent, "reason": words })),
            3..=4 => ("resume_subagent", json!({ "subagentId": subagent, "reason": words })),
            _ => {
                let input = json!([{ "type": "text", "text": words }]);
                ("send_subagent_input", json!({ "subagentId": subagent, "input": input }))
            }
        };
        if name == "close_subagent" {
            return self.cancel(name, args).await;
        }
        self.client.tell(name, args).await;
    }

    async fn wait(&self) {
        let mut ids: Vec<String> = (0..2)
            .filter_map(|_| self.known().pick(&self.client.dice, |ids| &ids.subagents))
            .map(|(_, id)| id)
            .collect();
        ids.dedup();
        if ids.is_empty() {
            return;
        }
        let mode = *self.client.dice.pick(&["all", "any"]);
        let timeout = self.client.dice.between(1..=3_000);
        let args = json!({ "subagentIds": ids, "mode": mode, "timeoutMs": timeout });
        self.client.tell("wait_subagents", args).await;
    }

    async fn create_job(&self) {
        let items: Vec<Value> = (0..self.client.dice.between(1..=5))
            .map(|_| {
                let mut item = json!({ "input": self.scripts.input(1) });
                if self.chance(0.3) {
                    item["itemId"] = self.named("item").into();
                }
                item
            })
            .collect();
        let mut args = json!({
            "sessionId": self.session(),
            "instruction": self.words(),
            "items": items,
            "concurrency": self.client.dice.between(1..=3),
        });
        if self.chance(0.5) {
            args["jobId"] = self.named("job").into();
        }
        if let Some(policy) = self.scripts.retry_policy() {
            args["retryPolicy"] = policy;
        }
        if self.chance(0.2) {
            args["maxRuntimeMs"] = self.client.dice.between(500..=8_000).into();
        }
        if self.chance(0.2) {
            args["schedule"] = json!({ "intervalMs": 1_500, "maxRuns": 2, "missedRuns": "run_once" });
        }
        if let Some(told) = self.client.tell("create_job", args).await {
            self.known().ids().add_job(told["jobId"].as_str().unwrap_or_default());
        }
    }

    async fn steer_job(&self) {
        let item = self.known().pick(&self.client.dice, |ids| &ids.items);
        if let Some((job, item)) = item.filter(|_| self.chance(0.6)) {
            self.client.tell("retry_job_item", json!({ "jobId": job, "itemId": item })).await;
        } else if let Some(job) = self.known().pick(&self.client.dice, |ids| &ids.jobs) {
            self.client.tell("cancel_job", json!({ "jobId": job, "reason": self.words() })).await;
        }
    }

    async fn update_session(&self) {
        let args = json!({ "sessionId": self.session(), "title": self.words() });
        self.client.tell("update_session", args).await;
    }

    /// Archives a session that is not shared, so that the others have work to do.
    async fn archive(&self) {
        let session = self.named("sess");
        self.client.tell("create_session", json!({ "sessionId": session, "title": self.words() })).await;
        let args = json!({ "sessionId": session, "input": self.scripts.input(0), "metadata": { "words": self.words() } });
        self.client.tell("submit_turn", args).await;
        self.client.tell("archive_session", json!({ "sessionId": session })).await;
        let late = json!({ "sessionId": session, "input": self.scripts.input(0), "metadata": { "words": self.words() } });
        self.client.tell("submit_turn", late).await;
    }

    /// P5, in the middle of everything: what is served of a session right now is what its feed folds to.
    async fn replay(&self) {
        let session = self.session();
        if let Some(report) = super::remains::replayed(&self.client.door, &self.client.caller, session).await
        {
            self.client.log.notes().replays += 1;
            for what in super::remains::differences(&report) {
                self.client.log.broken(5, format!("{session} in the middle: {what}"));
            }
        }
    }
}
