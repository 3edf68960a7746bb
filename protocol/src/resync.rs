//! The objects that are unconfirmed after a connect.
//!
//! The owner of the specs starts every session with the list of all objects that the peer should have. The peer lists
//! its objects; those of the same version are confirmed. After the end of the list the owner sends the rest. Nothing
//! is replayed, and a lost message costs one comparison.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::object::ObjectKey;

/// How long we wait for the request-updates of a Go agent: it marks no end, and sends them at once or not at all.
pub const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Objects that the peer should have and has not confirmed.
#[derive(Debug, Default)]
pub struct Unconfirmed {
    keys: BTreeSet<ObjectKey>,
    complete: bool,
}

impl Unconfirmed {
    /// Starts with all objects that are routed to the peer.
    pub fn new(keys: impl IntoIterator<Item = ObjectKey>) -> Self {
        Self {
            keys: keys.into_iter().collect(),
            complete: false,
        }
    }

    /// The peer has the desired version of this object.
    pub fn confirm(&mut self, key: &ObjectKey) {
        self.keys.remove(key);
    }

    /// The object is gone, or is sent for another reason.
    pub fn forget(&mut self, key: &ObjectKey) {
        self.keys.remove(key);
    }

    /// The peer's list is complete or has timed out. Returns the unconfirmed objects, which the caller marks.
    pub fn finish(&mut self) -> BTreeSet<ObjectKey> {
        self.complete = true;
        std::mem::take(&mut self.keys)
    }

    /// Whether the object is unconfirmed.
    pub fn is_open(&self, key: &ObjectKey) -> bool {
        self.keys.contains(key)
    }

    /// Whether [`Self::finish`] was called.
    pub const fn is_complete(&self) -> bool {
        self.complete
    }
}
