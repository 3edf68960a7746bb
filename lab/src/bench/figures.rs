//! Figures of two makes side by side, and helpers to compute them.

use std::{fmt, str::FromStr, time::Duration};

use anyhow::{Context as _, Result};

use super::Table;
use crate::{
    peers::{GO, Make},
    progress::print,
};

/// A number from the environment, or its default.
pub(super) fn variable<N>(name: &str, unless_set: N) -> Result<N>
where
    N: FromStr,
    N::Err: std::error::Error + Send + Sync + 'static,
{
    match std::env::var(name) {
        Ok(text) => text.parse().with_context(|| name.to_owned()),
        Err(_not_set) => Ok(unless_set),
    }
}

/// The makes that can be measured here.
pub(super) fn makes() -> Vec<Make> {
    let go = std::env::var_os(GO).map(|_path| Make::Go);
    std::iter::once(Make::Ours).chain(go).collect()
}

/// The make in the head of a column.
pub(super) const fn head(make: Make) -> &'static str {
    match make {
        Make::Ours => "ours",
        Make::Go => "Go argocd-agent",
    }
}

/// The figures of one make, in the order of the lines.
#[derive(Debug)]
pub(super) struct Column {
    head: &'static str,
    figures: Vec<(String, String)>,
}

impl Column {
    pub(super) const fn new(make: Make) -> Self {
        Self::named(head(make))
    }

    /// A column of something other than a make.
    pub(super) const fn named(head: &'static str) -> Self {
        Self {
            head,
            figures: Vec::new(),
        }
    }

    /// Adds a line.
    pub(super) fn put(&mut self, what: impl Into<String>, figure: impl fmt::Display) {
        let (what, figure) = (what.into(), figure.to_string());
        print(format_args!("{}: {what}: {figure}", self.head));
        self.figures.push((what, figure));
    }
}

/// The columns as one table; a figure that one make lacks reads "not measured".
pub(super) fn beside(title: &str, columns: &[Column]) -> Table {
    let mut heads = vec![""];
    heads.extend(columns.iter().map(|column| column.head));
    let mut table = Table::new(title, &heads);
    let mut lines: Vec<&str> = Vec::new();
    for (what, _) in columns.iter().flat_map(|column| &column.figures) {
        if !lines.contains(&what.as_str()) {
            lines.push(what);
        }
    }
    for line in lines {
        let figures = columns.iter().map(|column| {
            let mut figures = column.figures.iter();
            let figure = figures.find(|(what, _)| what == line);
            figure.map_or("not measured", |(_, figure)| figure)
        });
        let cells: Vec<&str> = std::iter::once(line).chain(figures).collect();
        let cells: Vec<&dyn fmt::Display> =
            cells.iter().map(|cell| cell as &dyn fmt::Display).collect();
        table.row(&cells);
    }
    table
}

/// Repeated measurements of a duration; a missing one counts as longer than all others.
#[derive(Debug, Default)]
pub(super) struct Times {
    came: Vec<Duration>,
    missed: usize,
    bound: Duration,
}

impl Times {
    pub(super) const fn within(bound: Duration) -> Self {
        Self {
            came: Vec::new(),
            missed: 0,
            bound,
        }
    }

    /// Adds one; none is missing.
    pub(super) fn add(&mut self, time: Option<Duration>) {
        match time {
            Some(time) => {
                let at = self.came.partition_point(|other| *other <= time);
                self.came.insert(at, time);
            }
            None => self.missed += 1,
        }
    }

    /// Adds those of another round.
    pub(super) fn take(&mut self, other: Self) {
        for time in other.came {
            self.add(Some(time));
        }
        self.missed += other.missed;
        self.bound = other.bound;
    }

    /// The number of measurements.
    pub(super) const fn count(&self) -> usize {
        self.came.len() + self.missed
    }

    /// The time within which this many per cent came.
    pub(super) fn percentile(&self, percent: usize) -> Figure {
        if self.count() == 0 {
            return Figure::Nothing;
        }
        let rank = (self.count() * percent).div_ceil(100).max(1);
        match self.came.get(rank - 1) {
            Some(time) => Figure::Time(*time),
            None => Figure::NotWithin(self.bound),
        }
    }

    /// The median, the 99th percentile, and the number of samples.
    pub(super) fn reply(&self) -> String {
        let missed = match self.missed {
            0 => String::new(),
            missed => format!(", {missed} not in {:?}", self.bound),
        };
        format!(
            "{} / {} ({} samples{missed})",
            self.percentile(50),
            self.percentile(99),
            self.count()
        )
    }
}

/// A time, or a missing one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Figure {
    Time(Duration),
    NotWithin(Duration),
    Nothing,
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time(time) if *time < Duration::from_millis(10) => {
                write!(f, "{:.1} ms", time.as_secs_f64() * 1000.0)
            }
            Self::Time(time) if *time < Duration::from_secs(10) => {
                write!(f, "{} ms", time.as_millis())
            }
            Self::Time(time) => write!(f, "{:.1} s", time.as_secs_f64()),
            Self::NotWithin(bound) => write!(f, "not in {bound:?}"),
            Self::Nothing => f.write_str("no sample"),
        }
    }
}

/// How many of them came in a time, and the rate per second.
pub(super) fn rate(came: usize, of: usize, took: Duration) -> String {
    let each = ratio(came, took.as_secs_f64());
    let took = took.as_secs_f64();
    if came == of {
        format!("{each:.0}/s ({of} in {took:.1} s)")
    } else {
        format!("{each:.0}/s ({came} of {of} in {took:.0} s, then given up)")
    }
}

/// The quotient.
pub(super) fn ratio(count: usize, by: f64) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX)) / by.max(f64::MIN_POSITIVE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_missing_sample_counts_as_the_longest() {
        let mut times = Times::within(SECOND);
        for millis in (1..=98).rev() {
            times.add(Some(Duration::from_millis(millis)));
        }
        assert_eq!(times.percentile(50).to_string(), "49 ms");
        times.add(None);
        times.add(None);
        assert_eq!(
            times.reply(),
            "50 ms / not in 1s (100 samples, 2 not in 1s)"
        );
        assert_eq!(Times::within(SECOND).percentile(50), Figure::Nothing);
    }

    #[test]
    fn a_missing_figure_of_one_make_reads_not_measured() {
        let mut columns = [Column::new(Make::Ours), Column::new(Make::Go)];
        columns[0].put("a", 1);
        columns[1].put("a", 2);
        columns[0].put("b", 3);
        let table = beside("Title", &columns);
        assert_eq!(table.columns, ["", "ours", "Go argocd-agent"]);
        assert_eq!(
            table.rows,
            [vec!["a", "1", "2"], vec!["b", "3", "not measured"]]
        );
    }

    #[test]
    fn a_rate_of_incomplete_changes_shows_the_count() {
        assert_eq!(rate(10, 10, SECOND * 2), "5/s (10 in 2.0 s)");
        assert_eq!(
            rate(4, 10, SECOND * 2),
            "2/s (4 of 10 in 2 s, then given up)"
        );
    }
}
