//! The end of a simulation: whatever waits for somebody outside gets it, until nothing waits any more.

use std::{collections::BTreeMap, time::Duration};

use cadre_cluster::sim::Env;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{client::Client, remains};
use crate::fact::Payload;

/// More than the longest chain of questions that one script can ask, one after the other, in all attempts.
const ROUNDS_MAX: usize = 100;

/// Answers open questions, lets go on what was paused, and does what is to be done outside, until nothing is left to
/// do. What is left all the same.
pub(super) async fn settle(client: &Client, env: &Env, deadline: Instant) -> Vec<String> {
    for round in 0..ROUNDS_MAX {
        let left = env.come_to_rest(deadline).await;
        if !left.is_empty() {
            return left;
        }
        if round == 0 {
            cancels_are_over(client).await;
        }
        let (mut asked, mut heard) = (0, 0);
        for session in
            remains::list(&client.door, &client.caller, "list_sessions", json!({}), "sessions").await
        {
            let id = session["sessionId"].as_str().unwrap_or_default();
            for (name, args) in wanted(client, id).await {
                asked += 1;
                heard += usize::from(client.tell(name, args).await.is_some());
            }
        }
        if heard == 0 {
            return if asked == 0 { Vec::new() } else { vec![format!("{asked} commands are refused")] };
        }
    }
    vec![format!("somebody is waited for after {ROUNDS_MAX} rounds")]
}

/// P11: whatever was told to end has ended, although nobody has answered any question yet.
async fn cancels_are_over(client: &Client) {
    let is_cancel = |name| ["interrupt_turn", "cancel_task", "close_subagent", "cancel_job"].contains(&name);
    let told = client.log.notes().told.clone();
    for told in told.into_iter().filter(|told| is_cancel(told.name)) {
        let Some(result) = told.result().filter(|result| result["status"] == "cancelling") else { continue };
        let mut args = told.args.clone();
        if told.name == "interrupt_turn" {
            args["turnId"] = result["turnId"].clone();
        }
        args["clearQueue"] = false.into();
        for tries in 1.. {
            // What went on again since then is ended by this.
            let patience = Duration::from_secs(20);
            match client.door.call(&client.caller, told.name, &args, None, patience).await {
                Some(Ok(answer)) if answer.result["status"] != "cancelling" => break,
                Some(Err(error)) if !error.code.is_retryable() => break,
                answer if tries == 5 => {
                    let what = format!("{} {args} waits for somebody's answer: {answer:?}", told.name);
                    client.log.broken(11, what);
                    break;
                }
                _ => {}
            }
        }
    }
}

/// The commands that a session waits for.
async fn wanted(client: &Client, session: &str) -> Vec<(&'static str, Value)> {
    let mut questions: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for event in remains::events(&client.door, &client.caller, session).await {
        let Some(action) = event.fact.ids.action() else { continue };
        match &event.fact.payload {
            Payload::ActionRequired(required) => {
                questions.insert(action.to_string(), required.decisions.clone());
            }
            Payload::ActionResolved(_) => drop(questions.remove(action.as_str())),
            _ => {}
        }
    }
    let mut wanted: Vec<(&'static str, Value)> = questions
        .into_iter()
        .map(|(action, decisions)| {
            let decision = client.dice.pick(&decisions);
            ("respond_action", json!({ "actionId": action, "decision": decision, "reason": "at last" }))
        })
        .collect();
    let about = json!({ "sessionId": session });
    for task in remains::list(&client.door, &client.caller, "list_tasks", about, "tasks").await {
        let args = json!({ "taskId": task["taskId"] });
        let is_outside = task["turnId"].is_null();
        match task["status"].as_str().unwrap_or_default() {
            "paused" => wanted.push(("resume_task", args)),
            "draft" | "accepted" => wanted.push(("start_task", args)),
            "running" if is_outside => wanted.push(("complete_task", proof(args))),
            "waiting_input" if task["actionId"].is_null() && !asks(&task) => {
                wanted.push(("complete_task", proof(args)));
            }
            _ => {}
        }
    }
    wanted
}

fn proof(mut args: Value) -> Value {
    args["artifacts"] = json!(["artf_proof"]);
    args
}

/// Whether a task's attempt goes on: then its run asks, and nobody has to deliver anything.
fn asks(task: &Value) -> bool {
    task["attempts"]
        .as_array()
        .and_then(|attempts| attempts.last())
        .is_some_and(|last| last["status"] == "running")
}
