//! Resource usage of the process, with the standard metric names of exporters.
//!
//! Read from `/proc/self` at each scrape; the kernel generates these files when they are read.

use std::{fmt, fs};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Registry;

use super::Gauges;
use crate::clock::Clock;
use crate::process::{processor, resident_kib};

/// Registers the metrics.
pub(super) fn register(registry: &mut Registry) {
    let begun = Clock::system().now().as_second();
    registry.register_collector(Box::new(Process { begun }));
}

#[derive(Debug)]
struct Process {
    /// When the metrics were registered, which is the first action of a program.
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
            "Start time of the process in Unix seconds",
            float(u64::try_from(self.begun).unwrap_or_default()),
        )?;
        gauges.one(
            "process_resident_memory_bytes",
            "Resident memory of the process; a steady rise means a leak",
            resident_kib(&status).map_or(0.0, |kib| float(kib.saturating_mul(1024))),
        )?;
        gauges.one(
            "process_open_fds",
            "Open files and connections",
            float(u64::try_from(open).unwrap_or_default()),
        )?;
        gauges.counter(
            "process_cpu_seconds",
            "Processor time of the process",
            processor(&stat).unwrap_or_default().as_secs_f64(),
        )
    }
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
    fn metrics_report_this_process() {
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
