//! Labels of metrics that come from outside: bounded, because every value is a series that is kept for ever (P9).

use std::{
    collections::HashSet,
    sync::{Arc, PoisonError, RwLock},
};

/// More than a dashboard shows, and little beside what a process needs anyway.
const TENANTS_MAX: usize = 1_000;
/// What stands for all tenants beyond that.
const OTHER: &str = "other";

static TENANTS: RwLock<Option<Names>> = RwLock::new(None);

#[derive(Default)]
struct Names(HashSet<Arc<str>>);

impl Names {
    fn known(&self, name: &str, max: usize) -> Option<Arc<str>> {
        self.0.get(name).cloned().or_else(|| (self.0.len() >= max).then(|| OTHER.into()))
    }

    fn label(&mut self, name: &str, max: usize) -> Arc<str> {
        self.known(name, max).unwrap_or_else(|| {
            let name: Arc<str> = name.into();
            self.0.insert(name.clone());
            name
        })
    }
}

/// The tenant as a label. The first thousand of a process have one of their own.
pub(crate) fn of_tenant(tenant: &str) -> Arc<str> {
    let names = TENANTS.read().unwrap_or_else(PoisonError::into_inner);
    if let Some(label) = names.as_ref().and_then(|names| names.known(tenant, TENANTS_MAX)) {
        return label;
    }
    drop(names);
    let mut names = TENANTS.write().unwrap_or_else(PoisonError::into_inner);
    names.get_or_insert_default().label(tenant, TENANTS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p9_only_so_many_tenants_have_a_label_of_their_own() {
        let mut names = Names::default();
        let labels: HashSet<_> = (0..100).map(|n| names.label(&n.to_string(), 10)).collect();
        assert_eq!(labels.len(), 11);
        assert_eq!((&*names.label("3", 10), &*names.label("99", 10)), ("3", OTHER));
    }
}
