//! Scans RESP in a stream of bytes.

use super::{Kind, Limits, Malformed, Shape};

/// Classifies bytes, value by value. Keeps one line at most.
#[derive(Debug)]
pub struct Scanner {
    limits: Limits,
    /// The current line.
    line: Vec<u8>,
    next: Next,
    /// Missing elements of each open group, the innermost last.
    open: Vec<u64>,
    elements: u64,
    bytes: u64,
}

/// The expected input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Line,
    Data {
        left: u64,
    },
    CarriageReturn,
    NewLine,
    /// The end of this value.
    Done,
}

/// A piece of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A whole value on a line; see [`Scanner::text`].
    Line(Kind),
    /// The number of bytes that follow; none for a null.
    Bytes(Kind, Option<u64>),
    /// A part of these bytes.
    Data(&'a [u8]),
    /// The number of elements that follow; none for a null.
    Group(Kind, Option<u64>),
}

/// The result of one step of a [`Scanner`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// A piece of a value.
    Event(Event<'a>),
    /// The value is complete. The rest of the input belongs to the next one.
    Done,
    /// The input is used up.
    More,
}

impl Scanner {
    /// A scanner at the start of a stream.
    pub const fn new(limits: Limits) -> Self {
        Self {
            limits,
            line: Vec::new(),
            next: Next::Line,
            open: Vec::new(),
            elements: 0,
            bytes: 0,
        }
    }

    /// Whether the input so far ends with a whole value.
    pub fn is_between(&self) -> bool {
        matches!(self.next, Next::Done) || (self.bytes == 0 && self.open.is_empty())
    }

    /// Consumes the bytes of one step from the beginning of `input`.
    ///
    /// # Errors
    /// The bytes are invalid or exceed a limit. The scanner cannot continue.
    pub fn step<'a>(&mut self, input: &mut &'a [u8]) -> Result<Step<'a>, Malformed> {
        loop {
            match self.next {
                Next::Done => {
                    *self = Self::new(self.limits);
                    return Ok(Step::Done);
                }
                Next::Line => {
                    if !self.read_line(input)? {
                        return Ok(Step::More);
                    }
                    return self.header().map(Step::Event);
                }
                Next::Data { left: 0 } => self.next = Next::CarriageReturn,
                Next::Data { left } => {
                    let most = usize::try_from(left).unwrap_or(usize::MAX);
                    let data = self.take(input, most)?;
                    if data.is_empty() {
                        return Ok(Step::More);
                    }
                    let taken = u64::try_from(data.len()).unwrap_or(left);
                    self.next = Next::Data {
                        left: left.saturating_sub(taken),
                    };
                    return Ok(Step::Event(Event::Data(data)));
                }
                Next::CarriageReturn | Next::NewLine => {
                    let Some(byte) = self.take(input, 1)?.first() else {
                        return Ok(Step::More);
                    };
                    match (self.next, byte) {
                        (Next::CarriageReturn, b'\r') => self.next = Next::NewLine,
                        (Next::NewLine, b'\n') => self.complete(),
                        _ => return Err(Malformed::End),
                    }
                }
            }
        }
    }

    /// Whether the line is complete, with its end.
    fn read_line(&mut self, input: &mut &[u8]) -> Result<bool, Malformed> {
        if self.line.ends_with(b"\n") {
            // Drop the previous line.
            self.line.clear();
        }
        let end = input.iter().position(|byte| *byte == b'\n');
        let length = end.map_or(input.len(), |end| end.saturating_add(1));
        let room = self.limits.line.saturating_sub(self.line.len());
        if length > room {
            return Err(Malformed::Line(self.limits.line));
        }
        let piece = self.take(input, length)?;
        self.line.extend_from_slice(piece);
        Ok(end.is_some())
    }

    /// Interprets a complete line.
    fn header<'a>(&mut self) -> Result<Event<'a>, Malformed> {
        let first = self.line.first().ok_or(Malformed::End)?;
        let (kind, shape) = Kind::from_byte(*first).ok_or(Malformed::Kind(*first))?;
        if !self.line.ends_with(b"\r\n") || self.line.len() < 3 {
            return Err(Malformed::End);
        }
        match shape {
            Shape::Line => {
                check(kind, self.text())?;
                self.complete();
                Ok(Event::Line(kind))
            }
            Shape::Bytes => {
                let length = length(kind, self.text())?;
                match length {
                    Some(left) if left > self.limits.bytes => {
                        return Err(Malformed::Bytes(self.limits.bytes));
                    }
                    Some(left) => self.next = Next::Data { left },
                    None => self.complete(),
                }
                Ok(Event::Bytes(kind, length))
            }
            Shape::Elements { each, more } => {
                let announced = length(kind, self.text())?;
                let count = announced.map(|it| it.saturating_mul(each).saturating_add(more));
                match count {
                    Some(count) => self.open(count)?,
                    None => self.complete(),
                }
                Ok(Event::Group(kind, count))
            }
        }
    }

    fn open(&mut self, count: u64) -> Result<(), Malformed> {
        self.elements = self.elements.saturating_add(count);
        if self.elements > self.limits.elements {
            return Err(Malformed::Elements(self.limits.elements));
        }
        if count == 0 {
            self.complete();
            return Ok(());
        }
        if self.open.len() >= self.limits.depth {
            return Err(Malformed::Depth(self.limits.depth));
        }
        self.open.push(count);
        self.next = Next::Line;
        Ok(())
    }

    /// Ends a value, and the groups that it completes.
    fn complete(&mut self) {
        self.next = Next::Line;
        while let Some(left) = self.open.last_mut() {
            *left = left.saturating_sub(1);
            if *left > 0 {
                return;
            }
            self.open.pop();
        }
        self.next = Next::Done;
    }

    /// The last line, without its first byte and its end.
    pub fn text(&self) -> &[u8] {
        let end = self.line.len().saturating_sub(2);
        self.line.get(1..end).unwrap_or_default()
    }

    /// Consumes up to `most` bytes.
    fn take<'a>(&mut self, input: &mut &'a [u8], most: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = input.split_at(most.min(input.len()));
        *input = rest;
        let taken_now = u64::try_from(taken.len()).unwrap_or(u64::MAX);
        self.bytes = self.bytes.saturating_add(taken_now);
        if self.bytes > self.limits.bytes {
            return Err(Malformed::Bytes(self.limits.bytes));
        }
        Ok(taken)
    }
}

/// Parses a length; none for the nulls of version 2.
fn length(kind: Kind, text: &[u8]) -> Result<Option<u64>, Malformed> {
    if text == b"-1" && kind.has_null() {
        return Ok(None);
    }
    // Without a sign, which `parse` would accept.
    let digits = text.iter().all(u8::is_ascii_digit);
    let text = str::from_utf8(text).map_err(|_no_text| Malformed::Number)?;
    let number = digits.then(|| text.parse().ok()).flatten();
    number.map(Some).ok_or(Malformed::Number)
}

fn check(kind: Kind, text: &[u8]) -> Result<(), Malformed> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let digits = digits.strip_prefix(b"+").unwrap_or(digits);
    let good = match kind {
        Kind::Simple | Kind::Error => !text.contains(&b'\r'),
        Kind::Integer => integer(text).is_some(),
        Kind::Null => text.is_empty(),
        Kind::Boolean => matches!(text, b"t" | b"f"),
        Kind::BigNumber => !digits.is_empty() && digits.iter().all(u8::is_ascii_digit),
        Kind::Double => str::from_utf8(text).is_ok_and(|text| text.parse::<f64>().is_ok()),
        Kind::Bulk
        | Kind::BulkError
        | Kind::Verbatim
        | Kind::Array
        | Kind::Set
        | Kind::Push
        | Kind::Map
        | Kind::Attribute => true,
    };
    if good { Ok(()) } else { Err(Malformed::Number) }
}

/// The number on the line of a [`Kind::Integer`].
pub(super) fn integer(text: &[u8]) -> Option<i64> {
    str::from_utf8(text).ok()?.parse().ok()
}
