//! What is known about one command.

use schemars::{JsonSchema, Schema, generate::SchemaSettings};
use serde_json::{Value, json};

use super::command::{Command, Group, Kind, Scope};

/// What is known about a command.
#[derive(Debug, Clone, PartialEq)]
pub struct Spec {
    /// Its name.
    pub name: &'static str,
    /// What it belongs to.
    pub group: Group,
    /// Whether it changes something.
    pub kind: Kind,
    /// What a credential must have.
    pub scope: Scope,
    /// What it does, in a few words.
    pub summary: &'static str,
    /// The JSON Schema of its arguments. Its description says more about the command.
    pub arguments: Schema,
    /// The JSON Schema of its result.
    pub result: Schema,
    /// Arguments as somebody could send them.
    pub example: Value,
}

impl Spec {
    /// That of a command.
    pub(super) fn of<C: Command>() -> Self {
        Self {
            name: C::NAME,
            group: C::GROUP,
            kind: C::KIND,
            scope: C::SCOPE,
            summary: C::SUMMARY,
            arguments: schema::<C>(),
            result: schema::<C::Result>(),
            example: C::example(),
        }
    }

    /// What the command does, at length.
    pub fn description(&self) -> &str {
        self.arguments.get("description").and_then(Value::as_str).unwrap_or(self.summary)
    }

    /// As `GET /v1/commands` lists it.
    pub fn to_json(&self) -> Value {
        json!({
            "name": self.name,
            "group": self.group,
            "kind": self.kind,
            "scope": self.scope,
            "summary": self.summary,
            "description": self.description(),
            "arguments": self.arguments,
            "result": self.result,
            "example": self.example,
        })
    }
}

/// The JSON Schema of a type.
pub(super) fn schema<T: JsonSchema>() -> Schema {
    let mut schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>();
    without_null_defaults(&mut schema);
    schema
}

/// That an absent argument is absent need not be said.
fn without_null_defaults(schema: &mut Schema) {
    if schema.get("default").is_some_and(Value::is_null) {
        schema.remove("default");
    }
    schemars::transform::transform_subschemas(&mut without_null_defaults, schema);
}
