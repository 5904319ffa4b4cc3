//! The control plane as callers see it: every command is there, is documented, and refuses what it must.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{collections::BTreeSet, fs, path::Path};

use cadre::{
    control::{AnyCommand, Code, Kind, Scope, docs, registry},
    fact::payload::Object,
};
use proptest::prelude::*;
use serde_json::{Value, json};

const NAMES: &[&str] = &[
    "submit_turn",
    "interrupt_turn",
    "resume_thread",
    "remove_queued_turn",
    "promote_queued_turn",
    "respond_action",
    "create_session",
    "update_session",
    "archive_session",
    "rollback_thread",
    "compact_context",
    "get_session",
    "get_thread_read",
    "list_sessions",
    "get_tool_inventory",
    "get_execution_environment",
    "create_task",
    "update_task",
    "start_task",
    "append_task_progress",
    "pause_task",
    "resume_task",
    "cancel_task",
    "retry_task",
    "complete_task",
    "fail_task",
    "get_task",
    "list_tasks",
    "link_tasks",
    "unlink_tasks",
    "spawn_subagent",
    "send_subagent_input",
    "wait_subagents",
    "resume_subagent",
    "close_subagent",
    "list_subagents",
    "create_job",
    "list_jobs",
    "get_job",
    "retry_job_item",
    "cancel_job",
    "evaluate_permission",
    "resolve_permission",
    "write_process_stdin",
    "terminate_process",
    "export_evidence",
    "export_replay",
    "export_review",
    "start_benchmark_trial",
    "record_benchmark_reward",
    "export_benchmark_trial",
    "compare_benchmark_runs",
    "reconnect_channel",
    "ack_events",
];

fn example(name: &str) -> Value {
    registry().find(name).expect("a command").example.clone()
}

/// The example with one argument changed.
fn with(name: &str, field: &str, value: Value) -> Value {
    let mut arguments = example(name);
    arguments[field] = value;
    arguments
}

fn refusal(name: &str, arguments: Value) -> (Code, String) {
    let error = AnyCommand::parse(name, arguments.clone()).expect_err(&format!(
        "{name} accepts {}",
        &arguments.to_string()[..arguments.to_string().len().min(300)]
    ));
    (error.code, error.field().unwrap_or_default().to_owned())
}

fn invalid(name: &str, arguments: Value, field: &str) {
    assert_eq!(refusal(name, arguments), (Code::InvalidArgument, field.to_owned()), "{name}");
}

#[test]
fn every_command_of_the_contract_is_there_and_no_other() {
    let found: Vec<_> = registry().commands().map(|command| command.name).collect();
    assert_eq!(found, NAMES);
}

#[test]
fn an_unknown_command_is_not_found() {
    for name in ["", "submit_turns", "SubmitTurn", "submit_turn "] {
        assert_eq!(AnyCommand::parse(name, json!({})).unwrap_err().code, Code::NotFound);
    }
}

#[test]
fn examples_are_valid_in_their_own_schema_and_are_read() {
    for command in registry().commands() {
        let schema = jsonschema::validator_for(command.arguments.as_value()).unwrap();
        let errors: Vec<_> = schema.iter_errors(&command.example).map(|error| error.to_string()).collect();
        assert_eq!(errors, Vec::<String>::new(), "{}", command.name);
        let parsed = AnyCommand::parse(command.name, command.example.clone()).unwrap();
        assert_eq!(
            (parsed.name(), parsed.kind(), parsed.scope()),
            (command.name, command.kind, command.scope)
        );
        let written = parsed.arguments();
        assert!(schema.is_valid(&written), "{}: {written}", command.name);
        assert_eq!(AnyCommand::parse(command.name, written).unwrap(), parsed, "{}", command.name);
    }
}

#[test]
fn every_argument_is_explained() {
    for command in registry().commands() {
        let properties = command.arguments.get("properties").unwrap().as_object().unwrap();
        for (name, schema) in properties {
            assert!(schema["description"].is_string(), "{}: {name}", command.name);
        }
        assert!(!command.description().is_empty() && command.result.get("$schema").is_some());
        assert_eq!(
            command.kind == Kind::Read,
            command.name.starts_with("get_")
                || command.name.starts_with("list_")
                || command.name == "wait_subagents"
        );
    }
}

#[test]
fn only_whoever_may_approve_answers_decisions() {
    let approving =
        registry().commands().filter(|command| command.scope == Scope::Approve).map(|command| command.name);
    assert_eq!(approving.collect::<Vec<_>>(), ["respond_action", "resolve_permission"]);
}

#[test]
fn each_argument_of_each_command_is_named_when_it_has_the_wrong_type() {
    for command in registry().commands() {
        let schema = command.arguments.as_value();
        for name in schema["properties"].as_object().unwrap().keys() {
            // Content whose shape is the caller's has no wrong type.
            if ["payload", "args"].contains(&name.as_str()) {
                continue;
            }
            let mut wrong = command.example.clone();
            let scalar = json!([[]]);
            wrong[name] = scalar;
            let (code, field) = refusal(command.name, wrong);
            assert_eq!(code, Code::InvalidArgument);
            let named = field == *name || field.starts_with(&format!("{name}["));
            assert!(named, "{}: {name} is called {field}", command.name);
        }
        for required in schema["required"].as_array().into_iter().flatten() {
            let mut missing = command.example.clone();
            let name = required.as_str().unwrap();
            missing.as_object_mut().unwrap().remove(name);
            invalid(command.name, missing.clone(), name);
            missing[name] = Value::Null;
            invalid(command.name, missing, name);
        }
        for no_object in [json!([]), json!("x"), json!(null), json!(1)] {
            invalid(command.name, no_object, "");
        }
    }
}

#[test]
fn each_id_of_each_command_is_named_when_it_is_bad() {
    for command in registry().commands() {
        for (name, schema) in command.arguments.get("properties").unwrap().as_object().unwrap() {
            if schema["pattern"].is_string() {
                for bad in ["", "a b", "a/b", &"x".repeat(129)] {
                    invalid(command.name, with(command.name, name, json!(bad)), name);
                }
            }
        }
    }
}

#[test]
fn unknown_arguments_are_ignored_and_null_is_absent() {
    for command in registry().commands() {
        let plain = AnyCommand::parse(command.name, command.example.clone()).unwrap();
        let more = with(command.name, "unheardOf", json!({ "a": [1, null] }));
        assert_eq!(AnyCommand::parse(command.name, more).unwrap(), plain);
        let mut nulls = command.example.clone();
        for name in command.arguments.get("properties").unwrap().as_object().unwrap().keys() {
            let arguments = nulls.as_object_mut().unwrap();
            arguments.entry(name.clone()).or_insert(Value::Null);
        }
        assert_eq!(AnyCommand::parse(command.name, nulls).unwrap(), plain, "{}", command.name);
    }
}

#[test]
fn inputs_are_neither_empty_nor_larger_than_their_limit() {
    for name in ["submit_turn", "spawn_subagent", "send_subagent_input"] {
        invalid(name, with(name, "input", json!([])), "input");
        for (part, field) in [
            (json!({ "type": "text" }), "input[0].text"),
            (json!({ "type": "text", "text": 5 }), "input[0].text"),
            (json!({ "type": "text", "text": "" }), "input[0].text"),
            (json!({ "type": "sound" }), "input[0].type"),
            (json!({ "text": "x" }), "input[0].type"),
            (json!({ "type": "blob", "ref": "a b", "mediaType": "x/y" }), "input[0].ref"),
            (json!({ "type": "blob", "ref": "blob_1" }), "input[0].mediaType"),
            (json!(["text", "x"]), "input[0]"),
            (json!("x"), "input[0]"),
        ] {
            invalid(name, with(name, "input", json!([part])), field);
        }
        let most = json!([{ "type": "text", "text": "x".repeat(1 << 20) }]);
        assert!(AnyCommand::parse(name, with(name, "input", most)).is_ok());
        let more = json!([{ "type": "text", "text": "x".repeat(1 << 20) }, { "type": "text", "text": "y" }]);
        let error = AnyCommand::parse(name, with(name, "input", more)).unwrap_err();
        assert_eq!((error.code, &error.details["limit"]), (Code::PayloadTooLarge, &json!(1 << 20)));
    }
}

#[test]
fn limits_are_positive_numbers_and_clamped() {
    for command in registry().commands() {
        if command.arguments.get("properties").unwrap()["limit"].is_object() {
            for bad in [json!(0), json!(-5), json!("ten"), json!(1.5)] {
                invalid(command.name, with(command.name, "limit", bad), "limit");
            }
            let clamped =
                AnyCommand::parse(command.name, with(command.name, "limit", json!(5_000_000_000_u64)));
            assert_eq!(clamped.unwrap().arguments()["limit"], 1000);
            let mut without = command.example.clone();
            without.as_object_mut().unwrap().remove("limit");
            assert_eq!(AnyCommand::parse(command.name, without).unwrap().arguments()["limit"], 50);
        }
    }
}

#[test]
fn what_is_out_of_bounds_is_named() {
    let long = |bytes: usize| json!("x".repeat(bytes));
    let large = json!({ "key": "x".repeat(17 << 10) });
    let cases: Vec<(&str, &str, Value, &str)> = vec![
        ("submit_turn", "options", json!({ "deadlineMs": 0 }), "options.deadlineMs"),
        ("submit_turn", "options", json!({ "deadlineMs": "soon" }), "options.deadlineMs"),
        ("submit_turn", "options", json!({ "deadlineMs": 30_u64 * 86_400_000 + 1 }), "options.deadlineMs"),
        ("submit_turn", "options", json!({ "whenBusy": "wait" }), "options.whenBusy"),
        ("submit_turn", "options", json!(["model"]), "options"),
        ("submit_turn", "metadata", large.clone(), "metadata"),
        ("submit_turn", "agent", json!(" "), "agent"),
        ("interrupt_turn", "reason", long(2049), "reason"),
        ("interrupt_turn", "clearQueue", json!("yes"), "clearQueue"),
        ("respond_action", "decision", long(129), "decision"),
        ("respond_action", "decision", json!(""), "decision"),
        ("create_session", "title", long(513), "title"),
        ("rollback_thread", "turns", json!(0), "turns"),
        ("rollback_thread", "turns", json!(257), "turns"),
        ("rollback_thread", "turns", Value::Null, "toTurnId"),
        ("rollback_thread", "toTurnId", json!("turn_1"), "toTurnId"),
        ("rollback_thread", "reason", long(2049), "reason"),
        ("compact_context", "summary", json!(""), "summary"),
        ("compact_context", "summary", long(16_385), "summary"),
        ("compact_context", "summary", json!({ "ref": "a b" }), "summary.ref"),
        ("compact_context", "summary", json!({}), "summary.ref"),
        ("compact_context", "reason", long(2049), "reason"),
        ("create_task", "objective", long(16_385), "objective"),
        ("create_task", "objective", json!(""), "objective"),
        ("create_task", "constraints", large.clone(), "constraints"),
        ("create_task", "profile", large, "profile"),
        ("create_task", "visibility", json!("everyone"), "visibility"),
        ("create_task", "dependsOn", json!(["a", "b", "a"]), "dependsOn[2]"),
        ("create_task", "dependsOn", json!(["a", "b c"]), "dependsOn[1]"),
        ("create_task", "dependsOn", json!(["task_notes"]), "dependsOn"),
        ("create_task", "dependsOn", (0..257).map(|n| json!(format!("t{n}"))).collect(), "dependsOn"),
        ("create_task", "retryPolicy", json!({ "maxAttempts": 0 }), "retryPolicy.maxAttempts"),
        ("create_task", "retryPolicy", json!({ "maxAttempts": 101 }), "retryPolicy.maxAttempts"),
        ("create_task", "retryPolicy", json!({ "maxAttempts": -1 }), "retryPolicy.maxAttempts"),
        ("create_task", "retryPolicy", json!([3, 100, 1000]), "retryPolicy"),
        ("create_task", "timeoutMs", json!(0), "timeoutMs"),
        ("append_task_progress", "percent", json!(100.5), "percent"),
        ("append_task_progress", "percent", json!(-1), "percent"),
        ("append_task_progress", "counters", json!({ "a": "b" }), "counters.a"),
        ("append_task_progress", "outputRefs", json!(["blob_1", 5]), "outputRefs[1]"),
        ("append_task_progress", "outputRefs", json!([{ "title": "x" }]), "outputRefs[0].ref"),
        ("fail_task", "error", json!({ "message": "x" }), "error.code"),
        ("list_tasks", "status", json!("Running"), "status"),
        ("list_tasks", "after", json!(""), "after"),
        ("link_tasks", "to", json!("task_notes"), "to"),
        ("link_tasks", "kind", json!(""), "kind"),
        ("wait_subagents", "subagentIds", json!([]), "subagentIds"),
        ("wait_subagents", "subagentIds", json!(["a", "a"]), "subagentIds[1]"),
        ("wait_subagents", "subagentIds", (0..1001).map(|n| json!(format!("s{n}"))).collect(), "subagentIds"),
        ("wait_subagents", "subagentIds", Value::Null, "subagentIds"),
        ("wait_subagents", "parentId", json!("sub_1"), "subagentIds"),
        ("wait_subagents", "mode", json!("some"), "mode"),
        ("wait_subagents", "timeoutMs", json!(0), "timeoutMs"),
        ("list_subagents", "depth", json!(0), "depth"),
        ("create_job", "items", json!([]), "items"),
        ("create_job", "items", json!([{ "input": [] }]), "items[0].input"),
        ("create_job", "items", json!([{ "input": [{ "type": "text" }] }]), "items[0].input[0].text"),
        ("create_job", "concurrency", json!(0), "concurrency"),
        ("create_job", "concurrency", json!(1001), "concurrency"),
        ("create_job", "schedule", json!({}), "schedule.cron"),
        ("create_job", "schedule", json!({ "cron": "often" }), "schedule.cron"),
        ("create_job", "schedule", json!({ "intervalMs": 1000, "startAt": "soon" }), "schedule.startAt"),
        ("evaluate_permission", "process", json!("ls"), "tool"),
        ("resolve_permission", "decision", json!("ask"), "decision"),
        ("resolve_permission", "scope", json!("forever"), "scope"),
        ("resolve_permission", "scope", json!("session"), "scope"),
        ("write_process_stdin", "input", json!(""), "input"),
        ("start_benchmark_trial", "role", json!("winner"), "role"),
        ("start_benchmark_trial", "refs", json!({ "log": "" }), "refs.log"),
        ("compare_benchmark_runs", "baseline", json!([]), "baseline"),
        ("reconnect_channel", "sessions", json!([{ "sessionId": "s", "after": "x" }]), "sessions[0].after"),
        ("reconnect_channel", "resumeToken", json!(""), "resumeToken"),
        ("ack_events", "cursor", json!("x"), "cursor"),
    ];
    for (name, argument, value, field) in cases {
        invalid(name, with(name, argument, value), field);
    }
}

#[test]
fn what_a_person_reads_says_what_to_do() {
    let message = |name: &str, argument: &str, value: Value| {
        AnyCommand::parse(name, with(name, argument, value)).unwrap_err().message
    };
    assert_eq!(
        message("submit_turn", "options", json!({ "deadlineMs": "soon" })),
        "options.deadlineMs: must be a whole number that is not negative, not a text"
    );
    assert_eq!(
        message("submit_turn", "options", json!({ "whenBusy": "wait" })),
        "options.whenBusy: must be one of queue, reject, interrupt, steer, not \"wait\""
    );
    assert_eq!(message("create_task", "objective", Value::Null), "objective: is missing");
    assert_eq!(
        message("list_tasks", "limit", json!(0)),
        "limit: must be a whole number of at least 1, not 0"
    );
    assert_eq!(
        message("get_task", "taskId", json!("a b")),
        "taskId: \"a b\" is not a TaskId: 1 to 128 characters of A-Z a-z 0-9 . _ : -"
    );
}

#[test]
fn the_documentation_is_that_of_the_registry() {
    let names: BTreeSet<_> = NAMES.iter().collect();
    assert_eq!(names.len(), 54);
    hold("docs/commands.md", docs::markdown(registry()));
    let schemas = serde_json::to_string_pretty(&registry().to_json()).unwrap() + "\n";
    hold("docs/schemas/commands.json", schemas);
}

fn hold(path: &str, expected: String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("CADRE_UPDATE").is_some() {
        fs::create_dir_all(path.parent().expect("a file in a folder")).expect("a folder");
        fs::write(&path, &expected).expect("a file");
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == expected,
        "{} is old: run CADRE_UPDATE=1 cargo test -p cadre --test commands",
        path.display()
    );
}

/// Values that are right somewhere.
fn likely() -> Vec<Value> {
    let part = json!({ "type": "blob", "ref": "blob_1", "mediaType": "image/png" });
    vec![
        json!("running"),
        json!("active"),
        json!("deny"),
        json!("session"),
        json!("internal"),
        json!("baseline"),
        json!("any"),
        json!([part, { "type": "text", "text": "x" }]),
        json!([{ "input": [part] }, { "input": [part], "itemId": "i" }]),
        json!({ "model": "m", "whenBusy": "steer", "deadlineMs": 5, "priority": "high" }),
        json!({ "intervalMs": 5000, "missedRuns": "run_all", "startAt": "2026-05-11T12:00:00+02:00", "maxRuns": 2 }),
        json!({ "maxAttempts": 7 }),
        json!({ "code": "c", "message": "m", "retryable": true }),
        json!(["blob_1", { "ref": "blob_2", "title": "t" }]),
        json!({ "any": [null, { "thing": 1.5 }], "none": null }),
        json!([{ "criterion": "c", "weight": null }]),
        json!([{ "sessionId": "s", "after": "00000001000000000000002a00000000" }]),
    ]
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        "[a-z_]{1,8}".prop_map(Value::from),
        (0..2_000_i64).prop_map(Value::from),
        prop::sample::select(likely()),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((".{0,8}", inner), 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect::<Object>())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Arbitrary values in the places of real arguments are read or refused, and what is read is written as it was.
    #[test]
    fn reading_never_panics_and_writing_is_its_inverse(
        command in 0..NAMES.len(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any_json()), 0..4),
    ) {
        let spec = registry().commands().nth(command).unwrap();
        let properties: Vec<_> =
            spec.arguments.get("properties").unwrap().as_object().unwrap().keys().collect();
        let mut arguments = spec.example.clone();
        for (index, value) in changes {
            arguments[index.get(&properties).as_str()] = value;
        }
        if let Ok(parsed) = AnyCommand::parse(spec.name, arguments) {
            let again = AnyCommand::parse(spec.name, parsed.arguments()).unwrap();
            prop_assert_eq!(again, parsed);
        }
    }

    #[test]
    fn arbitrary_json_is_read_or_refused(command in 0..NAMES.len(), arguments in any_json()) {
        let _ = AnyCommand::parse(NAMES[command], arguments);
    }
}
