//! Who listens to what: a trie of subject patterns, so that finding the listeners of a subject costs its
//! length and not the number of subscriptions.

use std::{collections::HashMap, str::Split};

use super::Subject;

/// Listeners by pattern. Each has an id, which its owner keeps unique.
#[derive(Debug)]
pub(super) struct Interest<T> {
    root: Branch<T>,
}

/// What follows one prefix. The map is only looked up, never walked, so its order shows nowhere.
#[derive(Debug)]
struct Branch<T> {
    literal: HashMap<Box<str>, Branch<T>>,
    any: Option<Box<Branch<T>>>,
    here: Vec<(u64, T)>,
    beyond: Vec<(u64, T)>,
}

impl<T> Default for Interest<T> {
    fn default() -> Self {
        Self { root: Branch::default() }
    }
}

impl<T> Default for Branch<T> {
    fn default() -> Self {
        Self { literal: HashMap::new(), any: None, here: Vec::new(), beyond: Vec::new() }
    }
}

impl<T> Interest<T> {
    /// Adds a listener.
    pub(super) fn insert(&mut self, pattern: &Subject, id: u64, listener: T) {
        let mut branch = &mut self.root;
        for token in pattern.tokens() {
            branch = match token {
                ">" => {
                    branch.beyond.push((id, listener));
                    return;
                }
                "*" => branch.any.get_or_insert_default(),
                literal => branch.literal.entry(literal.into()).or_default(),
            };
        }
        branch.here.push((id, listener));
    }

    /// Removes a listener and the branches that only it needed.
    pub(super) fn remove(&mut self, pattern: &Subject, id: u64) {
        self.root.remove(pattern.as_str().split('.'), id);
    }

    /// Calls `visit` for every listener of the subject.
    pub(super) fn visit<'a>(&'a self, subject: &Subject, mut visit: impl FnMut(&'a T)) {
        self.root.visit(subject.as_str().split('.'), &mut visit);
    }
}

impl<T> Branch<T> {
    fn is_empty(&self) -> bool {
        self.literal.is_empty() && self.any.is_none() && self.here.is_empty() && self.beyond.is_empty()
    }

    fn remove(&mut self, mut pattern: Split<'_, char>, id: u64) {
        match pattern.next() {
            None => self.here.retain(|(known, _)| *known != id),
            Some(">") => self.beyond.retain(|(known, _)| *known != id),
            Some("*") => {
                if let Some(branch) = &mut self.any {
                    branch.remove(pattern, id);
                }
                self.any.take_if(|branch| branch.is_empty());
            }
            Some(literal) => {
                let Some(branch) = self.literal.get_mut(literal) else { return };
                branch.remove(pattern, id);
                if branch.is_empty() {
                    self.literal.remove(literal);
                }
            }
        }
    }

    fn visit<'a>(&'a self, mut subject: Split<'_, char>, visit: &mut impl FnMut(&'a T)) {
        let Some(token) = subject.next() else {
            return self.here.iter().for_each(|(_, listener)| visit(listener));
        };
        if let Some(branch) = self.literal.get(token) {
            branch.visit(subject.clone(), visit);
        }
        if let Some(branch) = &self.any {
            branch.visit(subject, visit);
        }
        self.beyond.iter().for_each(|(_, listener)| visit(listener));
    }
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng, rngs::SmallRng};

    use super::*;

    fn random_subject(rng: &mut SmallRng, tokens: &[&str]) -> Subject {
        let length = rng.random_range(1..=4);
        Subject::from_tokens((0..length).map(|_| tokens[rng.random_range(0..tokens.len())]))
    }

    #[test]
    fn finds_exactly_the_listeners_whose_pattern_matches() {
        let mut rng = SmallRng::seed_from_u64(1);
        for _ in 0..200 {
            let mut interest = Interest::default();
            let mut patterns = Vec::new();
            for id in 0..30 {
                let mut pattern = random_subject(&mut rng, &["a", "b", "*"]);
                if rng.random_bool(0.3) {
                    pattern = Subject::from_tokens(pattern.tokens().chain([">"]));
                }
                interest.insert(&pattern, id, id);
                patterns.push((id, pattern));
            }
            for _ in 0..10 {
                let (id, pattern) = patterns.swap_remove(rng.random_range(0..patterns.len()));
                interest.remove(&pattern, id);
            }
            for _ in 0..50 {
                let subject = random_subject(&mut rng, &["a", "b", "c"]);
                let mut found = Vec::new();
                interest.visit(&subject, |id| found.push(*id));
                found.sort_unstable();
                let mut expected: Vec<u64> = patterns
                    .iter()
                    .filter(|(_, pattern)| pattern.matches(&subject))
                    .map(|(id, _)| *id)
                    .collect();
                expected.sort_unstable();
                assert_eq!(found, expected, "listeners of {subject} among {patterns:?}");
            }
        }
    }

    #[test]
    fn removing_the_last_listener_leaves_no_branches() {
        let mut interest = Interest::default();
        let patterns = ["a.b.c", "a.*.c", "a.b.>", "*.*", ">"].map(Subject::from_wire);
        for (id, pattern) in (0..).zip(&patterns) {
            interest.insert(pattern, id, ());
        }
        for (id, pattern) in (0..).zip(&patterns) {
            interest.remove(pattern, id);
        }
        assert!(interest.root.is_empty());
    }
}
