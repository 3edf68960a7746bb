//! Readers that several rules share: sources, names of tests, flags and registered metrics.

pub(crate) mod flags;
pub(crate) mod names;
pub(crate) mod registered;
pub(crate) mod sources;
