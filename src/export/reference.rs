//! The blobs that facts refer to, so that somebody can look whether they are there.

use std::collections::HashSet;

use xxhash_rust::xxh3::xxh3_64;

use crate::fact::{
    Event, OutputRef, Part, Payload, Ref,
    id::{BlobRef, Id},
};

/// How many references are named. Each costs a read; beyond it they are counted.
const NAMED_MAX: usize = 1_000;

/// The blobs that facts refer to, in the order in which they first do.
#[derive(Debug, Default)]
pub struct References {
    /// Hashes, because there may be a million: two of the same hash would be counted as one.
    known: HashSet<u64>,
    named: Vec<BlobRef>,
}

impl References {
    /// Takes in a fact.
    pub fn take(&mut self, event: &Event) {
        use Payload as P;
        if let Some(output) = event.fact.ids.output() {
            self.see(output);
        }
        match &event.fact.payload {
            P::TurnSubmitted(submitted) => {
                self.parts(&submitted.input);
                self.others(submitted.input_ref.as_ref());
            }
            P::QueueChanged(changed) => self.parts(&changed.input),
            P::TaskCreated(created) => self.parts(&created.input),
            P::SubagentSpawned(spawned) => self.parts(&spawned.input),
            P::SubagentInput(told) => self.parts(&told.input),
            P::ChannelMessage(message) => self.parts(&message.parts),
            P::ToolStarted(started) => self.outputs(started.args_ref.as_ref()),
            P::ToolResult(result) => self.outputs(&result.output_refs),
            P::TurnCompleted(completed) => self.outputs(&completed.output_refs),
            P::TaskProgress(progress) => self.outputs(&progress.output_refs),
            P::TaskCompleted(completed) => {
                self.outputs(&completed.output_refs);
                self.others(completed.artifacts.iter().chain(&completed.evidence_refs));
            }
            P::TaskAttemptCompleted(completed) => self.outputs(&completed.output_refs),
            P::SubagentCompleted(completed) => self.outputs(&completed.output_refs),
            P::JobItemCompleted(completed) => self.outputs(&completed.output_refs),
            P::ProcessOutput(told) => self.outputs(told.output.as_ref()),
            P::ProcessCompleted(told) => self.outputs(told.output.as_ref()),
            P::ProcessFailed(told) => self.outputs(told.output.as_ref()),
            P::HookStarted(started) => self.others(started.input_ref.as_ref()),
            P::HookCompleted(completed) => self.others(completed.output_ref.as_ref()),
            P::ContextCompactionCompleted(completed) => self.others(completed.summary_ref.as_ref()),
            P::ArtifactChanged(changed) => {
                self.others(changed.artifact_ref.iter().chain(&changed.diff_ref));
            }
            P::EvidenceChanged(changed) => {
                let told = changed.pack_ref.iter().chain(&changed.replay_ref).chain(&changed.review_ref);
                self.others(told.chain(&changed.trajectory_ref));
            }
            _ => {}
        }
    }

    /// Those that are named.
    pub fn named(&self) -> &[BlobRef] {
        &self.named
    }

    /// How many are not.
    pub fn omitted(&self) -> usize {
        self.known.len() - self.named.len()
    }

    fn see(&mut self, blob: &BlobRef) {
        if self.known.insert(xxh3_64(blob.as_str().as_bytes())) && self.named.len() < NAMED_MAX {
            self.named.push(blob.clone());
        }
    }

    fn parts(&mut self, parts: &[Part]) {
        for part in parts {
            if let Part::Blob { blob, .. } = part {
                self.see(blob);
            }
        }
    }

    fn outputs<'a>(&mut self, outputs: impl IntoIterator<Item = &'a OutputRef>) {
        self.others(outputs.into_iter().map(|output| &output.reference));
    }

    /// References that anybody may own. Those that are called like a blob of Cadre's are one.
    fn others<'a>(&mut self, references: impl IntoIterator<Item = &'a Ref>) {
        for reference in references {
            let rest = reference.as_str().strip_prefix(BlobRef::PREFIX);
            if rest.is_some_and(|rest| rest.starts_with('_'))
                && let Ok(blob) = BlobRef::parse(reference.as_str())
            {
                self.see(&blob);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use cadre_cluster::{clock::Timestamp, feed::Cursor};

    use super::*;
    use crate::fact::{
        Fact,
        id::{SessionId, ThreadId, TurnId},
        payload::{TurnCompleted, TurnSubmitted},
        scope::TurnScope,
    };

    fn event(payload: impl crate::fact::Class<Scope = TurnScope>) -> Event {
        let scope = TurnScope { thread: ThreadId::with_suffix("1"), turn: TurnId::with_suffix("1") };
        let (session, stream) = (SessionId::with_suffix("1"), "session:sess_1".to_owned());
        let fact = Fact::new(Timestamp(1), scope, payload);
        Event { cursor: Cursor::START, session, stream, sequence: 1, trace: None, fact }
    }

    #[test]
    fn blobs_are_named_once_and_what_others_own_is_not() {
        let blob = |name: &str| BlobRef::parse(name).unwrap();
        let part = |name: &str| Part::Blob { blob: blob(name), media_type: "text/plain".into() };
        let mut references = References::default();
        let input = vec![part("blob_2"), Part::text("blob_9"), part("blob_1"), part("mine")];
        references.take(&event(TurnSubmitted { input, ..Default::default() }));
        let output = |name: &str| OutputRef { reference: Ref::parse(name).unwrap(), ..Default::default() };
        let output_refs = ["blob_1", "blob_3", "https://example.com/a", "artf_1"].map(output).to_vec();
        references.take(&event(TurnCompleted { output_refs, ..Default::default() }));
        assert_eq!(references.named(), ["blob_2", "blob_1", "mine", "blob_3"].map(blob));
        assert_eq!(references.omitted(), 0);
    }

    #[test]
    fn beyond_a_bound_they_are_counted() {
        let mut references = References::default();
        for number in 0..NAMED_MAX + 7 {
            references.see(&BlobRef::with_suffix(&number.to_string()));
        }
        assert_eq!((references.named().len(), references.omitted()), (NAMED_MAX, 7));
    }
}
