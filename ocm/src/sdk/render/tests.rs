use serde_json::json;

use super::*;

fn object(kind: &str, name: &str) -> Value {
    json!({ "apiVersion": "apps/v1", "kind": kind, "metadata": { "namespace": "n", "name": name } })
}

fn one(body: Value) -> Manifest {
    manifests(vec![body].into()).unwrap().pop().unwrap()
}

#[test]
fn deployments_have_feedback_and_all_but_crds_use_server_side_apply() {
    let deployment = one(object("Deployment", "d"));
    assert_eq!(deployment.config.feedback_rules[0].kind, "WellKnownStatus");
    assert_eq!(deployment.config.feedback_scrape_type, "Watch");
    assert_eq!(
        deployment.config.update_strategy.unwrap().kind,
        "ServerSideApply"
    );
    let crd = one(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "x" },
    }));
    assert_eq!(crd.config.update_strategy, None);
    assert_eq!(work_spec([&crd].into_iter()).manifest_configs, []);
}

#[test]
fn an_authors_choice_wins() {
    let own = ManifestConfig {
        resource_identifier: ResourceIdentifier {
            group: "apps".to_owned(),
            resource: "deployments".to_owned(),
            namespace: "*".to_owned(),
            name: "*".to_owned(),
        },
        update_strategy: Some(UpdateStrategy {
            kind: "CreateOnly".to_owned(),
            ..Default::default()
        }),
        ..ManifestConfig::default()
    };
    let rendered = Rendered {
        manifests: vec![object("Deployment", "d")],
        configs: vec![own],
    };
    let manifest = manifests(rendered).unwrap().pop().unwrap();
    assert_eq!(manifest.config.update_strategy.unwrap().kind, "CreateOnly");
    assert_eq!(manifest.config.resource_identifier.name, "d");
}

#[test]
fn invalid_objects_are_refused_with_their_name() {
    let twice = vec![object("Deployment", "d"), object("Deployment", "d")];
    let message = manifests(twice.into()).unwrap_err().message;
    assert_eq!(message, "deployments n/d is rendered twice");
    let mut generated = object("Deployment", "d");
    generated["metadata"]["generateName"] = json!("d-");
    assert!(manifests(vec![generated].into()).is_err());
    assert!(manifests(vec![json!({ "kind": "Secret" })].into()).is_err());
    assert!(manifests(vec![json!("text")].into()).is_err());
}

#[test]
fn annotated_objects_stay_when_the_work_goes() {
    let mut namespace = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "n" },
    });
    namespace["metadata"]["annotations"] = json!({ (keys::DELETION_ORPHAN): "" });
    let (namespace, other) = (one(namespace), one(object("Deployment", "d")));
    let option = work_spec([&namespace, &other].into_iter())
        .delete_option
        .unwrap();
    assert_eq!(
        option.selectively_orphans.unwrap().orphaning_rules,
        [namespace.id]
    );
}

#[test]
fn the_digest_ignores_defaults_of_the_api_server() {
    let deployment = one(object("Deployment", "d"));
    let sent = json!(work_spec([&deployment].into_iter()));
    let mut stored = sent.clone();
    stored["deleteOption"] = json!({ "propagationPolicy": "Foreground" });
    stored["manifestConfigs"][0]["updateStrategy"]["serverSideApply"]["fieldManager"] =
        json!("work-agent");
    stored["manifestConfigs"][0]
        .as_object_mut()
        .unwrap()
        .remove("feedbackScrapeType");
    assert_eq!(spec_digest(&sent), spec_digest(&stored));
    stored["workload"]["manifests"][0]["metadata"]["labels"] = json!({ "x": "y" });
    assert_ne!(spec_digest(&sent), spec_digest(&stored));
}

#[test]
fn nulls_are_not_sent() {
    let mut body = object("Deployment", "d");
    body["spec"] = json!({ "replicas": null, "list": [{ "a": null, "b": 1 }] });
    assert_eq!(one(body).body["spec"], json!({ "list": [{ "b": 1 }] }));
}

#[test]
fn plurals_are_guessed_as_ocm_guesses_them() {
    let cases = [
        ("Deployment", "deployments"),
        ("NetworkPolicy", "networkpolicies"),
        ("Ingress", "ingresses"),
        ("Endpoints", "endpoints"),
    ];
    for (kind, wanted) in cases {
        assert_eq!(plural(kind), wanted);
    }
}

fn marked(kind: &str, name: &str, mark: (&str, &str, &str)) -> Value {
    let mut body = object(kind, name);
    let (marks, key, value) = mark;
    body["metadata"][marks] = json!({ (key): value });
    body
}

#[test]
fn hooks_are_jobs_and_pods_that_are_marked() {
    let cases = [
        ("Job", ("annotations", keys::PRE_DELETE, ""), true),
        ("Pod", ("labels", keys::PRE_DELETE, ""), true),
        ("Job", ("labels", keys::PRE_DELETE_OLD, ""), true),
        ("Deployment", ("annotations", keys::PRE_DELETE, ""), false),
        ("Job", ("annotations", "other", ""), false),
    ];
    for (kind, mark, wanted) in cases {
        assert_eq!(one(marked(kind, "x", mark)).hook, wanted, "{kind} {mark:?}");
    }
}

#[test]
fn annotated_locations_count_in_hosted_mode_only() {
    let located = |name, location| {
        marked(
            "Role",
            name,
            ("annotations", keys::HOSTED_LOCATION, location),
        )
    };
    let all = vec![
        located("h", "hosting"),
        located("m", "managed"),
        located("n", "none"),
        marked("Role", "l", ("labels", keys::HOSTED_LOCATION, "hosting")),
        object("Role", "p"),
    ];
    let all = manifests(all.into()).unwrap();
    let host = Place::Hosting(crate::name::ClusterName::new("h").unwrap());
    let names = |place: &Place, hosted| {
        let bound = bound_for(&all, place, hosted);
        bound
            .into_iter()
            .map(|manifest| manifest.id.name)
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&host, true), ["h", "l"]);
    assert_eq!(names(&Place::Managed, true), ["m", "p"]);
    assert_eq!(names(&Place::Managed, false), ["h", "m", "n", "l", "p"]);
    assert!(names(&host, false).is_empty());
}
