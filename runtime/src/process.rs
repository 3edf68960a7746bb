//! Parses the resource usage of a process from proc(5). Pure.

use std::time::Duration;

/// The resident memory in `/proc/PID/status`, in KiB.
pub fn resident_kib(status: &str) -> Option<u64> {
    kib(status, "VmRSS:")
}

/// The most resident memory of the process so far in `/proc/PID/status`, in KiB.
pub fn peak_kib(status: &str) -> Option<u64> {
    kib(status, "VmHWM:")
}

fn kib(status: &str, field: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// The CPU time of a process, from `/proc/PID/stat`.
///
/// The unit is always a hundredth of a second: `USER_HZ` is part of the kernel's interface.
pub fn processor(stat: &str) -> Option<Duration> {
    // The fields follow the program's name, which is in parentheses and may contain any character.
    let (_, fields) = stat.rsplit_once(')')?;
    // The first of these is field 3; fields 14 and 15 are user and system time.
    let mut times = fields.split_whitespace().skip(11);
    let mut ticks = || times.next()?.parse::<u64>().ok();
    let ticks = ticks()?.saturating_add(ticks()?);
    Some(Duration::from_millis(ticks.saturating_mul(10)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_parsed_from_proc() {
        let status =
            "Name:\tagent\nVmPeak:\t  900 kB\nVmHWM:\t  600 kB\nVmRSS:\t  512 kB\nThreads:\t4\n";
        assert_eq!(resident_kib(status), Some(512));
        assert_eq!(peak_kib(status), Some(600));
        assert_eq!(resident_kib("Name:\tagent\n"), None);
        let stat = "42 (a) b (c) S 1 42 42 0 -1 4194304 100 0 0 0 150 50 0 0 20 0 4";
        assert_eq!(processor(stat), Some(Duration::from_secs(2)));
        assert_eq!(processor("42 (a"), None);
        assert_eq!(processor("7 (a) S"), None);
    }
}
