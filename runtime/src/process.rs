//! What a process takes of its machine, as the files of the kernel tell it (proc(5)). Pure.

use std::time::Duration;

/// The resident memory in `/proc/PID/status`, in KiB.
pub fn resident_kib(status: &str) -> Option<u64> {
    let mut lines = status.lines();
    let line = lines.find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// The time that processors have worked for it, by `/proc/PID/stat`.
///
/// It is told in hundredths of a second, whatever the kernel counts in: `USER_HZ` is part of its interface.
pub fn processor(stat: &str) -> Option<Duration> {
    // The fields follow the program's name, which is in brackets and may have anything in it.
    let (_, fields) = stat.rsplit_once(')')?;
    // The first of these is the third of all; 14 and 15 are the times of user and system.
    let mut times = fields.split_whitespace().skip(11);
    let mut ticks = || times.next()?.parse::<u64>().ok();
    let ticks = ticks()?.saturating_add(ticks()?);
    Some(Duration::from_millis(ticks.saturating_mul(10)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_of_a_process_is_read() {
        let status = "Name:\tagent\nVmPeak:\t  900 kB\nVmRSS:\t  512 kB\nThreads:\t4\n";
        assert_eq!(resident_kib(status), Some(512));
        assert_eq!(resident_kib("Name:\tagent\n"), None);
        let stat = "42 (a) b (c) S 1 42 42 0 -1 4194304 100 0 0 0 150 50 0 0 20 0 4";
        assert_eq!(processor(stat), Some(Duration::from_secs(2)));
        assert_eq!(processor("42 (a"), None);
        assert_eq!(processor("7 (a) S"), None);
    }
}
