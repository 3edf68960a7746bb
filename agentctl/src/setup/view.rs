//! The changes as text: a difference for each object.

use argocd::keys::addon::HUB_SETUP;
use serde_json::Value;

use super::{ObjectChange, Plan, State};
use crate::{
    check::Findings,
    output::{Place, View, one_line, word},
};

impl View for Plan {
    fn text(&self, place: Place) -> String {
        let mut parts = Vec::new();
        if !self.changes.is_empty() {
            parts.push(self.changes.iter().map(difference).collect::<String>());
        }
        let checks: Vec<_> = self.obstacles.iter().chain(&self.notes).cloned().collect();
        if !checks.is_empty() {
            parts.push(Findings { checks }.text(place));
        }
        parts.push(self.ending() + "\n");
        parts.join("\n")
    }
}

impl Plan {
    /// What came of it, and the next step.
    fn ending(&self) -> String {
        let argocd = &self.argocd_namespace;
        match (self.state, self.undo) {
            (State::Blocked, _) => {
                "Nothing was written: resolve what failed, and run this again".to_owned()
            }
            (State::Planned, _) => "Nothing was written (--dry-run)".to_owned(),
            (State::Unchanged, false) => {
                let parts = match (self.parts.live, self.parts.ui) {
                    (true, true) => "live views and the pages in the UI",
                    (_, false) => "live views",
                    (false, true) => "the pages in the UI",
                };
                format!("Nothing to change: argocd-server in namespace {argocd} is set up for {parts}")
            }
            (State::Unchanged, true) => {
                format!("Nothing to undo: no values of setup are left in namespace {argocd}")
            }
            (State::Written, false) => format!(
                "Written. The annotation {HUB_SETUP} has the values from before; to restore them: \
                argocd-agentctl hub setup --undo. To look at the result: argocd-agentctl check"
            ),
            (State::Written, true) if !self.notes.is_empty() => {
                "Written, except for the list above: values that another client changed stay as they are"
                    .to_owned()
            }
            (State::Written, true) => "Written. The values from before are restored".to_owned(),
        }
    }
}

/// The heading, and a line for each value that goes or comes.
fn difference(change: &ObjectChange) -> String {
    let heading = format!("{}: {}\n", one_line(&change.title()), word(change.action));
    let values = change.fields.iter().flat_map(|field| {
        let sides = [('-', &field.before), ('+', &field.after)];
        let sides = sides.into_iter().filter(|(_, value)| !value.is_null());
        sides.map(move |(sign, value)| format!("  {sign} {}: {}\n", field.field, shown(value)))
    });
    std::iter::once(heading).chain(values).collect()
}

fn shown(value: &Value) -> String {
    let text = value.as_str().map(one_line);
    text.unwrap_or_else(|| one_line(&value.to_string()))
}
