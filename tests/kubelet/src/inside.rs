//! The other life of this program: what runs inside the namespaces.

/// Becomes a part of a container if that is what this program was called for, and then never returns.
///
/// Must be the first call in `main`, before any thread is started.
pub fn maybe_become_container() {}
