//! What is stored of a job's items beside the job: what each is given, and how each stands.

use bytes::Bytes;
use cadre_cluster::codec::DecodeError;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    entity::Named,
    exec::{Run, Source},
    fact::{
        Failure, Part,
        id::{BlobRef, ItemId},
    },
    view::ItemView,
};

/// One item, under [`crate::entity::records::item`]: written before its job is created, and never changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ItemRecord {
    /// Its id within the job.
    pub item_id: ItemId,
    /// What it works on, at most [`Source::INLINE_BYTES_MAX`].
    #[serde(default)]
    pub input: Vec<Part>,
    /// Where that is when it is larger: a blob of what [`super::Spec::input`] makes of it, as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob: Option<BlobRef>,
}

impl ItemRecord {
    /// As it is stored: by field names.
    pub fn encode(&self) -> Bytes {
        by_name(self)
    }

    /// From what is stored.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        read("job item", bytes)
    }
}

/// How an item stands, as it is stored under [`crate::entity::records::item_view`]. Items that never began have none.
pub fn encode_view(view: &ItemView) -> Bytes {
    by_name(view)
}

/// From what is stored.
pub fn decode_view(bytes: &[u8]) -> Result<ItemView, DecodeError> {
    read("item view", bytes)
}

fn by_name<T: Serialize>(value: &T) -> Bytes {
    rmp_serde::to_vec_named(value).expect("records serialize into memory without fail").into()
}

fn read<T: DeserializeOwned>(name: &'static str, bytes: &[u8]) -> Result<T, DecodeError> {
    rmp_serde::from_slice(bytes).map_err(|error| DecodeError::Malformed { name, reason: error.to_string() })
}

/// An item that was fetched in order to be started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Loaded {
    /// Which.
    pub index: u32,
    /// Its id.
    pub item: ItemId,
    /// What it is given, or why that cannot be found.
    pub input: Result<Source, Failure>,
    /// How it stands, if it ever began.
    pub view: Named<Option<Box<ItemView>>>,
    /// What its last attempt left, when it is tried again.
    pub former: Option<Box<Run>>,
}

impl Loaded {
    /// About how much it takes in the state of the job.
    pub fn size(&self) -> usize {
        let input = self.input.as_ref().map_or(256, Source::size);
        input
            + self.item.as_str().len()
            + rmp_serde::to_vec_named(&(&self.view.0, &self.former)).map_or(0, |it| it.len())
            + 32
    }
}
