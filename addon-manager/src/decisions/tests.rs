use ocm::api::cluster::ID_CLAIM;
use proptest::prelude::*;

use super::*;

const KEEP: SignedDuration = SignedDuration::from_hours(1);

fn now() -> Timestamp {
    Timestamp::UNIX_EPOCH
}

fn cluster(uid: &str, claim: Option<&str>) -> Cluster {
    let claims = claim.map(|claim| (ID_CLAIM.to_owned(), claim.to_owned()));
    Cluster {
        uid: uid.to_owned(),
        accepted: true,
        claims: claims.into_iter().collect(),
        ..Cluster::default()
    }
}

/// A `ManagedClusterAddOn` without annotations.
fn wiped(uid: &str) -> Addon {
    Addon {
        uid: uid.to_owned(),
        adopted: true,
        ..Addon::default()
    }
}

fn decided(uid: &str) -> Addon {
    let text = |text: &str| Some(text.to_owned());
    Addon {
        recorded: text("autonomous"),
        made_for_label: true,
        revoked: text("stolen"),
        rekey: text("second"),
        argocd: text("brought"),
        argocd_place: text("argocd"),
        ..wiped(uid)
    }
}

fn world(cluster: Option<Cluster>, addon: Option<Addon>) -> World {
    let name = || "c".to_owned();
    World {
        clusters: cluster.map(|it| (name(), it)).into_iter().collect(),
        addons: addon.map(|it| (name(), it)).into_iter().collect(),
        ..World::default()
    }
}

fn after(records: &Records, world: &World) -> Records {
    updated(records, world, now(), KEEP)
}

/// The records after an add-on with all decisions was seen.
fn records() -> Records {
    let first = world(Some(cluster("1", Some("id"))), Some(decided("a")));
    after(&Records::new(), &first)
}

fn enforced(records: &Records, cluster: Cluster, addon: Addon) -> (Addon, World) {
    let mut world = world(Some(cluster), Some(addon));
    let records = after(records, &world);
    enforce(&records, &mut world);
    (world.addons["c"].clone(), world)
}

#[test]
fn wiped_annotations_change_no_decision_and_are_restored() {
    let (addon, _) = enforced(&records(), cluster("1", None), wiped("a"));
    let before = decided("a");
    assert_eq!(addon.recorded, before.recorded);
    assert_eq!(addon.revoked, before.revoked);
    assert_eq!(addon.rekey, before.rekey);
    assert_eq!(addon.argocd, before.argocd);
    assert!(addon.made_for_label);
    let missing = addon
        .missing
        .iter()
        .map(|(key, value)| (*key, value.as_str()));
    let expected = [
        (keys::MODE, "autonomous"),
        (keys::MADE_FOR_LABEL, "true"),
        (keys::REVOKED, "stolen"),
        (keys::REKEY, "second"),
        (keys::ARGOCD, "brought"),
        (keys::ARGOCD_PLACE, "argocd"),
    ];
    assert_eq!(missing.collect::<BTreeMap<_, _>>(), expected.into());
    let (complete, _) = enforced(&records(), cluster("1", None), decided("a"));
    assert!(complete.missing.is_empty());
}

#[test]
fn recreated_add_on_stays_revoked() {
    let (addon, world) = enforced(&records(), cluster("1", None), wiped("b"));
    assert_eq!(addon.revoked.as_deref(), Some("stolen"));
    assert_eq!(addon.rekey.as_deref(), Some("second"));
    assert_eq!((addon.recorded, addon.argocd), (None, None));
    assert!(!addon.made_for_label);
    assert_eq!(world.former["c"], Mode::Autonomous);
}

#[test]
fn restore_needs_another_key_and_no_annotation() {
    let named = |revoked: Option<&str>, rekey: Option<&str>| {
        let addon = Addon {
            revoked: revoked.map(str::to_owned),
            rekey: rekey.map(str::to_owned),
            ..decided("a")
        };
        let next = world(Some(cluster("1", None)), Some(addon));
        after(&records(), &next)
    };
    let is_revoked = |records: &Records| records["c"].details.revoked.is_some();
    assert!(is_revoked(&named(None, None)), "clusteradm removes both");
    assert!(is_revoked(&named(None, Some("second"))), "the revoked key");
    assert!(is_revoked(&named(Some("stolen"), Some("third"))));
    let restored = named(None, Some("third"));
    assert!(!is_revoked(&restored));
    assert_eq!(restored["c"].details.rekey.as_deref(), Some("third"));
}

#[test]
fn restore_in_two_steps_works_in_either_order() {
    let step = |records: &Records, revoked: bool, rekey: &str| {
        let addon = Addon {
            revoked: revoked.then(|| "stolen".to_owned()),
            rekey: Some(rekey.to_owned()),
            ..decided("a")
        };
        after(records, &world(Some(cluster("1", None)), Some(addon)))
    };
    let renamed = step(&records(), true, "third");
    assert!(renamed["c"].details.revoked.is_some());
    assert!(
        step(&renamed, false, "third")["c"]
            .details
            .revoked
            .is_none()
    );
    let removed = step(&records(), false, "second");
    assert!(removed["c"].details.revoked.is_some());
    assert!(
        step(&removed, false, "third")["c"]
            .details
            .revoked
            .is_none()
    );
}

#[test]
fn another_cluster_under_the_name_starts_clean_with_another_key() {
    let other = || cluster("2", Some("other"));
    let (addon, world) = enforced(&records(), other(), wiped("b"));
    assert!(!addon.unidentified);
    assert_eq!((addon.recorded, addon.argocd), (None, None));
    assert!(addon.rekey.is_some_and(|key| key != "second"));
    assert!(addon.revoked.is_some(), "a revocation belongs to the name");
    assert!(world.former.is_empty());
}

#[test]
fn restored_hub_keeps_the_decisions_of_the_same_cluster() {
    let (addon, world) = enforced(&records(), cluster("2", Some("id")), wiped("b"));
    assert!(!addon.unidentified);
    assert_eq!(addon.rekey.as_deref(), Some("second"));
    assert_eq!(world.former["c"], Mode::Autonomous);
}

#[test]
fn cluster_without_evidence_waits_for_a_claim_or_another_key() {
    let (waiting, _) = enforced(&records(), cluster("2", None), wiped("b"));
    assert!(waiting.unidentified && waiting.missing.is_empty());
    let next = world(Some(cluster("2", None)), Some(wiped("b")));
    let unchanged = after(&records(), &next);
    assert_eq!(unchanged, records());

    let (claimed, _) = enforced(&unchanged, cluster("2", Some("id")), wiped("b"));
    assert!(!claimed.unidentified);
    let renamed = Addon {
        rekey: Some("third".to_owned()),
        ..wiped("b")
    };
    let (named, world) = enforced(&unchanged, cluster("2", None), renamed);
    assert!(!named.unidentified && world.former.is_empty());
}

#[test]
fn removed_and_recreated_cluster_without_claims_gets_another_key() {
    let gone = updated(&records(), &World::default(), now(), KEEP);
    let (addon, world) = enforced(&gone, cluster("2", None), wiped("b"));
    assert!(!addon.unidentified && world.former.is_empty());
    assert!(addon.rekey.is_some_and(|key| key != "second"));
}

#[test]
fn restored_add_on_with_its_mode_identifies_the_cluster_without_claims() {
    let mut addon = wiped("b");
    addon.recorded = Some("autonomous".to_owned());
    let (same, world) = enforced(&records(), cluster("2", None), addon.clone());
    assert!(!same.unidentified);
    assert_eq!(same.rekey.as_deref(), Some("second"));
    assert_eq!(world.former["c"], Mode::Autonomous);

    addon.recorded = Some("managed".to_owned());
    let (other, _) = enforced(&records(), cluster("2", None), addon);
    assert!(other.unidentified);
}

#[test]
fn record_of_a_removed_cluster_ends_with_its_certificates_unless_revoked() {
    let mut free = records();
    free.get_mut("c").unwrap().details.revoked = None;
    let later = |records: &Records, at: Timestamp| updated(records, &World::default(), at, KEEP);
    let gone = later(&free, now());
    assert_eq!(gone["c"].details.removed, Some(now()));
    let end = now().checked_add(KEEP).unwrap();
    assert!(later(&gone, end).is_empty());
    let revoked = later(&records(), now());
    assert!(later(&revoked, end).contains_key("c"));
    let back = after(&gone, &world(Some(cluster("1", None)), None));
    assert_eq!(back["c"].details.removed, None);
}

#[test]
fn cluster_without_decisions_has_no_record() {
    let plain = world(Some(cluster("1", Some("id"))), Some(wiped("a")));
    assert!(after(&Records::new(), &plain).is_empty());
}

fn text() -> impl Strategy<Value = Option<String>> {
    proptest::option::of(prop_oneof!["x", "y"].prop_map(|it: String| it))
}

prop_compose! {
    fn any_world()(
        there: bool, uid in "[12]", claim in text(), addon in proptest::option::of("[ab]"),
        mode in proptest::option::of(prop_oneof!["managed", "autonomous"]),
        revoked in text(), rekey in text(), argocd in text(), made_for_label: bool,
    ) -> World {
        let addon = addon.map(|uid| Addon {
            recorded: mode, revoked, rekey, argocd, made_for_label, ..wiped(&uid)
        });
        world(there.then(|| cluster(&uid, claim.as_deref())), addon)
    }
}

proptest! {
    #[test]
    fn second_look_at_the_same_hub_changes_nothing(worlds in proptest::collection::vec(any_world(), 1..6)) {
        let mut records = Records::new();
        for world in &worlds {
            records = after(&records, world);
            prop_assert_eq!(&after(&records, world), &records);
        }
    }

    #[test]
    fn no_world_without_another_key_lifts_a_revocation(worlds in proptest::collection::vec(any_world(), 1..6)) {
        let mut records = records();
        for mut world in worlds {
            for addon in world.addons.values_mut() {
                addon.rekey = addon.rekey.take().map(|_| "second".to_owned());
            }
            records = after(&records, &world);
            prop_assert!(records["c"].details.revoked.is_some());
        }
    }
}
