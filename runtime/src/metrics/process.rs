//! What the process takes of its machine, under the names that every exporter has for it.
//!
//! Read from `/proc/self` when somebody asks: files of the kernel, that are made while they are read.

use std::{fmt, fs};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Registry;

use super::Gauges;
use crate::clock::Clock;

/// What `/proc` counts time in, whatever the kernel does: `USER_HZ` is part of its interface.
const TICKS: f64 = 100.0;

/// Adds them.
pub(super) fn register(registry: &mut Registry) {
    let begun = Clock::system().now().as_second();
    registry.register_collector(Box::new(Process { begun }));
}

#[derive(Debug)]
struct Process {
    /// When the metrics were registered, which is the first that a program does.
    begun: i64,
}

impl Collector for Process {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let open = fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
        let mut gauges = Gauges::new(encoder);
        gauges.one(
            "process_start_time_seconds",
            "When the process began, in seconds of Unix time",
            float(u64::try_from(self.begun).unwrap_or_default()),
        )?;
        gauges.one(
            "process_resident_memory_bytes",
            "Memory that the process has now; a steady rise is a leak",
            resident(&status).unwrap_or_default(),
        )?;
        gauges.one(
            "process_open_fds",
            "Open files and connections",
            float(u64::try_from(open).unwrap_or_default()),
        )?;
        gauges.counter(
            "process_cpu_seconds",
            "Time that processors have worked for the process",
            cpu(&stat).unwrap_or_default(),
        )
    }
}

/// `VmRSS:      1234 kB`
fn resident(status: &str) -> Option<f64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(float(kibibytes.saturating_mul(1024)))
}

/// The fields of `stat` follow the program's name, which is in brackets and may have anything in it.
fn cpu(stat: &str) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(')')?;
    // The first of these is the third of all; 14 and 15 are the times of user and system.
    let mut times = fields.split_whitespace().skip(11);
    let mut ticks = || times.next()?.parse::<u64>().ok();
    Some(float(ticks()?.saturating_add(ticks()?)) / TICKS)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "exact up to 8 PiB and beyond our time"
)]
const fn float(whole: u64) -> f64 {
    whole as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_of_a_process_is_read() {
        let status = "Name:\tagent\nVmPeak:\t  900 kB\nVmRSS:\t  512 kB\nThreads:\t4\n";
        assert_eq!(resident(status), Some(524_288.0));
        assert_eq!(resident("Name:\tagent\n"), None);
        let stat = "42 (a) b (c) S 1 42 42 0 -1 4194304 100 0 0 0 150 50 0 0 20 0 4";
        assert_eq!(cpu(stat), Some(2.0));
        assert_eq!(cpu("42 (a"), None);
    }

    #[test]
    fn this_process_is_told_of() {
        let registry = super::super::Registry::new();
        registry.with(register);
        let text = registry.encode().unwrap();
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|value| value.trim().parse::<f64>().ok())
        };
        assert!(
            value("process_resident_memory_bytes ").unwrap() > 1e6,
            "{text}"
        );
        assert!(value("process_open_fds ").unwrap() >= 3.0, "{text}");
        assert!(
            value("process_start_time_seconds ").unwrap() > 1.7e9,
            "{text}"
        );
        assert!(value("process_cpu_seconds_total ").is_some(), "{text}");
    }
}
