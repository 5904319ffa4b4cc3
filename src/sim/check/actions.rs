//! P10: only a first decision that somebody made lets a question pass; silence never does.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    super::{remains::Session, script::APPROVED},
    Check, said, shown, text,
};

impl Check {
    pub(super) fn actions(&mut self, session: &Session) {
        let mut asked: BTreeMap<&str, &Value> = BTreeMap::new();
        let mut decided: BTreeMap<(&str, &str), bool> = BTreeMap::new();
        for event in &session.served {
            match text(event, "type") {
                "action.required" => {
                    asked.insert(text(event, "actionId"), event);
                }
                "action.resolved" => {
                    let Some(question) = asked.get(text(event, "actionId")) else {
                        self.broken(10, format!("nobody asked: {}", shown(event)));
                        continue;
                    };
                    let first = question["payload"]["decisions"][0].as_str();
                    let is_yes =
                        said(event, "status") == "resolved" && first == Some(said(event, "decision"));
                    let before = decided.insert((text(event, "turnId"), said(question, "prompt")), is_yes);
                    // Repeated steps ask the same again; a question is never drawn into them.
                    self.expect(10, before.is_none(), || format!("decided twice: {}", shown(event)));
                }
                "model.delta" => {
                    let Some(prompt) = said(event, "text").strip_prefix(APPROVED) else { continue };
                    let is_yes = decided.get(&(text(event, "turnId"), prompt));
                    self.expect(10, is_yes == Some(&true), || {
                        format!("goes on after {is_yes:?} to a question: {}", shown(event))
                    });
                }
                "turn.completed" => {
                    let turn = text(event, "turnId");
                    let no = decided.iter().find(|((of, _), is_yes)| *of == turn && !**is_yes);
                    self.expect(10, no.is_none(), || format!("completed though {no:?}: {}", shown(event)));
                }
                _ => {}
            }
        }
    }
}
