//! What is still unconfirmed after a connect.
//!
//! The owner of the specs starts every session with the list of everything the peer should have. The
//! peer names what it holds; whatever it holds in the same version is confirmed, and once the peer has
//! said the last word the rest is sent. Nothing is replayed, and a lost message costs one comparison.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::object::ObjectKey;

/// How long a Go agent gets for its request-updates: it names no end, and sends them at once or not at all.
pub const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Objects that the peer should have and has not been seen to have.
#[derive(Debug, Default)]
pub struct Unconfirmed {
    keys: BTreeSet<ObjectKey>,
    complete: bool,
}

impl Unconfirmed {
    /// Starts with everything that is routed to the peer.
    pub fn new(keys: impl IntoIterator<Item = ObjectKey>) -> Self {
        Self {
            keys: keys.into_iter().collect(),
            complete: false,
        }
    }

    /// The peer holds this one as we want it.
    pub fn confirm(&mut self, key: &ObjectKey) {
        self.keys.remove(key);
    }

    /// The object is gone, or goes to the peer for another reason.
    pub fn forget(&mut self, key: &ObjectKey) {
        self.keys.remove(key);
    }

    /// The peer has named all it holds, or its time is up: what is left has to be marked. Once.
    pub fn finish(&mut self) -> BTreeSet<ObjectKey> {
        self.complete = true;
        std::mem::take(&mut self.keys)
    }

    /// Whether it is not known yet what the peer holds of this one.
    pub fn is_open(&self, key: &ObjectKey) -> bool {
        self.keys.contains(key)
    }

    /// Whether [`Self::finish`] was called.
    pub const fn is_complete(&self) -> bool {
        self.complete
    }
}
