//! Readers that several rules share: sources, modules, names of tests, flags and registered metrics.

pub(crate) mod flags;
pub(crate) mod modules;
pub(crate) mod names;
pub(crate) mod registered;
pub(crate) mod sources;
