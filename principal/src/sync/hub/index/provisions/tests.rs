use argocd::{keys, routing::RoutingSettings};
use base64::{Engine as _, engine::general_purpose::STANDARD};

use super::*;
use crate::{
    domain::Key,
    fleet::Fleet,
    sync::hub::index::{Index, Lookup},
    testing::{application, fleet, name, open_project, packed, with},
};

const PASSWORD: &str = "correct-horse-battery-staple";

/// A Secret for a repository, or for all repositories with this prefix.
fn secret(kind: &str, name: &str, url: &str, project: &str, version: u64) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "namespace": "argocd", "name": name, "uid": format!("secret-{name}"),
            "resourceVersion": version.to_string(), "labels": { keys::SECRET_TYPE: kind },
        },
        "data": {
            "url": STANDARD.encode(url), "project": STANDARD.encode(project),
            "password": STANDARD.encode(PASSWORD),
        },
    })
}

fn repository(project: &str, version: u64) -> Value {
    secret(
        keys::REPOSITORY,
        "repo",
        "https://example.com/repo.git",
        project,
        version,
    )
}

/// A project for one cluster.
fn project_of(name: &str, cluster: &str) -> Value {
    let change = json!({ "spec": { "destinations": [{ "name": cluster, "namespace": "*" }] } });
    with(open_project(name), change)
}

fn index(clusters: &[&str]) -> Index {
    let settings = RoutingSettings {
        argocd_namespace: "argocd".to_owned(),
        allowed_namespaces: vec![],
    };
    let mut index = Index::new(settings).salted("salt".to_owned());
    index.set_fleet(&fleet(clusters));
    index
}

fn set(index: &mut Index, kind: Kind, object: Value) -> Vec<Effect> {
    let name = Meta::of(&object).name().to_owned();
    index.set_provision(kind, &name, Some(packed(object)))
}

/// The clusters that receive (`+`) or lose (`-`) Secrets and keys.
fn arrived(effects: &[Effect]) -> Vec<String> {
    let words = effects.iter().filter_map(|effect| {
        let (sign, cluster, key) = match effect {
            Effect::State { cluster, key } => ('+', cluster, key),
            Effect::Gone { cluster, key, .. } => ('-', cluster, key),
            Effect::Command { .. } | Effect::Conditions(_) => return None,
        };
        let is_other = !matches!(key.kind, Kind::AppProject | Kind::Application);
        is_other.then(|| format!("{sign}{cluster} {}", key.name))
    });
    words.collect()
}

fn sharing(clusters: &[&str], shares: bool) -> Fleet {
    let mut fleet = fleet(clusters);
    for enrolment in fleet.clusters.values_mut() {
        enrolment.shares_unscoped = Some(shares);
    }
    fleet
}

#[test]
fn a_repository_goes_where_its_project_goes_and_no_further() {
    let mut index = index(&["a", "ab"]);
    assert!(arrived(&set(&mut index, Kind::Repository, repository("team", 1))).is_empty());
    let effects = set(&mut index, Kind::AppProject, project_of("team", "a"));
    assert_eq!(arrived(&effects), ["+a repo"]);
    let effects = set(&mut index, Kind::AppProject, project_of("team", "ab"));
    assert_eq!(arrived(&effects), ["-a repo", "+ab repo"]);
    assert_eq!(
        arrived(&index.set_provision(Kind::AppProject, "team", None)),
        ["-ab repo"]
    );
}

#[test]
fn a_secret_that_loses_its_project_or_its_label_is_taken_back() {
    for change in [
        json!({ "data": { "project": null } }),
        json!({ "data": { "project": STANDARD.encode("other") } }),
        json!({ "metadata": { "labels": { keys::SECRET_TYPE: "cluster" } } }),
        json!({ "metadata": { "labels": { keys::IGNORE_SYNC: "true" } } }),
    ] {
        let mut index = index(&["a"]);
        set(&mut index, Kind::AppProject, project_of("team", "a"));
        assert_eq!(
            arrived(&set(&mut index, Kind::Repository, repository("team", 1))),
            ["+a repo"]
        );
        let changed = with(repository("team", 2), change.clone());
        assert_eq!(
            arrived(&set(&mut index, Kind::Repository, changed)),
            ["-a repo"],
            "{change}"
        );
    }
}

#[test]
fn changed_password_is_sent_once() {
    let mut index = index(&["a"]);
    set(&mut index, Kind::AppProject, project_of("team", "a"));
    set(&mut index, Kind::Repository, repository("team", 1));
    assert!(arrived(&set(&mut index, Kind::Repository, repository("team", 1))).is_empty());
    assert_eq!(
        arrived(&set(&mut index, Kind::Repository, repository("team", 2))),
        ["+a repo"]
    );
}

#[test]
fn without_a_project_it_is_for_clusters_that_are_set_so() {
    let mut index = index(&["a", "ab"]);
    assert!(arrived(&set(&mut index, Kind::Repository, repository("", 1))).is_empty());
    assert_eq!(
        arrived(&index.set_fleet(&sharing(&["a"], true))),
        ["+a repo"]
    );
    assert_eq!(
        arrived(&index.set_fleet(&sharing(&["a"], false))),
        ["-a repo"]
    );
}

#[test]
fn leaving_the_fleet_removes_no_repository() {
    let mut index = index(&["a"]);
    index.set_fleet(&sharing(&["a"], true));
    set(&mut index, Kind::Repository, repository("", 1));
    assert!(arrived(&index.set_fleet(&fleet(&[]))).is_empty());
}

#[test]
fn a_cluster_that_owns_its_specs_is_provided_with_nothing() {
    let mut index = index(&[]);
    let mut own = sharing(&["a"], true);
    for enrolment in own.clusters.values_mut() {
        enrolment.mode = Mode::Autonomous;
    }
    index.set_fleet(&own);
    assert!(arrived(&set(&mut index, Kind::Repository, repository("", 1))).is_empty());
    assert!(index.delivered_to(&name("a")).is_empty());
    assert_eq!(
        index.provided(&name("a"), Kind::Repository, "repo"),
        Lookup::LeaveAlone
    );
}

#[test]
fn certificates_follow_the_hosts_that_are_used() {
    let mut index = index(&["a", "ab"]);
    set(&mut index, Kind::AppProject, open_project("default"));
    let certificates = json!({
        "metadata": { "namespace": "argocd", "name": "argocd-tls-certs-cm", "uid": "tls" },
        "data": { "example.com": "PEM", "other.example": "PEM" },
    });
    assert!(arrived(&set(&mut index, Kind::TlsCerts, certificates)).is_empty());
    let effects = index.set_application(packed(application("a", "app", "1", 1)), true);
    assert!(arrived(&effects).contains(&"+a argocd-tls-certs-cm".to_owned()));
    let key = ObjectKey::new(Kind::TlsCerts, "argocd", "argocd-tls-certs-cm");
    let wire = index.provision(&name("a"), &key).unwrap();
    assert_eq!(wire["data"], json!({ "example.com": "PEM" }));
    assert_eq!(index.provision(&name("ab"), &key), None);
    // A repository on another host, such as a chart that another one needs.
    let chart = secret(
        keys::REPOSITORY,
        "chart",
        "https://other.example/charts",
        "default",
        1,
    );
    let effects = set(&mut index, Kind::Repository, chart);
    assert!(arrived(&effects).contains(&"+ab argocd-tls-certs-cm".to_owned()));
    assert_eq!(
        index.provision(&name("ab"), &key).unwrap()["data"],
        json!({ "other.example": "PEM" })
    );
    let app = Key {
        namespace: "a".to_owned(),
        name: "app".to_owned(),
    };
    index.remove_application(&app, "1");
    assert_eq!(
        index.provision(&name("a"), &key).unwrap()["data"],
        json!({ "other.example": "PEM" })
    );
    let effects = index.set_provision(Kind::Repository, "chart", None);
    assert!(arrived(&effects).contains(&"-a argocd-tls-certs-cm".to_owned()));
}

#[test]
fn repository_condition_names_the_secret_that_is_not_delivered() {
    let mut index = index(&["a"]);
    set(&mut index, Kind::AppProject, open_project("default"));
    index.set_application(packed(application("a", "app", "1", 1)), true);
    let app = Key {
        namespace: "a".to_owned(),
        name: "app".to_owned(),
    };
    let trouble = |index: &Index| index.repository_trouble(index.application(&app).unwrap());
    assert_eq!(trouble(&index), None);
    let effects = set(&mut index, Kind::Repository, repository("", 1));
    assert_eq!(effects, [Effect::Conditions(app.clone())]);
    let reply = trouble(&index).unwrap();
    assert!(
        reply.contains("argocd/repo") && reply.contains("\"default\""),
        "{reply}"
    );

    // A template of the project gives access, too.
    let template = secret(
        keys::REPO_CREDS,
        "all",
        "https://example.com/",
        "default",
        1,
    );
    set(&mut index, Kind::Repository, template);
    assert_eq!(trouble(&index), None);
    let key = ObjectKey::new(Kind::Repository, "argocd", "all");
    assert_eq!(
        index.refuse(&name("a"), &key, "taken"),
        [Effect::Conditions(app.clone())]
    );
    assert!(index.refuse(&name("a"), &key, "taken").is_empty(), "once");
    let other = index.refuse(&name("a"), &key, "another reason");
    assert!(other.is_empty(), "the first reason of a revision counts");
    let reply = trouble(&index).unwrap();
    assert!(
        reply.contains("argocd/all") && reply.contains("taken"),
        "{reply}"
    );
    assert_eq!(
        index.clear_reports(&name("a")),
        [Effect::Conditions(app.clone())]
    );
    assert_eq!(trouble(&index), None);
    index.set_provision(Kind::Repository, "all", None);
    index.set_fleet(&sharing(&["a"], true));
    assert_eq!(trouble(&index), None);
    index.set_fleet(&sharing(&["a"], false));
    let public = with(repository("", 2), json!({ "data": { "password": null } }));
    set(&mut index, Kind::Repository, public);
    assert_eq!(trouble(&index), None, "it gives no access");
}

#[test]
fn digests_do_not_reveal_secrets() {
    let stated = |salt: &str, password: &str, version: u64| {
        let mut index = index(&["a"]).salted(salt.to_owned());
        set(&mut index, Kind::AppProject, project_of("team", "a"));
        let password = json!({ "data": { "password": password } });
        set(
            &mut index,
            Kind::Repository,
            with(repository("team", version), password),
        );
        let stated = index.provided(&name("a"), Kind::Repository, "repo");
        let Lookup::Wanted { digest, .. } = stated else {
            panic!("{stated:?}")
        };
        digest
    };
    assert_eq!(
        stated("salt", "one", 1),
        stated("salt", "two", 1),
        "the content is not in it"
    );
    assert_ne!(
        stated("salt", "one", 1),
        stated("salt", "one", 2),
        "its version is"
    );
    assert_ne!(
        stated("salt", "one", 1),
        stated("other", "one", 1),
        "other clients cannot compute it"
    );
}

#[test]
fn index_debug_output_hides_secrets() {
    let mut index = index(&["a"]);
    set(&mut index, Kind::AppProject, project_of("team", "a"));
    let effects = set(&mut index, Kind::Repository, repository("team", 1));
    let report = crate::testing::applied(Kind::Repository, repository("team", 1));
    let printed = format!("{index:?} {effects:?} {report:?}");
    for shown in [PASSWORD.to_owned(), STANDARD.encode(PASSWORD)] {
        assert!(!printed.contains(&shown));
    }
    assert!(printed.contains("repo"));
}

#[test]
fn refusal_concerns_only_applications_of_that_cluster() {
    let mut index = index(&["a", "ab"]);
    set(&mut index, Kind::AppProject, open_project("default"));
    set(&mut index, Kind::Repository, repository("default", 1));
    for cluster in ["a", "ab"] {
        index.set_application(packed(application(cluster, "app", cluster, 1)), true);
    }
    let key = ObjectKey::new(Kind::Repository, "argocd", "repo");
    let app = Key {
        namespace: "ab".to_owned(),
        name: "app".to_owned(),
    };
    let effects = index.refuse(&name("ab"), &key, "taken");
    assert_eq!(effects, [Effect::Conditions(app)]);
}
