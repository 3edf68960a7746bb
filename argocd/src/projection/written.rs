//! What the API server makes of what is written, so that it is not written again and again.

use std::fmt;

use serde_json::Value;

use super::{data_of, is_resources_finalizer, part, to_map};
use crate::object::Meta;

/// What remained of a desired value when it was last written.
///
/// The API server prunes what it does not know. If what remains now equals what remained right after the
/// last write of the same value, that is its normal form and writing again would change nothing. What the
/// spoke adds of its own, such as a refresh, does not count.
///
/// It is never printed: of a Secret it would be a digest of what that holds.
#[derive(Clone, PartialEq, Eq)]
pub struct Written {
    desired: String,
    remained: String,
}

impl fmt::Debug for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Written").finish_non_exhaustive()
    }
}

impl Written {
    /// From the API server's answer to the write of `desired`.
    pub fn new(desired: &Value, answer: &Value) -> Self {
        Self {
            desired: remains(desired, desired),
            remained: remains(desired, answer),
        }
    }

    /// Whether `live` is what becomes of `desired` here.
    pub fn is_normal_form(&self, live: &Value, desired: &Value) -> bool {
        self.remained == remains(desired, live) && self.desired == remains(desired, desired)
    }
}

/// Digest of the parts of `object` that `desired` speaks about.
fn remains(desired: &Value, object: &Value) -> String {
    let (desired, meta) = (Meta::of(desired), Meta::of(object));
    let wanted = desired.annotations();
    let annotations = meta
        .annotations()
        .into_iter()
        .filter(|(key, _)| wanted.contains_key(key));
    let finalizers = meta
        .finalizers()
        .into_iter()
        .filter(|name| is_resources_finalizer(name));
    crate::digest::short(&part(
        to_map(meta.labels()),
        to_map(annotations),
        finalizers.map(str::to_owned).collect(),
        &meta.field("spec").cloned().unwrap_or_default(),
        data_of(object, desired.value()),
    ))
}
