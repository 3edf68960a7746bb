//! The log format for the output of containers: each line with the time at which it arrived.
//!
//! ```text
//! 2026-01-01T00:00:00.000000000Z F a whole line
//! 2026-01-01T00:00:01.000000000Z P a part of a line, which continues in the next entry or never
//! ```
//!
//! Both streams of a container share one log, in the order in which it wrote. Everything is pure, or
//! reads only its arguments.

use std::{
    fs,
    io::{self, Read, Seek, SeekFrom},
    mem,
    path::Path,
};

use jiff::Timestamp;

/// The longest entry; a longer line is split into parts.
pub(crate) const LONGEST: usize = 16 << 10;
/// The length of a time in bytes.
const TIME: usize = 30;
const WHOLE: &[u8] = b" F ";
const PART: &[u8] = b" P ";
/// How many bytes one read takes when a file is read from its end.
const BLOCK: usize = 64 << 10;

/// Converts the output of a container into entries.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    /// The unfinished line; never longer than an entry.
    begun: Vec<u8>,
}

impl Recorder {
    /// The entries of this output, without an unfinished line.
    pub(crate) fn take(&mut self, printed: &[u8], now: Timestamp) -> Vec<u8> {
        let mut entries = Vec::with_capacity(printed.len() + TIME + WHOLE.len());
        for piece in printed.split_inclusive(|byte| *byte == b'\n') {
            let whole = piece.strip_suffix(b"\n");
            self.begun.extend_from_slice(whole.unwrap_or(piece));
            while self.begun.len() > LONGEST {
                let rest = self.begun.split_off(LONGEST);
                write(&mut entries, now, PART, &self.begun);
                self.begun = rest;
            }
            if whole.is_some() {
                write(&mut entries, now, WHOLE, &mem::take(&mut self.begun));
            }
        }
        entries
    }

    /// The entry of an unfinished line.
    pub(crate) fn finish(self, now: Timestamp) -> Vec<u8> {
        let mut entries = Vec::new();
        if !self.begun.is_empty() {
            write(&mut entries, now, PART, &self.begun);
        }
        entries
    }
}

fn write(entries: &mut Vec<u8>, time: Timestamp, kind: &[u8], text: &[u8]) {
    entries.extend_from_slice(format!("{time:.9}").as_bytes());
    entries.extend_from_slice(kind);
    entries.extend_from_slice(text);
    entries.push(b'\n');
}

/// One entry, without the line end that follows it in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry<'a> {
    /// The encoded entry.
    time: &'a [u8],
    text: &'a [u8],
    whole: bool,
}

impl<'a> Entry<'a> {
    fn read(line: &'a [u8]) -> Option<Self> {
        let (time, rest) = line.split_at_checked(TIME)?;
        let (text, whole) = match rest.strip_prefix(WHOLE) {
            Some(text) => (text, true),
            None => (rest.strip_prefix(PART)?, false),
        };
        Some(Self { time, text, whole })
    }

    fn is_before(&self, since: Timestamp) -> bool {
        let time = std::str::from_utf8(self.time).ok();
        let time = time.and_then(|time| time.parse::<Timestamp>().ok());
        time.is_some_and(|time| time < since)
    }
}

/// The options of a request for a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct View {
    /// Only entries since this time.
    pub(crate) since: Option<Timestamp>,
    /// Each line with its time.
    pub(crate) timestamps: bool,
    /// At most this many bytes.
    pub(crate) limit: Option<usize>,
}

/// Shows a log, entry by entry.
#[derive(Debug)]
pub(crate) struct Shown {
    view: View,
    /// The previous line has not ended.
    within: bool,
}

impl Shown {
    pub(crate) const fn new(view: View) -> Self {
        Self {
            view,
            within: false,
        }
    }

    /// Whether the limit of the view is reached.
    pub(crate) const fn is_done(&self) -> bool {
        matches!(self.view.limit, Some(0))
    }

    /// The output for these entries. Bytes after the last line end stay in `entries`.
    pub(crate) fn take(&mut self, entries: &mut Vec<u8>) -> Vec<u8> {
        let end = entries.iter().rposition(|byte| *byte == b'\n');
        let rest = entries.split_off(end.map_or(0, |end| end + 1));
        let ended = mem::replace(entries, rest);
        let mut shown = Vec::with_capacity(ended.len());
        for line in ended.split(|byte| *byte == b'\n') {
            if let Some(entry) = Entry::read(line) {
                self.show(entry, &mut shown);
            }
        }
        if let Some(limit) = &mut self.view.limit {
            shown.truncate(*limit);
            *limit -= shown.len();
        }
        shown
    }

    fn show(&mut self, entry: Entry<'_>, shown: &mut Vec<u8>) {
        if self.view.since.is_some_and(|since| entry.is_before(since)) {
            return;
        }
        if self.view.timestamps && !self.within {
            shown.extend_from_slice(entry.time);
            shown.push(b' ');
        }
        shown.extend_from_slice(entry.text);
        if entry.whole {
            shown.push(b'\n');
        }
        self.within = !entry.whole;
    }
}

/// Where the last so many entries of a log begin.
pub(crate) fn tail(log: &mut (impl Read + Seek), entries: u64) -> io::Result<u64> {
    let end = log.seek(SeekFrom::End(0))?;
    let (mut begin, mut found) = (end, 0);
    let mut block = vec![0; BLOCK];
    while begin > 0 && entries > 0 {
        let mut next = begin;
        let size = usize::try_from(begin).map_or(BLOCK, |begin| begin.min(BLOCK));
        block.resize(size, 0);
        begin -= u64::try_from(size).map_err(io::Error::other)?;
        log.seek(SeekFrom::Start(begin))?;
        log.read_exact(&mut block)?;
        for byte in block.iter().rev() {
            // The last line end ends the last entry; every other one also begins the next.
            if *byte == b'\n' && next != end {
                found += 1;
                if found == entries {
                    return Ok(next);
                }
            }
            next -= 1;
        }
    }
    Ok(if entries == 0 { end } else { 0 })
}

/// The original output, without times.
pub(crate) fn text(mut entries: Vec<u8>) -> Vec<u8> {
    Shown::new(View::default()).take(&mut entries)
}

/// The output of a container: the content of a file below the kubelet's `logs`, without the times.
///
/// # Errors
/// When the file cannot be read.
pub fn printed(log: &Path) -> io::Result<String> {
    let text = text(fs::read(log)?);
    Ok(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests;
