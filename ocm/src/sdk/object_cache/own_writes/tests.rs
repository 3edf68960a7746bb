use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::*;
use crate::{
    api::addon::ManagedClusterAddOn,
    sdk::{
        cache::{Change, Word},
        object_cache::{ObjectCache, Work},
    },
};

fn cluster() -> ClusterName {
    ClusterName::new("c").unwrap()
}

fn key() -> Key {
    Key::Cluster(cluster())
}

fn second(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// The add-on watch tells something.
fn take_in(
    world: &ObjectCache,
    change: Change<ClusterName, Arc<ManagedClusterAddOn>>,
    version: u64,
) {
    let version = Some(version);
    world.absorb(|state| &mut state.addons, Word { change, version });
}

fn addon(uid: &str, deleting: bool) -> Arc<ManagedClusterAddOn> {
    let mut addon = ManagedClusterAddOn::default();
    addon.metadata.uid = Some(uid.to_owned());
    addon.metadata.deletion_timestamp = deleting.then_some(Time(Timestamp::UNIX_EPOCH));
    Arc::new(addon)
}

fn other() -> Change<ClusterName, Arc<ManagedClusterAddOn>> {
    let other = ClusterName::new("other").unwrap();
    Change::Applied(other, addon("2", false))
}

fn version(version: u64) -> Expected {
    Expected::Version(version.to_string())
}

#[test]
fn reconcile_waits_for_its_own_writes() {
    let (world, start) = (ObjectCache::default(), Instant::now());
    take_in(&world, Change::Applied(cluster(), addon("1", false)), 3);
    world.expect(&key(), version(9));
    world.expect(&key(), version(3));
    // The watch is busy with others, minutes behind.
    for step in 4..9 {
        take_in(&world, other(), step);
        let later = start + second(step * 50);
        assert!(world.is_behind(&key(), later), "at version {step}");
    }
    take_in(&world, Change::Applied(cluster(), addon("1", false)), 9);
    assert!(!world.is_behind(&key(), start + second(9 * 50)));
    assert!(world.look().awaited.0.is_empty());
}

#[test]
fn what_was_just_made_is_not_taken_for_gone() {
    let (world, start) = (ObjectCache::default(), Instant::now());
    world.expect(&key(), version(9));
    assert!(world.is_behind(&key(), start));
    take_in(&world, other(), 10);
    assert!(
        !world.is_behind(&key(), start),
        "made, and gone before it was told"
    );
}

#[test]
fn a_watch_that_says_nothing_is_not_waited_for_for_ever() {
    let world = ObjectCache::default();
    world.expect(&key(), version(9));
    let start = Instant::now();
    assert!(world.is_behind(&key(), start + second(50)));
    take_in(&world, other(), 5);
    assert!(world.is_behind(&key(), start + second(70)));
    assert!(world.is_behind(&key(), start + second(120)));
    assert!(!world.is_behind(&key(), start + second(131)));
}

#[test]
fn versions_that_are_no_numbers_are_not_waited_for() {
    let world = ObjectCache::default();
    world.expect(&key(), Expected::Version("opaque".to_owned()));
    assert!(!world.is_behind(&key(), Instant::now()));
}

#[test]
fn a_removal_is_seen_when_it_is_going_gone_or_another() {
    let mut now = Instant::now();
    for (change, seen) in [
        (Change::Applied(cluster(), addon("1", false)), false),
        (Change::Applied(cluster(), addon("1", true)), true),
        (Change::Applied(cluster(), addon("2", false)), true),
        (Change::Deleted(cluster()), true),
    ] {
        let world = ObjectCache::default();
        take_in(&world, Change::Applied(cluster(), addon("1", false)), 1);
        let uid = "1".to_owned();
        world.expect(&key(), Expected::NoAddon { uid });
        take_in(&world, change, 2);
        now = Instant::now();
        assert_eq!(!world.is_behind(&key(), now), seen);
    }
    let world = ObjectCache::default();
    let change = Change::Applied(
        (cluster(), "c".to_owned(), "w".to_owned()),
        Arc::new(Work::default()),
    );
    let version = Some(1);
    world.absorb(|state| &mut state.works, Word { change, version });
    let no_work = |name: &str| Expected::NoWork {
        namespace: "c".to_owned(),
        name: name.to_owned(),
    };
    world.expect(&key(), no_work("x"));
    assert!(!world.is_behind(&key(), now));
    world.expect(&key(), no_work("w"));
    assert!(world.is_behind(&key(), now));
    assert!(
        !world.is_behind(&key(), now + second(31)),
        "somebody has made it again"
    );
}

#[test]
fn works_and_permissions_are_followed_by_their_own_watches() {
    let (world, now) = (ObjectCache::default(), Instant::now());
    take_in(&world, other(), 100);
    let work = Expected::Work {
        version: "9".to_owned(),
    };
    world.expect(&key(), work);
    assert!(world.is_behind(&key(), now));
    let role = Expected::Permission {
        part: Part::Role,
        version: Some("9".to_owned()),
    };
    let role_gone = Expected::Permission {
        part: Part::Role,
        version: None,
    };
    let nine = Some(9);
    let (change, version) = (Change::Unread, nine);
    world.absorb(|state| &mut state.works, Word { change, version });
    assert!(!world.is_behind(&key(), now));
    world.expect(&key(), role);
    assert!(world.is_behind(&key(), now));
    let (change, version) = (Change::Unread, nine);
    world.absorb(
        |state| state.permissions.entry(Part::Role).or_default(),
        Word { change, version },
    );
    assert!(!world.is_behind(&key(), now));
    world.expect(&key(), role_gone);
    assert!(!world.is_behind(&key(), now));
}
