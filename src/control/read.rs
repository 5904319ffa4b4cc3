//! Reads JSON into types, and says where and how it did not fit.
//!
//! Errors of `serde_json` name a type of Rust and no place. This reader builds the path of the offending field on the
//! way out, and is stricter: a struct is an object, never a list of its fields, which derived code would accept. In a
//! struct `null` is the same as absent.

use std::{fmt, vec};

use serde::{
    Deserializer,
    de::{self, DeserializeOwned, DeserializeSeed, Expected, IntoDeserializer, Unexpected, Visitor},
    forward_to_deserialize_any,
};
use serde_json::{Value, map};

use super::error::Error;

/// Reads a value; an error is `invalid_argument` with the path of the field.
pub fn from_value<T: DeserializeOwned>(value: Value) -> Result<T, Error> {
    T::deserialize(Reader(value)).map_err(Error::from)
}

/// What did not fit, and the way to it from the inside out.
#[derive(Debug)]
pub struct Misfit {
    message: String,
    path: Vec<Segment>,
}

#[derive(Debug)]
enum Segment {
    Field(String),
    Index(usize),
}

impl Misfit {
    fn under(mut self, segment: Segment) -> Self {
        self.path.push(segment);
        self
    }

    /// The path as people write it: `items[3].input[0].text`.
    fn field(&self) -> String {
        let mut field = String::new();
        for segment in self.path.iter().rev() {
            match segment {
                Segment::Index(index) => field.push_str(&format!("[{index}]")),
                Segment::Field(name) if field.is_empty() => field.push_str(name),
                Segment::Field(name) => field.push_str(&format!(".{name}")),
            }
        }
        field
    }
}

impl From<Misfit> for Error {
    fn from(misfit: Misfit) -> Self {
        Error::invalid(misfit.field(), misfit.message)
    }
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Misfit {}

impl de::Error for Misfit {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self { message: message.to_string(), path: Vec::new() }
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::custom(format_args!("must be {}, not {}", plain(expected), kind(&found)))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::custom(format_args!("must be {}, not {}", plain(expected), shown(&found)))
    }

    fn unknown_variant(found: &str, expected: &'static [&'static str]) -> Self {
        let found: String = found.chars().take(40).collect();
        Self::custom(format_args!("must be one of {}, not {found:?}", expected.join(", ")))
    }

    fn missing_field(field: &'static str) -> Self {
        Self::custom("is missing").under(Segment::Field(field.into()))
    }
}

/// What was expected, without the names of Rust.
fn plain(expected: &dyn Expected) -> String {
    let text = expected.to_string();
    match text.as_str() {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number that is not negative".into(),
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number".into(),
        "f32" | "f64" => "a number".into(),
        "a boolean" => "true or false".into(),
        "a sequence" => "a list".into(),
        "a map" => "an object".into(),
        _ if text.starts_with("struct ") => "an object".into(),
        _ if text.starts_with("enum ") => "a word".into(),
        _ if text.starts_with("a ") && text.ends_with("Id") => {
            format!("{text} (1 to 128 characters of A-Z a-z 0-9 . _ : -)")
        }
        _ => text,
    }
}

fn kind(found: &Unexpected<'_>) -> &'static str {
    match found {
        Unexpected::Bool(_) => "true or false",
        Unexpected::Unsigned(_) | Unexpected::Signed(_) => "a whole number",
        Unexpected::Float(_) => "a fraction",
        Unexpected::Char(_) | Unexpected::Str(_) | Unexpected::Bytes(_) => "a text",
        Unexpected::Unit | Unexpected::Option => "null",
        Unexpected::Seq => "a list",
        _ => "an object",
    }
}

fn shown(found: &Unexpected<'_>) -> String {
    match found {
        Unexpected::Unsigned(number) => number.to_string(),
        Unexpected::Signed(number) => number.to_string(),
        Unexpected::Float(number) => number.to_string(),
        Unexpected::Str(text) => format!("{:?}", text.chars().take(40).collect::<String>()),
        other => kind(other).into(),
    }
}

struct Reader(Value);

impl Reader {
    fn misfit<'de, V: Visitor<'de>>(&self, visitor: &V) -> Misfit {
        let found = match &self.0 {
            Value::Null => Unexpected::Unit,
            Value::Bool(value) => Unexpected::Bool(*value),
            Value::Number(number) if number.is_f64() => Unexpected::Float(0.0),
            Value::Number(_) => Unexpected::Unsigned(0),
            Value::String(text) => Unexpected::Str(text),
            Value::Array(_) => Unexpected::Seq,
            Value::Object(_) => Unexpected::Map,
        };
        de::Error::invalid_type(found, visitor)
    }
}

impl<'de> Deserializer<'de> for Reader {
    type Error = Misfit;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        match self.0 {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(value),
            Value::Number(number) => match (number.as_u64(), number.as_i64(), number.as_f64()) {
                (Some(number), _, _) => visitor.visit_u64(number),
                (_, Some(number), _) => visitor.visit_i64(number),
                (_, _, Some(number)) => visitor.visit_f64(number),
                _ => Err(de::Error::custom("must be a number in the range of 64 bits")),
            },
            Value::String(text) => visitor.visit_string(text),
            Value::Array(values) => visitor.visit_seq(List { values: values.into_iter(), index: 0 }),
            Value::Object(fields) => visitor.visit_map(Fields { fields: fields.into_iter(), current: None }),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        if self.0.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        match self.0 {
            Value::Object(mut fields) => {
                fields.retain(|_, value| !value.is_null());
                visitor.visit_map(Fields { fields: fields.into_iter(), current: None })
            }
            _ => Err(self.misfit(&visitor)),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        match self.0 {
            Value::String(word) => visitor.visit_enum(word.into_deserializer()),
            _ => Err(self.misfit(&visitor)),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq
        tuple tuple_struct map identifier ignored_any
    }
}

struct List {
    values: vec::IntoIter<Value>,
    index: usize,
}

impl<'de> de::SeqAccess<'de> for List {
    type Error = Misfit;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Misfit> {
        let Some(value) = self.values.next() else { return Ok(None) };
        let index = self.index;
        self.index += 1;
        seed.deserialize(Reader(value)).map(Some).map_err(|misfit| misfit.under(Segment::Index(index)))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.values.len())
    }
}

struct Fields {
    fields: map::IntoIter,
    current: Option<(String, Value)>,
}

impl<'de> de::MapAccess<'de> for Fields {
    type Error = Misfit;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Misfit> {
        let Some((name, value)) = self.fields.next() else { return Ok(None) };
        let key = seed.deserialize(name.as_str().into_deserializer());
        let key = key.map_err(|misfit: Misfit| misfit.under(Segment::Field(name.clone())))?;
        self.current = Some((name, value));
        Ok(Some(key))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Misfit> {
        let (name, value) = self.current.take().expect("a value follows its key");
        seed.deserialize(Reader(value)).map_err(|misfit| misfit.under(Segment::Field(name)))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.fields.len())
    }
}
