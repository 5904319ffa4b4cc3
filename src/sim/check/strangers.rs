//! P8: what a stranger did is in the stranger's own tenant, and nothing of it anywhere else. What a stranger was
//! answered is checked right then.

use super::{
    super::{
        remains::Remains,
        run::TENANT,
        stranger::{OWN_SESSION, RIVAL},
    },
    Check, said, shown, text,
};

impl Check {
    pub(super) fn strangers(&mut self, remains: &Remains) {
        for session in &remains.sessions {
            let other = if session.tenant == TENANT { RIVAL } else { TENANT };
            for event in &session.served {
                let by = [said(event, "by"), said(event, "source")];
                self.expect(8, !by.contains(&other), || {
                    format!("{other} is heard in {} of {}: {}", session.id, session.tenant, shown(event))
                });
                let words = event["payload"]["metadata"]["words"].as_str().unwrap_or_default();
                let theirs = words.starts_with(RIVAL);
                let right =
                    !text(event, "type").starts_with("turn.submitted") || theirs == (session.tenant == RIVAL);
                self.expect(8, right, || format!("in the wrong tenant: {}", shown(event)));
            }
            let allowed = session.tenant == TENANT || session.id == OWN_SESSION;
            self.expect(8, allowed, || format!("{RIVAL} has the session {}", session.id));
        }
    }
}
