//! The finalizers that an add-on's manager keeps on a `ManagedClusterAddOn`. Pure.

use std::collections::BTreeSet;

use crate::keys;

/// The finalizers of an add-on's manager; a plan wants some of them.
const OURS: [&str; 3] = [
    keys::PRE_DELETE_FINALIZER,
    keys::HOSTING_PRE_DELETE_FINALIZER,
    keys::HOSTING_CLEANUP_FINALIZER,
];

/// The complete desired list, or `None` if it is current. Other finalizers stay, in their order.
pub(crate) fn plan(live: &[String], wanted: &BTreeSet<&str>) -> Option<Vec<String>> {
    let has = |key: &str| live.iter().any(|finalizer| finalizer == key);
    if OURS.iter().all(|key| has(key) == wanted.contains(key)) {
        return None;
    }
    let is_ours = |finalizer: &str| {
        let twin = finalizer.strip_prefix(keys::OLD_FINALIZER_PREFIX);
        OURS.iter()
            .any(|key| *key == finalizer || twin == key.split_once('/').map(|(_, name)| name))
    };
    let others = live.iter().filter(|finalizer| !is_ours(finalizer)).cloned();
    let ours = OURS.into_iter().filter(|key| wanted.contains(key));
    Some(others.chain(ours.map(str::to_owned)).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn other_finalizers_stay_and_deprecated_ones_go_with_a_write() {
        let live = [
            "other.io/x",
            "cluster.open-cluster-management.io/addon-pre-delete",
        ];
        let live = live.map(str::to_owned);
        let none = BTreeSet::new();
        assert_eq!(plan(&live, &none), None, "no reason to write");
        let wanted = BTreeSet::from([keys::PRE_DELETE_FINALIZER]);
        let written = plan(&live, &wanted).unwrap();
        assert_eq!(written, ["other.io/x", keys::PRE_DELETE_FINALIZER]);
        assert_eq!(plan(&written, &none).unwrap(), ["other.io/x"]);
    }

    proptest! {
        #[test]
        fn one_write_is_enough(
            live in prop::collection::vec(0usize..5, 0..6),
            wanted in prop::sample::subsequence(OURS.to_vec(), 0..=OURS.len())
        ) {
            let names = [
                keys::PRE_DELETE_FINALIZER, keys::HOSTING_CLEANUP_FINALIZER, "a.io/x", "foregroundDeletion",
                "cluster.open-cluster-management.io/hosting-addon-pre-delete",
            ];
            let live: Vec<_> = live.into_iter().map(|index| names[index].to_owned()).collect();
            let wanted = BTreeSet::from_iter(wanted);
            let written = plan(&live, &wanted).unwrap_or_else(|| live.clone());
            prop_assert_eq!(plan(&written, &wanted), None);
            let other = |list: &[String]| list.iter().filter(|name| *name == "a.io/x").count();
            prop_assert_eq!(other(&live), other(&written));
        }
    }
}
