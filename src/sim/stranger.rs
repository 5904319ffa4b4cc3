//! Somebody from another tenant, who tries every id that is known (P8).

use cadre_cluster::feed::Cursor;
use serde_json::{Value, json};

use super::{
    client::Client,
    known::{Known, SESSIONS, Turn},
};
use crate::{control::Code, fact::id::SessionId, runtime::EventFilter};

/// The stranger's tenant.
pub(super) const RIVAL: &str = "rival";
/// The stranger's own session. It is called like one of the others': ids are the tenant's own.
pub(super) const OWN_SESSION: &str = SESSIONS[1];

/// Has a session of its own, and looks for those of others.
pub(super) async fn intrude(client: Client, attempts: u64) {
    let script = json!([{ "say": "mine" }, { "sleep": 500 }, { "spawn": { "count": 2, "script": [{ "say": "mine" }] } }]);
    for number in 0..2 {
        let args = json!({
            "sessionId": OWN_SESSION,
            "input": [{ "type": "text", "text": script.to_string() }],
            "metadata": { "words": format!("rival {number}") },
        });
        client.tell("submit_turn", args).await;
    }
    for _ in 0..attempts {
        client.pause(0..=1_500).await;
        let Some((name, args)) = draw(&client) else { continue };
        let deadline = std::time::Duration::from_secs(2);
        match client.door.call(&client.caller, name, &args, None, deadline).await {
            None => {}
            Some(Err(error)) if error.code == Code::NotFound => client.log.notes().refused_strangers += 1,
            Some(Err(error)) if error.code.is_retryable() => {}
            Some(answer) => client.log.broken(8, format!("a stranger's {name} {args} came to {answer:?}")),
        }
        let (runtime, lifeline) = client.door.enter().await;
        let session = SessionId::parse(SESSIONS[0]).expect("it is an id");
        let filter = EventFilter::default();
        let read = runtime.events(&client.caller, &session, Cursor::START, 10, &filter);
        let page = tokio::select! {
            biased;
            () = lifeline.cut_happened() => continue,
            page = read => page,
        };
        if page.is_ok_and(|page| !page.events.is_empty()) {
            client.log.broken(8, format!("a stranger reads the feed of {session}"));
        }
    }
}

/// A command about something of the others.
fn draw(client: &Client) -> Option<(&'static str, Value)> {
    let (dice, known): (_, &Known) = (&client.dice, &client.known);
    let text = json!([{ "type": "text", "text": "[]" }]);
    Some(match dice.between(0..=13) {
        0 => ("get_session", json!({ "sessionId": SESSIONS[0] })),
        1 => ("archive_session", json!({ "sessionId": SESSIONS[2] })),
        2 => ("list_tasks", json!({ "sessionId": SESSIONS[0] })),
        3 => {
            let Turn { turn, session, .. } = known.pick(dice, |ids| &ids.turns)?;
            let session = if session == OWN_SESSION { session } else { SESSIONS[0].into() };
            ("interrupt_turn", json!({ "sessionId": session, "turnId": turn }))
        }
        4..=5 => {
            let (_, task) = known.pick(dice, |ids| &ids.tasks)?;
            let name = *dice.pick(&["get_task", "cancel_task", "start_task", "pause_task", "retry_task"]);
            (name, json!({ "taskId": task }))
        }
        6 => {
            let (_, task) = known.pick(dice, |ids| &ids.tasks)?;
            let args = json!({ "sessionId": OWN_SESSION, "objective": "theirs", "dependsOn": [task] });
            ("create_task", args)
        }
        7..=8 => {
            let (_, subagent) = known.pick(dice, |ids| &ids.subagents)?;
            let name = *dice.pick(&["close_subagent", "resume_subagent"]);
            (name, json!({ "subagentId": subagent }))
        }
        9 => {
            let (_, parent) = known.pick(dice, |ids| &ids.subagents)?;
            let args = json!({ "sessionId": OWN_SESSION, "parentSubagentId": parent, "input": text });
            ("spawn_subagent", args)
        }
        10 => {
            let (_, subagent) = known.pick(dice, |ids| &ids.subagents)?;
            ("wait_subagents", json!({ "subagentIds": [subagent], "mode": "any", "timeoutMs": 1 }))
        }
        11 => {
            let job = known.pick(dice, |ids| &ids.jobs)?;
            let name = *dice.pick(&["get_job", "cancel_job"]);
            (name, json!({ "jobId": job }))
        }
        _ => {
            let action = known.pick(dice, |ids| &ids.actions)?;
            let decision = action.decisions.first().cloned().unwrap_or_default();
            ("respond_action", json!({ "actionId": action.id, "decision": decision }))
        }
    })
}
