//! That what is served is what the schemas say: ours, and the published ones when they are at hand.

use std::{env, fs, path::Path};

use jsonschema::Validator;
use proptest::{collection::vec, prelude::*};
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use super::{
    Story, id,
    random::{SMALL, fact},
    thread, turn,
};
use crate::{
    fact::{
        Fact, Failure, Ref, Timestamp, Trace,
        id::{AttemptId, TaskId, ThreadId},
        payload::*,
        scope::{
            ActionScope, AttemptScope, EvidenceScope, ProcessScope, SessionScope, SubagentScope, TaskScope,
        },
        status::{AttemptStatus, JoinStatus, QueueState, SubagentStatus, TaskStatus, TurnStatus},
    },
    view::{
        ReadModels, SessionSnapshot, Window,
        snapshot::{ExecutionEnvironment, Publisher, QueueSnapshot, ToolInventory},
    },
};

const PUBLISHED: [&str; 2] =
    ["agentruntime-snapshot.schema.json", "agentruntime-lime-profile-snapshot.schema.json"];

fn publisher() -> Publisher {
    Publisher { runtime_id: "cadre_local".into(), schema_version: "lime-profile-0.4.0".into() }
}

fn snapshot(models: &ReadModels, window: Window) -> SessionSnapshot {
    SessionSnapshot::assemble(models.parts(publisher(), window, None).unwrap())
}

fn schema() -> Value {
    let mut schema = SchemaSettings::draft2020_12()
        .for_serialize()
        .into_generator()
        .into_root_schema_for::<SessionSnapshot>()
        .to_value();
    schema["$id"] = "https://cadre.dev/schemas/snapshot.schema.json".into();
    schema
}

fn read(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The profile refers to the public schema by a relative name, which becomes an address beside its own.
fn validator(schema: &Value, public: Option<&Value>) -> Validator {
    let mut options = jsonschema::options().should_validate_formats(true);
    if let Some(public) = public {
        let base = "https://limecloud.github.io/agentruntime/schemas/agentruntime-snapshot.schema.json";
        options = options.with_resource(base, jsonschema::Resource::from_contents(public.clone()));
    }
    options.build(schema).unwrap()
}

/// Our schema, and the published ones when they are at hand.
fn validators() -> Vec<(&'static str, Validator)> {
    let mut all = vec![("our schema", validator(&schema(), None))];
    let Some(directory) = env::var_os("CADRE_CONFORMANCE_DIR") else {
        println!("the published schemas were not looked at: CADRE_CONFORMANCE_DIR is not set");
        return all;
    };
    let directory = Path::new(&directory).join("agentruntime");
    let public = read(&directory.join(PUBLISHED[0]));
    for name in PUBLISHED {
        all.push((name, validator(&read(&directory.join(name)), Some(&public))));
    }
    all
}

fn assert_valid(validators: &[(&str, Validator)], snapshot: &Value) {
    for (name, schema) in validators {
        let faults: Vec<_> = schema
            .iter_errors(snapshot)
            .map(|fault| format!("{} at {}", fault, fault.instance_path()))
            .collect();
        assert!(faults.is_empty(), "by {name}: {faults:#?}\n{snapshot:#}");
    }
}

#[test]
fn the_schema_in_the_documentation_is_that_of_the_types() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/schemas/snapshot.schema.json");
    let current = serde_json::to_string_pretty(&schema()).unwrap() + "\n";
    if env::var_os("CADRE_UPDATE").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &current).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == current,
        "{} is out of date: CADRE_UPDATE=1 cargo test -p cadre renews it",
        path.display()
    );
}

fn begun() -> Story {
    Story::default()
        .then(
            SessionScope {},
            SessionCreated {
                metadata: json!({ "workspaceId": "workspace_1" }).as_object().unwrap().clone(),
                ..Default::default()
            },
        )
        .then(thread("t1"), ThreadStarted::default())
}

fn session(story: &Story) -> ReadModels {
    let mut models = ReadModels::new(id("sess_1"));
    story.facts.iter().for_each(|fact| models.apply("session:sess_1", fact));
    models
}

#[test]
fn a_new_session_says_what_it_does_not_know() {
    let models = session(&begun());
    let served = serde_json::to_value(snapshot(&models, Window::default())).unwrap();
    assert_valid(&validators(), &served);
    assert_eq!(served["executionEnvironment"]["availability"], "not_applicable");
    assert_eq!(served["routingLimitSummary"]["routingAvailability"], "unknown");
    assert_eq!(served["routingLimitSummary"]["costAvailability"], "unknown");
    assert_eq!(served["telemetrySummary"], json!({ "traceIds": [], "joinStatus": "not_applicable" }));
    assert_eq!(served["toolInventory"]["availability"], "unknown");
    assert_eq!(
        served["artifactSummary"],
        json!({ "changes": 0, "recent": [], "availability": "not_applicable" })
    );
    assert_eq!(served["history"], json!({ "hasMore": false }));
    assert_eq!(served["threads"][0]["status"], "idle");
}

#[test]
fn a_session_with_something_below_it_says_that_its_sums_are_its_own() {
    let usage = Usage { input_tokens: 3, cost_usd: Some(0.5), ..Default::default() };
    let story = begun()
        .then(turn("u1"), TurnStarted::default())
        .then(turn("u1"), ModelCompleted { usage: Some(usage), calls: 0, ..Default::default() });
    let mut models = session(&story);
    let alone = serde_json::to_value(snapshot(&models, Window::default())).unwrap();
    assert_eq!(alone["permissionState"]["availability"], "not_applicable");
    for summary in ["routingLimitSummary", "permissionState", "sandboxState", "outputSummary"] {
        assert_eq!(alone[summary].get("partial"), None, "{summary}");
    }
    assert_eq!(alone["routingLimitSummary"].get("costAvailability"), None);

    let spawned = SubagentSpawned { status: SubagentStatus::Running, ..Default::default() };
    let child = || SubagentScope { subagent: id("sub_1") };
    models.apply("subagent:sub_1", &Fact::new(Timestamp(1), child(), spawned));
    let served = serde_json::to_value(snapshot(&models, Window::default())).unwrap();
    for summary in ["routingLimitSummary", "permissionState", "sandboxState", "outputSummary"] {
        assert_eq!(served[summary]["partial"], true, "{summary}");
    }
    let routing = &served["routingLimitSummary"];
    assert_eq!((&routing["costUsd"], &routing["costAvailability"]), (&json!(0.5), &json!("unknown")));
    assert_eq!(served["permissionState"]["availability"], "unknown");

    let waits = SubagentStatusChanged { status: SubagentStatus::WaitingInput, ..Default::default() };
    models.apply("subagent:sub_1", &Fact::new(Timestamp(2), child(), waits));
    let served = serde_json::to_value(snapshot(&models, Window::default())).unwrap();
    let permission = &served["permissionState"];
    assert_eq!((&permission["waitingBelow"], permission.get("availability")), (&json!(1), None));
    assert_valid(&validators(), &served);
}

#[test]
fn what_was_exported_of_a_session_is_served_and_its_threads_do_not_deny_it() {
    let exported = |story: Story, name: &str, kind: &str| {
        let reference = || Ref::parse(&format!("blob_{name}")).ok();
        let changed = EvidenceChanged {
            kind: Some(kind.into()),
            pack_ref: reference().filter(|_| kind == "evidence"),
            replay_ref: reference().filter(|_| kind == "replay"),
            verification_outcomes: vec![VerificationOutcome {
                name: "ends_are_told_once".into(),
                status: "passed".into(),
                ..Default::default()
            }],
            notes: vec!["looked at".into()],
            ..Default::default()
        };
        story.then(EvidenceScope { evidence: id(name) }, changed)
    };
    let served = |story: &Story| serde_json::to_value(snapshot(&session(story), Window::default())).unwrap();
    let nothing = served(&begun());
    assert_eq!(nothing["evidenceSummary"], json!({ "availability": "not_applicable" }));
    assert_eq!(nothing["threads"][0]["evidenceSummary"]["availability"], "not_applicable");

    let whole = exported(begun(), "evid_1", "replay");
    let said = served(&whole);
    let evidence = &said["evidenceSummary"];
    assert_eq!(evidence["recent"][0]["replayRef"], "blob_evid_1");
    assert_eq!(evidence["verificationOutcomes"][0]["status"], "passed");
    assert_eq!((&evidence["notes"], evidence.get("availability")), (&json!(1), None));
    assert_eq!(said["threads"][0]["evidenceSummary"]["availability"], "unknown", "it is part of the session");

    let own = exported(whole, "evid_2", "evidence").with::<ThreadId>("t1");
    let said = served(&own);
    let thread = &said["threads"][0]["evidenceSummary"];
    assert_eq!((&thread["evidenceRefs"], thread.get("availability")), (&json!(["evid_2"]), None));
    assert_valid(&validators(), &said);
}

#[test]
fn the_traces_that_facts_named_last_are_served() {
    let mut models = session(&begun());
    let trace = |number: usize| Trace { trace_id: format!("{number:032x}").into(), span_id: None };
    let delta = |name: &str| Fact::new(Timestamp(1), turn(name), ModelDelta::default());
    for number in (0..12).chain([11, 5]) {
        models.apply_traced("session:sess_1", &delta("u1"), Some(&trace(number)));
    }
    let telemetry =
        serde_json::to_value(snapshot(&models, Window::default())).unwrap()["telemetrySummary"].clone();
    let expected: Vec<_> = [4, 6, 7, 8, 9, 10, 11, 5].map(|number| format!("{number:032x}")).into();
    assert_eq!(telemetry, json!({ "traceIds": expected, "joinStatus": "joined" }));

    // What is below the session tells its own facts: whether they carry traces is not known here.
    let mut models = session(&begun());
    models.apply(
        "task:task_1",
        &Fact::new(Timestamp(1), TaskScope { task: id("task_1") }, TaskCreated::default()),
    );
    let telemetry = snapshot(&models, Window::default()).telemetry_summary;
    assert_eq!((telemetry.trace_ids.len(), telemetry.join_status), (0, JoinStatus::Unknown));
}

/// A history with which the published example could have been served.
fn example() -> ReadModels {
    let mut models = session(
        &begun()
            .then(turn("u1"), TurnStarted { agent: "a".into(), attempt: 1, ..Default::default() })
            .with::<TaskId>("task_1")
            .then(
                turn("u1"),
                RoutingSingleCandidate {
                    selected_model: "gpt-5.4".into(),
                    candidate_count: 1,
                    decision_source: "explicit_default".into(),
                    ..Default::default()
                },
            )
            .then(turn("u1"), TurnCompleted { status: TurnStatus::Completed, steps: 1, ..Default::default() })
            .then(
                EvidenceScope { evidence: id("evidence_1") },
                EvidenceChanged {
                    verification_outcomes: vec![VerificationOutcome {
                        name: "fixture_validation".into(),
                        status: "passed".into(),
                        ..Default::default()
                    }],
                    ..Default::default()
                },
            )
            .with::<ThreadId>("t1"),
    );
    let task = || TaskScope { task: id("task_1") };
    let run = |name: &str| AttemptScope { task: id("task_1"), run: id(name) };
    let story = Story::default()
        .then(
            task(),
            TaskCreated { status: TaskStatus::Accepted, objective: "Validate".into(), ..Default::default() },
        )
        .then(
            run("run_1"),
            TaskAttemptStarted { status: AttemptStatus::Running, attempt: 1, ..Default::default() },
        )
        .then(run("run_1"), TaskAttemptFailed { status: AttemptStatus::Failed, ..Default::default() })
        .then(
            run("run_2"),
            TaskAttemptStarted { status: AttemptStatus::Running, attempt: 2, ..Default::default() },
        )
        .with::<AttemptId>("attempt_2")
        .then(
            run("run_2"),
            TaskAttemptCompleted { status: AttemptStatus::Completed, attempt: 2, ..Default::default() },
        )
        .then(
            task(),
            TaskCompleted {
                status: TaskStatus::Completed,
                evidence_refs: vec![Ref::parse("evidence_1").unwrap()],
                ..Default::default()
            },
        );
    story.facts.iter().for_each(|fact| models.apply("task:task_1", fact));
    models
}

#[test]
fn what_the_published_example_says_can_be_said() {
    let served = serde_json::to_value(snapshot(&example(), Window::default())).unwrap();
    assert_valid(&validators(), &served);
    let thread = &served["threads"][0];
    assert_eq!(served["workspaceId"], "workspace_1");
    assert_eq!((&thread["status"], &thread["turns"][0]["taskId"]), (&json!("completed"), &json!("task_1")));
    assert_eq!(thread["evidenceSummary"]["evidenceRefs"], json!(["evidence_1"]));
    let outcome = &thread["evidenceSummary"]["verificationOutcomes"][0];
    assert_eq!((&outcome["name"], &outcome["status"]), (&json!("fixture_validation"), &json!("passed")));
    let task = &served["tasks"][0];
    assert_eq!((&task["status"], &task["currentRunId"]), (&json!("completed"), &json!("run_2")));
    assert_eq!(task["attempts"][0]["status"], "failed");
    assert_eq!(task["attempts"][1]["attemptId"], "attempt_2");
    let counts = &served["taskSummary"];
    assert_eq!(
        (&counts["active"], &counts["completed"], &counts["failed"]),
        (&json!(0), &json!(1), &json!(0))
    );
    let routing = &served["routingLimitSummary"];
    assert_eq!((&routing["candidateCount"], &routing["singleCandidate"]), (&json!(1), &json!(true)));
    assert_eq!(routing["selectedModel"], "gpt-5.4");
    assert_eq!(served["evidenceRefs"], json!(["evidence_1"]));
}

#[test]
fn older_turns_are_found_from_where_the_window_begins() {
    let mut story = begun();
    for number in 0..5 {
        let name = format!("u{number}");
        story = story
            .then(turn(&name), TurnStarted::default())
            .then(turn(&name), TurnCompleted { status: TurnStatus::Completed, ..Default::default() });
    }
    let models = session(&story);
    let served = snapshot(&models, Window { turns: 2, ..Window::default() });
    let numbers: Vec<_> = served.threads[0].turns.iter().filter_map(|turn| turn.number).collect();
    assert_eq!(numbers, [4, 5]);
    assert_eq!(served.history.before.as_deref(), Some("4"));
    assert!(served.history.has_more && served.threads[0].history.has_more);
    let served = snapshot(&models, Window::default());
    assert!(!served.history.has_more && served.threads[0].turns.len() == 5);
}

#[test]
fn tools_processes_and_queues_are_served_from_the_session() {
    let tools = vec![ToolInfo { name: "echo".into(), read_only: true, ..Default::default() }];
    let story = begun()
        .then(super::call("u1", "c1"), ToolCatalogResolved { count: 1, tools, ..Default::default() })
        .then(
            ProcessScope { process: id("proc_1") },
            ProcessStarted { command: vec!["ls".into(), "-l".into()], ..Default::default() },
        )
        .with::<ThreadId>("t1");
    let view = session(&story).session;
    let inventory = ToolInventory::of(&id("sess_1"), &view);
    assert_eq!((inventory.count, inventory.tools[0].name.as_str()), (Some(1), "echo"));
    let environment = ExecutionEnvironment::of(&id("sess_1"), &view, Some(&id("t1")));
    assert_eq!(environment.active_processes[0].command, "ls -l");
    assert!(ExecutionEnvironment::of(&id("sess_1"), &view, Some(&id("t2"))).active_processes.is_empty());
    let queue = QueueSnapshot::of(&view.threads[0]);
    assert_eq!((queue.resume_state, queue.order.len(), queue.active_turn_id), (QueueState::Empty, 0, None));
}

#[test]
fn a_queue_says_why_turns_wait_and_what_makes_it_go_on() {
    let queued = TurnSubmitted {
        status: TurnStatus::Queued,
        source: "api".into(),
        when_busy: Some(WhenBusy::Queue),
        ..Default::default()
    };
    let story = begun().then(turn("u1"), TurnStarted::default()).then(turn("u2"), queued);
    let read = |story: &Story| serde_json::to_value(snapshot(&session(story), Window::default())).unwrap();
    let served = read(&story);
    let thread = &served["threads"][0];
    assert_eq!(
        thread["queue"],
        json!({ "resumeState": "behind_turn", "order": ["u2"], "activeTurnId": "u1" })
    );
    assert_eq!(
        (&thread["queuedTurns"][0]["whenBusy"], &thread["queuedTurns"][0]["source"]),
        (&json!("queue"), &json!("api"))
    );
    let codes = |thread: &Value| -> Vec<String> {
        let found = thread["diagnostics"].as_array().unwrap().iter();
        found.map(|found| found["code"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(codes(thread), ["queue_waits"]);

    let scope = ActionScope { thread: id("t1"), turn: id("u1"), action: id("a1") };
    let story = story.then(scope, ActionRequired { prompt: "?".into(), ..Default::default() });
    let served = read(&story);
    assert_eq!(served["threads"][0]["queue"]["resumeState"], "blocked");
    assert_eq!(codes(&served["threads"][0]), ["decision_pending", "queue_waits"]);
    assert_valid(&validators(), &served);

    let failed = TurnFailed {
        status: TurnStatus::Failed,
        error: Failure::new("broken", "it broke"),
        ..Default::default()
    };
    let served = read(&begun().then(turn("u1"), TurnStarted::default()).then(turn("u1"), failed));
    let found = &served["threads"][0]["diagnostics"][0];
    assert_eq!((&found["code"], &found["message"]), (&json!("last_turn_failed"), &json!("broken: it broke")));
}

#[test]
fn the_newest_subagents_are_served_with_their_place_and_whether_they_can_go_on() {
    let mut models = session(&begun());
    for number in 0..4 {
        let name = format!("sub_{number}");
        let stream = format!("subagent:{name}");
        let scope = || SubagentScope { subagent: id(&name) };
        let spawned = SubagentSpawned {
            status: SubagentStatus::Running,
            parent_subagent_id: (number > 0).then(|| id("sub_0")),
            ..Default::default()
        };
        let spawned =
            Fact::new(Timestamp(1), scope(), spawned).with(id::<ThreadId>(&format!("thrd_{number}")));
        models.apply(&stream, &spawned);
        if number == 3 {
            let failed = SubagentFailed { status: SubagentStatus::Failed, ..Default::default() };
            models.apply(&stream, &Fact::new(Timestamp(2), scope(), failed));
        }
    }
    let served = snapshot(&models, Window { subagents: 2, ..Window::default() });
    let served = serde_json::to_value(served).unwrap()["subagentJobSummary"].clone();
    let entry = |number: u32, status: &str, recoverable: bool| {
        json!({ "subagentId": format!("sub_{number}"), "status": status, "recoverable": recoverable,
            "parentSubagentId": "sub_0", "threadId": format!("thrd_{number}") })
    };
    assert_eq!(served["graph"], json!([entry(2, "running", false), entry(3, "failed", true)]));
    assert_eq!((&served["partial"], &served["subagents"]["total"]), (&json!(true), &json!(4)));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_served_is_what_the_schemas_say(
        facts in vec((any::<u64>().prop_map(|seed| fact(seed, SMALL)), 0_usize..4), 0..120),
    ) {
        const STREAMS: [&str; 4] = ["session:sess_1", "task:task_1", "subagent:sub_1", "job:job_1"];
        let mut models = session(&begun());
        for (fact, stream) in &facts {
            models.apply(STREAMS[*stream], fact);
        }
        let served = snapshot(&models, Window { turns: 3, ..Window::default() });
        let value = serde_json::to_value(&served).unwrap();
        assert_valid(&validators(), &value);
        prop_assert_eq!(serde_json::from_value::<SessionSnapshot>(value).unwrap(), served);
    }
}
