//! `lab`: the test bed as a command.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result};
use clap::{ArgAction, Parser, Subcommand};
use lab::{
    Options, Tools, coverage, mutants, namespaces,
    progress::print,
    results::{self, Peer},
    up::{self, Request},
};

/// A hub and spokes on this machine: real Kubernetes control planes, Pods, Open Cluster Management and Argo CD, without
/// containers.
#[derive(Debug, Parser)]
#[command(name = "lab")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Starts a lab and returns when it is ready; it stays until `lab down`.
    Up(Up),
    /// Shows the state of labs; succeeds if they are ready.
    Status(Where),
    /// Ends a lab, with everything in it.
    Down(Where),
    /// Shows the main job on a lab of its own. At a terminal it then stays until Ctrl-C, unless `DEMO_EXIT` is set.
    Demo(Place),
    /// Builds or installs the programs that labs run, and prints their paths.
    Tools,
    /// Runs end-to-end tests with programs of other projects, and records the results in `docs/results` and on the pages.
    Results(Results),
    /// Tests a sample of mutants of the synchronization; fails if too many survive. An interrupted run continues.
    Mutants(Mutants),
    /// Prints which lines of production code the unit tests and the simulation run.
    Coverage(Coverage),
}

#[derive(Debug, clap::Args)]
struct Mutants {
    /// The seed that draws the sample.
    #[arg(long, env = "MUTANTS_SEED", default_value_t = 20)]
    seed: u64,
    /// The size of the sample.
    #[arg(long, env = "MUTANTS_SAMPLE", default_value_t = 200)]
    sample: usize,
}

#[derive(Debug, clap::Args)]
struct Coverage {
    /// Modules with fewer covered lines, in per cent, are named.
    #[arg(long, env = "COVERAGE_THRESHOLD", default_value_t = 50, value_parser = clap::value_parser!(u64).range(0..=100))]
    threshold: u64,
}

#[derive(Debug, clap::Args)]
struct Results {
    /// The projects that the results are about. Without any, only the pages are made from the records.
    #[arg(value_enum)]
    peers: Vec<Peer>,
    /// A part of the names of tests; may be repeated.
    #[arg(long = "test", value_name = "PART")]
    tests: Vec<String>,
}

#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
struct Up {
    /// How many spokes beside the hub.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(0..=100))]
    spokes: u8,
    #[command(flatten)]
    place: Place,
    /// Whether our own programs are installed on the hub.
    #[arg(long, action = ArgAction::Set, default_value_t = true, num_args = 0..=1, default_missing_value = "true")]
    product: bool,
    /// Whether Argo CD runs on the spokes.
    #[arg(long, action = ArgAction::Set, default_value_t = true, num_args = 0..=1, default_missing_value = "true")]
    argocd: bool,
    /// Whether Open Cluster Management runs.
    #[arg(long, action = ArgAction::Set, default_value_t = true, num_args = 0..=1, default_missing_value = "true")]
    ocm: bool,
    /// Whether Pods run. Without Pods only the control planes run.
    #[arg(long, action = ArgAction::Set, default_value_t = true, num_args = 0..=1, default_missing_value = "true")]
    pods: bool,
    /// Stay attached until interrupted.
    #[arg(long)]
    foreground: bool,
    /// Run as the lab in the background.
    #[arg(long, hide = true)]
    prepared: bool,
}

#[derive(Debug, clap::Args)]
struct Place {
    /// The directory for kubeconfigs and logs: DIR/hub/kubeconfig, DIR/spoke1/kubeconfig and so on.
    #[arg(long, env = "LAB_DIR")]
    dir: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct Where {
    /// The directory of the lab; by default that of the running one.
    #[arg(long, env = "LAB_DIR")]
    dir: Option<PathBuf>,
}

fn main() -> ExitCode {
    lab_kubelet::maybe_become_container();
    namespaces::maybe_become_init();
    match run(Arguments::parse().command) {
        Ok(code) => code,
        Err(error) => {
            print(format_args!("lab: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Up(up) => {
            let Up {
                spokes,
                place,
                product,
                argocd,
                ocm,
                pods,
                foreground,
                prepared,
            } = up;
            let options = Options {
                pods,
                ocm,
                argocd: argocd && pods,
                product: product && pods && ocm,
                ..Options::control_planes(spokes)
            };
            let dir = directory(place, "up")?;
            up::up(&Request {
                options,
                dir,
                foreground,
                prepared,
                demo: false,
            })
        }
        Command::Demo(place) => {
            let (options, dir) = (Options::everything(2), directory(place, "demo")?);
            up::up(&Request {
                options,
                dir,
                foreground: true,
                prepared: false,
                demo: true,
            })
        }
        Command::Status(place) => up::status(absolute(place.dir)?.as_deref()),
        Command::Down(place) => up::down(absolute(place.dir)?.as_deref()),
        Command::Tools => {
            print(format_args!("{:#?}", Tools::ensure()?));
            Ok(ExitCode::SUCCESS)
        }
        Command::Results(Results { peers, tests }) => {
            results::run(&results::Request { peers, tests })
        }
        Command::Mutants(Mutants { seed, sample }) => {
            mutants::run(&mutants::Request { seed, sample })
        }
        Command::Coverage(Coverage { threshold }) => {
            coverage::run(&coverage::Request { threshold })
        }
    }
}

/// The requested directory, or a default one below `target`.
fn directory(place: Place, name: &str) -> Result<PathBuf> {
    let own = || lab::tools::workspace().join("target/lab").join(name);
    Ok(absolute(place.dir)?.unwrap_or_else(own))
}

fn absolute(dir: Option<PathBuf>) -> Result<Option<PathBuf>> {
    let absolute = |dir: PathBuf| std::path::absolute::<&Path>(&dir).context("a directory");
    dir.map(absolute).transpose()
}
