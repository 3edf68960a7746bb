//! `bench`: measures, and prints what it measured. See docs/performance.md.

use std::process::ExitCode;

fn main() -> ExitCode {
    lab::bench::main()
}
