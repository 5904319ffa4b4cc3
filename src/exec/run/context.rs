//! What the model of a run knows besides its instructions: turns before it, and what its input refers to.
//!
//! `context.resolved` says it, once per run. A run that has neither, as most subagents and first turns, has nothing to say,
//! and says nothing.

use serde::{Deserialize, Serialize};

use super::{Run, Source};
use crate::{
    exec::Draft,
    fact::{
        Part, Ref,
        id::ThreadId,
        payload::{ContextRef, ContextResolved},
    },
};

/// Turns of a thread that are over, by their numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    /// Of which thread.
    pub thread: ThreadId,
    /// Up to which turn a summary stands for them.
    pub summed: Option<u64>,
    /// Those that belong to the context as they are, from one to another, in their order.
    pub spans: Vec<(u64, u64)>,
}

impl History {
    /// How many turns of a thread a run looks back on.
    pub const TURNS_MAX: u64 = 32;
}

/// How many references of an input are told of.
const SOURCES_MAX: usize = 32;

impl Run {
    /// Says what the model will know, if that is more than what it is asked.
    pub(super) fn tell_context(&self, draft: &mut Draft<'_>) {
        if let Some(resolved) = resolve(self.history.as_ref(), &self.source) {
            self.tell(draft, resolved);
        }
    }
}

/// What is in the context of a run; `None` when there is nothing but what it is asked.
fn resolve(history: Option<&History>, source: &Source) -> Option<ContextResolved> {
    let parts: &[Part] = match source {
        Source::Inline(parts) => parts,
        Source::Stored(_) => &[],
    };
    let blobs = || parts.iter().filter_map(blob);
    if history.is_none() && blobs().next().is_none() {
        return None;
    }
    let mut resolved = ContextResolved::default();
    if let Some(History { thread, summed, spans }) = history {
        let summed = summed.unwrap_or(0);
        if summed > 0 {
            resolved.selected.push(named(summary(thread, summed), "summary", None));
            let why = "a summary stands for them".to_owned();
            resolved.omitted.push(named(turns(thread, 1, summed), "history", Some(why)));
        }
        let shown = spans.iter().map(|(from, to)| named(turns(thread, *from, *to), "history", None));
        resolved.selected.extend(shown);
        let looked_back: u64 = spans.iter().map(|(from, to)| to + 1 - from).sum();
        if let Some((first, _)) = spans.first()
            && *first > summed + 1
            && looked_back >= History::TURNS_MAX
        {
            let why = format!("only the last {} turns", History::TURNS_MAX);
            resolved.omitted.push(named(turns(thread, summed + 1, first - 1), "history", Some(why)));
        }
    }
    if let Source::Stored(blob) = source {
        resolved.selected.push(named(blob.clone().into(), "input", None));
    }
    let sources = blobs().take(SOURCES_MAX).map(|blob| named(blob, "source", None));
    resolved.selected.extend(sources);
    let more = blobs().count().saturating_sub(SOURCES_MAX);
    if more > 0 {
        resolved.warnings.push(format!("{more} more sources of the input are not named here"));
    }
    Some(resolved)
}

fn blob(part: &Part) -> Option<Ref> {
    match part {
        Part::Blob { blob, .. } => Some(blob.clone().into()),
        Part::Text { .. } => None,
    }
}

/// Turns of a thread as a reference.
fn turns(thread: &ThreadId, first: u64, last: u64) -> Ref {
    Ref::parse(&format!("thread://{thread}/turns/{first}-{last}")).unwrap_or_default()
}

/// What stands for the turns of a thread up to one, as a reference.
fn summary(thread: &ThreadId, upto: u64) -> Ref {
    Ref::parse(&format!("thread://{thread}/summaries/{upto}")).unwrap_or_default()
}

fn named(reference: Ref, kind: &str, reason: Option<String>) -> ContextRef {
    ContextRef { reference, kind: Some(kind.to_owned()), reason, ..Default::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::id::{BlobRef, Id};

    fn refs(of: &[ContextRef]) -> Vec<(&str, &str)> {
        of.iter().map(|one| (one.reference.as_str(), one.kind.as_deref().unwrap_or(""))).collect()
    }

    fn thread() -> ThreadId {
        ThreadId::with_suffix("a")
    }

    fn history(summed: Option<u64>, spans: &[(u64, u64)]) -> History {
        History { thread: thread(), summed, spans: spans.to_vec() }
    }

    fn source(blobs: usize) -> Source {
        let blob = |number: usize| Part::Blob {
            blob: BlobRef::with_suffix(&number.to_string()),
            media_type: "text/plain".into(),
        };
        Source::Inline(std::iter::once(Part::text("look")).chain((0..blobs).map(blob)).collect())
    }

    #[test]
    fn a_run_that_is_only_asked_something_has_no_context_to_tell_of() {
        assert_eq!(resolve(None, &source(0)), None);
        assert_eq!(resolve(None, &Source::Stored(BlobRef::with_suffix("large"))), None);
    }

    #[test]
    fn turns_before_it_are_named_by_number_and_those_too_far_back_are_left_out() {
        let few = history(None, &[(1, 3)]);
        let resolved = resolve(Some(&few), &source(0)).unwrap();
        assert_eq!(refs(&resolved.selected), [("thread://thrd_a/turns/1-3", "history")]);
        assert!(resolved.omitted.is_empty());
        let many = history(None, &[(9, 40)]);
        let resolved = resolve(Some(&many), &Source::Stored(BlobRef::with_suffix("in"))).unwrap();
        let selected = [("thread://thrd_a/turns/9-40", "history"), ("blob_in", "input")];
        assert_eq!(refs(&resolved.selected), selected);
        assert_eq!(refs(&resolved.omitted), [("thread://thrd_a/turns/1-8", "history")]);
    }

    #[test]
    fn what_was_taken_back_is_not_named_and_a_summary_stands_for_what_it_sums_up() {
        let gaps = resolve(Some(&history(Some(2), &[(3, 3), (6, 7)])), &source(0)).unwrap();
        let selected = [
            ("thread://thrd_a/summaries/2", "summary"),
            ("thread://thrd_a/turns/3-3", "history"),
            ("thread://thrd_a/turns/6-7", "history"),
        ];
        assert_eq!(refs(&gaps.selected), selected);
        assert_eq!(refs(&gaps.omitted), [("thread://thrd_a/turns/1-2", "history")]);
        let all = resolve(Some(&history(Some(9), &[])), &source(0)).unwrap();
        assert_eq!(refs(&all.selected), [("thread://thrd_a/summaries/9", "summary")]);
    }

    #[test]
    fn p9_sources_are_named_up_to_a_bound() {
        let resolved = resolve(None, &source(2)).unwrap();
        assert_eq!(refs(&resolved.selected), [("blob_0", "source"), ("blob_1", "source")]);
        assert!(resolved.warnings.is_empty());
        let resolved = resolve(None, &source(100)).unwrap();
        assert_eq!(resolved.selected.len(), SOURCES_MAX);
        assert_eq!(resolved.warnings, ["68 more sources of the input are not named here"]);
    }
}
