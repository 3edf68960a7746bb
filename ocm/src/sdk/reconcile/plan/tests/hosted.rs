//! Hosted mode and its finalizers.

use super::*;
use crate::api::cluster::ManagedCluster;

fn located(name: &str, location: &str) -> serde_json::Value {
    let mut object = config_map(name, 1);
    object["metadata"]["annotations"] = json!({ (keys::HOSTED_LOCATION): location });
    object
}

fn hook(name: &str, location: &str) -> serde_json::Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": { "namespace": "n", "name": name, "annotations": {
            (keys::HOSTED_LOCATION): location, (keys::PRE_DELETE): "" } },
    })
}

fn hosting_author(manifests: Vec<serde_json::Value>) -> Author {
    Author {
        hosts: Hosts::Only([ClusterName::new("h").unwrap()].into()),
        ..author(manifests)
    }
}

/// Cluster c, whose agent runs on host h.
fn hosted() -> Observed {
    hosted_by("h")
}

fn hosted_by(host: &str) -> Observed {
    let mut met = observed();
    let mut addon = (**met.addon.as_ref().unwrap()).clone();
    let annotations = addon.metadata.annotations.get_or_insert_default();
    annotations.insert(keys::HOSTING_CLUSTER.to_owned(), host.to_owned());
    met.addon = Some(Arc::new(addon));
    let mut cluster = ManagedCluster::default();
    cluster.spec.hub_accepts_client = true;
    met.host = Some(Arc::new(cluster));
    met
}

#[test]
fn objects_go_to_the_host_and_the_rest_to_the_cluster() {
    let author = hosting_author(vec![
        located("agent", "hosting"),
        located("rights", "managed"),
        located("docs", "none"),
    ]);
    let first = steps(&author, &hosted());
    let wanted = ["apply addon-a-deploy-0", "apply addon-a-deploy-hosting-c-0"];
    assert_eq!(names(&first), wanted);
    let Some(Step::Apply {
        namespace, body, ..
    }) = first.last()
    else {
        panic!()
    };
    assert_eq!(namespace, "h");
    assert_eq!(body["metadata"]["ownerReferences"], json!([]));
    let labels = json!({
        "open-cluster-management.io/addon-name": "a",
        "open-cluster-management.io/addon-namespace": "c",
    });
    assert_eq!(body["metadata"]["labels"], labels);
    assert_eq!(steps(&author, &carry_out(&hosted(), &first)), []);
}

#[test]
fn works_move_from_a_former_host_to_a_new_one() {
    let mut author = hosting_author(vec![located("agent", "hosting")]);
    author.hosts = Hosts::Any;
    let met = carry_out(&hosted(), &steps(&author, &hosted()));
    let moved = Observed {
        works: met.works.clone(),
        ..hosted_by("g")
    };
    let change = steps(&author, &moved);
    let name = "addon-a-deploy-hosting-c-0";
    let place = |step: &Step| match step {
        Step::Apply { namespace, .. } => format!("apply in {namespace}"),
        Step::Delete { namespace, .. } => format!("delete in {namespace}"),
    };
    assert_eq!(
        names(&change),
        [format!("apply {name}"), format!("delete {name}")]
    );
    let places: Vec<_> = change.iter().map(place).collect();
    assert_eq!(places, ["apply in g", "delete in h"]);
    assert_eq!(steps(&author, &carry_out(&moved, &change)), []);
}

#[test]
fn a_refused_host_gets_no_works_and_loses_existing_ones() {
    let author = hosting_author(vec![located("agent", "hosting"), located("x", "managed")]);
    let met = carry_out(&hosted(), &steps(&author, &hosted()));
    let gone = Observed { host: None, ..met };
    assert_eq!(
        names(&steps(&author, &gone)),
        ["delete addon-a-deploy-hosting-c-0"]
    );
    let elsewhere = Observed {
        works: gone.works,
        ..hosted_by("stranger")
    };
    assert_eq!(
        names(&steps(&author, &elsewhere)),
        ["delete addon-a-deploy-hosting-c-0"]
    );
}

#[test]
fn without_the_annotation_everything_goes_to_the_cluster() {
    let author = hosting_author(vec![located("agent", "hosting")]);
    let met = carry_out(&hosted(), &steps(&author, &hosted()));
    let home = Observed {
        works: met.works,
        ..observed()
    };
    let back = steps(&author, &home);
    let wanted = [
        "apply addon-a-deploy-0",
        "delete addon-a-deploy-hosting-c-0",
    ];
    assert_eq!(names(&back), wanted);
    let cleanup = decide(&author, &home).finalizers.unwrap();
    assert_eq!(
        cleanup,
        [keys::HOSTING_CLEANUP_FINALIZER],
        "until the works are gone"
    );
    let after = carry_out(&home, &back);
    assert_eq!(decide(&author, &after).finalizers, None);
}

#[test]
fn finalizers_depend_on_rendered_objects() {
    let cases = [
        (vec![located("x", "managed")], vec![]),
        (vec![hook("j", "managed")], vec![keys::PRE_DELETE_FINALIZER]),
        (
            vec![located("x", "hosting")],
            vec![keys::HOSTING_CLEANUP_FINALIZER],
        ),
        (
            vec![hook("j", "hosting")],
            vec![
                keys::HOSTING_PRE_DELETE_FINALIZER,
                keys::HOSTING_CLEANUP_FINALIZER,
            ],
        ),
    ];
    for (manifests, wanted) in cases {
        let finalizers = decide(&hosting_author(manifests), &hosted()).finalizers;
        assert_eq!(finalizers.unwrap_or_default(), wanted);
    }
}

#[test]
fn hooks_are_not_deployed_and_have_a_size_limit() {
    let author = author(vec![config_map("x", 1), hook("j", "managed")]);
    let Some(Step::Apply { body, .. }) = steps(&author, &observed()).pop() else {
        panic!()
    };
    let manifests = body["spec"]["workload"]["manifests"].as_array().unwrap();
    assert_eq!(manifests.len(), 1);
    let mut large = hook("j", "managed");
    large["spec"] = json!({ "text": "x".repeat(crate::sdk::pack::LIMIT) });
    *author.manifests.lock().unwrap() = vec![large];
    let Works::Refused(error) = decide(&author, &observed()).works else {
        panic!()
    };
    assert!(error.message.starts_with("the hooks have "), "{error}");
}

#[test]
fn the_finalizer_is_removed_from_an_add_on_without_hooks() {
    let mut met = observed();
    let mut addon = (**met.addon.as_ref().unwrap()).clone();
    let live = [keys::PRE_DELETE_FINALIZER, "other.io/x"].map(str::to_owned);
    addon.metadata.finalizers = Some(live.into());
    met.addon = Some(Arc::new(addon));
    let finalizers = decide(&author(vec![config_map("x", 1)]), &met).finalizers;
    assert_eq!(finalizers, Some(vec!["other.io/x".to_owned()]));
}
