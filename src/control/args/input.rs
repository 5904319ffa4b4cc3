//! Parts of an input, read so that an error names the field of the part.

use serde::{Deserialize, Deserializer, de::Error};

use crate::fact::{Part, id::BlobRef};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Loose {
    #[serde(rename = "type")]
    kind: Kind,
    text: Option<String>,
    #[serde(rename = "ref")]
    blob: Option<BlobRef>,
    media_type: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Text,
    Blob,
}

struct Strict(Part);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Loose { kind, text, blob, media_type } = Loose::deserialize(deserializer)?;
        let part = match kind {
            Kind::Text => Part::Text { text: text.ok_or_else(|| D::Error::missing_field("text"))? },
            Kind::Blob => Part::Blob {
                blob: blob.ok_or_else(|| D::Error::missing_field("ref"))?,
                media_type: media_type.ok_or_else(|| D::Error::missing_field("mediaType"))?,
            },
        };
        Ok(Self(part))
    }
}

/// Reads a list of parts. Stored ones are as [`Part`] stores itself.
pub(super) fn parts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Part>, D::Error> {
    if !deserializer.is_human_readable() {
        return Vec::deserialize(deserializer);
    }
    Ok(Vec::<Strict>::deserialize(deserializer)?.into_iter().map(|Strict(part)| part).collect())
}
