//! Remembers the API server's form of a written value, so that the agent does not write it again and again.

use serde_json::Value;

use super::{data_of, is_resources_finalizer, part};
use crate::object::{Meta, to_map};

/// Digest of the parts of a desired value that remained after the last write.
///
/// The API server prunes unknown fields. If the remaining parts now equal those right after the last write of the same
/// value, they are its normal form and another write would be a no-op. Additions of the spoke, such as a refresh, do not
/// count.
///
/// It is never printed: for a Secret it would be a digest of the content.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
#[debug("Written")]
pub struct Written {
    desired: String,
    remained: String,
}

impl Written {
    /// From the API server's response to the write of `desired`.
    pub fn new(desired: &Value, answer: &Value) -> Self {
        Self {
            desired: remains(desired, desired),
            remained: remains(desired, answer),
        }
    }

    /// Whether `live` is the normal form of `desired` on this API server.
    pub fn is_normal_form(&self, live: &Value, desired: &Value) -> bool {
        self.remained == remains(desired, live) && self.desired == remains(desired, desired)
    }
}

/// Digest of the parts of `object` that `desired` has.
fn remains(desired: &Value, object: &Value) -> String {
    let (desired, meta) = (Meta::of(desired), Meta::of(object));
    let wanted = desired.annotations();
    let mut annotations = meta.annotations();
    annotations.retain(|key, _| wanted.contains_key(key));
    let mut finalizers = meta.finalizers();
    finalizers.retain(|name| is_resources_finalizer(name));
    crate::digest::short(&part(
        to_map(meta.labels()),
        to_map(annotations),
        finalizers,
        meta.field("spec"),
        data_of(object, desired.value()),
    ))
}
