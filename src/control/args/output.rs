//! References to outputs, which may be short or long.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::fact::{OutputRef, Ref};

/// As callers may write it: where it is, or that with what is known about it.
pub(super) struct Written;

impl JsonSchema for Written {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "WrittenOutputRef".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let either = [generator.subschema_for::<Ref>(), generator.subschema_for::<OutputRef>()];
        json_schema!({ "anyOf": either })
    }
}

/// As it is stored: every field has its place, because a stored struct is an array.
type Plain = (Ref, Option<String>, Option<u64>, Option<String>);

pub(super) fn serialize<S: Serializer>(outputs: &[OutputRef], serializer: S) -> Result<S::Ok, S::Error> {
    if serializer.is_human_readable() {
        return outputs.serialize(serializer);
    }
    let plain = |output: &OutputRef| -> Plain {
        let OutputRef { reference, media_type, size_bytes, title } = output.clone();
        (reference, media_type, size_bytes, title)
    };
    serializer.collect_seq(outputs.iter().map(plain))
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<OutputRef>, D::Error> {
    if deserializer.is_human_readable() {
        return Ok(Vec::<Read>::deserialize(deserializer)?.into_iter().map(|Read(output)| output).collect());
    }
    let plain = Vec::<Plain>::deserialize(deserializer)?.into_iter();
    Ok(plain
        .map(|(reference, media_type, size_bytes, title)| OutputRef {
            reference,
            media_type,
            size_bytes,
            title,
        })
        .collect())
}

struct Read(OutputRef);

impl<'de> Deserialize<'de> for Read {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> de::Visitor<'de> for Either {
            type Value = OutputRef;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a reference, or an object with one")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<OutputRef, E> {
                Ref::parse(text).map(OutputRef::from).map_err(E::custom)
            }

            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<OutputRef, A::Error> {
                OutputRef::deserialize(de::value::MapAccessDeserializer::new(map))
            }
        }

        deserializer.deserialize_any(Either).map(Self)
    }
}
