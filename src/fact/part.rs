//! What goes in and what comes out: parts of an input, and references to what is kept elsewhere.

use std::{borrow::Cow, fmt};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};

use super::id::{ArtifactId, BlobRef, EvidenceId};

/// One part of an input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase", rename_all_fields = "camelCase")]
pub enum Part {
    /// Words.
    Text {
        /// The words.
        text: String,
    },
    /// Something stored.
    Blob {
        /// Where.
        #[serde(rename = "ref")]
        blob: BlobRef,
        /// What it is.
        media_type: String,
    },
}

impl Part {
    /// Words.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }
}

/// A reference that its owner understands: a blob, `evidence://…`, a path. Never interpreted here.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Ref(Box<str>);

/// Why a text is not a reference.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a reference is 1 to {max} bytes without control characters, this has {len}", max = Ref::LEN_MAX)]
pub struct InvalidRef {
    /// How long it is.
    pub len: usize,
}

impl Ref {
    const LEN_MAX: usize = 2048;

    /// The reference that a text is.
    pub fn parse(text: &str) -> Result<Self, InvalidRef> {
        let valid = (1..=Self::LEN_MAX).contains(&text.len()) && !text.chars().any(char::is_control);
        if valid { Ok(Self(text.into())) } else { Err(InvalidRef { len: text.len() }) }
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for Ref {
    fn default() -> Self {
        Self("unknown".into())
    }
}

impl fmt::Display for Ref {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

macro_rules! refs_from {
    ($($id:ty),+) => {$(
        impl From<$id> for Ref {
            fn from(id: $id) -> Self {
                Self(id.as_str().into())
            }
        }
    )+};
}

refs_from!(BlobRef, ArtifactId, EvidenceId);

impl<'de> Deserialize<'de> for Ref {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&Cow::<str>::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

impl JsonSchema for Ref {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Ref".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "minLength": 1, "maxLength": Self::LEN_MAX })
    }
}

/// Something produced that is kept elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OutputRef {
    /// Where.
    #[serde(rename = "ref")]
    pub reference: Ref,
    /// What it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// How large.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// What people call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}

impl From<Ref> for OutputRef {
    fn from(reference: Ref) -> Self {
        Self { reference, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parts_have_the_shapes_of_the_surface() {
        let parts = [
            Part::text("hello"),
            Part::Blob { blob: BlobRef::parse("blob_1").unwrap(), media_type: "image/png".into() },
        ];
        let wire = json!([
            { "type": "text", "text": "hello" },
            { "type": "blob", "ref": "blob_1", "mediaType": "image/png" },
        ]);
        assert_eq!(serde_json::to_value(&parts).unwrap(), wire);
        assert_eq!(serde_json::from_value::<[Part; 2]>(wire).unwrap(), parts);
        assert!(serde_json::from_value::<Part>(json!({ "type": "sound" })).is_err());
    }

    #[test]
    fn a_reference_is_bounded_and_has_no_control_characters() {
        assert!(Ref::parse("evidence://sess_1/turn_1").is_ok());
        for text in ["", "a\nb", &"x".repeat(2049)] {
            assert_eq!(Ref::parse(text), Err(InvalidRef { len: text.len() }));
        }
    }
}
