//! The fuzz targets under libFuzzer: `FUZZ_TARGET` names the target, the last argument is its folder of inputs.
//!
//! Writes the target's seeds into that folder first. `make fuzz` calls it.

#![no_main]
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test ends here"
)]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

mod targets;

use targets::{CERTIFICATE, FILTER, FRAMES, OBJECT, REQUEST, RESP, TOKEN, Target};

const ALL: [Target; 7] = [FRAMES, RESP, FILTER, CERTIFICATE, TOKEN, REQUEST, OBJECT];

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").expect("FUZZ_TARGET names the target");
    let found = ALL.into_iter().find(|target| target.name == name);
    found.expect("FUZZ_TARGET is a target")
});

fn write_seeds() {
    let Some(folder) = std::env::args().next_back() else {
        return;
    };
    if std::path::Path::new(&folder).is_dir() {
        for (number, seed) in (TARGET.seeds)().into_iter().enumerate() {
            let path = format!("{folder}/seed-{number}");
            std::fs::write(path, seed).expect("a seed is written");
        }
    }
}

fuzz_target!(init: write_seeds(), |input: &[u8]| (TARGET.check)(input));
