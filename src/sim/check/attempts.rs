//! P11: the attempts of tasks and job items are numbered without a gap, each ends once, before the next begins, and the
//! whole ends after the last of them.

use std::collections::BTreeMap;

use super::{super::remains::Session, Check, feed::ends, shown, text};

#[derive(Default)]
struct Attempts {
    last: u64,
    open: bool,
    /// Whether another is to follow.
    waits: bool,
}

impl Check {
    pub(super) fn attempts(&mut self, session: &Session) {
        let mut all: BTreeMap<String, Attempts> = BTreeMap::new();
        for event in &session.served {
            let class = text(event, "type");
            let number = event["payload"]["attempt"].as_u64().unwrap_or_default();
            let whose = if class.starts_with("job.item.") {
                format!("{} {}", text(event, "jobId"), text(event, "jobItemId"))
            } else {
                text(event, "taskId").to_owned()
            };
            match class {
                "task.attempt.started" | "job.item.started" => {
                    let attempts = all.entry(whose).or_default();
                    let holds = !attempts.open && number == attempts.last + 1;
                    let (last, open) = (attempts.last, attempts.open);
                    (attempts.last, attempts.open) = (number, true);
                    self.expect(11, holds, || {
                        format!("begins after attempt {last}, which is over: {}: {}", !open, shown(event))
                    });
                }
                "task.attempt.completed"
                | "task.attempt.failed"
                | "job.item.completed"
                | "job.item.failed" => {
                    let attempts = all.entry(whose).or_default();
                    // An item that there is nothing to begin with fails without an attempt, and one that waits for the
                    // next may be cancelled before that begins.
                    let goes_on =
                        attempts.open || attempts.waits && event["payload"]["status"] == "cancelled";
                    let holds = goes_on && number == attempts.last || number == 0;
                    attempts.open = false;
                    attempts.waits = event["payload"]["willRetry"] == true;
                    self.expect(11, holds, || format!("no such attempt goes on: {}", shown(event)));
                }
                _ if ends("task", class) => {
                    let open = all.get(&whose).is_some_and(|attempts| attempts.open);
                    self.expect(11, !open, || format!("its attempt goes on: {}", shown(event)));
                }
                _ if ends("job", class) => {
                    let job = format!("{} ", text(event, "jobId"));
                    let open = all.iter().find(|(whose, attempts)| whose.starts_with(&job) && attempts.open);
                    let open = open.map(|(whose, _)| whose.clone());
                    self.expect(11, open.is_none(), || format!("{open:?} goes on: {}", shown(event)));
                }
                _ => {}
            }
        }
    }
}
