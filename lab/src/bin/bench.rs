//! `bench`: runs benchmarks and prints their tables. See docs/performance.md.

use std::process::ExitCode;

fn main() -> ExitCode {
    lab::bench::main()
}
