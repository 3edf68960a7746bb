//! Distributes objects over works. Pure, and independent of the order of its input.
//!
//! The size of a work is limited. An object stays in its work if possible, since a move removes it from
//! one work while another adopts it.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use super::{RenderError, render::refused};
use crate::api::work::ResourceIdentifier;

/// The limit of one work: OCM's hub refuses 500 KiB; this leaves a fifth of it free.
pub(crate) const LIMIT: usize = 409_600;

/// An object to pack: its name and its size.
pub(crate) type Item = (ResourceIdentifier, usize);

/// The contents of works by their number.
pub(crate) type Bins = BTreeMap<usize, BTreeSet<ResourceIdentifier>>;

/// Distributes objects over works, given the current contents of each work. An error names an object that fits into none.
pub(crate) fn pack(items: &[Item], now: &Bins) -> Result<Bins, RenderError> {
    if let Some((id, size)) = items.iter().find(|(_, size)| *size > LIMIT) {
        let why = format!("has {size} bytes; the limit is {LIMIT}");
        return Err(refused(id, &why));
    }
    let sizes: BTreeMap<_, _> = items.iter().map(|(id, size)| (id, *size)).collect();
    let mut homeless = sizes.clone();
    let mut bins: BTreeMap<usize, Bin<'_>> = BTreeMap::new();
    for (number, ids) in now {
        let mut bin = Bin::default();
        for (id, size) in ids.iter().filter_map(|id| sizes.get_key_value(id)) {
            if bin.takes(*size) && homeless.remove(id).is_some() {
                bin.put(id, *size);
            }
        }
        if !bin.ids.is_empty() {
            bins.insert(*number, bin);
        }
    }
    let mut homeless: Vec<_> = homeless.into_iter().collect();
    homeless.sort_by_key(|&(id, size)| (Reverse(size), id));
    for (id, size) in homeless {
        let number = roomiest(&bins, size).unwrap_or_else(|| lowest_free(&bins));
        bins.entry(number).or_default().put(id, size);
    }
    let owned = |bin: Bin<'_>| bin.ids.into_iter().cloned().collect();
    let bins = bins.into_iter();
    Ok(bins.map(|(number, bin)| (number, owned(bin))).collect())
}

#[derive(Default)]
struct Bin<'a> {
    ids: BTreeSet<&'a ResourceIdentifier>,
    used: usize,
}

impl<'a> Bin<'a> {
    const fn takes(&self, size: usize) -> bool {
        self.used.saturating_add(size) <= LIMIT
    }

    fn put(&mut self, id: &'a ResourceIdentifier, size: usize) {
        self.ids.insert(id);
        self.used = self.used.saturating_add(size);
    }
}

/// The emptiest work with room for `size`; of several, the lowest number.
fn roomiest(bins: &BTreeMap<usize, Bin<'_>>, size: usize) -> Option<usize> {
    let able = bins.iter().filter(|(_, bin)| bin.takes(size));
    able.min_by_key(|(number, bin)| (bin.used, **number))
        .map(|(number, _)| *number)
}

fn lowest_free(bins: &BTreeMap<usize, Bin<'_>>) -> usize {
    (0..=bins.len())
        .find(|number| !bins.contains_key(number))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn id(name: &str) -> ResourceIdentifier {
        ResourceIdentifier {
            name: name.to_owned(),
            ..ResourceIdentifier::default()
        }
    }

    fn item(name: &str, size: usize) -> Item {
        (id(name), size)
    }

    fn bins(contents: &[(usize, &[&str])]) -> Bins {
        let bin = |names: &[&str]| names.iter().map(|name| id(name)).collect();
        contents
            .iter()
            .map(|(number, names)| (*number, bin(names)))
            .collect()
    }

    #[test]
    fn small_objects_go_into_one_work() {
        let packed = pack(&[item("a", 1), item("b", 2)], &Bins::new()).unwrap();
        assert_eq!(packed, bins(&[(0, &["a", "b"])]));
    }

    #[test]
    fn nothing_to_pack_leaves_no_work() {
        assert_eq!(pack(&[], &bins(&[(0, &["a"])])).unwrap(), Bins::new());
    }

    #[test]
    fn an_object_stays_where_it_is_and_free_numbers_are_used_again() {
        let items = [item("a", LIMIT), item("b", LIMIT), item("c", LIMIT)];
        let packed = pack(&items, &bins(&[(2, &["b"]), (5, &["gone"])])).unwrap();
        assert_eq!(packed, bins(&[(0, &["a"]), (1, &["c"]), (2, &["b"])]));
    }

    #[test]
    fn an_object_that_has_grown_too_large_for_its_work_moves() {
        let items = [item("a", LIMIT - 1), item("b", 2)];
        let packed = pack(&items, &bins(&[(0, &["a", "b"])])).unwrap();
        assert_eq!(packed, bins(&[(0, &["a"]), (1, &["b"])]));
    }

    #[test]
    fn an_object_that_fits_nowhere_is_named() {
        let refused = pack(&[item("a", LIMIT + 1)], &Bins::new()).unwrap_err();
        assert!(
            refused.to_string().contains("/a has 409601 bytes"),
            "{refused}"
        );
    }

    prop_compose! {
        fn some_items()(sizes in prop::collection::btree_map("[a-z]{1,3}", 1..=LIMIT, 0..20))
            -> Vec<Item> {
            sizes.into_iter().map(|(name, size)| item(&name, size)).collect()
        }
    }

    prop_compose! {
        fn some_bins()(
            bins in prop::collection::btree_map(
                0usize..8, prop::collection::btree_set("[a-z]{1,3}", 0..6), 0..5)
        ) -> Bins {
            let named = |names: BTreeSet<String>| names.iter().map(|name| id(name)).collect();
            bins.into_iter().map(|(number, names)| (number, named(names))).collect()
        }
    }

    proptest! {
        #[test]
        fn every_object_is_in_exactly_one_work_and_none_is_too_full(
            items in some_items(), now in some_bins()
        ) {
            let packed = pack(&items, &now).unwrap();
            let mut all: Vec<_> = packed.values().flatten().cloned().collect();
            all.sort();
            let mut wanted: Vec<_> = items.iter().map(|(id, _)| id.clone()).collect();
            wanted.sort();
            prop_assert_eq!(all, wanted);
            for bin in packed.values() {
                let used: usize =
                    items.iter().filter(|(id, _)| bin.contains(id)).map(|(_, size)| size).sum();
                prop_assert!(used <= LIMIT && !bin.is_empty());
            }
        }

        #[test]
        fn packing_again_changes_nothing(items in some_items(), now in some_bins()) {
            let packed = pack(&items, &now).unwrap();
            prop_assert_eq!(pack(&items, &packed).unwrap(), packed);
        }

        #[test]
        fn the_order_of_objects_does_not_matter(items in some_items(), now in some_bins()) {
            let mut reversed = items.clone();
            reversed.reverse();
            prop_assert_eq!(pack(&items, &now), pack(&reversed, &now));
        }
    }
}
