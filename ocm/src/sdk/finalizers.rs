//! The finalizers that an add-on's manager keeps on a `ManagedClusterAddOn`. Pure.

use crate::keys;

/// The desired finalizers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// Hooks run on the managed cluster.
    pub(crate) hooks: bool,
    /// Hooks run on the hosting cluster.
    pub(crate) hosting_hooks: bool,
    /// Works must be deleted from the hosting cluster.
    pub(crate) hosting_cleanup: bool,
}

impl Wanted {
    fn keys(self) -> [(&'static str, bool); 3] {
        let Self {
            hooks,
            hosting_hooks,
            hosting_cleanup,
        } = self;
        [
            (keys::PRE_DELETE_FINALIZER, hooks),
            (keys::HOSTING_PRE_DELETE_FINALIZER, hosting_hooks),
            (keys::HOSTING_CLEANUP_FINALIZER, hosting_cleanup),
        ]
    }
}

/// The complete desired list, or `None` if it is current. Other finalizers stay, in their order.
pub(crate) fn plan(live: &[String], wanted: Wanted) -> Option<Vec<String>> {
    let has = |key: &str| live.iter().any(|finalizer| finalizer == key);
    if wanted.keys().iter().all(|(key, want)| has(key) == *want) {
        return None;
    }
    let is_ours = |finalizer: &str| {
        let twin = finalizer.strip_prefix(keys::OLD_FINALIZER_PREFIX);
        wanted
            .keys()
            .iter()
            .any(|(key, _)| *key == finalizer || twin == key.split_once('/').map(|(_, name)| name))
    };
    let others = live.iter().filter(|finalizer| !is_ours(finalizer)).cloned();
    let ours = wanted.keys().into_iter().filter(|(_, want)| *want);
    Some(others.chain(ours.map(|(key, _)| key.to_owned())).collect())
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
        assert_eq!(plan(&live, Wanted::default()), None, "no reason to write");
        let wanted = Wanted {
            hooks: true,
            ..Wanted::default()
        };
        let written = plan(&live, wanted).unwrap();
        assert_eq!(written, ["other.io/x", keys::PRE_DELETE_FINALIZER]);
        assert_eq!(plan(&written, Wanted::default()).unwrap(), ["other.io/x"]);
    }

    proptest! {
        #[test]
        fn one_write_is_enough(
            live in prop::collection::vec(0usize..5, 0..6),
            hooks in any::<bool>(), hosting_hooks in any::<bool>(), hosting_cleanup in any::<bool>()
        ) {
            let names = [
                keys::PRE_DELETE_FINALIZER, keys::HOSTING_CLEANUP_FINALIZER, "a.io/x", "foregroundDeletion",
                "cluster.open-cluster-management.io/hosting-addon-pre-delete",
            ];
            let live: Vec<_> = live.into_iter().map(|index| names[index].to_owned()).collect();
            let wanted = Wanted { hooks, hosting_hooks, hosting_cleanup };
            let written = plan(&live, wanted).unwrap_or_else(|| live.clone());
            prop_assert_eq!(plan(&written, wanted), None);
            let other = |list: &[String]| list.iter().filter(|name| *name == "a.io/x").count();
            prop_assert_eq!(other(&live), other(&written));
        }
    }
}
