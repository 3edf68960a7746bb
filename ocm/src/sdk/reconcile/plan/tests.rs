mod hosted;
mod rollout;
pub(crate) mod samples;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use self::samples::*;
use super::*;
use crate::{
    api::{addon::ManagedClusterAddOn, cluster::ManagedCluster},
    sdk::{RenderError, object_cache::Work, reconcile::report::Facts},
};

#[test]
fn a_second_plan_has_no_steps() {
    let author = author(vec![config_map("x", 1), config_map("y", 1)]);
    let first = steps(&author, &observed());
    assert_eq!(names(&first), ["apply addon-a-deploy-0"]);
    let after = carry_out(&observed(), &first);
    assert_eq!(steps(&author, &after), []);
    let mut addon = (**observed().addon.as_ref().unwrap()).clone();
    let registration = decide(&author, &after).registration.unwrap();
    let before = addon.status.take().unwrap();
    addon.status = Some(ManagedClusterAddOnStatus {
        conditions: [before.conditions, registration.conditions].concat(),
        ..registration
    });
    let after = Observed {
        addon: Some(Arc::new(addon)),
        ..after
    };
    assert_eq!(decide(&author, &after).registration, None);
}

#[test]
fn a_work_has_label_and_owner() {
    let author = author(vec![config_map("x", 1)]);
    let Some(Step::Apply { body, .. }) = steps(&author, &observed()).pop() else {
        panic!()
    };
    assert_eq!(
        body["metadata"]["labels"],
        json!({ "open-cluster-management.io/addon-name": "a" })
    );
    assert_eq!(body["metadata"]["ownerReferences"][0]["uid"], "u");
    assert_eq!(body["metadata"]["namespace"], "c");
    assert_eq!(
        body["metadata"]["annotations"],
        json!({}),
        "no configuration, no annotation"
    );
}

#[test]
fn unrendered_objects_and_empty_works_are_deleted() {
    let big = |name| config_map(name, 300_000);
    let author = author(vec![big("x"), big("y")]);
    let after = carry_out(&observed(), &steps(&author, &observed()));
    assert_eq!(after.works.len(), 2);
    *author.manifests.lock().unwrap() = vec![big("y")];
    let second = steps(&author, &after);
    assert_eq!(names(&second), ["delete addon-a-deploy-0"]);
    let after = carry_out(&after, &second);
    assert_eq!(steps(&author, &after), []);
    *author.manifests.lock().unwrap() = Vec::new();
    assert_eq!(names(&steps(&author, &after)), ["delete addon-a-deploy-1"]);
}

#[test]
fn a_work_adopts_an_object_before_another_loses_it() {
    let author = author(vec![config_map("x", 200_000), config_map("y", 200_000)]);
    let after = carry_out(&observed(), &steps(&author, &observed()));
    // The larger y does not fit beside x.
    *author.manifests.lock().unwrap() = vec![config_map("x", 200_000), config_map("y", 300_000)];
    let moved = names(&steps(&author, &after));
    assert_eq!(moved, ["apply addon-a-deploy-1", "apply addon-a-deploy-0"]);
}

#[test]
fn changes_of_works_by_other_clients_are_reverted() {
    let author = author(vec![config_map("x", 1)]);
    let after = carry_out(&observed(), &steps(&author, &observed()));
    let spoils: [fn(&mut Work); 3] = [
        |work| work.digest.push('x'),
        |work| work.annotation = Some("{}".to_owned()),
        |work| work.owner = None,
    ];
    for spoil in spoils {
        let mut work = (*after.works[0]).clone();
        spoil(&mut work);
        let met = Observed {
            works: vec![Arc::new(work)],
            ..after.clone()
        };
        assert_eq!(names(&steps(&author, &met)), ["apply addon-a-deploy-0"]);
    }
}

#[test]
fn works_of_an_earlier_add_on_are_deleted_before_new_ones_are_created() {
    let author = author(vec![config_map("x", 1)]);
    let after = carry_out(&observed(), &steps(&author, &observed()));
    let mut old = (*after.works[0]).clone();
    old.owner = Some("earlier".to_owned());
    let met = Observed {
        works: vec![Arc::new(old.clone())],
        ..after.clone()
    };
    assert_eq!(names(&steps(&author, &met)), ["delete addon-a-deploy-0"]);
    assert_eq!(going_since(&met), Some(NOW));
    old.deleting = true;
    old.deleted_at = Some(Timestamp::UNIX_EPOCH);
    let met = Observed {
        works: vec![Arc::new(old)],
        ..after.clone()
    };
    assert_eq!(steps(&author, &met), []);
    assert_eq!(going_since(&met), Some(Timestamp::UNIX_EPOCH));
    assert_eq!(going_since(&after), None);
}

const NOW: Timestamp = Timestamp::MAX;

/// Since when earlier works are being deleted.
fn going_since(observed: &Observed) -> Option<Timestamp> {
    let (author, name) = (author(Vec::new()), cluster_name());
    let Stage::Served(target) = stage(&author, &name, observed) else {
        panic!("not served")
    };
    Facts::of(observed, &author.name, target, &Hosting::No, NOW).going_since
}

#[test]
fn nothing_changes_without_a_configuration() {
    let author = author(Vec::new());
    let mut observed = carry_out(&observed(), &[]);
    let mut addon = (**observed.addon.as_ref().unwrap()).clone();
    addon.status = None;
    observed.addon = Some(Arc::new(addon));
    let plan = decide(&author, &observed);
    assert!(matches!(plan.works, Works::Keep(Waiting::NotConfigured)));
    assert_eq!(plan.registration, None);
}

#[test]
fn rendering_and_packing_errors_are_reported_and_change_nothing() {
    let mut author = author(vec![config_map("x", pack_limit())]);
    let Works::Refused(error) = decide(&author, &observed()).works else {
        panic!()
    };
    assert!(error.message.starts_with("configmaps n/x has "), "{error}");
    author.error = Some(RenderError {
        message: "no address".to_owned(),
    });
    let Works::Refused(error) = decide(&author, &observed()).works else {
        panic!()
    };
    assert_eq!(error.message, "no address");
}

const fn pack_limit() -> usize {
    crate::sdk::pack::LIMIT
}

#[test]
fn works_with_foreign_names_stay() {
    let author = author(Vec::new());
    let mut work = Work::default();
    work.report.name = "addon-a-pre-delete".to_owned();
    let met = Observed {
        works: vec![Arc::new(work)],
        ..observed()
    };
    assert_eq!(steps(&author, &met), []);
}

fn phase(observed: &Observed) -> &'static str {
    let name = cluster_name();
    match stage(&author(Vec::new()), &name, observed) {
        Stage::Idle => "idle",
        Stage::Removed => "removed",
        Stage::Blocked { .. } => "blocked",
        Stage::Served(_) => "served",
        Stage::Removing(removal) => match removal.phase {
            RemovalPhase::NotAdmitted => "not admitted",
            RemovalPhase::ClusterDeleting => "cluster deleting",
            RemovalPhase::AddonDeleting => "addon deleting",
            RemovalPhase::Refused => "refused",
            RemovalPhase::AddonGone => "addon gone",
        },
    }
}

fn past() -> Time {
    Time(Timestamp::UNIX_EPOCH)
}

type Change = fn(&mut ManagedCluster, &mut ManagedClusterAddOn);

fn host(addon: &mut ManagedClusterAddOn) {
    let annotations = addon.metadata.annotations.get_or_insert_default();
    annotations.insert(keys::HOSTING_CLUSTER.to_owned(), "h".to_owned());
}

#[test]
fn the_stage_depends_on_the_observed_objects() {
    let cases: [(&str, Change); 6] = [
        ("served", |_, _| ()),
        ("idle", |_, a| drop(a.metadata.owner_references.take())),
        ("not admitted", |c, _| c.spec.hub_accepts_client = false),
        ("cluster deleting", |c, _| {
            c.metadata.deletion_timestamp = Some(past());
        }),
        ("addon deleting", |_, a| {
            a.metadata.deletion_timestamp = Some(past());
        }),
        ("blocked", |_, a| host(a)),
    ];
    for (wanted, change) in cases {
        let Observed { cluster, addon, .. } = observed();
        let (mut cluster, mut addon) = ((*cluster.unwrap()).clone(), (*addon.unwrap()).clone());
        change(&mut cluster, &mut addon);
        let (cluster, addon) = (Some(Arc::new(cluster)), Some(Arc::new(addon)));
        assert_eq!(
            phase(&Observed {
                cluster,
                addon,
                ..Observed::default()
            }),
            wanted
        );
    }
    assert_eq!(
        phase(&Observed {
            cluster: None,
            ..observed()
        }),
        "not admitted"
    );
    assert_eq!(
        phase(&Observed {
            addon: None,
            ..observed()
        }),
        "removed"
    );
    let works = vec![Arc::new(Work::default())];
    assert_eq!(
        phase(&Observed {
            addon: None,
            works,
            ..observed()
        }),
        "addon gone"
    );
}

#[test]
fn an_add_on_on_an_unaccepted_cluster_is_degraded() {
    let (author, name) = (author(Vec::new()), cluster_name());
    let condition = |met: &Observed| {
        let condition = not_accepted(&author, &name, met);
        condition.map(|(_, verdict)| (verdict.kind, verdict.reason))
    };
    assert_eq!(condition(&observed()), None);
    let mut met = observed();
    met.cluster = Some(Arc::new(ManagedCluster::default()));
    assert_eq!(phase(&met), "not admitted");
    let degraded = (
        condition::addon::DEGRADED.to_owned(),
        "ClusterNotAccepted".to_owned(),
    );
    assert_eq!(condition(&met), Some(degraded));
    let mut not_ours = (**met.addon.as_ref().unwrap()).clone();
    not_ours.metadata.owner_references = None;
    let not_ours = Observed {
        addon: Some(Arc::new(not_ours)),
        ..met.clone()
    };
    assert_eq!(condition(&not_ours), None);
    met.cluster = None;
    assert_eq!(condition(&met), None, "there is no cluster to accept");
}

#[test]
fn ocms_template_controller_is_not_disturbed() {
    let mut addon = (*observed().addon.unwrap()).clone();
    addon.spec.configs.push(AddOnConfig {
        group: crate::api::addon::GROUP.to_owned(),
        resource: "addontemplates".to_owned(),
        namespace: String::new(),
        name: "t".to_owned(),
    });
    let met = Observed {
        addon: Some(Arc::new(addon)),
        ..observed()
    };
    let name = cluster_name();
    let Stage::Blocked { verdict, .. } = stage(&author(Vec::new()), &name, &met) else {
        panic!()
    };
    assert_eq!(verdict.reason, "ManagedByTemplate");
}

#[test]
fn forged_template_reference_does_not_stop_the_add_on() {
    let mut met = observed();
    let mut addon = ManagedClusterAddOn::clone(met.addon.as_deref().unwrap());
    let reference = json!({
        "group": "addon.open-cluster-management.io", "resource": "addontemplates",
        "desiredConfig": { "name": "t", "specHash": "h" },
    });
    let references = &mut addon.status.get_or_insert_default().config_references;
    references.push(serde_json::from_value(reference).unwrap());
    met.addon = Some(Arc::new(addon));
    assert!(!uses_template(&met));
    let decided = decide(&author(vec![config_map("a", 1)]), &met);
    let Works::Keep(waiting) = decided.works else {
        panic!("{:?}", decided.works)
    };
    assert_eq!(waiting.needs_a_person(), Some("ConfigurationNotOffered"));
}

#[test]
fn the_authors_reason_becomes_the_condition() {
    let mut author = author(Vec::new());
    author.admission = Admission::Hold {
        reason: "R".to_owned(),
        message: "m".to_owned(),
    };
    let (name, met) = (cluster_name(), observed());
    let Stage::Blocked {
        verdict,
        remove_works,
        ..
    } = stage(&author, &name, &met)
    else {
        panic!()
    };
    assert_eq!(verdict, Verdict::new("Degraded", true, "R", "m"));
    assert!(!remove_works, "its works stay");
}

#[test]
fn a_refused_cluster_loses_its_works() {
    let mut author = author(Vec::new());
    author.admission = Admission::Refuse {
        reason: "R".to_owned(),
        message: "m".to_owned(),
    };
    let (name, met) = (cluster_name(), observed());
    let Stage::Blocked {
        verdict,
        remove_works,
        ..
    } = stage(&author, &name, &met)
    else {
        panic!()
    };
    assert_eq!(verdict, Verdict::new("Degraded", true, "R", "m"));
    assert!(remove_works);
}

#[test]
fn an_annotation_with_an_invalid_namespace_is_reported() {
    let mut met = observed();
    let mut addon = ManagedClusterAddOn::clone(met.addon.as_deref().unwrap());
    let noted = (keys::INSTALL_NAMESPACE.to_owned(), "No Name".to_owned());
    addon.metadata.annotations = Some([noted].into());
    met.addon = Some(Arc::new(addon));
    let decided = decide(&author(vec![config_map("a", 1)]), &met);
    let Works::Keep(waiting) = decided.works else {
        panic!("{:?}", decided.works)
    };
    assert_eq!(waiting.needs_a_person(), Some("ConfigurationInvalid"));
    assert_eq!(decided.registration, None);
}
