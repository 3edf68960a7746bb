//! What tests of several modules need: where outputs are printed, and the page that has the same outputs.

use jiff::Timestamp;

use crate::output::{Format, Place};

pub(crate) const fn place(format: Format, now: Timestamp) -> Place {
    Place {
        format,
        colours: false,
        now,
    }
}

/// Asserts that the page of the commands shows exactly this.
pub(crate) fn is_documented(text: &str) {
    let page = include_str!("../../docs/agentctl.md");
    assert!(
        page.contains(text),
        "docs/agentctl.md does not show this:\n{text}"
    );
}
