//! Readers that several rules share: sources, modules, names of tests, flags and registered metrics.

pub(crate) mod flags;
pub(crate) mod modules;
pub(crate) mod names;
pub(crate) mod registered;
pub(crate) mod sources;

/// Whether files that are compared with this tree are rewritten (`UPDATE_GOLDEN=1`). In continuous integration they never are: a
/// test that writes what it compares would accept every change.
pub(crate) fn updates_golden() -> bool {
    let is_asked = std::env::var_os("UPDATE_GOLDEN").is_some();
    assert!(
        !is_asked || std::env::var_os("CI").is_none(),
        "UPDATE_GOLDEN is set, and CI too"
    );
    is_asked
}
