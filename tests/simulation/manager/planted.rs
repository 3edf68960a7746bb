//! The oracle must be able to fail: for each of its findings a broken promise that makes exactly this finding appear.

use super::{Fault, Last};
use crate::clock;

/// Not every history has an object that the broken promise is about.
const ATTEMPTS: u64 = 20;

/// A broken promise, a seed that has met it, and parts of the only findings that it may cause; the first one is required in
/// some history from that seed on.
const PLANTED: [(Fault, u64, &[&str]); 19] = [
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
    (Fault::LossyWatch, 0, &["no work has "]),
    (
        Fault::WrongUser,
        0,
        &["a request of the agent of another cluster was granted"],
    ),
    (Fault::Restless, 0, &["at rest the replicas wrote"]),
    (Fault::Endless, 0, &["the writes never end"]),
    (
        Fault::Last(Last::NoAddOn),
        0,
        &["it has no ManagedClusterAddOn", "a work is left"],
    ),
    (
        Fault::Last(Last::LeftAddOn),
        0,
        &["its ManagedClusterAddOn is left"],
    ),
    (Fault::Last(Last::Mode), 0, &["its mode is "]),
    (Fault::Last(Last::Maker), 0, &["has another maker"]),
    (Fault::Last(Last::Restored), 0, &["was revoked and is not"]),
    (
        Fault::Last(Last::StuckAddOn),
        0,
        &["the deletion of its ManagedClusterAddOn never ends"],
    ),
    (Fault::Last(Last::NoWork), 0, &["no work has "]),
    (
        Fault::Last(Last::StuckWork),
        0,
        &["the deletion of a work never ends"],
    ),
    (
        Fault::Last(Last::Granted),
        0,
        &["it got a certificate and should not"],
    ),
    (
        Fault::Last(Last::Selection),
        0,
        &[" leads, and the Service selects "],
    ),
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
