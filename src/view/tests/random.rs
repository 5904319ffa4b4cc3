//! Facts out of a seed, made after the schemas of their classes. Ids are of a small pool, so that facts meet.

use std::sync::OnceLock;

use cadre_cluster::clock::Timestamp;
use rand::{Rng, SeedableRng, rngs::StdRng};
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::fact::{Class, EventType, Fact, Ids, Payload, id::*, payload::*, scope::Slot, time::Time};

/// How large what facts say is, and how many different ids there are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    pub ids: usize,
    pub id_len: usize,
    pub text_len: usize,
    pub list_len: usize,
}

pub(super) const SMALL: Size = Size { ids: 3, id_len: 8, text_len: 12, list_len: 3 };
pub(super) const LARGE: Size = Size { ids: 200, id_len: 128, text_len: 1200, list_len: 40 };

struct Random {
    schema: Value,
    definitions: Map<String, Value>,
    read: fn(Value) -> Payload,
}

fn random_of<C: Class>() -> (EventType, Random) {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let schema = generator.subschema_for::<C>().into();
    let read = |value: Value| {
        let class: Result<C, _> = serde_json::from_value(value.clone());
        class.unwrap_or_else(|error| panic!("{}: {error}: {value}", C::TYPE)).into()
    };
    (C::TYPE, Random { schema, definitions: generator.take_definitions(true), read })
}

macro_rules! every_class {
    ($($name:ident),+ $(,)?) => {
        fn every_class() -> Vec<(EventType, Random)> {
            vec![$(random_of::<$name>()),+]
        }
    };
}

every_class! {
    SessionCreated, SessionUpdated, ThreadStarted, ThreadUpdated, TurnSubmitted, TurnStarted,
    TurnCompleted, TurnFailed, TaskCreated, TaskAccepted, TaskQueued, TaskStarted, TaskUpdated,
    TaskProgress, TaskWaiting, TaskBlocked, TaskPaused, TaskResumed, TaskRetrying, TaskCancelRequested,
    TaskCancelled, TaskTimedOut, TaskFailed, TaskLost, TaskCompleted, TaskArchived,
    TaskProfileResolved, TaskDelegated, TaskDependencyUpdated, TaskAttemptStarted,
    TaskAttemptCompleted, TaskAttemptFailed, RunStatus, ModelRequested, ModelDelta, ModelCompleted,
    ModelFailed, ReasoningDelta, ReasoningSummary, ToolCatalogResolved, ToolStarted, ToolArgs,
    ToolProgress, ToolResult, ToolFailed, ActionRequired, ActionResolved, QueueChanged,
    ContextResolved, ContextCompactionStarted, ContextCompactionCompleted, ContextCompactionFailed,
    ArtifactChanged, EvidenceChanged, SubagentSpawned, SubagentStatusChanged, SubagentInput,
    SubagentCompleted, SubagentFailed, SubagentClosed, LimitChanged, SnapshotUpdated, SnapshotRepaired,
    RuntimeWarning, RuntimeError, PermissionEvaluated, PermissionRequested, PermissionResolved,
    SandboxApplied, SandboxViolation, HookStarted, HookCompleted, HookFailed, PolicyChanged,
    ProcessStarted, ProcessOutput, ProcessInput, ProcessCompleted, ProcessFailed, ProcessTerminated,
    RoutingCandidatesResolved, RoutingDecided, RoutingFallbackApplied, RoutingNotPossible,
    RoutingSingleCandidate, CostEstimated, CostRecorded, RateLimitHit, QuotaLow, QuotaBlocked,
    ChannelConnected, ChannelDisconnected, ChannelResumed, ChannelMessage, ChannelPermissionForwarded,
    ChannelPermissionReturned, JobCreated, JobStarted, JobProgress, JobItemStarted, JobItemCompleted,
    JobItemFailed, JobCompleted, JobFailed, JobCancelled, OutputSpilled, OutputTruncated,
    OutputRedacted, OutputExpired, HistoryWindowLoaded, HistoryReconstructed, HistoryRollbackStarted,
    HistoryRollbackCompleted, BenchmarkDatasetResolved, BenchmarkConfigurationResolved,
    BenchmarkTrialStarted, BenchmarkTrialCompleted, BenchmarkTrialFailed, BenchmarkRewardRecorded,
    BenchmarkComparisonCompleted,
}

fn classes() -> &'static [(EventType, Random)] {
    static CLASSES: OnceLock<Vec<(EventType, Random)>> = OnceLock::new();
    CLASSES.get_or_init(|| {
        let classes = every_class();
        assert!(EventType::ALL.iter().all(|class| classes.iter().any(|(known, _)| known == class)));
        classes
    })
}

/// A fact of any class.
pub(super) fn fact(seed: u64, size: Size) -> Fact {
    let random = &mut StdRng::seed_from_u64(seed);
    // Half of the facts are of the classes with which things begin and end, or else little would happen.
    const OFTEN: [EventType; 14] = [
        EventType::ThreadStarted,
        EventType::TurnSubmitted,
        EventType::TurnStarted,
        EventType::TurnCompleted,
        EventType::ModelRequested,
        EventType::ModelDelta,
        EventType::ToolStarted,
        EventType::ToolResult,
        EventType::ActionRequired,
        EventType::ActionResolved,
        EventType::TaskAttemptStarted,
        EventType::JobItemStarted,
        EventType::HistoryRollbackCompleted,
        EventType::ContextCompactionCompleted,
    ];
    let class = if random.random() {
        OFTEN[random.random_range(0..OFTEN.len())]
    } else {
        EventType::ALL[random.random_range(0..EventType::ALL.len())]
    };
    fact_of(class, random, size)
}

/// A fact of a class, with every id that there is.
pub(super) fn fact_of(class: EventType, random: &mut StdRng, size: Size) -> Fact {
    let (_, schema) = classes().iter().find(|(known, _)| *known == class).unwrap();
    let value = Maker { definitions: &schema.definitions, random, size }.value(&schema.schema);
    let payload = (schema.read)(value);
    let mut ids = Ids::default();
    put::<ThreadId>(&mut ids, random, size);
    put::<TurnId>(&mut ids, random, size);
    put::<TaskId>(&mut ids, random, size);
    put::<RunId>(&mut ids, random, size);
    put::<StepId>(&mut ids, random, size);
    put::<CallId>(&mut ids, random, size);
    put::<SubagentId>(&mut ids, random, size);
    put::<AttemptId>(&mut ids, random, size);
    put::<ActionId>(&mut ids, random, size);
    put::<ArtifactId>(&mut ids, random, size);
    put::<EvidenceId>(&mut ids, random, size);
    put::<JobId>(&mut ids, random, size);
    put::<ItemId>(&mut ids, random, size);
    put::<ProcessId>(&mut ids, random, size);
    put::<ChannelId>(&mut ids, random, size);
    put::<BlobRef>(&mut ids, random, size);
    ids = ids.with_parent_task(TaskId::parse(&id(random, size)).unwrap());
    Fact { at: Timestamp(random.random_range(0..4_000_000_000_000)), ids, native: None, payload }
}

/// Most facts have most ids: more than they need does no harm.
fn put<I: Slot>(ids: &mut Ids, random: &mut StdRng, size: Size) {
    if random.random_ratio(7, 8) {
        I::parse(&id(random, size)).unwrap().put(ids);
    }
}

fn id(random: &mut StdRng, size: Size) -> String {
    let number = random.random_range(0..size.ids);
    format!("{number:x<len$}", len = size.id_len)
}

struct Maker<'a> {
    definitions: &'a Map<String, Value>,
    random: &'a mut StdRng,
    size: Size,
}

impl Maker<'_> {
    /// Something that a schema allows.
    fn value(&mut self, schema: &Value) -> Value {
        let Value::Object(schema) = schema else { return self.free() };
        if let Some(Value::String(name)) = schema.get("$ref") {
            let definition = &self.definitions[name.rsplit('/').next().unwrap()];
            return self.value(definition);
        }
        if let Some(one) = schema.get("const") {
            return one.clone();
        }
        for choice in ["enum", "oneOf", "anyOf"] {
            if let Some(Value::Array(choices)) = schema.get(choice) {
                let chosen = &choices[self.random.random_range(0..choices.len())];
                return if choice == "enum" { chosen.clone() } else { self.value(chosen) };
            }
        }
        let kind = match schema.get("type") {
            Some(Value::Array(kinds)) => kinds[0].as_str().unwrap(),
            Some(kind) => kind.as_str().unwrap(),
            None => return self.free(),
        };
        match kind {
            "object" => self.object(schema),
            "array" => {
                let len = self.random.random_range(0..=self.size.list_len);
                (0..len).map(|_| self.value(&schema["items"])).collect()
            }
            "string" if schema.contains_key("pattern") => id(self.random, self.size).into(),
            "string" if schema.contains_key("format") => self.time(),
            "string" => self.text(schema.get("maxLength").and_then(Value::as_u64)).into(),
            "integer" => match schema.get("format").and_then(Value::as_str) {
                Some("uint32") => self.random.random::<u32>().into(),
                Some("uint64") => self.random.random::<u64>().into(),
                Some("int32") => self.random.random::<i32>().into(),
                _ => self.random.random::<i64>().into(),
            },
            "number" => self.random.random_range(-1e9..1e9).into(),
            "boolean" => self.random.random::<bool>().into(),
            _ => Value::Null,
        }
    }

    fn object(&mut self, schema: &Map<String, Value>) -> Value {
        // Cursors are written as texts, and these are their names.
        const CURSORS: [&str; 5] = ["after", "acked", "from", "to", "upto"];
        let mut object = Map::new();
        let required = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
        for (name, schema) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            if CURSORS.contains(&name.as_str()) {
                object.insert(name.clone(), "0123456789abcdef0123456789abcdef".into());
            } else if required.iter().any(|required| required == name) || self.random.random() {
                object.insert(name.clone(), self.value(schema));
            }
        }
        if let Some(schema) = schema.get("additionalProperties") {
            for _ in 0..self.random.random_range(0..=self.size.list_len) {
                object.insert(self.text(Some(40)), self.value(schema));
            }
        }
        object.into()
    }

    fn time(&mut self) -> Value {
        Time(Timestamp(self.random.random_range(0..4_000_000_000_000))).to_string().into()
    }

    /// Content of any shape. Numbers are eighths, which every reader of JSON reads alike.
    fn free(&mut self) -> Value {
        match self.random.random_range(0..5) {
            0 => json!({ "a": [1, -1, null, true], "b": { "c": self.text(None) } }),
            1 => self.text(None).into(),
            2 => (f64::from(self.random.random_range(-80_000..80_000)) / 8.0).into(),
            3 => (0..200).fold(json!(1), |inner, _| json!([inner])),
            _ => Value::Null,
        }
    }

    fn text(&mut self, max: Option<u64>) -> String {
        // References have a longest length and no control characters.
        let letters = ['a', 'Z', ' ', '"', '\\', '/', 'é', '語', '🦀', '\n', '\u{1}'];
        let letters = if max.is_some() { &letters[..9] } else { &letters };
        let len = self.random.random_range(1..=self.size.text_len);
        let len = max.map_or(len, |max| len.min(max as usize / 4)).max(1);
        (0..len).map(|_| letters[self.random.random_range(0..letters.len())]).collect()
    }
}
