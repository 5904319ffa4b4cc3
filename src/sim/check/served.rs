//! P5: what is served is what the feed folds to. P7: what is counted is what is listed.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{super::remains::Session, Check};

impl Check {
    pub(super) fn served(&mut self, session: &Session) {
        for difference in &session.differences {
            self.broken(5, format!("{} of {}: {difference}", session.id, session.tenant));
        }
        let counts = &session.snapshot["subagentJobSummary"];
        let jobs: Vec<Value> = session.jobs.iter().map(|(job, _)| job.clone()).collect();
        let lists = [
            ("tasks", &session.snapshot["taskSummary"], &session.tasks),
            ("subagents", &counts["subagents"], &session.subagents),
            ("jobs", &counts["jobs"], &jobs),
        ];
        for (what, counted, listed) in lists {
            let mut by_status: BTreeMap<&str, u64> = BTreeMap::new();
            for one in listed {
                *by_status.entry(one["status"].as_str().unwrap_or_default()).or_default() += 1;
            }
            let found = serde_json::to_value(&by_status).expect("counts are JSON");
            self.expect(7, counted["byStatus"] == found, || {
                format!("{what} of {} are counted {} and listed {found}", session.id, counted["byStatus"])
            });
        }
        for (job, items) in &session.jobs {
            self.items(job, items);
        }
    }

    fn items(&mut self, job: &Value, items: &[Value]) {
        let of = |wanted: &[&str]| {
            let is = |item: &&Value| wanted.contains(&item["status"].as_str().unwrap_or_default());
            items.iter().filter(is).count() as u64
        };
        let counts = &job["counts"];
        self.expect(7, counts["total"] == items.len() as u64, || format!("{job} has {} items", items.len()));
        // Those that never began are cancelled with the job, and no fact names them.
        let found = (of(&["completed"]), of(&["failed", "timed_out", "lost"]));
        let told = (counts["completed"].as_u64(), counts["failed"].as_u64());
        let is_of_one_run = job["schedule"].is_null();
        self.expect(7, !is_of_one_run || told == (Some(found.0), Some(found.1)), || {
            format!("{job} has {} completed and {} failed items", found.0, found.1)
        });
    }
}
