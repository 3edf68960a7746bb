//! RESP, the language of redis, in its versions 2 and 3: values in, values out, and nothing about commands.
//!
//! A [`Scanner`] takes bytes as they come, in pieces of any size, and says what they are without keeping them; so a
//! value of any size is passed on while it is read. [`decode`] keeps one whole value, for those known to be small.
//! Neither calls itself for what is nested, and neither makes room for what is only announced: what a peer costs us is
//! bounded by [`Limits`] and by what it has really sent.

use std::fmt;

mod scan;
mod value;

#[cfg(test)]
mod tests;

pub use scan::{Event, Scanner, Step};
pub use value::{Value, command, decode};

/// What one value may cost at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Groups within groups.
    pub depth: usize,
    /// Elements of all its groups together.
    pub elements: u64,
    /// Bytes of a line: a simple string, an error, or the header of something else.
    pub line: usize,
    /// Bytes of all of it.
    pub bytes: u64,
}

impl Limits {
    /// For what is said beside values: commands, greetings and errors.
    pub const SMALL: Self = Self {
        depth: 8,
        elements: 1024,
        line: 8 << 10,
        bytes: 64 << 10,
    };
}

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `+`, a simple string.
    Simple,
    /// `-`, an error.
    Error,
    /// `:`, a number.
    Integer,
    /// `_`, the null of version 3.
    Null,
    /// `#`, true or false.
    Boolean,
    /// `,`, a floating-point number.
    Double,
    /// `(`, a number of any size.
    BigNumber,
    /// `$`, bytes.
    Bulk,
    /// `!`, an error as bytes.
    BulkError,
    /// `=`, bytes that say of which format they are.
    Verbatim,
    /// `*`, a list.
    Array,
    /// `~`, a set.
    Set,
    /// `>`, something nobody asked for now, such as a message.
    Push,
    /// `%`, keys and values in turn.
    Map,
    /// `|`, keys and values in turn, about the value that follows; which is its last element here.
    Attribute,
}

/// How what follows a header is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// It is the line itself.
    Line,
    /// So many bytes.
    Bytes,
    /// So many elements for each one announced, and so many more.
    Elements { each: u64, more: u64 },
}

impl Kind {
    const ALL: [Self; 15] = [
        Self::Simple,
        Self::Error,
        Self::Integer,
        Self::Null,
        Self::Boolean,
        Self::Double,
        Self::BigNumber,
        Self::Bulk,
        Self::BulkError,
        Self::Verbatim,
        Self::Array,
        Self::Set,
        Self::Push,
        Self::Map,
        Self::Attribute,
    ];

    /// The byte before it.
    pub const fn byte(self) -> u8 {
        match self {
            Self::Simple => b'+',
            Self::Error => b'-',
            Self::Integer => b':',
            Self::Null => b'_',
            Self::Boolean => b'#',
            Self::Double => b',',
            Self::BigNumber => b'(',
            Self::Bulk => b'$',
            Self::BulkError => b'!',
            Self::Verbatim => b'=',
            Self::Array => b'*',
            Self::Set => b'~',
            Self::Push => b'>',
            Self::Map => b'%',
            Self::Attribute => b'|',
        }
    }

    fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.byte() == byte)
    }

    const fn shape(self) -> Shape {
        match self {
            Self::Simple
            | Self::Error
            | Self::Integer
            | Self::Null
            | Self::Boolean
            | Self::Double
            | Self::BigNumber => Shape::Line,
            Self::Bulk | Self::BulkError | Self::Verbatim => Shape::Bytes,
            Self::Array | Self::Set | Self::Push => Shape::Elements { each: 1, more: 0 },
            Self::Map => Shape::Elements { each: 2, more: 0 },
            Self::Attribute => Shape::Elements { each: 2, more: 1 },
        }
    }

    /// Whether version 2 has a null of it, announced as a length of -1.
    const fn has_null(self) -> bool {
        matches!(self, Self::Bulk | Self::Array)
    }
}

/// Why bytes are not, or may not be, a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// No value begins so.
    #[error("no value begins with {}", Shown(*.0))]
    Kind(u8),
    /// A length or a number that is none.
    #[error("a number was expected")]
    Number,
    /// A line or bytes that do not end as they should.
    #[error("the end of a line was expected")]
    End,
    /// Too many groups within groups.
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

/// A byte of a stranger, as it may be printed.
struct Shown(u8);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}'", self.0.escape_ascii())
    }
}
