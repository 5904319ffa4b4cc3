//! The layers that one version is read from: the active generation, the one that is being checkpointed, and
//! the engine below.

use std::sync::Arc;

use bytes::Bytes;

use super::{
    base::{BaseError, Pairs, Snapshot},
    overlay::{Generation, Lookup},
};
use crate::store::{KeyRange, KeyValue, Page, RangeRead, key_after};

/// A consistent set of layers. Every version that is visible while it is current can be read from it.
#[derive(Debug, Clone)]
pub(super) struct View {
    pub(super) active: Arc<Generation>,
    pub(super) frozen: Option<Arc<Generation>>,
    pub(super) base: Arc<Snapshot>,
}

impl View {
    pub(super) fn get(&self, key: &[u8], version: u64) -> Result<Option<Bytes>, BaseError> {
        for generation in self.generations() {
            match generation.get(key, version) {
                Lookup::Value(value) => return Ok(Some(value)),
                Lookup::Gone => return Ok(None),
                Lookup::Below => {}
            }
        }
        self.base.get(key)
    }

    pub(super) fn range(&self, read: &RangeRead, version: u64) -> Result<Page, BaseError> {
        let mut page = Page::default();
        if read.range.is_empty() {
            return Ok(page);
        }
        let mut merge = Merge::new(self, read, version);
        let (limit, mut bytes) = (read.limit.min(RangeRead::PAIRS_MAX), 0);
        while let Some((key, value)) = merge.next()? {
            bytes += key.len() + value.len();
            page.pairs.push(KeyValue { key, value });
            if page.pairs.len() >= limit || bytes >= read.target_bytes {
                page.more = true;
                break;
            }
        }
        Ok(page)
    }

    /// From the top down.
    fn generations(&self) -> impl Iterator<Item = &Arc<Generation>> {
        std::iter::once(&self.active).chain(&self.frozen)
    }
}

/// The first pair of a layer that was not used yet.
type Head = Option<(Bytes, Option<Bytes>)>;

/// Merges the layers of a view, in key order or against it.
struct Merge<'a> {
    version: u64,
    reverse: bool,
    /// From the top down; the engine is below all of them.
    upper: Vec<Upper<'a>>,
    base: Lower<'a>,
}

struct Upper<'a> {
    generation: &'a Generation,
    entries: std::collections::VecDeque<(Bytes, Option<Bytes>)>,
    rest: Option<KeyRange>,
    chunk_len: usize,
}

struct Lower<'a> {
    snapshot: &'a Snapshot,
    pairs: Option<Pairs>,
    rest: KeyRange,
    head: Head,
}

/// Chunks of entries grow: most reads want few, a scan should not take the lock for each of them.
const CHUNK_LEN_FIRST: usize = 16;
const CHUNK_LEN_MAX: usize = 256;
/// After so many hidden pairs in a row it is cheaper to seek past what hides them.
const HIDDEN_PAIRS_MAX: usize = 8;

impl<'a> Merge<'a> {
    fn new(view: &'a View, read: &RangeRead, version: u64) -> Self {
        let first = read.limit.clamp(1, CHUNK_LEN_FIRST);
        let upper = view.generations().map(|generation| Upper {
            generation,
            entries: Default::default(),
            rest: Some(read.range.clone()),
            chunk_len: first,
        });
        let base = Lower { snapshot: &view.base, pairs: None, rest: read.range.clone(), head: None };
        Self { version, reverse: read.reverse, upper: upper.collect(), base }
    }

    fn next(&mut self) -> Result<Option<(Bytes, Bytes)>, BaseError> {
        loop {
            self.fill()?;
            let Some((depth, key)) = self.first() else { return Ok(None) };
            let mut value = None;
            for (layer, upper) in self.upper.iter_mut().enumerate() {
                if upper.entries.front().is_some_and(|(head, _)| *head == key) {
                    let head = upper.entries.pop_front().and_then(|(_, value)| value);
                    if layer == depth {
                        value = head;
                    }
                }
            }
            if self.base.head.as_ref().is_some_and(|(head, _)| *head == key) {
                let head = self.base.head.take().and_then(|(_, value)| value);
                if depth == self.upper.len() {
                    value = head;
                }
            }
            let hidden = self.upper[..depth].iter().any(|u| u.generation.hides(&key, self.version).is_some());
            if let (Some(value), false) = (value, hidden) {
                return Ok(Some((key, value)));
            }
        }
    }

    /// The next key of all layers, and the topmost layer that has it.
    fn first(&self) -> Option<(usize, Bytes)> {
        let uppers = self.upper.iter().map(|upper| upper.entries.front());
        let heads = uppers.chain(std::iter::once(self.base.head.as_ref())).enumerate();
        let keys = heads.filter_map(|(depth, head)| Some((depth, &head?.0)));
        let (depth, key) = keys.reduce(|best, next| {
            let sooner = if self.reverse { next.1 > best.1 } else { next.1 < best.1 };
            if sooner { next } else { best }
        })?;
        Some((depth, key.clone()))
    }

    fn fill(&mut self) -> Result<(), BaseError> {
        for upper in &mut self.upper {
            while upper.entries.is_empty()
                && let Some(range) = upper.rest.take()
            {
                let chunk = upper.generation.chunk(&range, self.reverse, self.version, upper.chunk_len);
                upper.chunk_len = (2 * upper.chunk_len).min(CHUNK_LEN_MAX);
                (upper.entries, upper.rest) = (chunk.entries, chunk.rest);
            }
        }
        if self.base.head.is_none() {
            self.base.head = self.base_next()?.map(|(key, value)| (key, Some(value)));
        }
        Ok(())
    }

    /// The next pair of the engine that no generation hides by a cleared range.
    fn base_next(&mut self) -> Result<Option<(Bytes, Bytes)>, BaseError> {
        let (reverse, base) = (self.reverse, &mut self.base);
        let mut hidden_pairs = 0;
        loop {
            let pairs = match &mut base.pairs {
                Some(pairs) => pairs,
                None if base.rest.is_empty() => return Ok(None),
                none => none.insert(base.snapshot.range(&base.rest)?),
            };
            let Some((key, value)) = pairs.next(reverse)? else {
                base.rest.begin = base.rest.end.clone();
                base.pairs = None;
                return Ok(None);
            };
            let hidden = self.upper.iter().find_map(|upper| upper.generation.hides(&key, self.version));
            let Some(hidden) = hidden else { return Ok(Some((key, value))) };
            hidden_pairs += 1;
            if hidden_pairs % HIDDEN_PAIRS_MAX == 0 {
                if reverse {
                    base.rest.end = hidden.begin;
                } else {
                    base.rest.begin = hidden.end.max(key_after(&key));
                }
                base.pairs = None;
            }
        }
    }
}
