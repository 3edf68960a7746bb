//! Benchmarks: each gets a hub of its own and returns tables, which are printed as Markdown.
//!
//! `make bench` runs them all, `make bench BENCH=scale` those whose name contains it. Parameters are environment
//! variables, documented in the benchmark that reads them. Nothing here is a test: numbers are printed, and only `hostile`
//! and `ui` compare them with bounds.

pub mod hostile;
pub mod scale;

mod agents;
mod applications;
mod background;
mod crowd;
mod figures;
mod latency;
mod meter;
mod observer;
mod ocm;
mod simulated;
mod sync;
mod tunnel;
mod ui;
mod view;

use std::{fmt, process::ExitCode, sync::Arc};

use anyhow::{Context as _, Result};
use futures::future::LocalBoxFuture;
use tokio::runtime::Runtime;

use crate::{
    Lab, Options, Tools,
    namespaces::{self, EnterOptions, Entered},
    progress::{Progress, print},
    world,
};

/// One benchmark.
struct Bench {
    /// The name that selects it.
    name: &'static str,
    /// The options of its lab.
    options: Options,
    /// Runs it.
    measure: fn(Arc<Lab>) -> LocalBoxFuture<'static, Result<Vec<Table>>>,
}

/// All of them, in the order in which they run.
fn all() -> Vec<Bench> {
    vec![
        Bench {
            name: "scale",
            options: Options::control_planes(0),
            measure: |lab| Box::pin(scale::tables(lab)),
        },
        Bench {
            name: "sync",
            options: Options::control_planes(1),
            measure: |lab| Box::pin(sync::tables(lab)),
        },
        Bench {
            name: "agents",
            options: Options::control_planes(0),
            measure: |lab| Box::pin(agents::tables(lab)),
        },
        Bench {
            name: "tunnel",
            options: Options {
                pods: true,
                ..Options::control_planes(1)
            },
            measure: |lab| Box::pin(tunnel::tables(lab)),
        },
        Bench {
            name: "view",
            options: Options::control_planes(1),
            measure: |lab| Box::pin(view::tables(lab)),
        },
        Bench {
            name: "ui",
            options: Options::control_planes(0),
            measure: |lab| Box::pin(ui::tables(lab)),
        },
        Bench {
            name: "hostile",
            options: Options::control_planes(0),
            measure: |lab| Box::pin(hostile::tables(lab)),
        },
    ]
}

/// A table of measurements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// The subject of the numbers.
    pub title: String,
    /// The heads of its columns.
    pub columns: Vec<String>,
    /// Its lines, each as long as the heads.
    pub rows: Vec<Vec<String>>,
    /// The lines that exceed a bound; most benchmarks have none.
    pub exceeded: Vec<String>,
}

impl Table {
    /// An empty table.
    pub fn new(title: impl Into<String>, columns: &[&str]) -> Self {
        Self {
            title: title.into(),
            columns: columns.iter().map(|&column| column.to_owned()).collect(),
            rows: Vec::new(),
            exceeded: Vec::new(),
        }
    }

    /// Adds a line.
    pub fn row(&mut self, cells: &[&dyn fmt::Display]) {
        self.rows
            .push(cells.iter().map(ToString::to_string).collect());
    }
}

/// As Markdown.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            title,
            columns,
            rows,
            exceeded: _,
        } = self;
        writeln!(f, "### {title}\n\n| {} |", columns.join(" | "))?;
        writeln!(f, "|{}", "---|".repeat(columns.len()))?;
        for row in rows {
            writeln!(f, "| {} |", row.join(" | "))?;
        }
        Ok(())
    }
}

/// The main of `bench`: arguments are parts of the names of benchmarks to run; none runs all.
pub fn main() -> ExitCode {
    lab_kubelet::maybe_become_container();
    namespaces::maybe_become_init();
    match run() {
        Ok(code) => code,
        Err(error) => {
            print(format_args!("bench: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<ExitCode> {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let mut benches = all();
    benches.retain(|bench| {
        wanted.is_empty() || wanted.iter().any(|part| bench.name.contains(part.as_str()))
    });
    // The supervisor builds: inside there is no network.
    if !namespaces::are_ours() {
        Tools::ensure()?;
    }
    let options = EnterOptions {
        ports: 0,
        follow_parent: true,
    };
    match namespaces::enter(options)? {
        Entered::Ended(code) => return Ok(code),
        Entered::Inside(_) => {}
    }
    world::log_to(&namespaces::scratch().join("lab.log"))?;
    let runtime = Runtime::new().context("start a runtime")?;
    let mut exceeded = false;
    for bench in benches {
        let name = bench.name;
        let tables = runtime.block_on(one(bench));
        for table in tables.with_context(|| format!("measure {name}"))? {
            print(format_args!("\n{table}"));
            for row in &table.exceeded {
                print(format_args!("bench: {name}: {row} is out of bounds"));
                exceeded = true;
            }
        }
    }
    Ok(if exceeded {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

async fn one(bench: Bench) -> Result<Vec<Table>> {
    let dir = namespaces::scratch().join("lab");
    if dir.exists() {
        std::fs::remove_dir_all(&dir).context("clear the directory of the previous lab")?;
    }
    let lab = Lab::start(bench.options, &dir, &[], &mut Progress::new()).await?;
    let lab = Arc::new(lab);
    let measured = (bench.measure)(Arc::clone(&lab)).await;
    if let Some(lab) = Arc::into_inner(lab) {
        lab.stop().await;
    }
    measured
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_printed_as_markdown() {
        let mut table = Table::new("Title", &["a", "b"]);
        table.row(&[&1, &"x"]);
        let text = "### Title\n\n| a | b |\n|---|---|\n| 1 | x |\n";
        assert_eq!(table.to_string(), text);
    }
}
