//! Artifacts, which others own.

use super::count;
use crate::{
    fact::{
        Fact, Ref,
        id::{ArtifactId, TurnId},
        payload::ArtifactChanged,
        time::Time,
    },
    view::{
        bound::{self, NAME_MAX, TEXT_MAX, WORD_MAX, cut_some, push_last},
        declare::views,
    },
};

views! {
    /// One artifact.
    ArtifactEntry {
        /// Which.
        artifact_id: ArtifactId,
        /// When something was last heard of it.
        at: Time,
        ..
        /// What happened.
        change: Option<String>,
        /// How it stands.
        status: Option<String>,
        /// Where it is.
        artifact_ref: Option<Ref>,
        /// What people call it.
        title: Option<String>,
        /// Which version.
        version: Option<String>,
        /// Its beginning.
        preview: Option<String>,
        /// What is different from the version before.
        diff_ref: Option<Ref>,
        /// How many faults validation found.
        issues: Option<u32>,
        /// The turn that changed it.
        turn_id: Option<TurnId>,
    }

    /// The artifacts that changed last.
    #[derive(Default)]
    Artifacts {
        ..
        /// How often one changed.
        changes: u32,
        /// The last ones.
        recent: Vec<ArtifactEntry>,
    }
}

impl ArtifactEntry {
    /// What a fact says of an artifact.
    pub(in crate::view) fn new(fact: &Fact, changed: &ArtifactChanged) -> Option<Self> {
        Some(Self {
            artifact_id: fact.ids.artifact()?.clone(),
            at: bound::time(fact.at),
            change: cut_some(changed.change.as_deref(), WORD_MAX),
            status: cut_some(changed.status.as_deref(), WORD_MAX),
            artifact_ref: changed.artifact_ref.as_ref().and_then(bound::reference),
            title: cut_some(changed.title.as_deref(), NAME_MAX),
            version: cut_some(changed.version.as_deref(), WORD_MAX),
            preview: cut_some(changed.preview.as_deref(), TEXT_MAX / 2),
            diff_ref: changed.diff_ref.as_ref().and_then(bound::reference),
            issues: changed.issues,
            turn_id: fact.ids.turn().cloned(),
        })
    }
}

impl Artifacts {
    /// How many are told of.
    pub const RECENT_MAX: usize = 3;

    pub(in crate::view) fn changed(&mut self, fact: &Fact, changed: &ArtifactChanged) {
        count(&mut self.changes);
        if let Some(entry) = ArtifactEntry::new(fact, changed) {
            self.recent.retain(|kept| kept.artifact_id != entry.artifact_id);
            push_last(&mut self.recent, entry, Self::RECENT_MAX);
        }
    }
}
