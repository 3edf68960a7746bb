//! Whole values, for those known to be small.

use super::{Event, Kind, Limits, Malformed, Scanner, Step, scan};

/// One value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A value on a line, in its text form.
    Line(Kind, Vec<u8>),
    /// Bytes.
    Bytes(Kind, Vec<u8>),
    /// Elements; of a map, keys and values in turn.
    Group(Kind, Vec<Self>),
    /// The null of version 2 for bytes or for a list.
    Nothing(Kind),
}

impl Value {
    /// `OK`, redis's response to a successful command.
    pub fn ok() -> Self {
        Self::simple("OK")
    }

    /// A simple string.
    pub fn simple(text: &str) -> Self {
        Self::Line(Kind::Simple, one_line(text))
    }

    /// An error; its first word is the code.
    pub fn error(text: &str) -> Self {
        Self::Line(Kind::Error, one_line(text))
    }

    /// A number.
    pub fn integer(number: i64) -> Self {
        Self::Line(Kind::Integer, number.to_string().into_bytes())
    }

    /// Bytes.
    pub fn bytes(bytes: impl Into<Vec<u8>>) -> Self {
        Self::Bytes(Kind::Bulk, bytes.into())
    }

    /// The number, if it is one.
    pub fn as_integer(&self) -> Option<i64> {
        match self {
            Self::Line(Kind::Integer, text) => scan::integer(text),
            Self::Line(..) | Self::Bytes(..) | Self::Group(..) | Self::Nothing(_) => None,
        }
    }

    /// The text of a string of any kind.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Line(Kind::Simple, text) | Self::Bytes(Kind::Bulk, text) => Some(text),
            Self::Line(..) | Self::Bytes(..) | Self::Group(..) | Self::Nothing(_) => None,
        }
    }

    /// The text of an error of any kind.
    pub fn as_error(&self) -> Option<&[u8]> {
        match self {
            Self::Line(Kind::Error, text) | Self::Bytes(Kind::BulkError, text) => Some(text),
            Self::Line(..) | Self::Bytes(..) | Self::Group(..) | Self::Nothing(_) => None,
        }
    }

    /// The elements of a group.
    pub fn elements(&self) -> &[Self] {
        match self {
            Self::Group(_, elements) => elements,
            Self::Line(..) | Self::Bytes(..) | Self::Nothing(_) => &[],
        }
    }

    /// Appends it to `into`.
    pub fn encode(&self, into: &mut Vec<u8>) {
        // Not recursive, so that depth costs no stack.
        let mut left = vec![self];
        while let Some(value) = left.pop() {
            match value {
                Self::Line(kind, text) => line(into, *kind, text),
                Self::Bytes(kind, bytes) => {
                    line(into, *kind, bytes.len().to_string().as_bytes());
                    into.extend_from_slice(bytes);
                    into.extend_from_slice(b"\r\n");
                }
                Self::Nothing(kind) => line(into, *kind, b"-1"),
                Self::Group(kind, elements) => {
                    // The value that an attribute describes follows its keys and values.
                    let is_map = matches!(kind, Kind::Map | Kind::Attribute);
                    let count = elements.len() / if is_map { 2 } else { 1 };
                    line(into, *kind, count.to_string().as_bytes());
                    left.extend(elements.iter().rev());
                }
            }
        }
    }

    /// Its bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![];
        self.encode(&mut bytes);
        bytes
    }
}

fn line(into: &mut Vec<u8>, kind: Kind, text: &[u8]) {
    into.push(kind.byte());
    into.extend_from_slice(text);
    into.extend_from_slice(b"\r\n");
}

/// Removes characters that would end the line.
fn one_line(text: &str) -> Vec<u8> {
    let bytes = text.bytes().filter(|byte| !matches!(byte, b'\r' | b'\n'));
    bytes.collect()
}

/// A command in the form of clients.
pub fn command(words: &[&[u8]]) -> Vec<u8> {
    let words = words.iter().map(|word| Value::bytes(*word)).collect();
    Value::Group(Kind::Array, words).to_bytes()
}

/// The value at the beginning of `input`, and its number of bytes; none if it is incomplete.
///
/// # Errors
/// The bytes are invalid or exceed a limit.
pub fn decode(input: &[u8], limits: Limits) -> Result<Option<(Value, usize)>, Malformed> {
    let (mut scanner, mut rest) = (Scanner::new(limits), input);
    let mut building = Building::default();
    loop {
        match scanner.step(&mut rest)? {
            Step::Event(event) => building.take(event, scanner.text()),
            Step::More => return Ok(None),
            Step::Done => {
                let used = input.len().saturating_sub(rest.len());
                return Ok(building.whole.take().map(|value| (value, used)));
            }
        }
    }
}

/// A value that is still incomplete.
#[derive(Debug, Default)]
struct Building {
    open: Vec<Open>,
    bytes: Option<(Kind, u64, Vec<u8>)>,
    whole: Option<Value>,
}

#[derive(Debug)]
struct Open {
    kind: Kind,
    left: u64,
    elements: Vec<Value>,
}

impl Building {
    /// `line` is the last line of the scanner.
    fn take(&mut self, event: Event<'_>, line: &[u8]) {
        match event {
            Event::Line(kind) => self.add(Value::Line(kind, line.to_vec())),
            Event::Bytes(kind, None) | Event::Group(kind, None) => self.add(Value::Nothing(kind)),
            Event::Bytes(kind, Some(0)) => self.add(Value::Bytes(kind, vec![])),
            Event::Bytes(kind, Some(left)) => self.bytes = Some((kind, left, vec![])),
            Event::Data(data) => self.data(data),
            Event::Group(kind, Some(0)) => self.add(Value::Group(kind, vec![])),
            Event::Group(kind, Some(left)) => self.open.push(Open {
                kind,
                left,
                // Grows with received elements, not with the announced number.
                elements: vec![],
            }),
        }
    }

    fn data(&mut self, data: &[u8]) {
        let Some((kind, left, mut bytes)) = self.bytes.take() else {
            return;
        };
        bytes.extend_from_slice(data);
        let left = left.saturating_sub(u64::try_from(data.len()).unwrap_or(left));
        if left == 0 {
            self.add(Value::Bytes(kind, bytes));
        } else {
            self.bytes = Some((kind, left, bytes));
        }
    }

    fn add(&mut self, mut value: Value) {
        while let Some(open) = self.open.last_mut() {
            open.elements.push(value);
            open.left = open.left.saturating_sub(1);
            if open.left > 0 {
                return;
            }
            let Some(Open { kind, elements, .. }) = self.open.pop() else {
                return;
            };
            value = Value::Group(kind, elements);
        }
        self.whole = Some(value);
    }
}
