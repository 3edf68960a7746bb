mod live;

use argocd::routing::RoutingSettings;
use diagnosis::testing::{self, now};
use serde_json::json;

use super::*;
use crate::{
    output::{Format, render},
    testing::{is_documented, place},
};

/// A hub on which all is well.
pub(super) fn facts() -> Facts {
    let served = GROUPS.iter().map(|(version, kinds, _)| {
        let kinds = kinds.iter().map(|kind| (*kind).to_owned());
        (*version, Ok(kinds.collect()))
    });
    let container = json!({"image": "registry.example.com/argocd-addon-manager:v0.1.0", "args": ["--namespace=argocd", "--redis-proxy-port=6379"]});
    Facts {
        served: served.collect(),
        offer: Ok(Some(
            json!({"spec": {"installStrategy": {"type": "Manual"}}}),
        )),
        manager: Ok(Some(json!({
            "spec": {"template": {"spec": {"containers": [container]}}},
            "status": {"availableReplicas": 2},
        }))),
        leases: Ok(leases()),
        service: Ok(Some(json!({
            "spec": {"type": "LoadBalancer"},
            "status": {"loadBalancer": {"ingress": [{"hostname": "agents.example.com"}]}},
        }))),
        resolved: vec![("agents.example.com".to_owned(), Ok(()))],
        way: Way {
            address: Some(("agents.example.com".to_owned(), 443, spoke::Source::Hub)),
            proxy: None,
            met: Some(Ok(Ok(spoke::Handshake {
                verdict: spoke::Verdict::Trusted,
                names: vec!["agents.example.com".to_owned()],
                expires: Some(testing::at("2027-02-17T12:00:00Z")),
                http2: true,
            }))),
            now: now(),
        },
        clock: Some(clock(0)),
        rights: RIGHTS.iter().map(|right| (right, Ok(true))).collect(),
        controllers: Ok(Vec::new()),
        shared_parameters: Ok(Some(
            json!({"data": {"application.namespaces": "paris,berlin"}}),
        )),
        parameters: Ok(Some(json!({"data": {
            "application.namespaces": "paris,berlin",
            "redis.server": "argocd-agent-redis-proxy.argocd-agent-addon.svc:6379",
        }}))),
        has_own_namespaces: false,
        server_rights: vec![(String::new(), Ok(true))],
        ui: None,
        secrets: Ok(["berlin", "paris"].map(cluster_secret).to_vec()),
        clusters: ["berlin", "paris"].map(str::to_owned).to_vec(),
        labels: Ok(Vec::new()),
        settings: Settings {
            routing: RoutingSettings {
                argocd_namespace: "argocd".to_owned(),
                allowed_namespaces: Vec::new(),
            },
            doubt: None,
            silent: None,
        },
        own_namespace: "argocd-agent-addon".to_owned(),
    }
}

/// Two replicas, and the Lease of the leader.
fn leases() -> Vec<Value> {
    let lease = |name: &str, of: Value, holder: &str| {
        json!({
            "metadata": {
                "name": name,
                "labels": of,
                "annotations": {"argocd-agent.open-cluster-management.io/version": "0.1.0"},
            },
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": 6, "renewTime": "2026-11-22T12:00:00.000000Z"},
        })
    };
    let of =
        json!({"argocd-agent.open-cluster-management.io/replica-of": "argocd-agent-addon-manager"});
    let replica = |pod| {
        lease(
            &format!("argocd-agent-addon-manager-6d9f8b7c5-{pod}"),
            of.clone(),
            pod,
        )
    };
    let leader = lease("argocd-agent-addon-manager", json!({}), "q7x2c");
    vec![replica("q7x2c"), replica("z4k8p"), leader]
}

fn clock(seconds: i64) -> Reading {
    Reading {
        ahead: jiff::SignedDuration::from_secs(seconds),
        give: jiff::SignedDuration::from_millis(600),
    }
}

fn cluster_secret(cluster: &str) -> Value {
    json!({"metadata": {
        "name": format!("cluster-{cluster}"),
        "labels": {"argocd-agent.argoproj-labs.io/agent-name": cluster},
        "annotations": {"argocd.argoproj.io/skip-reconcile": "true"},
    }})
}

/// What is not as it should be.
fn troubles(facts: &Facts) -> Vec<(&'static str, Outcome)> {
    let findings = check(facts).checks.into_iter();
    let bad = findings.filter(|it| it.result != Outcome::Ok);
    bad.map(|it| (it.check, it.result)).collect()
}

fn controller(image: &str, namespace: &str, replicas: u32) -> Value {
    json!({
        "metadata": {"namespace": namespace, "name": "argocd-application-controller"},
        "spec": {"replicas": replicas, "template": {"spec": {"containers": [{"image": image}]}}},
    })
}

#[test]
fn healthy_hub_passes_all_checks() {
    let findings = check(&facts());
    assert!(!findings.has_failed());
    assert!(
        findings
            .checks
            .iter()
            .all(|it| it.result == Outcome::Ok && it.next.is_none())
    );
    let text = render(&findings, place(Format::Table, now())).unwrap();
    insta::assert_snapshot!(text);
    is_documented(&text);
}

#[test]
fn each_failed_check_names_cause_and_next_step() {
    let mut facts = facts();
    facts.served.insert(
        "argoproj.io/v1alpha1",
        Ok(["applications".to_owned()].into()),
    );
    facts.offer = Ok(Some(
        json!({"spec": {"supportedConfigs": [{"resource": "addontemplates"}]}}),
    ));
    facts.manager = Ok(Some(json!({"status": {}})));
    facts.service = Ok(Some(json!({"spec": {"type": "LoadBalancer"}})));
    facts.resolved = vec![(
        "agents.example.com".to_owned(),
        Err("no such name".to_owned()),
    )];
    facts.controllers = Ok(vec![controller(
        "quay.io/argoproj/argocd:v3.2.11",
        "argocd",
        1,
    )]);
    facts.parameters = Ok(Some(json!({"data": {"redis.compression": "none"}})));
    facts.has_own_namespaces = true;
    facts.server_rights = ["berlin", "paris"]
        .map(|cluster| (cluster.to_owned(), Ok(false)))
        .to_vec();
    facts.secrets = Ok(vec![cluster_secret("berlin")]);
    facts.labels = Ok(vec![Wrong {
        cluster: "rome".to_owned(),
        value: "manged".to_owned(),
        since: None,
    }]);
    for (right, answer) in &mut facts.rights {
        *answer = Ok(right.0 != "patch");
    }
    let findings = check(&facts);
    assert!(findings.has_failed());
    let bad = findings.checks.iter().filter(|it| it.result != Outcome::Ok);
    assert!(
        bad.clone().count() >= 13 && bad.clone().all(|it| it.next.is_some()),
        "{findings:#?}"
    );
    insta::assert_snapshot!(render(&findings, place(Format::Table, now())).unwrap());
}

#[test]
fn the_door_and_the_clock_are_looked_at_from_here() {
    let mut shut = facts();
    shut.way.met = Some(Err("refused".to_owned()));
    // Clusters may be let through where this machine is not.
    assert_eq!(troubles(&shut), [("port", Outcome::Warning)]);
    let mut other = facts();
    other.way.met = Some(Ok(Err("no TLS".to_owned())));
    assert_eq!(troubles(&other), [("tls", Outcome::Failed)]);
    other = facts();
    other.clock = Some(clock(-400));
    assert_eq!(troubles(&other), [("clock", Outcome::Warning)]);
    other.clock = None;
    assert_eq!(troubles(&other), []);
}

#[test]
fn only_an_old_controller_that_looks_at_our_namespaces_is_in_the_way() {
    for (image, namespace, replicas, expected) in [
        (
            "quay.io/argoproj/argocd:v3.2.11",
            "argocd",
            1,
            Some(Outcome::Failed),
        ),
        ("quay.io/argoproj/argocd:v3.2.11", "argocd", 0, None),
        // It looks at Applications in the namespaces of clusters, too.
        (
            "quay.io/argoproj/argocd:v3.4.0",
            "argocd",
            1,
            Some(Outcome::Warning),
        ),
        (
            "quay.io/argoproj/argocd:v10.0.1@sha256:abc",
            "elsewhere",
            1,
            None,
        ),
        ("quay.io/argoproj/argocd:v3.2.11", "elsewhere", 1, None),
        (
            "quay.io/argoproj/argocd:v3.2.11",
            "paris",
            1,
            Some(Outcome::Failed),
        ),
        (
            "registry:5000/argocd@sha256:abc",
            "argocd",
            1,
            Some(Outcome::Unclear),
        ),
    ] {
        let mut facts = facts();
        facts.controllers = Ok(vec![controller(image, namespace, replicas)]);
        let expected: Vec<_> = expected.map(|it| ("controllers", it)).into_iter().collect();
        assert_eq!(troubles(&facts), expected, "{image} in {namespace}");
    }
}

#[test]
fn argocd_server_is_led_to_the_redis_proxy_and_the_proxy_is_on() {
    let ours = "argocd-agent-redis-proxy.argocd-agent-addon.svc:6379";
    for (port, server, expected) in [
        ("6379", ours, None),
        ("6379", "argocd-agent-redis-proxy.argocd-agent-addon", None),
        (
            "6379",
            "argocd-agent-redis-proxy.argocd-agent-addon.svc.cluster.local:6379",
            None,
        ),
        (
            "6379",
            "argocd-agent-redis-proxy:6379",
            Some(Outcome::Warning),
        ),
        (
            "6379",
            "argocd-agent-redis-proxy.other.svc:6379",
            Some(Outcome::Warning),
        ),
        ("6379", "argocd-redis:6379", Some(Outcome::Warning)),
        ("6379", "", Some(Outcome::Warning)),
        ("0", "", Some(Outcome::Warning)),
        ("0", ours, Some(Outcome::Failed)),
    ] {
        let mut facts = facts();
        let args = [format!("--redis-proxy-port={port}")];
        facts.manager = Ok(Some(json!({
            "spec": {"template": {"spec": {"containers": [{"args": args}]}}},
            "status": {"availableReplicas": 1},
        })));
        let data = json!({"application.namespaces": "*", "redis.server": server});
        facts.parameters = Ok(Some(json!({ "data": data })));
        let expected: Vec<_> = expected.map(|it| ("redis", it)).into_iter().collect();
        assert_eq!(troubles(&facts), expected, "{port} {server}");
        let deployment = check(&facts).checks.into_iter();
        let deployment = deployment.filter(|it| it.result != Outcome::Ok);
        assert!(
            deployment.clone().all(|it| it.next.is_some()),
            "{port} {server}"
        );
    }
}

#[test]
fn missing_rights_in_hub_argo_cd_are_reported() {
    let mut without = facts();
    without.server_rights = vec![
        ("berlin".to_owned(), Ok(true)),
        ("paris".to_owned(), Ok(false)),
    ];
    assert_eq!(troubles(&without), [("server", Outcome::Warning)]);
    let text = render(&check(&without), place(Format::Table, now())).unwrap();
    assert!(text.contains("in namespace paris;"), "{text}");
    // Without clusters only everywhere was asked about.
    without.server_rights = vec![(String::new(), Ok(false))];
    let text = render(&check(&without), place(Format::Table, now())).unwrap();
    assert!(
        text.contains("Applications outside of its own namespace;"),
        "{text}"
    );

    let mut bare = facts();
    let mut secret = cluster_secret("paris");
    secret["metadata"]["annotations"] = json!({});
    bare.secrets = Ok(vec![cluster_secret("berlin"), secret]);
    assert_eq!(troubles(&bare), [("secrets", Outcome::Warning)]);
    // The Secret of a cluster that left the fleet is ignored.
    bare.clusters = vec!["berlin".to_owned()];
    assert_eq!(troubles(&bare), []);

    let mut none = facts();
    none.parameters = Ok(None);
    (none.secrets, none.server_rights) = (Ok(vec![]), vec![]);
    assert_eq!(troubles(&none), [("argo cd", Outcome::Warning)]);
}

#[test]
fn a_label_that_cannot_be_followed_fails() {
    let wrong = Wrong {
        cluster: "rome".to_owned(),
        value: "manged".to_owned(),
        since: None,
    };
    let mut mistaken = facts();
    mistaken.labels = Ok(vec![wrong]);
    assert_eq!(troubles(&mistaken), [("labels", Outcome::Failed)]);
    mistaken.labels = Err("you may not".to_owned());
    assert_eq!(troubles(&mistaken), [("labels", Outcome::Unclear)]);
}

#[test]
fn unreadable_facts_are_unclear_and_fail_no_check() {
    let no = || Err("you may not".to_owned());
    let mut facts = facts();
    (facts.offer, facts.manager, facts.service) = (no(), no(), no());
    (facts.controllers, facts.parameters) = (Err("you may not".to_owned()), no());
    let findings = check(&facts);
    assert!(!findings.has_failed());
    assert_eq!(troubles(&facts).len(), 5);
}

#[test]
fn principal_address_prefers_the_setting_over_the_service() {
    let deployment = |address: &str| {
        let arg = format!("--principal-address={address}");
        json!({"spec": {"template": {"spec": {"containers": [{"args": [arg]}]}}}})
    };
    let hosts = |manager: Option<&Value>, service: Option<&Value>| {
        let all = addresses(manager, service).into_iter();
        all.map(|(host, _)| host).collect::<Vec<_>>()
    };
    for (address, host) in [
        ("a.example.com", "a.example.com"),
        ("a.example.com:443", "a.example.com"),
        ("[2001:db8::1]:443", "2001:db8::1"),
        ("2001:db8::1", "2001:db8::1"),
    ] {
        assert_eq!(hosts(Some(&deployment(address)), None), [host]);
    }
    let service = json!({"spec": {"type": "ExternalName", "externalName": "b.example.com"}});
    assert_eq!(hosts(None, Some(&service)), ["b.example.com"]);
    let service = json!({"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}});
    assert_eq!(hosts(None, Some(&service)), ["192.0.2.1"]);
    assert!(hosts(None, None).is_empty());
}
