//! What two ends have of the same objects, compared without naming them.
//!
//! Each object falls into one of some ranges by its name, and each range has a sum over what its objects are. Two ends
//! with the same objects have the same sums, in whatever order they go through them; a range with another sum is all
//! that has to be named. A sum is no proof against a liar: who lies about what it has, has it no other way.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::digest::canonical;
use crate::keys;
use crate::object::{Application, Meta};

/// Bytes of one sum.
const WIDTH: usize = 8;
/// Few enough to be said for nothing, enough to name few objects for one that differs.
const FEW: usize = 16;
/// Objects in a range before there are more ranges.
const CROWD: usize = 16;
/// More ranges than this would cost more to say than they save.
const MOST: usize = 256;

/// The sums of all ranges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sums(Vec<u64>);

impl Sums {
    /// Nothing yet, in as many ranges as suit so many objects.
    pub fn for_objects(number: usize) -> Self {
        let mut ranges = FEW;
        while ranges < MOST && number > ranges.saturating_mul(CROWD) {
            ranges = ranges.saturating_mul(4);
        }
        Self(vec![0; ranges])
    }

    /// Nothing yet, in as many ranges as the other end has.
    #[must_use]
    pub fn like(other: &Self) -> Self {
        Self(vec![0; other.0.len()])
    }

    /// How many ranges there are.
    pub const fn ranges(&self) -> usize {
        self.0.len()
    }

    /// Where an object falls, by what the hub calls it.
    pub fn range_of(&self, name: &str) -> usize {
        range_of(name, self.0.len())
    }

    /// Adds an object: what the hub calls it, and what it is.
    pub fn add(&mut self, name: &str, what: &str) {
        let range = self.range_of(name);
        let sum = hash(&format!("{name}\n{what}"));
        if let Some(slot) = self.0.get_mut(range) {
            // Not by exclusive or: one that is there twice would be one that is not there.
            *slot = slot.wrapping_add(sum);
        }
    }

    /// The ranges in which the two ends do not have the same.
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

/// Which of so many ranges an object falls into.
pub fn range_of(name: &str, ranges: usize) -> usize {
    let ranges = u64::try_from(ranges.max(1)).unwrap_or(1);
    usize::try_from(hash(name) % ranges).unwrap_or_default()
}

/// What a spoke shows of an Application, and the hub of it once it has been told: without what the hub adds.
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
        // Who asks waits until this is gone.
        "refresh": app.annotation(keys::REFRESH).is_some(),
    }))
}

fn is_of_hub(condition: &Value) -> bool {
    let kind = condition.get("type").and_then(Value::as_str);
    kind.is_some_and(|kind| kind.starts_with(keys::HUB_CONDITION_PREFIX))
}

/// What an object is called in its range.
pub fn name_of(kind: &str, namespace: &str, name: &str) -> String {
    format!("{kind}/{namespace}/{name}")
}

/// What an object is: which one, and a digest of what it should be. One that is not known any more is like no other.
pub fn what(uid: &str, digest: &str) -> String {
    format!("{uid}\n{digest}")
}

/// Which hub object a replica or a hub object is.
pub fn uid_of(object: &Value) -> &str {
    let meta = Meta::of(object);
    meta.source_uid().unwrap_or_else(|| meta.uid())
}

fn hash(text: &str) -> u64 {
    let digest = Sha256::digest(text.as_bytes());
    let first: Option<&[u8; WIDTH]> = digest.first_chunk();
    first.map_or(0, |first| u64::from_be_bytes(*first))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sums(objects: &[(String, String)]) -> Sums {
        let mut sums = Sums::for_objects(40);
        for (name, what) in objects {
            sums.add(name, what);
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
    fn bytes_that_are_no_sums_are_refused() {
        for length in [0, 7, 9, WIDTH * (MOST + 1)] {
            assert_eq!(Sums::from_bytes(&vec![0; length]), None, "{length}");
        }
    }

    #[test]
    fn what_the_hub_adds_makes_no_difference() {
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
        fn the_same_objects_have_the_same_sums_and_others_differ_where_they_are(
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
