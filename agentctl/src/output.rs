//! The ways to print a view: a table for people, JSON and YAML for programs, all from the same values.

use clap::ValueEnum;
use comfy_table::{Table, presets::NOTHING};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

/// How to print.
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
    /// How to print.
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
    /// Somebody has to do something.
    Bad,
}

/// A table before it is drawn: a header, and lines of as many cells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grid {
    /// Names of the columns.
    pub header: Vec<&'static str>,
    /// The lines.
    pub rows: Vec<(Mood, Vec<String>)>,
}

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
pub fn draw(grid: &Grid, colours: bool) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING);
    table.set_header(grid.header.clone());
    for (_, row) in &grid.rows {
        // A line is a line: what somebody else wrote must not break the table.
        let row = row.iter().map(|cell| one_line(cell));
        table.add_row(row.collect::<Vec<_>>());
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 3));
    }
    let moods = std::iter::once(Mood::Calm).chain(grid.rows.iter().map(|(mood, _)| *mood));
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

/// What somebody else wrote, without line breaks and without anything that a terminal would obey.
pub fn one_line(text: &str) -> String {
    let words = text.split(|c: char| c.is_control());
    let words = words.map(str::trim).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ")
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
    use super::*;

    #[test]
    fn ages_are_short_and_what_is_over_is_said() {
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
    fn what_others_wrote_neither_breaks_lines_nor_commands_the_terminal() {
        assert_eq!(one_line("a\nb\r\n\u{1b}[31mc"), "a b [31mc");
    }

    #[test]
    fn colours_are_for_terminals_and_for_what_is_not_well() {
        let grid = Grid {
            header: vec!["A", "B"],
            rows: vec![
                (Mood::Calm, vec!["1".to_owned(), "x y".to_owned()]),
                (Mood::Bad, vec!["22".to_owned(), String::new()]),
            ],
        };
        assert_eq!(draw(&grid, false), "A    B\n1    x y\n22\n");
        assert_eq!(
            draw(&grid, true),
            "A    B\n1    x y\n\u{1b}[31m22\u{1b}[0m\n"
        );
    }
}
