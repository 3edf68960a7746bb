use super::*;
use crate::Patch;
use crate::projection::patch_for_spoke;

fn encoded(text: &str) -> Value {
    STANDARD.encode(text).into()
}

fn secret(kind: &str, entries: &[(&str, &str)]) -> Value {
    let data: Map<String, Value> = entries
        .iter()
        .map(|(name, value)| ((*name).to_owned(), encoded(value)))
        .collect();
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": "repo", "namespace": "argocd", "uid": "u1", "resourceVersion": "7",
            "labels": { keys::SECRET_TYPE: kind, "team": "a" },
        },
        "type": "Opaque",
        "data": data,
    })
}

fn context() -> SpokeContext<'static> {
    SpokeContext {
        argocd_namespace: "gitops",
        principal_namespace: "argocd",
        principal_uid: Some("p1"),
        cluster: "spoke1",
    }
}

#[test]
fn urls_are_compared_as_argo_cd_does() {
    for (one, other) in [
        (
            "https://git.example/Team/App.git",
            "https://git.example/team/app",
        ),
        (" https://git.example/a ", "https://git.example/a"),
        (
            "git@git.example:team/app.git",
            "ssh://git@git.example/team/app",
        ),
        (
            "ssh://git@git.example:2222/a",
            "ssh://git@git.example:2222/a.git",
        ),
    ] {
        assert_eq!(normal_url(one), normal_url(other), "{one}");
    }
    for (one, other) in [
        ("https://git.example/a", "http://git.example/a"),
        ("https://git.example/a", "https://git.example/ab"),
        ("https://user@git.example/a", "https://git.example/a"),
    ] {
        assert_ne!(normal_url(one), normal_url(other), "{one}");
    }
}

#[test]
fn a_repository_is_for_its_url_and_a_template_for_all_that_begin_so() {
    let place = [("url", "https://git.example/team"), ("password", "x")];
    let one = Repository::of(&secret(keys::REPOSITORY, &place)).unwrap();
    let all = Repository::of(&secret(keys::REPO_CREDS, &place)).unwrap();
    let inside = normal_url("https://git.example/team/app.git");
    assert!(!one.is_for(&inside) && all.is_for(&inside));
    assert!(one.is_for(&normal_url("https://git.example/team.git")));
    let nowhere = Repository::of(&secret(keys::REPO_CREDS, &[("password", "x")])).unwrap();
    assert!(!nowhere.is_for(&inside), "one without a URL is for none");
}

#[test]
fn ignored_and_other_secrets_are_no_repositories() {
    assert_eq!(Repository::of(&secret("cluster", &[])), None);
    let mut ignored = secret(keys::REPOSITORY, &[("url", "x")]);
    ignored["metadata"]["labels"][keys::IGNORE_SYNC] = "true".into();
    assert_eq!(Repository::of(&ignored), None);
}

#[test]
fn project_and_access_are_read_from_the_data() {
    let of = |entries: &[(&str, &str)]| Repository::of(&secret(keys::REPOSITORY, entries)).unwrap();
    let place = of(&[
        ("url", "x"),
        ("type", "git"),
        ("name", "x"),
        ("project", ""),
    ]);
    assert_eq!((place.project, place.gives_access), (None, false));
    let access = of(&[("url", "x"), ("project", "team"), ("sshPrivateKey", "k")]);
    assert_eq!(
        (access.project.as_deref(), access.gives_access),
        (Some("team"), true)
    );
}

#[test]
fn an_application_names_all_its_repositories() {
    let app = json!({ "spec": {
        "source": { "repoURL": "a" },
        "sources": [{ "repoURL": "b" }, { "ref": "x" }, { "repoURL": "" }],
        "sourceHydrator": { "drySource": { "repoURL": "c" } },
    } });
    assert_eq!(urls(Application::of(&app)), ["a", "b", "c"]);
    assert!(urls(Application::of(&json!({}))).is_empty());
}

#[test]
fn labels_and_finalizers_of_the_hub_do_not_travel() {
    let mut hub = secret(keys::REPOSITORY, &[("password", "x")]);
    hub["metadata"]["labels"][keys::INSTANCE] = "app".into();
    hub["metadata"]["annotations"] = json!({ keys::TRACKING_ID: "app:", keys::LAST_APPLIED: "{}" });
    hub["metadata"]["finalizers"] = json!(["example.com/keep"]);
    hub["metadata"]["ownerReferences"] = json!([{ "name": "external" }]);
    let wire = wire_secret(&hub, "id-1");
    assert_eq!(
        wire["metadata"]["labels"],
        json!({ keys::SECRET_TYPE: "repository", "team": "a" })
    );
    assert_eq!(
        wire["metadata"]["annotations"],
        json!({ keys::CONTENT_ID: "id-1" })
    );
    assert_eq!(wire["data"], hub["data"]);
    assert!(wire["metadata"].get("ownerReferences").is_none());
    assert!(wire["metadata"].get("finalizers").is_none());
    assert_eq!(content_id(&wire), "id-1");
    assert_eq!(content_id(&hub), "u1/7", "a Go principal says no more");
}

#[test]
fn the_spoke_holds_it_with_our_stamps_and_a_type_without_a_meaning() {
    let mut hub = secret(keys::REPOSITORY, &[("password", "x")]);
    hub["type"] = "kubernetes.io/service-account-token".into();
    let desired = desired_secret_on_spoke(&wire_secret(&hub, "id-1"), &context()).unwrap();
    assert_eq!(desired["type"], "Opaque");
    assert_eq!(desired["data"], hub["data"]);
    assert_eq!(desired["metadata"]["namespace"], "gitops");
    let annotations = json!({ keys::SOURCE_UID: "u1", keys::PRINCIPAL_UID: "p1" });
    assert_eq!(desired["metadata"]["annotations"], annotations);
}

#[test]
fn only_a_repositorys_secret_is_written_on_the_spoke() {
    let refused = |secret: &Value| desired_secret_on_spoke(secret, &context()).unwrap_err();
    for kind in ["cluster", "", "repo-write"] {
        assert_eq!(refused(&secret(kind, &[])), Unusable::NotForARepository);
    }
    let mut bad = secret(keys::REPOSITORY, &[]);
    for data in [json!({ "a": "not base64!" }), json!({ "a": 1 }), json!("x")] {
        bad["data"] = data;
        assert_eq!(refused(&bad), Unusable::BadData);
    }
}

#[test]
fn a_new_password_is_the_smallest_patch_and_then_there_is_none() {
    let hub = secret(keys::REPOSITORY, &[("url", "x"), ("password", "old")]);
    let desired = |hub: &Value| desired_secret_on_spoke(hub, &context()).unwrap();
    let mut live = desired(&hub);
    live["metadata"]["uid"] = "local".into();
    assert_eq!(patch_for_spoke(&live, &desired(&hub)), None);
    let rotated = secret(keys::REPOSITORY, &[("url", "x"), ("password", "new")]);
    let patch = patch_for_spoke(&live, &desired(&rotated)).unwrap();
    assert_eq!(
        patch,
        Patch::Merge(json!({ "data": { "password": encoded("new") } }))
    );
    let live = patch.applied_to(&live);
    assert_eq!(patch_for_spoke(&live, &desired(&rotated)), None);

    let mut edited = live;
    edited["data"]["extra"] = encoded("theirs");
    let patch = patch_for_spoke(&edited, &desired(&rotated)).unwrap();
    assert_eq!(patch, Patch::Merge(json!({ "data": { "extra": null } })));
}
