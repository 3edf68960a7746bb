use diagnosis::testing::{addon_object, at, now};
use jiff::SignedDuration;
use serde_json::json;

use super::*;
use crate::{
    check::rights::plural,
    hub::Reading,
    output::{Format, render},
    testing::{is_documented, place},
};

mod agents;
mod argo_cd;
mod ways;

fn clock(seconds: i64) -> Reading {
    Reading {
        ahead: SignedDuration::from_secs(seconds),
        give: SignedDuration::from_millis(600),
    }
}

fn about(seconds: i64) -> About {
    About {
        version: Some("v1.36.3".to_owned()),
        clock: Some(clock(seconds)),
    }
}

fn program(namespace: &str, name: &str, labels: &Value, image: &str) -> Value {
    json!({
        "metadata": {"namespace": namespace, "name": name, "labels": labels},
        "spec": {"replicas": 1, "template": {"spec": {
            "serviceAccountName": "klusterlet-work-sa", "containers": [{"image": image}],
        }}},
        "status": {"readyReplicas": 1},
    })
}

const IMAGE: &str = "quay.io/argoproj/argocd:v3.2.11";
const AGENTS: &str = "open-cluster-management-agent-addon";

fn argocd(component: &str) -> Value {
    let labels =
        json!({"app.kubernetes.io/part-of": "argocd", "app.kubernetes.io/component": component});
    program("argocd", &format!("argocd-{component}"), &labels, IMAGE)
}

fn agent() -> Value {
    let labels = json!({"app.kubernetes.io/name": "argocd-agent-agent"});
    let image = "registry.example.com/argocd-addon-agent:v0.1.0";
    let mut agent = program(AGENTS, "argocd-agent-addon-agent", &labels, image);
    agent["spec"]["template"]["spec"]["containers"][0]["env"] = json!([
        {"name": "ARGOCD_AGENT_REMOTE_SERVER", "value": "agents.example.com"},
        {"name": "ARGOCD_AGENT_REMOTE_PORT", "value": "443"},
        {"name": "ARGOCD_AGENT_NAMESPACE", "value": "argocd"},
    ]);
    agent
}

fn klusterlet() -> Value {
    let labels = json!({"app": "klusterlet-agent"});
    let image = "quay.io/open-cluster-management/registration-operator:v1.2.0";
    program(
        "open-cluster-management-agent",
        "klusterlet-agent",
        &labels,
        image,
    )
}

fn definition(name: &str, fields: &Value) -> Value {
    let spec = json!({"properties": fields});
    json!({"metadata": {"name": name}, "spec": {"versions": [{
        "name": "v1alpha1", "served": true, "schema": {"openAPIV3Schema": {"properties": {"spec": spec}}},
    }]}})
}

fn all_definitions() -> Vec<(&'static str, One)> {
    let fields = json!({"source": {"properties": {"path": {}}}});
    let read = |name| (name, Ok(Some(definition(name, &fields))));
    DEFINITIONS.map(read).to_vec()
}

fn system(uid: &str) -> Value {
    json!({"metadata": {"name": "kube-system", "uid": uid}})
}

fn managed(available: &str) -> Value {
    json!({"metadata": {"name": "paris"}, "spec": {"hubAcceptsClient": true}, "status": {"conditions": [{
        "type": "ManagedClusterConditionAvailable", "status": available, "reason": "x",
        "message": "the lease is old", "lastTransitionTime": "2026-11-22T10:00:00Z",
    }]}})
}

fn fence(from: &Value) -> Value {
    json!({"metadata": {"name": "argocd-redis-network-policy", "namespace": "argocd"}, "spec": {
        "podSelector": {"matchLabels": {"app.kubernetes.io/name": "argocd-redis"}},
        "policyTypes": ["Ingress"], "ingress": [{"from": from}],
    }})
}

fn ours() -> Value {
    json!([{
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": AGENTS}},
        "podSelector": {"matchLabels": {"app.kubernetes.io/name": "argocd-agent-agent"}},
    }])
}

/// The redis that the agent uses with these Services of Argo CD.
fn redis_of(names: &[&str]) -> RedisPlace {
    let labels = json!({"app.kubernetes.io/part-of": "argocd"});
    let service = |name: &&str| json!({"metadata": {"name": name, "labels": labels}});
    let services: Vec<_> = names.iter().map(service).collect();
    redis_place(&Configured::default(), &[], &services)
}

/// A cluster on which all is well.
fn facts() -> Facts {
    let object = addon_object("paris", "managed", &[]);
    let components = ["application-controller", "repo-server", "redis"];
    let mut programs: Vec<_> = components.iter().map(|it| argocd(it)).collect();
    programs.extend([agent(), klusterlet()]);
    Facts {
        cluster: Some("paris".to_owned()),
        places: Places {
            agent: AGENTS.to_owned(),
            argocd: "argocd".to_owned(),
        },
        configured: Configured::default(),
        api: Ok(about(0)),
        spoke: Some(Spoke {
            system: Ok(Some(system("a"))),
            programs: Ok(programs),
            rights: NEEDS.iter().map(|need| (need, Ok(true))).collect(),
            pods: Ok(Vec::new()),
            definitions: all_definitions(),
            password: Ok(Some(true)),
            redis: Ok(redis_of(&["argocd-redis"])),
            fences: Ok(vec![fence(&ours())]),
        }),
        hub: Some(Hub {
            about: about(1),
            system: Ok(Some(system("b"))),
            managed: Ok(Some(managed("True"))),
            addon: Ok(Some(object)),
            definitions: all_definitions(),
            argocd_image: Some(IMAGE.to_owned()),
        }),
        way: Way {
            address: Some(("agents.example.com".to_owned(), 443, Source::Agent)),
            proxy: None,
            met: Some(Ok(Ok(Handshake {
                verdict: Verdict::Trusted,
                names: vec!["agents.example.com".to_owned()],
                expires: Some(at("2027-02-17T12:00:00Z")),
                http2: true,
            }))),
            now: now(),
        },
    }
}

fn spoke(facts: &mut Facts) -> &mut Spoke {
    facts.spoke.as_mut().unwrap()
}

fn hub(facts: &mut Facts) -> &mut Hub {
    facts.hub.as_mut().unwrap()
}

/// Changes a program of the cluster.
fn change(facts: &mut Facts, name: &str, change: impl Fn(&mut Value)) {
    let all = spoke(facts).programs.as_mut().unwrap();
    let found = all.iter_mut().find(|it| it["metadata"]["name"] == name);
    change(found.unwrap());
}

/// What is not as it should be, and that each of it says what to do.
fn troubles(facts: &Facts) -> Vec<(&'static str, Outcome)> {
    let findings = check(facts).checks.into_iter();
    let bad: Vec<_> = findings.filter(|it| it.result != Outcome::Ok).collect();
    let is_reported = |it: &Finding| it.next.is_some() || it.result == Outcome::Unclear;
    assert!(bad.iter().all(is_reported), "{bad:#?}");
    bad.iter().map(|it| (it.check, it.result)).collect()
}

#[test]
fn healthy_cluster_passes_all_checks() {
    let findings = check(&facts());
    assert!(
        findings.checks.iter().all(|it| it.result == Outcome::Ok),
        "{findings:#?}"
    );
    let text = render(&findings, place(Format::Table, now())).unwrap();
    insta::assert_snapshot!(text);
    is_documented(&text);
}

#[test]
fn empty_cluster_passes_because_the_add_on_installs_everything() {
    let mut facts = facts();
    let here = spoke(&mut facts);
    (here.programs, here.redis, here.password) = (Ok(Vec::new()), Ok(redis_of(&[])), Ok(None));
    here.definitions = DEFINITIONS.map(|name| (name, Ok(None))).to_vec();
    here.fences = Ok(Vec::new());
    (facts.hub, facts.cluster) = (None, None);
    let expected = [
        ("joined", Outcome::Unclear),
        ("klusterlet", Outcome::Warning),
        ("work agent", Outcome::Unclear),
    ];
    assert_eq!(troubles(&facts), expected);
    assert!(!check(&facts).has_failed());
}

#[test]
fn unreachable_cluster_reports_hub_side_findings() {
    let mut facts = facts();
    facts.api = Err("connection refused".to_owned());
    facts.spoke = None;
    assert_eq!(troubles(&facts), [("api", Outcome::Failed)]);
    let checks = check(&facts).checks;
    let variable_of: Vec<_> = checks.iter().map(|it| it.check).collect();
    assert_eq!(variable_of, ["api", "joined", "address", "port", "tls"]);
}

#[test]
fn join_progress_of_the_cluster_is_reported() {
    let mut waiting = managed("True");
    waiting["spec"] = json!({});
    let mut new = managed("True");
    new["status"] = json!({});
    let mut going = managed("True");
    going["metadata"]["deletionTimestamp"] = json!("2026-11-22T10:00:00Z");
    for (cluster, word) in [
        (None, "no ManagedCluster paris"),
        (Some(waiting), "has not accepted"),
        (Some(managed("Unknown")), "the lease is old"),
        (Some(new), "has not heard of it yet"),
        (Some(going), "is being deleted"),
    ] {
        let mut facts = facts();
        hub(&mut facts).managed = Ok(cluster);
        assert_eq!(troubles(&facts), [("joined", Outcome::Failed)], "{word}");
        let condition = joined::joined(&facts).unwrap();
        assert!(condition.cause.contains(word), "{condition:?}");
    }
    let mut nameless = facts();
    nameless.cluster = None;
    assert_eq!(troubles(&nameless), [("joined", Outcome::Warning)]);
    let mut same = facts();
    hub(&mut same).system = Ok(Some(system("a")));
    assert_eq!(troubles(&same), [("cluster", Outcome::Failed)]);
}

#[test]
fn missing_klusterlet_is_accepted_if_the_hub_sees_the_cluster() {
    let mut ill = facts();
    change(&mut ill, "klusterlet-agent", |it| it["status"] = json!({}));
    assert_eq!(troubles(&ill), [("klusterlet", Outcome::Failed)]);
    let mut elsewhere = facts();
    let programs = spoke(&mut elsewhere).programs.as_mut().unwrap();
    programs.retain(|it| it["metadata"]["name"] != "klusterlet-agent");
    assert_eq!(troubles(&elsewhere), []);
}

#[test]
fn missing_work_agent_rights_are_listed_per_installed_part() {
    let without = |resource: &str| {
        let mut facts = facts();
        for (need, answer) in &mut spoke(&mut facts).rights {
            *answer = Ok(plural(need.0) != resource);
        }
        facts
    };
    let roles = without("clusterroles");
    assert_eq!(troubles(&roles), [("work agent", Outcome::Failed)]);
    let condition = joined::rights(&roles, roles.spoke.as_ref().unwrap()).unwrap();
    assert!(condition.cause.contains(
        "klusterlet-work-sa may not write what argocd-agent-addon is made of: clusterroles"
    ));
    let mut fences = without("networkpolicies");
    assert_eq!(troubles(&fences), []);
    let for_installed_argo_cd = json!({"argocd-agent.open-cluster-management.io/brought": "true"});
    for name in [
        "argocd-application-controller",
        "argocd-repo-server",
        "argocd-redis",
    ] {
        change(&mut fences, name, |it| {
            it["metadata"]["labels"]["argocd-agent.open-cluster-management.io/brought"] =
                for_installed_argo_cd["argocd-agent.open-cluster-management.io/brought"].clone();
        });
    }
    assert_eq!(troubles(&fences), [("work agent", Outcome::Failed)]);
}

#[test]
fn every_kind_of_the_manifests_is_asked_for() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../manifests/spoke");
    let mut kinds = std::collections::BTreeSet::new();
    for folder in [folder.clone(), folder.join("argocd")] {
        for file in std::fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            if path.is_file() {
                let text = std::fs::read_to_string(path).unwrap();
                let lines = text.lines().filter_map(|line| line.strip_prefix("kind: "));
                kinds.extend(lines.map(str::to_lowercase));
            }
        }
    }
    assert!(kinds.len() > 10, "{kinds:?}");
    for kind in kinds {
        let regular = format!("{}s", kind.trim_end_matches('y'));
        let expected = if kind.ends_with("policy") {
            "networkpolicies".to_owned()
        } else {
            regular
        };
        let asked = NEEDS.iter().any(|need| plural(need.0) == expected);
        assert!(asked, "no check covers writes of {expected}");
    }
}

#[test]
fn unreadable_facts_are_unclear_and_fail_no_check() {
    let no = || Err("you may not".to_owned());
    let mut facts = facts();
    let here = spoke(&mut facts);
    (here.redis, here.password) = (Err("no".to_owned()), Err("you may not".to_owned()));
    here.system = no();
    (here.programs, here.pods, here.fences) = (
        Err("no".to_owned()),
        Err("no".to_owned()),
        Err("no".to_owned()),
    );
    here.definitions = DEFINITIONS.map(|name| (name, no())).to_vec();
    here.rights = NEEDS
        .iter()
        .map(|need| (need, Err("no".to_owned())))
        .collect();
    let findings = check(&facts);
    assert!(!findings.has_failed(), "{findings:#?}");
    assert_eq!(troubles(&facts).len(), 8, "{findings:#?}");
}
