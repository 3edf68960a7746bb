//! Whoever should not come in stays outside, is told why, and disturbs nobody.

pub(crate) mod garbage;
pub(crate) mod papers;
pub(crate) mod requests;
