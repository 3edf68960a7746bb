//! The ways to print a view: a table for people, JSON and YAML for programs, all from the same values.

use clap::ValueEnum;
use comfy_table::{Table, presets};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

/// Output format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Columns for people.
    #[default]
    Table,
    /// More of them.
    Wide,
    /// JSON.
    Json,
    /// YAML.
    Yaml,
}

/// What the reader's place is like.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Output format.
    pub format: Format,
    /// Whether colours are seen: at a terminal only.
    pub colours: bool,
    /// The time from which ages are counted.
    pub now: Timestamp,
}

/// How a line feels about what it says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mood {
    /// As it should be.
    #[default]
    Calm,
    /// Worth a look.
    Warning,
    /// A user has to act.
    Bad,
}

/// A line of a table: its cells, and how it is painted.
pub type Row = (Mood, Vec<String>);

/// Something that can be printed in every way.
pub trait View: Serialize {
    /// As text for people, ending with a line break.
    fn text(&self, place: Place) -> String;
}

/// What could not be printed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// As JSON.
    #[error("write JSON")]
    Json(#[from] serde_json::Error),
    /// As YAML.
    #[error("write YAML: {0}")]
    Yaml(String),
}

/// Prints a view.
pub fn render(view: &impl View, place: Place) -> Result<String, Error> {
    match place.format {
        Format::Table | Format::Wide => Ok(view.text(place)),
        Format::Json => Ok(serde_json::to_string_pretty(view)? + "\n"),
        Format::Yaml => {
            serde_saphyr::to_string(view).map_err(|error| Error::Yaml(error.to_string()))
        }
    }
}

/// Draws a table as kubectl does: no lines, no space at the end.
pub fn draw(header: &[&str], rows: impl IntoIterator<Item = Row>, colours: bool) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(header);
    let mut moods = vec![Mood::Calm];
    for (mood, row) in rows {
        moods.push(mood);
        // A line is a line: text from other writers must not break the table.
        table.add_row(row.iter().map(|cell| one_line(cell)));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 3));
    }
    let lines = table.lines().zip(moods);
    lines
        .map(|(line, mood)| paint(line.trim_end(), mood, colours) + "\n")
        .collect()
}

/// A text in the colour of a mood.
pub fn paint(text: &str, mood: Mood, colours: bool) -> String {
    match (colours, mood) {
        (false, _) | (true, Mood::Calm) => text.to_owned(),
        (true, Mood::Warning) => format!("\u{1b}[33m{text}\u{1b}[0m"),
        (true, Mood::Bad) => format!("\u{1b}[31m{text}\u{1b}[0m"),
    }
}

/// What people have to read below a table, each in a line of its own.
pub fn warnings<'a>(texts: impl IntoIterator<Item = &'a String>, colours: bool) -> String {
    let mut all = String::new();
    for text in texts {
        all.extend(["\n", &paint(&one_line(text), Mood::Bad, colours), "\n"]);
    }
    all
}

/// A value of few, as JSON has it, in words.
pub fn word(value: impl Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or_default().replace('-', " ")
}

/// A cell without a value.
pub const NOTHING: &str = "-";

/// The cell of a value that may be absent.
pub fn or_nothing(value: Option<impl ToString>) -> String {
    value.map_or_else(|| NOTHING.to_owned(), |value| value.to_string())
}

/// Text from other writers, without line breaks and terminal control sequences.
pub fn one_line(text: &str) -> String {
    let words = text.split(|c: char| c.is_control());
    let words = words.map(str::trim).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ")
}

/// A name given by a user, in one line; if it is a time, as default names of keys are, rounded to seconds.
pub fn name(text: &str) -> String {
    let time = text.parse::<Timestamp>();
    time.map_or_else(|_other| one_line(text), |time| format!("{time:.0}"))
}

/// A span of time as kubectl shows ages.
pub fn span(span: SignedDuration) -> String {
    let seconds = span.as_secs().max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7_200 => format!("{}m", seconds / 60),
        7_200..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// How long ago.
pub fn age(since: Timestamp, now: Timestamp) -> String {
    span(now.duration_since(since))
}

/// How long until then; `ended` when that is over.
pub fn left(until: Timestamp, now: Timestamp) -> String {
    let left = until.duration_since(now);
    if left.is_positive() {
        span(left)
    } else {
        "ended".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;
    use crate::{
        check::{Finding, Findings, Outcome},
        hub::CONFIG_MAPS,
        setup::{Action, FieldChange, ObjectChange, Parts, Plan, State, Write},
    };

    /// The paths of all fields; what is below these is named by others.
    fn fields(value: &Value, path: &str, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(fields_of) => {
                for (name, inner) in fields_of {
                    let dot = if path.is_empty() { "" } else { "." };
                    let path = format!("{path}{dot}{name}");
                    if ["set", "sync", "health"].contains(&name.as_str()) {
                        found.insert(path);
                    } else {
                        fields(inner, &path, found);
                    }
                }
            }
            Value::Array(items) => {
                let path = format!("{path}[]");
                if items.is_empty() {
                    found.insert(path.clone());
                }
                for item in items {
                    fields(item, &path, found);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                found.insert(path.to_owned());
            }
        }
    }

    /// What the page says of a command.
    fn documented(command: &str) -> BTreeSet<String> {
        let page = include_str!("../../docs/agentctl.md");
        let section = page.split("## For programs").nth(1).unwrap();
        let row = format!("| `{command}` | ");
        let mut rows = section
            .lines()
            .filter_map(|line| line.strip_prefix(row.as_str()));
        let mut names = BTreeSet::new();
        // Between fields is a comma; what is in brackets after one is about its values.
        for part in rows.next().unwrap().split(", `") {
            let name = part.trim_start_matches('`').split('`').next().unwrap();
            names.insert(name.to_owned());
        }
        names
    }

    fn finding() -> Finding {
        Finding {
            check: "x",
            result: Outcome::Ok,
            cause: String::new(),
            next: None,
        }
    }

    /// Findings as programs get them.
    fn checks() -> String {
        serde_json::to_string(&Findings {
            checks: vec![finding()],
        })
        .unwrap()
    }

    /// The changes of `hub setup` as programs get them.
    fn changes() -> String {
        let field = FieldChange {
            field: String::new(),
            before: Value::Null,
            after: Value::Null,
        };
        let change = ObjectChange {
            kind: "x",
            namespace: None,
            name: String::new(),
            action: Action::Patch,
            fields: vec![field],
            write: Write::Merge(CONFIG_MAPS, Value::Null),
        };
        serde_json::to_string(&Plan {
            state: State::Planned,
            changes: vec![change],
            obstacles: vec![finding()],
            notes: vec![finding()],
            undo: false,
            argocd_namespace: String::new(),
            parts: Parts {
                live: true,
                ui: false,
            },
        })
        .unwrap()
    }

    #[test]
    fn every_field_that_programs_get_is_on_the_page_and_no_other() {
        let (checks, changes) = (checks(), changes());
        macro_rules! snapshot {
            ($path:literal) => {
                include_str!($path).splitn(3, "---\n").nth(2).unwrap()
            };
        }
        for (command, json) in [
            ("check", checks.as_str()),
            ("hub setup", changes.as_str()),
            (
                "status",
                snapshot!(
                    "status/snapshots/agentctl__status__tests__status_json_and_yaml_have_the_same_values.snap"
                ),
            ),
            (
                "status --applications",
                snapshot!(
                    "status/troubles/snapshots/agentctl__status__troubles__tests__status_lists_applications_that_need_attention-3.snap"
                ),
            ),
            (
                "why",
                snapshot!(
                    "why/snapshots/agentctl__why__tests__why_lists_the_hops_of_a_delivered_application-2.snap"
                ),
            ),
            (
                "certs list",
                snapshot!(
                    "certs/snapshots/agentctl__certs__tests__certs_list_shows_every_certificate_without_keys-2.snap"
                ),
            ),
            (
                "agent list",
                snapshot!(
                    "agents/snapshots/agentctl__agents__tests__agent_list_shows_revoked_agents_with_reason-2.snap"
                ),
            ),
            (
                "cluster adopt",
                snapshot!(
                    "adopt/snapshots/agentctl__adopt__tests__adoption_plan_lists_each_cluster_with_the_next_step-2.snap"
                ),
            ),
        ] {
            let mut found = BTreeSet::new();
            fields(&serde_json::from_str(json).unwrap(), "", &mut found);
            // An object that is absent in one line has its fields in another.
            let parents: BTreeSet<_> = found
                .iter()
                .filter_map(|it| it.rsplit_once('.'))
                .map(|(it, _)| it.to_owned())
                .collect();
            found.retain(|it| !parents.contains(it));
            assert_eq!(documented(command), found, "{command}");
        }
    }

    #[test]
    fn ages_are_short_and_expired_is_marked() {
        let now: Timestamp = "2026-11-22T12:00:00Z".parse().unwrap();
        for (time, expected) in [
            ("2026-11-22T11:59:30Z", "30s"),
            ("2026-11-22T11:00:00Z", "60m"),
            ("2026-11-21T12:00:00Z", "24h"),
            ("2026-11-12T12:00:00Z", "10d"),
            // The hub's clock may be ahead of ours.
            ("2026-11-22T12:00:05Z", "0s"),
        ] {
            assert_eq!(age(time.parse().unwrap(), now), expected);
        }
        assert_eq!(left(now, now), "ended");
        assert_eq!(left("2026-11-30T12:00:00Z".parse().unwrap(), now), "8d");
    }

    #[test]
    fn time_names_are_rounded_to_seconds() {
        for (given, shown) in [
            ("2026-11-19T11:50:00.123456789Z", "2026-11-19T11:50:00Z"),
            ("2026-11-19T11:50:00Z", "2026-11-19T11:50:00Z"),
            ("after\nthe theft", "after the theft"),
        ] {
            assert_eq!(name(given), shown);
        }
    }

    #[test]
    fn foreign_text_cannot_break_lines_or_control_the_terminal() {
        assert_eq!(one_line("a\nb\r\n\u{1b}[31mc"), "a b [31mc");
    }

    #[test]
    fn colours_mark_problems_on_terminals_only() {
        let drawn = |colours| {
            let rows = [
                (Mood::Calm, vec!["1".to_owned(), "x y".to_owned()]),
                (Mood::Bad, vec!["22".to_owned(), String::new()]),
            ];
            draw(&["A", "B"], rows, colours)
        };
        assert_eq!(drawn(false), "A    B\n1    x y\n22\n");
        assert_eq!(drawn(true), "A    B\n1    x y\n\u{1b}[31m22\u{1b}[0m\n");
    }
}
