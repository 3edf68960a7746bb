//! The whole principal and whole agents, without sockets and API servers, run through random histories.
//!
//! Stores are in memory and behave like an API server. The network loses, repeats and delays messages, and cuts and breaks
//! connections. Either end crashes at any await, and time jumps from timer to timer. The seed alone decides the history.
//! At the end both sides must agree by the rules of ownership; nothing may be stuck, and nothing done twice.
//!
//! `SIM_HISTORIES=10000` runs so many; `SIM_SEED=7` runs that one and prints its trace. Half of the seeds are new in each
//! run; `SIM_BASE` repeats them.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test ends here"
)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use rustls_pki_types::CertificateDer;

mod controller;
mod crowd;
mod dice;
mod fault;
mod history;
mod intents;
mod ledger;
mod manager;
mod network;
mod oracle;
mod owner;
mod people;
mod planted;
mod process;
mod seeds;
mod slow;
mod witness;

use fault::Fault;
use history::{Failure, Outcome, Releases};
use seeds::Seeds;

/// Enough to meet most kinds of trouble, few enough for every run of all tests.
const HISTORIES: u64 = 60;
/// The most spokes in one history.
const SPOKES: usize = 3;
/// After so many failures the run stops.
const ENOUGH: usize = 5;

fn setting(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().expect("a number"))
}

/// A runtime whose clock advances only when every task is idle.
fn clock() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime")
}

fn certificates() -> Vec<CertificateDer<'static>> {
    (1..=SPOKES)
        .map(|number| process::certificate(&format!("spoke{number}")))
        .collect()
}

/// One history, on a thread and a clock of its own.
fn live(seed: u64, certificates: &[CertificateDer<'static>]) -> Result<Outcome, Failure> {
    live_with(seed, certificates, Fault::None, Releases::Any)
}

fn live_with(
    seed: u64,
    certificates: &[CertificateDer<'static>],
    fault: Fault,
    releases: Releases,
) -> Result<Outcome, Failure> {
    let runtime = clock();
    let lived = runtime.block_on(history::live(seed, certificates, fault, releases));
    let leaked = runtime.metrics().num_alive_tasks();
    lived.and_then(|outcome| {
        if leaked == 0 {
            return Ok(outcome);
        }
        Err(Failure {
            findings: vec![format!("{leaked} tasks are left")],
            trace: outcome.trace,
        })
    })
}

/// One history of an autonomous cluster: its findings and its trace.
fn live_autonomous(
    seed: u64,
    certificates: &[CertificateDer<'static>],
    fault: Fault,
    releases: Releases,
) -> (Vec<String>, dice::Trace) {
    clock().block_on(owner::live(seed, &certificates[0], fault, releases))
}

#[test]
fn both_sides_converge_in_any_history() {
    runtime::install_crypto_provider();
    let certificates = certificates();
    if let Some(seed) = setting("SIM_SEED") {
        let (findings, trace) = match live(seed, &certificates) {
            Ok(outcome) => (vec![], outcome.trace),
            Err(failure) => (failure.findings, failure.trace),
        };
        eprintln!("{}", trace.join("\n"));
        assert!(findings.is_empty(), "{findings:#?}");
        return;
    }
    let histories = setting("SIM_HISTORIES").unwrap_or(HISTORIES);
    let seeds = Seeds::of("managed", histories, setting("SIM_BASE"));
    eprintln!("SIM_BASE={}", seeds.base);
    let (next, lived) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let failed = Mutex::new(Vec::<u64>::new());
    let writes = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let next = seeds.all.get(next.fetch_add(1, Ordering::Relaxed));
                    let failures = failed.lock().unwrap_or_else(PoisonError::into_inner).len();
                    let Some(&seed) = next.filter(|_| failures < ENOUGH) else {
                        return;
                    };
                    match live(seed, &certificates) {
                        Ok(outcome) => {
                            let sum = outcome.hub_writes + outcome.spoke_writes;
                            writes.fetch_add(sum, Ordering::Relaxed);
                        }
                        Err(failure) => {
                            eprintln!("SIM_SEED={seed}: {:#?}", failure.findings);
                            let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                            failed.push(seed);
                        }
                    }
                    lived.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    eprintln!("{lived:?} histories, {writes:?} writes");
    assert!(failed.is_empty(), "these seeds failed: {failed:?}");
}

#[test]
fn mirrors_converge_in_any_autonomous_history() {
    runtime::install_crypto_provider();
    let certificates = certificates();
    let only = setting("SIM_SEED");
    let histories = setting("SIM_HISTORIES").unwrap_or(HISTORIES);
    let seeds = Seeds::of("autonomous", histories, setting("SIM_BASE"));
    eprintln!("SIM_BASE={}", seeds.base);
    let mut failed = vec![];
    for seed in only.map_or(seeds.all, |seed| vec![seed]) {
        let (findings, trace) = live_autonomous(seed, &certificates, Fault::None, Releases::Any);
        if only.is_some() {
            eprintln!("{}", trace.lines().join("\n"));
        }
        if !findings.is_empty() {
            eprintln!("SIM_SEED={seed}: {findings:#?}");
            failed.push(seed);
        }
        if failed.len() >= ENOUGH {
            break;
        }
    }
    assert!(failed.is_empty(), "these seeds failed: {failed:?}");
}

/// Histories of the hub program without the principal: fewer, since each has two whole replicas.
#[test]
fn the_hub_program_converges_in_any_history_of_the_manager() {
    runtime::install_crypto_provider();
    let only = setting("SIM_SEED");
    let histories = setting("SIM_HISTORIES").unwrap_or(HISTORIES);
    let seeds = Seeds::of("manager", histories.div_ceil(10), setting("SIM_BASE"));
    eprintln!("SIM_BASE={}", seeds.base);
    let mut failed = vec![];
    for seed in only.map_or(seeds.all, |seed| vec![seed]) {
        let (findings, trace) = clock().block_on(manager::live(seed, manager::Fault::None));
        // A seed repeats the acts, but not every interleaving: some pauses of the SDK are not drawn here.
        if only.is_some() || !findings.is_empty() {
            eprintln!("{}", trace.join("\n"));
        }
        if !findings.is_empty() {
            eprintln!("SIM_SEED={seed}: {findings:#?}");
            failed.push(seed);
        }
        if failed.len() >= ENOUGH {
            break;
        }
    }
    assert!(failed.is_empty(), "these seeds failed: {failed:?}");
}

#[test]
fn a_history_is_the_same_every_time() {
    runtime::install_crypto_provider();
    let certificates = certificates();
    let lines = |seed| match live(seed, &certificates) {
        Ok(outcome) => outcome.trace,
        Err(failure) => failure.trace,
    };
    for seed in 0..10 {
        assert_eq!(lines(seed), lines(seed), "seed {seed}");
    }
}

/// An upgrade passes through every pair of two releases and the one between: whichever end goes first.
#[test]
fn programs_that_are_two_releases_apart_agree_all_the_same() {
    runtime::install_crypto_provider();
    let certificates = certificates();
    for (principal, agent) in [(1, 3), (3, 1), (2, 3), (3, 2)] {
        let releases = Releases::Of(principal, agent);
        for seed in 1000..1003 {
            let lived = live_with(seed, &certificates, Fault::None, releases);
            let findings = lived.err().map(|failure| failure.findings);
            assert_eq!(findings, None, "{releases:?}, seed {seed}");
            let (findings, _) = live_autonomous(seed, &certificates, Fault::None, releases);
            assert!(
                findings.is_empty(),
                "{releases:?}, seed {seed}: {findings:?}"
            );
        }
    }
}

#[test]
fn ten_thousand_applications_are_delivered_once() {
    runtime::install_crypto_provider();
    let findings = clock().block_on(crowd::live(&certificates()[0], 10_000));
    assert!(findings.is_empty(), "{findings:#?}");
}
