//! Checksums over ranges of objects, with which two ends compare their objects without listing them.
//!
//! The name of an object selects its range, and each range has a sum over its objects. Two ends with the same objects have
//! the same sums, independent of the order; they list only the objects of ranges whose sums differ. A sum does not
//! protect against a peer that lies about its objects; a list would not either.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::digest::canonical;
use crate::keys;
use crate::object::{Application, Meta};

/// Bytes of one sum.
const WIDTH: usize = 8;
/// The least number of ranges: cheap to send, and a differing range has few objects.
const FEW: usize = 16;
/// Objects per range above which there are more ranges.
const CROWD: usize = 16;
/// The largest number of ranges: more would cost more than they save.
const MOST: usize = 256;

/// The sums of all ranges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sums(Vec<u64>);

impl Sums {
    /// Empty sums, with a suitable number of ranges for `number` objects.
    pub fn for_objects(number: usize) -> Self {
        let mut ranges = FEW;
        while ranges < MOST && number > ranges.saturating_mul(CROWD) {
            ranges = ranges.saturating_mul(4);
        }
        Self(vec![0; ranges])
    }

    /// Empty sums, with as many ranges as the other end has.
    #[must_use]
    pub fn like(other: &Self) -> Self {
        Self(vec![0; other.0.len()])
    }

    /// The number of ranges.
    pub const fn ranges(&self) -> usize {
        self.0.len()
    }

    /// The range of an object, by its name on the hub.
    pub fn range_of(&self, name: &str) -> usize {
        range_of(name, self.0.len())
    }

    /// Adds an object: its name on the hub, and its content.
    pub fn add(&mut self, name: &str, content: &str) {
        self.add_sum(name, sum_of(name, content));
    }

    /// Adds an object by its name on the hub and the [sum of it](sum_of).
    pub fn add_sum(&mut self, name: &str, sum: u64) {
        let range = self.range_of(name);
        if let Some(slot) = self.0.get_mut(range) {
            // Not exclusive or, in which a duplicate would cancel itself.
            *slot = slot.wrapping_add(sum);
        }
    }

    /// The ranges in which the two ends differ.
    pub fn differing(&self, other: &Self) -> BTreeSet<usize> {
        let pairs = self.0.iter().zip(&other.0).enumerate();
        pairs
            .filter(|(_, (ours, theirs))| ours != theirs)
            .map(|(range, _)| range)
            .collect()
    }

    /// As bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.0.iter().flat_map(|sum| sum.to_be_bytes()).collect()
    }

    /// From bytes of a peer; none if they cannot be sums.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (sums, rest) = bytes.as_chunks::<WIDTH>();
        let plausible = rest.is_empty() && (1..=MOST).contains(&sums.len());
        plausible.then(|| Self(sums.iter().map(|sum| u64::from_be_bytes(*sum)).collect()))
    }
}

/// The range of an object, of `ranges` ranges.
pub fn range_of(name: &str, ranges: usize) -> usize {
    let ranges = u64::try_from(ranges.max(1)).unwrap_or(1);
    usize::try_from(hash(name) % ranges).unwrap_or_default()
}

/// The reported content of an Application: equal on the spoke and, after the report, on the hub, as it leaves out the
/// hub's own additions.
pub fn shown(application: &Value) -> String {
    let app = Application::of(application);
    let mut status = app.status().cloned().unwrap_or_else(|| json!({}));
    if let Some(fields) = status.as_object_mut() {
        if let Some(Value::Array(conditions)) = fields.get_mut("conditions") {
            conditions.retain(|condition| !is_of_hub(condition));
        }
        if fields.get("conditions") == Some(&json!([])) {
            fields.remove("conditions");
        }
    }
    canonical(&json!({
        "status": status,
        "operation": app.operation(),
        // Clients wait for the removal of this annotation.
        "refresh": app.annotation(keys::REFRESH).is_some(),
    }))
}

fn is_of_hub(condition: &Value) -> bool {
    let kind = condition.get("type").and_then(Value::as_str);
    kind.is_some_and(|kind| kind.starts_with(keys::HUB_CONDITION_PREFIX))
}

/// The name of an object in its range.
pub fn name_of(kind: &str, namespace: &str, name: &str) -> String {
    format!("{kind}/{namespace}/{name}")
}

/// The content of an object: its UID and the digest of its desired value. Without a known digest it equals no other.
pub fn content(uid: &str, digest: &str) -> String {
    format!("{uid}\n{digest}")
}

/// The UID on the hub of a replica or a hub object.
pub fn uid_of(object: &Value) -> &str {
    let meta = Meta::of(object);
    meta.source_uid().unwrap_or_else(|| meta.uid())
}

/// The sum of an object: its name on the hub, and its content.
pub fn sum_of(name: &str, content: &str) -> u64 {
    let parts = [name, "\n", content];
    first_of(parts.into_iter().fold(Sha256::new(), Sha256::chain_update))
}

fn hash(text: &str) -> u64 {
    first_of(Sha256::new_with_prefix(text))
}

fn first_of(digest: Sha256) -> u64 {
    let digest = digest.finalize();
    let first: Option<&[u8; WIDTH]> = digest.first_chunk();
    first.map_or(0, |first| u64::from_be_bytes(*first))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sums(objects: &[(String, String)]) -> Sums {
        let mut sums = Sums::for_objects(40);
        for (name, content) in objects {
            sums.add(name, content);
        }
        sums
    }

    #[test]
    fn a_thousand_objects_are_a_few_hundred_bytes() {
        assert_eq!(Sums::for_objects(10).to_bytes().len(), 128);
        assert_eq!(Sums::for_objects(1000).to_bytes().len(), 512);
        assert_eq!(Sums::for_objects(100_000).to_bytes().len(), 2048);
    }

    #[test]
    fn invalid_sums_are_rejected() {
        for length in [0, 7, 9, WIDTH * (MOST + 1)] {
            assert_eq!(Sums::from_bytes(&vec![0; length]), None, "{length}");
        }
    }

    #[test]
    fn conditions_of_the_hub_do_not_change_the_sums() {
        let spoke = json!({ "status": { "sync": { "status": "Synced" } } });
        let hub = json!({ "status": {
            "sync": { "status": "Synced" }, "conditions": [{ "type": "ArgoCDAgentError" }],
        } });
        assert_eq!(shown(&spoke), shown(&hub));
        let asked = json!({
            "metadata": { "annotations": { keys::REFRESH: "normal" } }, "status": spoke["status"],
        });
        assert_ne!(shown(&spoke), shown(&asked));
    }

    proptest! {
        #[test]
        fn equal_objects_have_equal_sums_and_a_change_differs_in_its_range(
            objects in prop::collection::btree_map("[a-z]{1,8}", "[a-z]{0,4}", 1..60),
            changed in any::<prop::sample::Index>(),
        ) {
            let mut objects: Vec<_> = objects.into_iter().collect();
            let before = sums(&objects);
            objects.reverse();
            prop_assert_eq!(&before, &sums(&objects));
            prop_assert_eq!(Sums::from_bytes(&before.to_bytes()), Some(before.clone()));
            let changed = changed.index(objects.len());
            objects[changed].1.push('!');
            let after = sums(&objects);
            let range = before.range_of(&objects[changed].0);
            prop_assert_eq!(before.differing(&after), BTreeSet::from([range]));
        }
    }
}
