//! Cleared ranges: what they hide in the layers below, and when they were cleared last.
//!
//! Kept as disjoint intervals. A reader only has to know the first version at which a stretch was cleared
//! (from then on the layers below are hidden for good), a conflict check only the last.

use std::{collections::BTreeMap, ops::Bound};

use bytes::Bytes;

use crate::store::KeyRange;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Mask {
    end: Bytes,
    first: u64,
    last: u64,
}

/// The cleared ranges of a generation.
#[derive(Debug, Default)]
pub(super) struct Masks {
    by_begin: BTreeMap<Bytes, Mask>,
}

/// Takes one clear back.
#[derive(Debug)]
pub(in super::super) struct Undo {
    inserted: Vec<Bytes>,
    removed: Vec<(Bytes, Mask)>,
}

impl Masks {
    pub(super) fn len(&self) -> usize {
        self.by_begin.len()
    }

    /// Clears a range. Readers below `floor` are gone, so differences below it are forgotten; that keeps a
    /// range that is trimmed again and again from falling to pieces.
    pub(super) fn insert(&mut self, range: &KeyRange, version: u64, floor: u64) -> Undo {
        self.join_before(&range.begin, floor);
        let removed = self.take_overlapping(range);
        let mut pieces: Vec<(Bytes, Mask)> = Vec::with_capacity(removed.len() + 2);
        let mut add = |begin: &Bytes, end: &Bytes, first: u64, last: u64| {
            if begin >= end {
                return;
            }
            match pieces.last_mut() {
                Some((_, piece)) if piece.end == *begin && piece.first == first && piece.last == last => {
                    piece.end = end.clone();
                }
                _ => pieces.push((begin.clone(), Mask { end: end.clone(), first, last })),
            }
        };
        let mut at = range.begin.clone();
        for (begin, mask) in &removed {
            add(begin, (&range.begin).min(&mask.end), mask.first, mask.last);
            add(&at, begin, version, version);
            let overlap_end = (&mask.end).min(&range.end);
            let first = if mask.first <= floor { 0 } else { mask.first };
            add((&at).max(begin), overlap_end, first, version);
            add(&range.end, &mask.end, mask.first, mask.last);
            at = overlap_end.clone();
        }
        add(&at, &range.end, version, version);
        let inserted = pieces.iter().map(|(begin, _)| begin.clone()).collect();
        self.by_begin.extend(pieces);
        Undo { inserted, removed }
    }

    pub(super) fn undo(&mut self, undo: Undo) {
        for begin in &undo.inserted {
            self.by_begin.remove(begin);
        }
        self.by_begin.extend(undo.removed);
    }

    /// The stretch around `key` in which the layers below are hidden at `version`.
    pub(super) fn hides(&self, key: &[u8], version: u64) -> Option<KeyRange> {
        let (begin, mask) = self.by_begin.range::<[u8], _>(up_to(key)).next_back()?;
        (*key < mask.end[..] && mask.first <= version)
            .then(|| KeyRange { begin: begin.clone(), end: mask.end.clone() })
    }

    /// Whether anything in the range was cleared after `version`.
    pub(super) fn cleared_after(&self, range: &KeyRange, version: u64) -> bool {
        let before = self.by_begin.range::<[u8], _>(up_to(&range.begin)).next_back();
        if before.is_some_and(|(_, mask)| mask.end > range.begin && mask.last > version) {
            return true;
        }
        let inside = (Bound::Excluded(&range.begin[..]), Bound::Excluded(&range.end[..]));
        range.begin < range.end && self.by_begin.range::<[u8], _>(inside).any(|(_, mask)| mask.last > version)
    }

    /// The ranges, in order.
    pub(super) fn ranges(&self) -> impl Iterator<Item = (&Bytes, &Bytes)> {
        self.by_begin.iter().map(|(begin, mask)| (begin, &mask.end))
    }

    /// Joins the two intervals before `key` when they touch and no reader can tell them apart.
    fn join_before(&mut self, key: &[u8], floor: u64) {
        let mut before = self.by_begin.range::<[u8], _>((Bound::Unbounded, Bound::Excluded(key))).rev();
        let (Some((right, second)), Some((left, first))) = (before.next(), before.next()) else { return };
        let alike = |mask: &Mask| mask.first <= floor && mask.last <= floor;
        if first.end == *right && alike(first) && alike(second) {
            let (left, right) = (left.clone(), right.clone());
            let joined = Mask { end: second.end.clone(), first: 0, last: floor };
            self.by_begin.remove(&right);
            self.by_begin.insert(left, joined);
        }
    }

    fn take_overlapping(&mut self, range: &KeyRange) -> Vec<(Bytes, Mask)> {
        let before = self.by_begin.range::<[u8], _>(up_to(&range.begin)).next_back();
        let mut begins: Vec<Bytes> = before
            .filter(|(_, mask)| mask.end > range.begin)
            .map(|(begin, _)| begin.clone())
            .into_iter()
            .collect();
        let inside = (Bound::Excluded(&range.begin[..]), Bound::Excluded(&range.end[..]));
        begins.extend(self.by_begin.range::<[u8], _>(inside).map(|(begin, _)| begin.clone()));
        begins
            .into_iter()
            .filter_map(|begin| {
                let mask = self.by_begin.remove(&begin)?;
                Some((begin, mask))
            })
            .collect()
    }
}

fn up_to(key: &[u8]) -> (Bound<&[u8]>, Bound<&[u8]>) {
    (Bound::Unbounded, Bound::Included(key))
}
