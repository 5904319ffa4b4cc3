//! Runs with the published clients of AG-UI: npm's `@ag-ui/client`, which checks every event that comes, and PyPI's
//! `ag-ui-protocol`, whose models read them. `scripts/agui-clients` installs both under `target/tools`; where it cannot,
//! a line says so and nothing is tested.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;
#[path = "common/server.rs"]
mod server;

use std::{process::Command, sync::LazyLock};

use serde_json::{Value, json};
use server::Server;

const CANNOT: i32 = 3;

/// The folder with the clients. Both tests install at once otherwise.
fn clients() -> Option<&'static str> {
    static FOLDER: LazyLock<Option<String>> = LazyLock::new(install);
    FOLDER.as_deref()
}

fn install() -> Option<String> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/agui-clients");
    let output = Command::new(script).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    if output.status.code() == Some(CANNOT) {
        eprintln!("NOT TESTED with the published AG-UI clients: {}", said.trim());
        return None;
    }
    assert!(output.status.success(), "{said}");
    Some(String::from_utf8(output.stdout).unwrap().trim().to_owned())
}

fn ask(program: &str, file: &str, folder: &str, server: &Server, script: &Value) -> Value {
    let path = format!("{}/tests/agui/{file}", env!("CARGO_MANIFEST_DIR"));
    let arguments = [path.as_str(), folder, &server.url, &script.to_string()];
    let output = Command::new(program).args(arguments).output().unwrap();
    let (out, said) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{program} {file}: {said}");
    serde_json::from_str(out.lines().last().unwrap_or_default()).unwrap_or_else(|_| panic!("{out}{said}"))
}

fn everything() -> Value {
    json!([
        { "say": "Hello from Cadre.", "chunks": 4 },
        { "tool": "echo", "args": { "a": [1, null, "x"] } },
        { "tool": "fail", "args": {} },
        { "tool": "big", "args": { "bytes": 40_000 } },
        { "approve": { "prompt": "Go on?", "decisions": ["allow", "deny"] } },
        { "spawn": { "count": 2, "script": [{ "say": "child" }], "join": "all" } },
        { "say": "Done." },
    ])
}

#[test]
fn the_published_javascript_client_understands_a_run_and_keeps_what_was_said() {
    let Some(folder) = clients() else { return };
    let server = Server::start();
    let seen = ask("node", "client.mjs", folder, &server, &everything());
    assert_eq!((&seen["error"], &seen["outcome"]), (&Value::Null, &json!({ "type": "success" })), "{seen}");
    let types: Vec<_> = seen["types"].as_array().unwrap().iter().map(|kind| kind.as_str().unwrap()).collect();
    assert_eq!((types[0], *types.last().unwrap()), ("RUN_STARTED", "RUN_FINISHED"));
    assert_eq!(seen["state"], json!({ "mood": "good" }));
    let messages = seen["messages"].as_array().unwrap();
    let said = |text: &str| {
        messages.iter().any(|message| message["role"] == "assistant" && message["content"] == text)
    };
    assert!(said("Hello from Cadre.") && said("Done."), "{seen}");
    let calls = messages.iter().filter_map(|message| message["toolCalls"].as_array()).flatten();
    let echo: Vec<_> = calls.filter(|call| call["function"]["name"] == "echo").collect();
    assert_eq!(echo.len(), 1, "{seen}");
    assert_eq!(echo[0]["function"]["arguments"], r#"{"a":[1,null,"x"]}"#);
    assert!(
        messages.iter().any(|message| message["role"] == "tool" && message["toolCallId"] == echo[0]["id"]),
        "{seen}"
    );
    let failing =
        json!([{ "say": "half" }, { "fail": { "message": "boom", "retryable": false, "times": 9 } }]);
    let seen = ask("node", "client.mjs", folder, &server, &failing);
    assert_eq!(seen["error"], "boom", "{seen}");
    let script = "this is no script";
    let seen = ask("node", "client.mjs", folder, &server, &json!(script));
    assert!(seen["error"].is_string(), "{seen}");
    server.stop();
}

#[test]
fn the_published_python_models_read_every_event_and_lose_nothing_of_it() {
    let Some(folder) = clients() else { return };
    let server = Server::start();
    // Nobody decides here.
    let mut script = everything();
    script.as_array_mut().unwrap().retain(|step| step.get("approve").is_none());
    let seen = ask("python3", "client.py", folder, &server, &script);
    assert_eq!(seen["changed"], json!([]), "{seen}");
    let types: Vec<_> = seen["types"].as_array().unwrap().iter().map(|kind| kind.as_str().unwrap()).collect();
    assert_eq!((types[0], *types.last().unwrap()), ("RUN_STARTED", "RUN_FINISHED"));
    for kind in ["STATE_SNAPSHOT", "STEP_STARTED", "TEXT_MESSAGE_START", "TOOL_CALL_RESULT", "STEP_FINISHED"]
    {
        assert!(types.contains(&kind), "{kind} is not in {types:?}");
    }
    server.stop();
}
