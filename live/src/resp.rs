//! RESP, the protocol of redis, in its versions 2 and 3: values only, no commands.
//!
//! A [`Scanner`] classifies bytes in pieces of any size without keeping them, so a value of any size can be forwarded
//! while it arrives. [`decode`] keeps one whole value, for those known to be small. Neither recurses for nested values,
//! and neither reserves memory for an announced length: [`Limits`] and the bytes that a peer has really sent bound its
//! cost.

mod scan;
mod value;

#[cfg(test)]
mod tests;

pub use scan::{Event, Scanner, Step};
pub use value::{Value, command, decode};

/// The limits of one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Nested groups.
    pub depth: usize,
    /// Elements of all its groups together.
    pub elements: u64,
    /// Bytes of a line: a simple string, an error, or a header.
    pub line: usize,
    /// Bytes of the whole value.
    pub bytes: u64,
}

impl Limits {
    /// For commands, greetings and errors.
    pub const SMALL: Self = Self {
        depth: 8,
        elements: 1024,
        line: 8 << 10,
        bytes: 64 << 10,
    };
}

/// The kind of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// `+`, a simple string.
    Simple = b'+',
    /// `-`, an error.
    Error = b'-',
    /// `:`, a number.
    Integer = b':',
    /// `_`, the null of version 3.
    Null = b'_',
    /// `#`, true or false.
    Boolean = b'#',
    /// `,`, a floating-point number.
    Double = b',',
    /// `(`, a number of any size.
    BigNumber = b'(',
    /// `$`, bytes.
    Bulk = b'$',
    /// `!`, an error as bytes.
    BulkError = b'!',
    /// `=`, bytes with their format.
    Verbatim = b'=',
    /// `*`, a list.
    Array = b'*',
    /// `~`, a set.
    Set = b'~',
    /// `>`, out-of-band data, such as a message.
    Push = b'>',
    /// `%`, keys and values in turn.
    Map = b'%',
    /// `|`, keys and values in turn, about the value that follows; which is its last element here.
    Attribute = b'|',
}

/// The content after a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// None: the line is the value.
    Line,
    /// As many bytes as announced.
    Bytes,
    /// `each` elements per announced one, and `more` in addition.
    Elements { each: u64, more: u64 },
}

impl Kind {
    /// Each kind with its content.
    const SHAPES: [(Self, Shape); 15] = [
        (Self::Simple, Shape::Line),
        (Self::Error, Shape::Line),
        (Self::Integer, Shape::Line),
        (Self::Null, Shape::Line),
        (Self::Boolean, Shape::Line),
        (Self::Double, Shape::Line),
        (Self::BigNumber, Shape::Line),
        (Self::Bulk, Shape::Bytes),
        (Self::BulkError, Shape::Bytes),
        (Self::Verbatim, Shape::Bytes),
        (Self::Array, Shape::Elements { each: 1, more: 0 }),
        (Self::Set, Shape::Elements { each: 1, more: 0 }),
        (Self::Push, Shape::Elements { each: 1, more: 0 }),
        (Self::Map, Shape::Elements { each: 2, more: 0 }),
        (Self::Attribute, Shape::Elements { each: 2, more: 1 }),
    ];

    /// Its first byte.
    pub const fn byte(self) -> u8 {
        self as u8
    }

    fn from_byte(byte: u8) -> Option<(Self, Shape)> {
        let mut all = Self::SHAPES.into_iter();
        all.find(|(kind, _)| kind.byte() == byte)
    }

    /// Whether version 2 has a null of this kind, with a length of -1.
    const fn has_null(self) -> bool {
        matches!(self, Self::Bulk | Self::Array)
    }
}

/// Why bytes are rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// No value begins with this byte.
    #[error("no value begins with '{}'", .0.escape_ascii())]
    Kind(u8),
    /// An invalid length or number.
    #[error("a number was expected")]
    Number,
    /// A line or bytes without the end of a line.
    #[error("the end of a line was expected")]
    End,
    /// Too many nested groups.
    #[error("more than {0} groups within one another")]
    Depth(usize),
    /// Too many elements.
    #[error("more than {0} elements")]
    Elements(u64),
    /// A line that is too long.
    #[error("a line of more than {0} bytes")]
    Line(usize),
    /// A value that is too long.
    #[error("more than {0} bytes")]
    Bytes(u64),
}
