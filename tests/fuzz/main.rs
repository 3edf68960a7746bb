//! Fuzz targets: the parsers and decisions that read bytes of a peer, with properties that hold for every input.
//!
//! Each test checks the seeds of a target, the inputs below `inputs/` that once failed, and random variants of both; the seed of
//! the randomness is fixed. `FUZZ_CASES=100000` checks more variants, `FUZZ_SEED=7` others. `make fuzz` runs the same targets
//! under libFuzzer, which searches for inputs that reach new code.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test ends here"
)]

use std::panic::{AssertUnwindSafe, catch_unwind};

mod mutation;
mod targets;

use mutation::Mutation;
use targets::Target;

/// Checks a target with its seeds and with random variants of them.
fn check(target: &Target) {
    let mut inputs = (target.seeds)();
    inputs.extend(failed_before(target.name));
    for input in &inputs {
        attempt(target, input);
    }
    let mut mutation = Mutation::new(variable("FUZZ_SEED").unwrap_or(1));
    for _ in 0..variable("FUZZ_CASES").unwrap_or(target.cases) {
        attempt(target, &mutation.variant(&inputs));
    }
}

fn attempt(target: &Target, input: &[u8]) {
    let checked = catch_unwind(AssertUnwindSafe(|| (target.check)(input)));
    let (name, shown) = (target.name, input.escape_ascii());
    assert!(checked.is_ok(), "{name} fails with b\"{shown}\"");
}

/// Inputs that failed once, in files.
fn failed_before(target: &str) -> Vec<Vec<u8>> {
    let folder = format!("{}/fuzz/inputs/{target}", env!("CARGO_MANIFEST_DIR"));
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    files
        .filter_map(|file| std::fs::read(file.path()).ok())
        .collect()
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn received_frames_keep_a_session_within_its_bounds() {
    check(&targets::FRAMES);
}

#[test]
fn resp_reads_alike_in_any_pieces_and_within_its_limits() {
    check(&targets::RESP);
}

#[test]
fn oversize_filter_is_bounded_and_indifferent_to_pieces() {
    check(&targets::FILTER);
}

#[test]
fn certificate_names_one_cluster_as_a_whole_or_none() {
    check(&targets::CERTIFICATE);
}

#[test]
fn only_a_token_as_issued_is_accepted() {
    check(&targets::TOKEN);
}

#[test]
fn accepted_request_keeps_its_meaning_and_leads_nowhere_else() {
    check(&targets::REQUEST);
}

#[test]
fn decoded_object_equals_its_json_and_costs_bounded_memory() {
    check(&targets::OBJECT);
}
