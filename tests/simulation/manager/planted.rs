//! The oracle must be able to fail: for each of its findings a broken promise that makes exactly this finding appear.

use super::Fault;
use crate::clock;

/// Not every history has an object that the broken promise is about.
const ATTEMPTS: u64 = 20;

/// A broken promise, a seed that has met it, and parts of the only findings that it may cause; the first one is required in
/// some history from that seed on.
const PLANTED: [(Fault, u64, &[&str]); 8] = [
    (Fault::NoFence, 2, &[" wrote while "]),
    (
        Fault::BlindRestore,
        0,
        &["was restored and is revoked", "it got no certificate"],
    ),
    (
        Fault::LeftWork,
        0,
        &["a work is left", "no work has ", "cluster Secret is left"],
    ),
    (Fault::LeftSecret, 0, &["its cluster Secret is left"]),
    (Fault::LostSecret, 0, &["it has no cluster Secret"]),
    // The hub program sees a part of the world only: anything may be wrong then, and something is.
    (Fault::LossyWatch, 1, &[""]),
    (
        Fault::WrongUser,
        0,
        &["a request of the agent of another cluster was granted"],
    ),
    (Fault::Restless, 0, &["at rest the replicas wrote"]),
];

#[test]
fn each_planted_fault_of_the_manager_is_found() {
    runtime::install_crypto_provider();
    let mut missed = vec![];
    for (fault, first, allowed) in PLANTED {
        let is_required = |finding: &String| finding.contains(allowed[0]);
        let found = (first..first + ATTEMPTS).find(|seed| {
            let (findings, _) = clock().block_on(super::live(*seed, fault));
            let mut others = findings.iter();
            let other = others.find(|finding| !allowed.iter().any(|it| finding.contains(it)));
            assert_eq!(other, None, "{fault:?}, seed {seed}");
            findings.iter().any(is_required)
        });
        eprintln!("{fault:?}: {found:?}");
        missed.extend(found.is_none().then_some(fault));
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}
