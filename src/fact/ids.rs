//! The ids of an envelope.

use std::{borrow::Cow, fmt};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser::SerializeMap};

use super::id::*;

/// An id that has one natural place in [`Ids`].
pub trait Slot: Id {
    /// What is there.
    fn of(ids: &Ids) -> Option<&Self>;
    /// Puts it there.
    fn put(self, ids: &mut Ids);
}

/// One place of [`Ids`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// What it is called in stored facts; never used for another.
    pub number: u8,
    /// What it is called on the wire.
    pub wire: &'static str,
}

macro_rules! places {
    (
        often { $($often:ident: $often_id:ident = $often_number:literal $often_wire:literal;)+ }
        seldom { $($seldom:ident: $seldom_id:ident = $seldom_number:literal $seldom_wire:literal;)+ }
    ) => {
        /// The ids of a fact. Those that most facts lack share one allocation, because very many facts are made.
        #[derive(Debug, Clone, PartialEq, Eq, Default)]
        pub struct Ids {
            $($often: Option<$often_id>,)+
            seldom: Option<Box<Seldom>>,
        }

        #[derive(Debug, Clone, PartialEq, Eq, Default)]
        struct Seldom {
            $($seldom: Option<$seldom_id>,)+
        }

        impl Ids {
            $(
                #[doc = concat!("`", $often_wire, "`")]
                pub fn $often(&self) -> Option<&$often_id> {
                    self.$often.as_ref()
                }
            )+
            $(
                #[doc = concat!("`", $seldom_wire, "`")]
                pub fn $seldom(&self) -> Option<&$seldom_id> {
                    self.seldom.as_ref()?.$seldom.as_ref()
                }
            )+

            pub(super) const PLACES: &'static [Place] = &[
                $(Place { number: $often_number, wire: $often_wire },)+
                $(Place { number: $seldom_number, wire: $seldom_wire },)+
            ];

            /// Takes over what is not set here.
            pub fn fill(&mut self, from: &Ids) {
                $(if self.$often.is_none() { self.$often.clone_from(&from.$often); })+
                let Some(theirs) = &from.seldom else { return };
                let Some(ours) = &mut self.seldom else { return self.seldom.clone_from(&from.seldom) };
                $(if ours.$seldom.is_none() { ours.$seldom.clone_from(&theirs.$seldom); })+
            }

            /// Calls `visit` with each id that is set.
            pub(super) fn visit<E>(
                &self,
                mut visit: impl FnMut(Place, &str) -> Result<(), E>,
            ) -> Result<(), E> {
                $(if let Some(id) = &self.$often {
                    visit(Place { number: $often_number, wire: $often_wire }, id.as_str())?;
                })+
                if let Some(seldom) = &self.seldom {
                    $(if let Some(id) = &seldom.$seldom {
                        visit(Place { number: $seldom_number, wire: $seldom_wire }, id.as_str())?;
                    })+
                }
                Ok(())
            }

            /// Sets the id at a place.
            pub(super) fn set(&mut self, place: Place, text: &str) -> Result<(), InvalidId> {
                match place.number {
                    $($often_number => self.$often = Some($often_id::parse(text)?),)+
                    $($seldom_number => self.seldom().$seldom = Some($seldom_id::parse(text)?),)+
                    _ => {}
                }
                Ok(())
            }
        }
    };
}

places! {
    often {
        thread: ThreadId = 1 "threadId";
        turn: TurnId = 2 "turnId";
        task: TaskId = 3 "taskId";
        run: RunId = 4 "runId";
        step: StepId = 5 "stepId";
        call: CallId = 6 "toolCallId";
        subagent: SubagentId = 7 "subagentId";
    }
    seldom {
        attempt: AttemptId = 8 "attemptId";
        parent_task: TaskId = 9 "parentTaskId";
        root_task: TaskId = 10 "rootTaskId";
        action: ActionId = 11 "actionId";
        artifact: ArtifactId = 12 "artifactId";
        evidence: EvidenceId = 13 "evidenceId";
        job: JobId = 14 "jobId";
        item: ItemId = 15 "jobItemId";
        process: ProcessId = 16 "processId";
        channel: ChannelId = 17 "channelId";
        request: RequestId = 18 "modelRequestId";
        output: BlobRef = 19 "outputRef";
    }
}

impl Ids {
    fn seldom(&mut self) -> &mut Seldom {
        self.seldom.get_or_insert_default()
    }

    /// With this id in its place.
    #[must_use]
    pub fn with<I: Slot>(mut self, id: I) -> Self {
        id.put(&mut self);
        self
    }

    /// With `parentTaskId`.
    #[must_use]
    pub fn with_parent_task(mut self, task: TaskId) -> Self {
        self.seldom().parent_task = Some(task);
        self
    }

    /// With `rootTaskId`.
    #[must_use]
    pub fn with_root_task(mut self, task: TaskId) -> Self {
        self.seldom().root_task = Some(task);
        self
    }

    /// The place that is called so on the wire.
    pub(super) fn place(wire: &str) -> Option<Place> {
        Self::PLACES.iter().copied().find(|place| place.wire == wire)
    }

    /// How many are set.
    pub(super) fn count(&self) -> usize {
        let mut count = 0;
        let counted: Result<(), std::convert::Infallible> = self.visit(|_, _| {
            count += 1;
            Ok(())
        });
        let Ok(()) = counted;
        count
    }
}

macro_rules! slots {
    ($(often $often:ident: $often_id:ident;)+ $(seldom $seldom:ident: $seldom_id:ident;)+) => {
        $(impl Slot for $often_id {
            fn of(ids: &Ids) -> Option<&Self> {
                ids.$often()
            }

            fn put(self, ids: &mut Ids) {
                ids.$often = Some(self);
            }
        })+
        $(impl Slot for $seldom_id {
            fn of(ids: &Ids) -> Option<&Self> {
                ids.$seldom()
            }

            fn put(self, ids: &mut Ids) {
                ids.seldom().$seldom = Some(self);
            }
        })+
    };
}

slots! {
    often thread: ThreadId;
    often turn: TurnId;
    often task: TaskId;
    often run: RunId;
    often step: StepId;
    often call: CallId;
    often subagent: SubagentId;
    seldom attempt: AttemptId;
    seldom action: ActionId;
    seldom artifact: ArtifactId;
    seldom evidence: EvidenceId;
    seldom job: JobId;
    seldom item: ItemId;
    seldom process: ProcessId;
    seldom channel: ChannelId;
    seldom request: RequestId;
    seldom output: BlobRef;
}

impl Serialize for Ids {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.count()))?;
        self.visit(|place, id| map.serialize_entry(place.wire, id))?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for Ids {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Map;

        impl<'de> de::Visitor<'de> for Map {
            type Value = Ids;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of ids")
            }

            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Ids, A::Error> {
                let mut ids = Ids::default();
                while let Some(key) = map.next_key::<String>()? {
                    match Ids::place(&key) {
                        Some(place) => {
                            if let Some(id) = map.next_value::<Option<String>>()? {
                                ids.set(place, &id).map_err(de::Error::custom)?;
                            }
                        }
                        None => drop(map.next_value::<de::IgnoredAny>()?),
                    }
                }
                Ok(ids)
            }
        }

        deserializer.deserialize_map(Map)
    }
}

impl JsonSchema for Ids {
    fn schema_name() -> Cow<'static, str> {
        "Ids".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let id = generator.subschema_for::<ThreadId>();
        let properties: serde_json::Map<_, _> =
            Ids::PLACES.iter().map(|place| (place.wire.to_owned(), id.clone().into())).collect();
        json_schema!({ "type": "object", "properties": properties })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::scope::TurnScope;

    fn turn() -> TurnScope {
        TurnScope { thread: ThreadId::parse("thrd_1").unwrap(), turn: TurnId::parse("turn_1").unwrap() }
    }

    #[test]
    fn surroundings_fill_what_is_missing_and_replace_nothing() {
        let mut ids: Ids = turn().into();
        let action = ActionId::parse("actn_1").unwrap();
        let around = Ids::default()
            .with(TurnId::parse("turn_2").unwrap())
            .with(SubagentId::parse("sub_1").unwrap())
            .with(action.clone())
            .with_parent_task(TaskId::parse("task_0").unwrap());
        ids.fill(&around);
        assert_eq!(ids.turn().unwrap().as_str(), "turn_1");
        assert_eq!(ids.subagent().unwrap().as_str(), "sub_1");
        assert_eq!((ids.action(), ids.parent_task().unwrap().as_str()), (Some(&action), "task_0"));
        ids.fill(
            &Ids::default().with(ActionId::parse("actn_2").unwrap()).with(JobId::parse("job_1").unwrap()),
        );
        assert_eq!((ids.action(), ids.job().unwrap().as_str()), (Some(&action), "job_1"));
    }

    #[test]
    fn ids_are_named_as_the_envelope_names_them() {
        let ids = Ids::from(turn()).with(RequestId::parse("mreq_1").unwrap());
        let wire =
            serde_json::json!({ "threadId": "thrd_1", "turnId": "turn_1", "modelRequestId": "mreq_1" });
        assert_eq!(serde_json::to_value(&ids).unwrap(), wire);
        assert_eq!(serde_json::from_value::<Ids>(wire).unwrap(), ids);
    }

    #[test]
    fn places_are_distinct_and_each_can_be_set() {
        let mut ids = Ids::default();
        for place in Ids::PLACES {
            ids.set(*place, "x").unwrap();
        }
        assert_eq!(ids.count(), Ids::PLACES.len());
        let numbers: std::collections::BTreeSet<_> = Ids::PLACES.iter().map(|place| place.number).collect();
        assert_eq!(numbers.len(), Ids::PLACES.len());
    }

    #[test]
    fn ids_stay_small() {
        assert!(size_of::<Ids>() <= 120, "{} bytes", size_of::<Ids>());
    }
}
