//! What is found of Argo CD and of its redis.

use super::*;

fn with_image(image: &str) -> Facts {
    let mut facts = facts();
    change(&mut facts, "argocd-application-controller", |it| {
        it["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
    });
    facts
}

#[test]
fn an_argo_cd_goes_with_the_hubs_within_two_minor_releases() {
    for (image, expected) in [
        (IMAGE, None),
        ("quay.io/argoproj/argocd:v3.0.1", None),
        ("quay.io/argoproj/argocd:v3.4.0@sha256:abc", None),
        ("quay.io/argoproj/argocd:v3.5.0", Some(Outcome::Warning)),
        ("quay.io/argoproj/argocd:v2.14.2", Some(Outcome::Warning)),
        ("registry:5000/argocd@sha256:abc", Some(Outcome::Unclear)),
    ] {
        let expected: Vec<_> = expected.map(|it| ("version", it)).into_iter().collect();
        assert_eq!(troubles(&with_image(image)), expected, "{image}");
    }
    let mut alone = with_image("quay.io/argoproj/argocd:v2.1.0");
    hub(&mut alone).argocd_image = None;
    assert_eq!(troubles(&alone), []);
}

#[test]
fn missing_argo_cd_parts_are_listed() {
    let mut ill = facts();
    change(&mut ill, "argocd-application-controller", |it| {
        it["spec"]["replicas"] = json!(0);
    });
    change(&mut ill, "argocd-redis", |it| it["status"] = json!({}));
    let programs = spoke(&mut ill).programs.as_mut().unwrap();
    programs.retain(|it| it["metadata"]["name"] != "argocd-repo-server");
    assert_eq!(troubles(&ill), [("argo cd", Outcome::Failed)]);
    let finding = super::super::argo_cd::programs(&ill, ill.spoke.as_ref().unwrap()).unwrap();
    assert_eq!(
        finding.cause,
        "in namespace argocd: argocd/argocd-application-controller is scaled to 0; argocd-repo-server is missing; \
         argocd/argocd-redis is not ready"
    );
}

/// Nothing of Argo CD is on the cluster.
fn bare() -> Facts {
    let mut facts = facts();
    let here = spoke(&mut facts);
    here.programs = Ok(vec![agent(), klusterlet()]);
    here.definitions = DEFINITIONS.map(|name| (name, Ok(None))).to_vec();
    (here.redis, here.password, here.fences) = (Ok(redis_of(&[])), Ok(None), Ok(Vec::new()));
    facts
}

fn installs(value: &str) -> Configured {
    Configured::read(
        &json!({"spec": {"customizedVariables": [{"name": "INSTALL_ARGOCD", "value": value}]}}),
    )
}

#[test]
fn missing_argo_cd_is_installed_unless_decided_otherwise() {
    let failed = [
        ("crds", Outcome::Failed),
        ("argo cd", Outcome::Failed),
        ("redis", Outcome::Warning),
    ];
    assert_eq!(troubles(&bare()), []);
    let bare_one = bare();
    let finding = definitions::check(&bare_one, bare_one.spoke.as_ref().unwrap())
        .unwrap()
        .cause;
    assert!(
        finding.ends_with("are not there; the add-on brings them as the hub has them"),
        "{finding}"
    );
    let mut never = bare();
    never.configured = installs("false");
    assert_eq!(troubles(&never), failed);

    let found = json!({"argocd-agent.open-cluster-management.io/argocd": "found"});
    let mut gone = bare();
    let object = hub(&mut gone).addon.as_mut().unwrap().as_mut().unwrap();
    object["metadata"]["annotations"] = found;
    assert_eq!(troubles(&gone), failed);
    gone.configured = installs("true");
    assert_eq!(troubles(&gone), []);

    let mut no_pattern = bare();
    hub(&mut no_pattern).argocd_image = None;
    hub(&mut no_pattern).definitions = DEFINITIONS.map(|name| (name, Ok(None))).to_vec();
    assert_eq!(troubles(&no_pattern), failed[..2]);
}

#[test]
fn argo_cd_in_another_namespace_names_the_variable_to_set() {
    let mut elsewhere = facts();
    elsewhere.places.argocd = "gitops".to_owned();
    let found = troubles(&elsewhere);
    assert!(found.contains(&("argo cd", Outcome::Warning)), "{found:?}");
    let finding =
        super::super::argo_cd::programs(&elsewhere, elsewhere.spoke.as_ref().unwrap()).unwrap();
    assert!(
        finding
            .next
            .unwrap()
            .ends_with("AddOnDeploymentConfig to argocd")
    );
}

#[test]
fn fields_that_only_the_hub_knows_are_named() {
    let mut facts = facts();
    let newer = json!({
        "source": {"properties": {"path": {}, "name": {}}},
        "sources": {"items": {"properties": {"chart": {}}}},
        "free": {"x-kubernetes-preserve-unknown-fields": true},
    });
    let name = DEFINITIONS[0];
    hub(&mut facts).definitions[0].1 = Ok(Some(definition(name, &newer)));
    assert_eq!(troubles(&facts), [("crds", Outcome::Warning)]);
    let finding = definitions::check(&facts, facts.spoke.as_ref().unwrap()).unwrap();
    let fields = "would drop: spec.free, spec.source.name, spec.sources";
    assert!(finding.cause.ends_with(fields), "{finding:?}");

    let mut free = json!({
        "source": {"x-kubernetes-preserve-unknown-fields": true},
        "sources": {"items": {"properties": {}}},
        "free": {},
    });
    spoke(&mut facts).definitions[0].1 = Ok(Some(definition(name, &free)));
    let finding = definitions::check(&facts, facts.spoke.as_ref().unwrap()).unwrap();
    assert!(
        finding.cause.ends_with("would drop: spec.sources.chart"),
        "{finding:?}"
    );
    free["sources"]["items"]["properties"]["chart"] = json!({});
    let mut unserved = definition(name, &free);
    spoke(&mut facts).definitions[0].1 = Ok(Some(unserved.clone()));
    assert_eq!(troubles(&facts), []);
    unserved["spec"]["versions"][0]["served"] = json!(false);
    spoke(&mut facts).definitions[0].1 = Ok(Some(unserved));
    assert_eq!(troubles(&facts), [("crds", Outcome::Failed)]);
}

#[test]
fn redis_obstacles_are_reported() {
    let of = |from: &Value| {
        let mut facts = facts();
        spoke(&mut facts).fences = Ok(vec![fence(from)]);
        troubles(&facts)
    };
    let own =
        json!([{"podSelector": {"matchLabels": {"app.kubernetes.io/name": "argocd-server"}}}]);
    assert_eq!(of(&own), [("network", Outcome::Warning)]);
    // A Pod of the same labels in another namespace is none of Argo CD's.
    let beside = json!([{"podSelector": {}}]);
    assert_eq!(of(&beside), [("network", Outcome::Warning)]);
    for open in [json!([]), ours(), json!([{"namespaceSelector": {}}])] {
        assert_eq!(of(&open), [], "{open}");
    }
    let mut other = facts();
    let mut of_server = fence(&own);
    of_server["spec"]["podSelector"] = own[0]["podSelector"].clone();
    spoke(&mut other).fences = Ok(vec![of_server]);
    assert_eq!(troubles(&other), []);

    let mut open = facts();
    spoke(&mut open).password = Ok(Some(false));
    assert_eq!(troubles(&open), [("redis", Outcome::Warning)]);
    for services in [&[][..], &["team-a-redis", "team-b-redis"]] {
        spoke(&mut open).redis = Ok(redis_of(services));
        assert_eq!(troubles(&open), [("redis", Outcome::Warning)]);
        let finding = redis::checks(&open, open.spoke.as_ref().unwrap());
        let cause = finding[0].1.as_ref().unwrap().cause.clone();
        assert!(cause.contains("REDIS_ADDR"), "{cause}");
    }
    spoke(&mut open).redis = Ok(redis_of(&["team-a-redis"]));
    spoke(&mut open).password = Ok(Some(true));
    assert_eq!(troubles(&open), []);
    spoke(&mut open).password = Ok(Some(false));
    open.configured = Configured::read(
        &json!({"spec": {"customizedVariables": [{"name": "UI_ACCESS", "value": "none"}]}}),
    );
    assert_eq!(troubles(&open), [], "UI_ACCESS is none");
}
