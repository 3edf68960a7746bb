use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::*;
use crate::{
    api::addon::ManagedClusterAddOn,
    name::ClusterName,
    sdk::{
        cache::{Change, Update},
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

/// Delivers an event of the add-on watch.
fn observe(
    world: &ObjectCache,
    change: Change<ClusterName, Arc<ManagedClusterAddOn>>,
    version: u64,
) {
    let version = Some(version);
    world.apply(|state| &mut state.addons, Update { change, version });
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
    observe(&world, Change::Applied(cluster(), addon("1", false)), 3);
    world.expect(key(), version(9));
    world.expect(key(), version(3));
    // The watch delivers other objects and lags by minutes.
    for step in 4..9 {
        observe(&world, other(), step);
        let later = start + second(step * 50);
        assert!(world.is_behind(&key(), later), "at version {step}");
    }
    observe(&world, Change::Applied(cluster(), addon("1", false)), 9);
    assert!(!world.is_behind(&key(), start + second(9 * 50)));
    assert!(world.lock().awaited.is_empty());
}

#[test]
fn a_fresh_object_is_not_taken_for_deleted() {
    let (world, start) = (ObjectCache::default(), Instant::now());
    world.expect(key(), version(9));
    assert!(world.is_behind(&key(), start));
    observe(&world, other(), 10);
    assert!(
        !world.is_behind(&key(), start),
        "created and deleted before the watch delivered it"
    );
}

#[test]
fn waiting_for_a_silent_watch_times_out() {
    let world = ObjectCache::default();
    world.expect(key(), version(9));
    let start = Instant::now();
    assert!(world.is_behind(&key(), start + second(50)));
    observe(&world, other(), 5);
    assert!(world.is_behind(&key(), start + second(70)));
    assert!(world.is_behind(&key(), start + second(120)));
    assert!(!world.is_behind(&key(), start + second(131)));
}

#[test]
fn versions_that_are_no_numbers_are_not_waited_for() {
    let world = ObjectCache::default();
    world.expect(key(), Expected::Version("opaque".to_owned()));
    assert!(!world.is_behind(&key(), Instant::now()));
}

#[test]
fn a_deletion_is_visible_when_the_object_is_deleting_gone_or_replaced() {
    let mut now = Instant::now();
    for (change, seen) in [
        (Change::Applied(cluster(), addon("1", false)), false),
        (Change::Applied(cluster(), addon("1", true)), true),
        (Change::Applied(cluster(), addon("2", false)), true),
        (Change::Deleted(cluster()), true),
    ] {
        let world = ObjectCache::default();
        observe(&world, Change::Applied(cluster(), addon("1", false)), 1);
        let uid = "1".to_owned();
        world.expect(key(), Expected::NoAddon(uid));
        observe(&world, change, 2);
        now = Instant::now();
        assert_eq!(!world.is_behind(&key(), now), seen);
    }
    let world = ObjectCache::default();
    let change = Change::Applied(
        (cluster(), "c".to_owned(), "w".to_owned()),
        Arc::new(Work::default()),
    );
    let version = Some(1);
    world.apply(|state| &mut state.works, Update { change, version });
    let no_work = |name: &str| Expected::NoWork {
        namespace: "c".to_owned(),
        name: name.to_owned(),
    };
    world.expect(key(), no_work("x"));
    assert!(!world.is_behind(&key(), now));
    world.expect(key(), no_work("w"));
    assert!(world.is_behind(&key(), now));
    assert!(
        !world.is_behind(&key(), now + second(31)),
        "another client may have recreated it"
    );
}

#[test]
fn works_and_permissions_are_followed_by_their_own_watches() {
    let (world, now) = (ObjectCache::default(), Instant::now());
    observe(&world, other(), 100);
    let work = Expected::Work("9".to_owned());
    world.expect(key(), work);
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
    world.apply(|state| &mut state.works, Update { change, version });
    assert!(!world.is_behind(&key(), now));
    world.expect(key(), role);
    assert!(world.is_behind(&key(), now));
    let (change, version) = (Change::Unread, nine);
    world.apply(
        |state| state.permissions.entry(Part::Role).or_default(),
        Update { change, version },
    );
    assert!(!world.is_behind(&key(), now));
    world.expect(key(), role_gone);
    assert!(!world.is_behind(&key(), now));
}
