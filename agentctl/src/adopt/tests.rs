mod destinations;
mod matching;

use argocd::routing::RoutingSettings;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use diagnosis::testing::{now, well};
use serde_json::json;

use super::{
    facts::{Address, brief},
    *,
};
use crate::{
    change::opt_in,
    output::{Format, render},
    testing::{is_documented, place},
};

const PARIS: &str = "https://paris.example.com:6443";

fn secret_object(name: &str, shown: &str, server: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"argocd.argoproj.io/secret-type": "cluster"}},
        "data": {"name": STANDARD.encode(shown), "server": STANDARD.encode(server), "config": STANDARD.encode("hidden")},
    })
}

fn secret(name: &str, shown: &str, server: &str) -> ClusterSecret {
    ClusterSecret::read(&secret_object(name, shown, server)).unwrap()
}

/// One that argocd-agentctl of the Go implementation has made; ours is marked alike.
fn of_agent(name: &str, cluster: &str, server: &str) -> ClusterSecret {
    let mut object = secret_object(name, cluster, server);
    object["metadata"]["labels"]["argocd-agent.argoproj-labs.io/agent-name"] = json!(cluster);
    object["metadata"]["annotations"] = json!({"managed-by": "argocd-agent"});
    ClusterSecret::read(&object).unwrap()
}

fn cluster(name: &str, urls: &[&str]) -> ManagedCluster {
    let configs = urls.iter().map(|url| json!({ "url": url }));
    let configs: Vec<_> = configs.collect();
    ManagedCluster::read(&json!({
        "metadata": {"name": name},
        "spec": {"hubAcceptsClient": true, "managedClusterClientConfigs": configs},
    }))
}

fn application(namespace: &str, name: &str, destination: &Value) -> Value {
    brief(&json!({
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"destination": destination},
    }))
}

fn facts(secrets: Vec<ClusterSecret>, clusters: Vec<ManagedCluster>) -> Facts {
    Facts {
        secrets,
        clusters,
        addons: Vec::new(),
        applications: Vec::new(),
        controllers: Ok(Vec::new()),
        parameters: Ok(None),
        offer: Ok(Some(
            json!({"spec": {"installStrategy": {"type": "Manual"}}}),
        )),
        settings: Settings {
            routing: RoutingSettings {
                argocd_namespace: "argocd".to_owned(),
                allowed_namespaces: vec!["team-*".to_owned()],
            },
            doubt: None,
            silent: None,
        },
        own_namespace: "argocd-agent-addon".to_owned(),
        mode: Mode::Managed,
        hub_uid: Ok(Some("hub-uid".to_owned())),
        same: Vec::new(),
    }
}

/// Paris in push mode, under another name than its ManagedCluster's.
fn paris() -> Facts {
    facts(
        vec![secret("push-paris", "prod-paris", PARIS)],
        vec![cluster("paris", &[PARIS]), cluster("berlin", &[])],
    )
}

fn only(facts: &Facts) -> Row {
    let mut rows = plan(facts).clusters;
    assert_eq!(rows.len(), 1, "{rows:#?}");
    rows.remove(0)
}

#[test]
fn when_all_is_adopted_nothing_is_left_to_do() {
    let mut facts = paris();
    facts.applications = vec![application("argocd", "shop", &json!({"name": "paris"}))];
    let mut found = plan(&facts);
    for cluster in found.ready() {
        found.record(&cluster, &Ok(()));
    }
    assert_eq!(found.clusters[0].state, State::OptedIn);

    // The label is there, and not the add-on yet.
    let mut labelled = json!({"metadata": {"name": "paris"}, "spec": {"hubAcceptsClient": true,
        "managedClusterClientConfigs": [{"url": PARIS}]}});
    argocd::patch::merge(&mut labelled, &opt_in(Mode::Managed));
    facts.clusters = vec![ManagedCluster::read(&labelled)];
    let found = plan(&facts);
    assert_eq!(found.clusters[0].state, State::OptedIn);
    assert!(found.ready().is_empty() && !found.is_blocked());

    // The add-on and its Secret are there, and the old Secret still.
    facts.addons = vec![well("paris")];
    let ours = "https://ours:9090?agentName=paris";
    facts.secrets.push(of_agent("cluster-paris", "paris", ours));
    facts.applications.push(application(
        "argocd",
        "by-server",
        &json!({ "server": ours }),
    ));
    let found = plan(&facts);
    let states: Vec<_> = found.clusters.iter().map(|row| row.state).collect();
    assert_eq!(states, [State::Adopted, State::Adopted]);
    assert!(found.ready().is_empty() && !found.is_blocked());
    assert!(found.applications.iter().all(|it| it.fate == Fate::Reached));
    let left = found.clusters[1].afterwards.as_deref().unwrap();
    assert!(
        left.contains("delete the Secret argocd/push-paris"),
        "{left}"
    );
    assert_eq!(found.clusters[0].afterwards, None);

    facts.secrets.remove(0);
    let found = plan(&facts);
    assert!(found.clusters.iter().all(|row| row.afterwards.is_none()));
    assert!(!found.is_blocked());
}

#[test]
fn an_obstacle_blocks_only_its_own_cluster() {
    type Change = fn(&mut Facts);
    let cases: [(&str, Change); 9] = [
        ("another use", |it| it.own_namespace = "paris".to_owned()),
        ("another use", |it| {
            it.settings.routing.argocd_namespace = "paris".to_owned();
        }),
        ("the hub itself", |it| {
            it.clusters[0].id = Some("hub-uid".to_owned());
        }),
        ("cannot be read: you may not", |it| {
            it.clusters[0].id = Some("some-uid".to_owned());
            it.hub_uid = Err("you may not".to_owned());
        }),
        ("being deleted", |it| it.clusters[0].deleting = true),
        ("clusteradm accept", |it| it.clusters[0].accepted = false),
        ("--mode", |it| {
            it.clusters[0].mode = Some("autonomous".to_owned());
        }),
        ("Secret argocd/cluster-paris", |it| {
            let object = json!({"metadata": {"name": "cluster-paris"}});
            it.secrets.extend(ClusterSecret::read(&object));
        }),
        ("being removed", |it| {
            let mut leaving = well("paris");
            leaving.deleting = Some(now());
            it.addons.push(leaving);
        }),
    ];
    for (words, change) in cases {
        let mut facts = paris();
        facts
            .secrets
            .push(secret("push-berlin", "berlin", "https://b"));
        change(&mut facts);
        let found = plan(&facts);
        let row = |name: &str| {
            let mut rows = found.clusters.iter();
            rows.find(|row| row.cluster.as_deref() == Some(name))
                .unwrap()
        };
        assert!(
            row("paris").in_the_way.iter().any(|it| it.contains(words)),
            "{words}: {found:#?}"
        );
        assert_eq!(
            (row("paris").state, row("berlin").state),
            (State::Blocked, State::Ready)
        );
        assert_eq!(found.ready(), ["berlin".to_owned()].into(), "{words}");
        assert!(found.is_blocked());
    }
    let kube = facts(
        vec![secret("s", "kube-a", "https://a")],
        vec![cluster("kube-a", &[])],
    );
    assert_eq!(only(&kube).state, State::Blocked);
    // A Secret in push mode that has the very name of ours is such a one, too.
    let taken = secret("cluster-paris", "paris", PARIS);
    let row = only(&facts(vec![taken], vec![cluster("paris", &[PARIS])]));
    assert_eq!(row.state, State::Blocked);
}

/// By its claim, as the hub program does, and not by a label: a user who may label a cluster can call any of them local.
#[test]
fn hub_cluster_is_recognized_by_its_claim() {
    let known = |uid: &str, labels: Value| {
        ManagedCluster::read(&json!({
            "metadata": {"name": "paris", "labels": labels},
            "spec": {"hubAcceptsClient": true},
            "status": {"clusterClaims": [
                {"name": "name", "value": "hub-uid"}, {"name": "id.k8s.io", "value": uid},
            ]},
        }))
    };
    let secrets = || vec![secret("s", "paris", "https://10.0.0.1")];
    let state = |cluster| only(&facts(secrets(), vec![cluster])).state;
    assert_eq!(state(known("hub-uid", Value::Null)), State::Blocked);
    let local = json!({"local-cluster": "true"});
    assert_eq!(state(known("paris-uid", local)), State::Ready);
    // Neither is the hub: not one that does not say which it is, and none where the hub has no identity.
    let mut facts = facts(secrets(), vec![cluster("paris", &[])]);
    facts.hub_uid = Ok(None);
    assert_eq!(only(&facts).state, State::Ready);
    facts.clusters = vec![known("hub-uid", Value::Null)];
    assert_eq!(only(&facts).state, State::Ready);
}

const OLD: &str = "quay.io/argoproj/argocd:v3.2.11";

fn controller(image: &str) -> Value {
    json!({
        "metadata": {"namespace": "argocd", "name": "argocd-application-controller"},
        "spec": {"template": {"spec": {"containers": [{ "image": image }]}}},
    })
}

#[test]
fn hub_obstacle_blocks_all_clusters() {
    type Change = fn(&mut Facts);
    let cases: [(&str, Change); 6] = [
        ("controllers", |it| {
            it.controllers = Ok(vec![controller(OLD)]);
        }),
        ("controllers", |it| {
            it.controllers = Ok(vec![controller("argocd:latest")]);
        }),
        ("controllers", |it| {
            it.controllers = Err("you may not".to_owned());
        }),
        ("add-on", |it| it.offer = Ok(None)),
        ("add-on", |it| it.offer = Err("you may not".to_owned())),
        ("add-on", |it| {
            it.offer = Ok(Some(
                json!({"spec": {"installStrategy": {"type": "Placements"}}}),
            ));
        }),
    ];
    for (check, change) in cases {
        let mut facts = paris();
        change(&mut facts);
        let found = plan(&facts);
        assert_eq!(found.hub.len(), 1, "{found:#?}");
        assert_eq!(found.hub[0].check, check);
        assert!(found.ready().is_empty() && found.is_blocked());
        assert_eq!(found.clusters[0].state, State::Blocked);
        // Where nothing is to be adopted, it is the hub's own business.
        facts.secrets.clear();
        assert!(plan(&facts).hub.is_empty());
    }
    let mut facts = paris();
    facts.controllers = Ok(vec![controller("quay.io/argoproj/argocd:v3.4.1")]);
    assert!(plan(&facts).hub.is_empty());
}

#[test]
fn duplicate_secrets_need_one_write_and_a_failure_is_reported() {
    let mut facts = paris();
    facts
        .secrets
        .push(secret("second", "paris", "https://10.0.0.1"));
    facts.same = vec!["paris".to_owned()];
    let mut found = plan(&facts);
    assert_eq!(found.ready().len(), 1);
    found.record("paris", &Err("you may not patch".to_owned()));
    assert!(found.is_blocked() && found.ready().is_empty());
    assert!(
        found
            .clusters
            .iter()
            .all(|row| row.in_the_way == ["you may not patch"])
    );
    assert_eq!(
        found.keep(&["paris".to_owned(), "rome".to_owned()]),
        ["rome"]
    );
    assert_eq!(found.clusters.len(), 2);
}

#[test]
fn adoption_plan_lists_each_cluster_with_the_next_step() {
    let mut facts = paris();
    facts.secrets.extend([
        secret("push-oslo", "oslo", "https://oslo.example.com"),
        secret("push-rome", "rome", "https://rome.example.com"),
        secret("hub", "in-cluster", "https://kubernetes.default.svc"),
        of_agent(
            "cluster-berlin",
            "berlin",
            "https://proxy:9090?agentName=berlin",
        ),
    ]);
    facts.clusters.push(cluster("oslo", &[]));
    facts.addons = vec![well("berlin")];
    facts.applications = vec![
        application("argocd", "shop", &json!({ "server": PARIS })),
        application("argocd", "till", &json!({"name": "prod-paris"})),
        application("argocd", "fish", &json!({"name": "oslo"})),
        application("paris", "tools", &json!({"name": "in-cluster"})),
    ];
    let found = plan(&facts);
    let text = render(&found, place(Format::Table, now())).unwrap();
    insta::assert_snapshot!(text);
    is_documented(&text);
    let wide = render(&found, place(Format::Wide, now())).unwrap();
    assert!(wide.contains("https://rome.example.com") && wide.contains("argocd/fish"));
    let json = render(&found, place(Format::Json, now())).unwrap();
    insta::assert_snapshot!(json);
    for text in [text, wide, json] {
        assert!(!text.contains("hidden") && !text.contains(&STANDARD.encode("hidden")));
    }
}
