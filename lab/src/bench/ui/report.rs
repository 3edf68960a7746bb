//! The figures of the benchmark and their bounds.

use std::{fmt, time::Duration};

use super::pages::{INTERVAL, Polls};
use crate::bench::{
    Table,
    figures::{Figure, Times},
};

/// The longest time until a page has its first table.
const FIRST: Duration = Duration::from_secs(1);
/// The most memory that open pages may cost the hub program, in bytes.
const MEMORY: u64 = 10_000_000;

/// What a number of pages costs.
#[derive(Debug)]
pub(super) struct Load {
    /// The answers.
    pub(super) polls: Polls,
    /// How long they polled.
    pub(super) lasted: Duration,
    /// The hub program's processor time meanwhile.
    pub(super) processor: Duration,
    /// The most resident memory meanwhile, in KiB.
    pub(super) most_kib: u64,
}

/// The page in a browser.
#[derive(Debug)]
pub(super) enum InBrowser {
    /// There is no browser.
    Absent,
    /// The page did not get its table, for this reason.
    Failed(String),
    /// From opening the page to its first row, each time.
    Opened(Times),
}

/// All measurements.
#[derive(Debug)]
pub(super) struct Report {
    /// Simulated clusters.
    pub(super) clusters: usize,
    /// Applications, of all clusters together.
    pub(super) applications: usize,
    /// Open pages.
    pub(super) pages: usize,
    /// How long the hub program was watched without a page, and its processor time meanwhile.
    pub(super) idle: [Duration; 2],
    /// Resident memory without a page, in KiB.
    pub(super) idle_kib: u64,
    /// The first answer since the start of the hub program.
    pub(super) first: Duration,
    /// The bytes of an answer: compressed, and not.
    pub(super) bytes: [usize; 2],
    /// Answers that needed a new computation.
    pub(super) computed: Times,
    /// Answers from the last computation.
    pub(super) kept: Times,
    /// Answers that nothing has changed.
    pub(super) same: Times,
    /// The page in a browser.
    pub(super) browser: InBrowser,
    /// The pages on a fleet without a change, and on one that changes all the time.
    pub(super) loads: [Load; 2],
}

/// A line of the table.
struct Line {
    what: String,
    figure: String,
    /// The bound as text, and whether it was exceeded.
    bound: Option<(String, bool)>,
}

impl Line {
    fn plain(what: impl Into<String>, figure: &dyn fmt::Display) -> Self {
        Self {
            what: what.into(),
            figure: figure.to_string(),
            bound: None,
        }
    }

    fn within(self, bound: impl Into<String>, is_exceeded: bool) -> Self {
        Self {
            bound: Some((bound.into(), is_exceeded)),
            ..self
        }
    }
}

impl Report {
    /// As a table, with the lines that exceed their bounds.
    pub(super) fn table(&self) -> Table {
        let how = match self.browser {
            InBrowser::Absent => ": API only, without a browser",
            InBrowser::Failed(_) | InBrowser::Opened(_) => "",
        };
        let title = format!(
            "Fleet page of {} clusters with {} Applications{how}",
            self.clusters, self.applications
        );
        let mut table = Table::new(title, &["", "measured", "bound"]);
        let [quiet, changing] = &self.loads;
        let lines = [
            self.answers(),
            self.opened().into_iter().collect(),
            self.under(quiet, "fleet without a change"),
            self.under(changing, "an Application changes every second"),
        ];
        for Line {
            what,
            figure,
            bound,
        } in lines.into_iter().flatten()
        {
            let (text, is_exceeded) = bound.unwrap_or_else(|| ("–".to_owned(), false));
            table.row(&[&what, &figure, &text]);
            if is_exceeded {
                table.exceeded.push(what);
            }
        }
        table
    }

    fn answers(&self) -> Vec<Line> {
        let [compressed, plain] = self.bytes.map(|bytes| bytes / 1024);
        let [lasted, processor] = self.idle;
        let memory = format!("{} MiB", self.idle_kib / 1024);
        vec![
            Line::plain("memory of the hub program, no page open", &memory),
            Line::plain("its processor, no page open", &share(processor, lasted)),
            Line::plain("first answer to a page", &Figure::Time(self.first))
                .within(Figure::Time(FIRST).to_string(), self.first > FIRST),
            Line::plain(
                "size of an answer",
                &format!("{compressed} KiB ({plain} KiB without gzip)"),
            ),
            Line::plain(
                "answer with a new computation, p50 / p99",
                &self.computed.reply(),
            ),
            Line::plain(
                "answer from the last computation, p50 / p99",
                &self.kept.reply(),
            ),
            Line::plain(
                "answer that nothing has changed, p50 / p99",
                &self.same.reply(),
            ),
        ]
    }

    /// The first table in a browser. Its median counts: the first page also waits for the start of Chromium.
    fn opened(&self) -> Option<Line> {
        let (figure, is_within) = match &self.browser {
            InBrowser::Absent => return None,
            InBrowser::Failed(reason) => {
                (reason.lines().next().unwrap_or_default().to_owned(), false)
            }
            InBrowser::Opened(times) => {
                let median = times.percentile(50);
                let is_within = matches!(median, Figure::Time(time) if time <= FIRST);
                (times.reply(), is_within)
            }
        };
        let line = Line::plain("first table in Chromium, p50 / p99", &figure);
        Some(line.within(format!("p50 {}", Figure::Time(FIRST)), !is_within))
    }

    fn under(&self, load: &Load, fleet: &str) -> Vec<Line> {
        let Load {
            polls,
            lasted,
            processor,
            most_kib,
        } = load;
        let pages = format!(
            "{} pages, each asks every {} s; {fleet}",
            self.pages,
            INTERVAL.as_secs()
        );
        let more = most_kib.saturating_sub(self.idle_kib) * 1024;
        let megabytes = |bytes: u64| format!("{}.{} MB", bytes / 1_000_000, bytes / 100_000 % 10);
        vec![
            Line::plain(
                format!("{pages}: answers with a table / without a change / failed"),
                &format!("{} / {} / {}", polls.fresh, polls.same, polls.failed),
            )
            .within("no failure", polls.failed > 0 || polls.count() == 0),
            Line::plain(format!("{pages}: time, p50 / p99"), &polls.times.reply()),
            Line::plain(
                format!("{pages}: bytes"),
                &format!("{} KiB", polls.bytes / 1024),
            ),
            Line::plain(format!("{pages}: processor"), &share(*processor, *lasted)),
            Line::plain(
                format!("{pages}: most memory above that without a page"),
                &megabytes(more),
            )
            .within(megabytes(MEMORY), more > MEMORY),
        ]
    }
}

/// Processor time as a share of one processor.
fn share(processor: Duration, lasted: Duration) -> String {
    let share = processor.as_secs_f64() / lasted.as_secs_f64().max(f64::MIN_POSITIVE);
    format!("{:.1} % of one processor", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn times(millis: u64) -> Times {
        let mut times = Times::within(SECOND * 10);
        times.add(Some(Duration::from_millis(millis)));
        times
    }

    fn load(failed: usize, most_kib: u64) -> Load {
        Load {
            polls: Polls {
                times: times(4),
                fresh: 10,
                same: 90,
                failed,
                bytes: 10 << 20,
            },
            lasted: SECOND * 60,
            processor: SECOND * 3,
            most_kib,
        }
    }

    fn report() -> Report {
        Report {
            clusters: 5000,
            applications: 20_000,
            pages: 1000,
            idle: [SECOND * 30, Duration::from_millis(30)],
            idle_kib: 100 << 10,
            first: SECOND,
            bytes: [150 << 10, 2 << 20],
            computed: times(200),
            kept: times(12),
            same: times(1),
            browser: InBrowser::Opened(times(700)),
            loads: [load(0, 104 << 10), load(0, 105 << 10)],
        }
    }

    #[test]
    fn figures_within_their_bounds_exceed_nothing() {
        let table = report().table();
        assert!(table.exceeded.is_empty(), "{table}");
        assert!(!table.title.contains("API only"), "{table}");
        let text = table.to_string();
        for part in [
            "| first answer to a page | 1000 ms | 1000 ms |",
            "| 700 ms / 700 ms (1 samples) | p50 1000 ms |",
            "| 150 KiB (2048 KiB without gzip) | – |",
            "| 0.1 % of one processor | – |",
            "| 5.0 % of one processor | – |",
            "| 4.1 MB | 10.0 MB |",
            "| 10 / 90 / 0 | no failure |",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn a_slow_first_answer_memory_and_failures_exceed_their_bounds() {
        let mut report = report();
        report.first = SECOND + Duration::from_millis(1);
        report.loads = [load(0, (100 << 10) + 9766), load(1, 100 << 10)];
        let table = report.table();
        let exceeded = table.exceeded.join("\n");
        assert_eq!(table.exceeded.len(), 3, "{exceeded}");
        for part in ["first answer", "without a change: most memory", "failed"] {
            assert!(exceeded.contains(part), "{part}: {exceeded}");
        }
    }

    #[test]
    fn a_missing_browser_is_in_the_title_and_a_failed_one_exceeds() {
        let mut report = report();
        report.browser = InBrowser::Absent;
        let table = report.table();
        assert!(table.title.contains("without a browser") && table.exceeded.is_empty());
        report.browser = InBrowser::Failed("not within 10 s\nthe page".to_owned());
        let table = report.table();
        assert_eq!(table.exceeded, ["first table in Chromium, p50 / p99"]);
        assert!(table.to_string().contains("| not within 10 s |"), "{table}");
        report.browser = InBrowser::Opened(times(1001));
        assert_eq!(report.table().exceeded.len(), 1);
    }

    #[test]
    fn pages_without_any_answer_exceed_the_bound() {
        let mut report = report();
        report.loads[0].polls = Polls::default();
        assert_eq!(report.table().exceeded.len(), 1);
    }
}
