mod obstacles;
mod pages;
mod undo;

use argocd::patch::merge as patched;
use diagnosis::testing::now;

use super::*;
use crate::{
    check::Outcome,
    output::{Format, Place, render},
    testing::is_documented,
};

const OURS: &str = "argocd-agent-redis-proxy.argocd-agent-addon.svc:6379";

/// A hub with two clusters, on which Argo CD's manifests and the chart are installed, the latter with the redis proxy.
fn facts() -> Facts {
    let deployment = |namespace: &str, name: &str, args: Value| {
        json!({
            "metadata": {
                "namespace": namespace, "name": name, "resourceVersion": "3",
                "creationTimestamp": "2026-11-20T08:00:00Z",
            },
            "spec": {"template": {"spec": {
                "serviceAccountName": name,
                "containers": [{"image": "registry.example.com/argocd:v3.2.11", "args": args}],
            }}},
        })
    };
    let args = json!([
        "--namespace=argocd",
        "--redis-proxy-port=6379",
        "--redis-proxy-tls=false"
    ]);
    let (own, manager) = ("argocd-agent-addon", "argocd-agent-addon-manager");
    Facts {
        argocd_namespace: "argocd".to_owned(),
        own_namespace: own.to_owned(),
        clusters: ["berlin", "paris"].map(str::to_owned).to_vec(),
        patterns: Vec::new(),
        manager: Some(deployment(own, manager, args)),
        server: deployment(
            "argocd",
            "argocd-server",
            json!(["/usr/local/bin/argocd-server"]),
        ),
        parameters: Some(parameters(&json!({"redis.server": "argocd-redis:6379"}))),
        settings: Some(config_map("argocd-cm", &json!({}))),
        policies: Some(config_map("argocd-rbac-cm", &json!({}))),
        token: None,
        operated: None,
        role: None,
        binding: None,
        server_rights: vec![
            ("berlin".to_owned(), Ok(true)),
            ("paris".to_owned(), Ok(false)),
        ],
        controllers: Ok(Vec::new()),
        fences: Vec::new(),
        services: vec![service("argocd-redis", None)],
        has_password: true,
        has_notifications: false,
        now: now(),
    }
}

/// A Service of redis; of this instance, if an operator owns it.
fn service(name: &str, instance: Option<&str>) -> Value {
    let owners = instance.map(|it| json!([{"kind": "ArgoCD", "name": it}]));
    json!({
        "metadata": {"namespace": "argocd", "name": name, "ownerReferences": owners, "labels": {
            "app.kubernetes.io/part-of": "argocd", "app.kubernetes.io/managed-by": instance,
        }},
        "spec": {"ports": [{"port": 6379}], "selector": {"app.kubernetes.io/name": name}},
    })
}

fn parameters(data: &Value) -> Value {
    config_map("argocd-cmd-params-cm", data)
}

fn config_map(name: &str, data: &Value) -> Value {
    json!({
        "metadata": {"namespace": "argocd", "name": name, "resourceVersion": "7"},
        "data": data,
    })
}

fn set_args(deployment: &mut Value, args: Value) {
    deployment["spec"]["template"]["spec"]["containers"][0]["args"] = args;
}

/// The same hub where Argo CD's operator deploys argocd-server.
fn operated() -> Facts {
    let mut facts = facts();
    facts.parameters = None;
    facts.services = vec![service("openshift-gitops-redis", Some("openshift-gitops"))];
    facts.server["metadata"]["ownerReferences"] = json!([{"apiVersion": "argoproj.io/v1beta1", "kind": "ArgoCD", "name": "openshift-gitops"}]);
    let address = "openshift-gitops-redis.argocd.svc.cluster.local:6379";
    set_args(
        &mut facts.server,
        json!(["argocd-server", "--redis", address]),
    );
    facts.operated = Some(json!({
        "metadata": {"namespace": "argocd", "name": "openshift-gitops", "resourceVersion": "9"},
        "spec": {"sourceNamespaces": ["team-a"], "server": {"extraCommandArgs": ["--rootpath", "/cd"]}},
    }));
    facts
}

/// The hub after the changes, as far as tests look at it.
fn written(mut facts: Facts, plan: &Plan) -> Facts {
    assert_eq!(plan.state, State::Planned, "{plan:#?}");
    for change in &plan.changes {
        match (&change.write, change.kind) {
            (Write::Merge(_, body), "ConfigMap") => {
                let object = match change.name.as_str() {
                    "argocd-cm" => &mut facts.settings,
                    "argocd-rbac-cm" => &mut facts.policies,
                    _ => &mut facts.parameters,
                };
                patched(object.as_mut().unwrap(), body);
            }
            (Write::Strategic(_, body), "Deployment") => {
                merged(&mut facts.server, body, "");
            }
            (Write::Merge(_, body), "ArgoCD") => patched(facts.operated.as_mut().unwrap(), body),
            (Write::Merge(_, body), "Deployment") => patched(&mut facts.server, body),
            (Write::Create(_, object), "ClusterRole") => facts.role = Some(object.clone()),
            (Write::Create(_, object), "ClusterRoleBinding") => {
                facts.binding = Some(object.clone());
                facts.server_rights = vec![(String::new(), Ok(true))];
            }
            (Write::Delete(..), "ClusterRole") => facts.role = None,
            (Write::Delete(..), "ClusterRoleBinding") => facts.binding = None,
            other => panic!("{other:?}"),
        }
    }
    facts
}

/// A strategic merge patch, as far as setup uses it: entries of lists are merged by their keys.
fn merged(object: &mut Value, patch: &Value, field: &str) {
    let key = match field {
        "containers" | "volumes" => "name",
        "volumeMounts" => "mountPath",
        _ => return merged_fields(object, patch),
    };
    if object.is_null() {
        *object = json!([]);
    }
    let all = object.as_array_mut().unwrap();
    for entry in patch.as_array().unwrap() {
        let place = all.iter().position(|it| it[key] == entry[key]);
        match (place, entry["$patch"] == "delete") {
            (Some(place), true) => drop(all.remove(place)),
            (Some(place), false) => merged(&mut all[place], entry, ""),
            (None, true) => {}
            (None, false) => all.push(entry.clone()),
        }
    }
}

fn merged_fields(object: &mut Value, patch: &Value) {
    let Some(fields) = patch.as_object() else {
        *object = patch.clone();
        return;
    };
    if !object.is_object() {
        *object = json!({});
    }
    for (name, value) in fields {
        if value.is_null() {
            object.as_object_mut().unwrap().remove(name);
        } else {
            merged(&mut object[name], value, name);
        }
    }
}

fn titles(plan: &Plan) -> Vec<(Action, String)> {
    let changes = plan.changes.iter();
    changes.map(|it| (it.action, it.title())).collect()
}

fn data(facts: &Facts) -> Value {
    facts.parameters.as_ref().unwrap()["data"].clone()
}

#[test]
fn the_first_plan_lists_each_change_as_on_the_page() {
    let plan = plan(&facts());
    let role = format!("ClusterRole {ROLE}");
    let binding = format!("ClusterRoleBinding {ROLE}");
    let expected = [
        (Action::Create, role.as_str()),
        (Action::Create, binding.as_str()),
        (Action::Patch, "ConfigMap argocd/argocd-cmd-params-cm"),
        (Action::Restart, "Deployment argocd/argocd-server"),
    ];
    assert_eq!(
        titles(&plan),
        expected.map(|(action, title)| (action, title.to_owned()))
    );
    let Write::Merge(_, body) = &plan.changes[2].write else {
        panic!("{plan:#?}");
    };
    assert_eq!(body["metadata"]["resourceVersion"], "7");
    assert_eq!(
        body["data"],
        json!({"application.namespaces": "*", "redis.server": OURS})
    );
    let place = |format| crate::testing::place(format, now());
    let text = render(&plan, place(Format::Table)).unwrap();
    is_documented(&text);
    let json = render(&plan, place(Format::Json)).unwrap();
    assert!(!json.contains("resourceVersion"), "{json}");
}

#[test]
fn a_second_run_changes_nothing() {
    for facts in [facts(), operated()] {
        let facts = written(facts.clone(), &plan(&facts));
        let again = plan(&facts);
        assert_eq!(
            (again.state, &again.changes),
            (State::Unchanged, &Vec::new())
        );
        assert!(!again.is_bad() && again.notes.is_empty(), "{again:#?}");
        let text = render(&again, crate::testing::place(Format::Table, now())).unwrap();
        assert!(text.starts_with("Nothing to change"), "{text}");
    }
}

#[test]
fn an_address_of_redis_in_operator_flags_is_replaced() {
    for (flags, expected) in [
        (json!(null), json!(["--redis", OURS])),
        (
            json!(["--redis", "own:6379", "--rootpath", "/cd"]),
            json!(["--rootpath", "/cd", "--redis", OURS]),
        ),
        (
            json!(["--redis=own:6379", "--redis-db", "1"]),
            json!(["--redis-db", "1", "--redis", OURS]),
        ),
        (
            json!(["--redis", "--insecure"]),
            json!(["--insecure", "--redis", OURS]),
        ),
    ] {
        let mut facts = operated();
        facts.operated.as_mut().unwrap()["spec"]["server"] = json!({"extraCommandArgs": flags});
        let holder = holder::all(&facts).next().unwrap();
        let wanted = holder.wanted(&facts);
        assert_eq!(wanted.values.last().unwrap().1, expected, "{flags}");
    }
    // The administrator has directed all of Argo CD to the redis proxy.
    let mut remote = operated();
    set_args(&mut remote.server, json!(["--redis", OURS]));
    let wanted = holder::all(&remote).next().unwrap().wanted(&remote);
    assert!(!wanted.is_led, "{wanted:?}");
}

#[test]
fn own_patterns_of_namespaces_are_kept() {
    for (present, asked, expected) in [
        ("", &[][..], Some("*")),
        ("team-*", &[], Some("team-*,berlin,paris")),
        (
            " team-a , team-b,",
            &[],
            Some("team-a , team-b,berlin,paris"),
        ),
        ("par*", &[], Some("par*,berlin")),
        ("/^(paris|berlin)$/", &[], None),
        ("*", &[], None),
        ("berlin,paris", &["*"], Some("berlin,paris,*")),
        (
            "team-a",
            &["team-a", "spoke-*", "spoke-*"],
            Some("team-a,spoke-*"),
        ),
        ("team-a", &["team-a"], None),
    ] {
        let mut facts = facts();
        facts.parameters = Some(parameters(
            &json!({"application.namespaces": present, "redis.server": OURS}),
        ));
        facts.patterns = asked.iter().map(|it| (*it).to_owned()).collect();
        let wanted = holder::all(&facts).next().unwrap().wanted(&facts);
        let values: Vec<_> = wanted.values.iter().map(|it| it.1.clone()).collect();
        let expected: Vec<_> = expected.map(|it| json!(it)).into_iter().collect();
        assert_eq!(values, expected, "{present:?} {asked:?}");
    }
}

#[test]
fn an_earlier_role_of_setup_is_updated() {
    let facts = facts();
    let mut stale = written(facts.clone(), &plan(&facts));
    stale.server["spec"]["template"]["spec"]["serviceAccountName"] = json!("cd-argocd-server");
    stale.server_rights = vec![(String::new(), Ok(false))];
    let plan = plan(&stale);
    let binding = format!("ClusterRoleBinding {ROLE}");
    assert_eq!(titles(&plan), [(Action::Patch, binding)]);
    let Write::Merge(_, body) = &plan.changes[0].write else {
        panic!("{plan:#?}");
    };
    assert_eq!(body["subjects"][0]["name"], "cd-argocd-server");
}

#[test]
fn managers_that_would_set_values_back_are_named() {
    for (metadata, expected) in [
        (
            json!({"labels": {"app.kubernetes.io/managed-by": "Helm"},
                   "annotations": {"meta.helm.sh/release-name": "cd"}}),
            "Helm release cd",
        ),
        (
            json!({"annotations": {"argocd.argoproj.io/tracking-id": "argo:/ConfigMap:argocd/x"}}),
            "Application argo ",
        ),
    ] {
        let mut facts = facts();
        let object = facts.parameters.as_mut().unwrap();
        patched(&mut object["metadata"], &metadata);
        let plan = plan(&facts);
        let notes: Vec<_> = plan.notes.iter().map(|it| (it.result, &it.cause)).collect();
        assert!(
            notes.len() == 1 && notes[0].0 == Outcome::Warning && notes[0].1.contains(expected),
            "{notes:?}"
        );
        assert!(!plan.is_bad());
    }
}

#[test]
fn notifications_need_rights_for_new_namespaces() {
    let mut facts = facts();
    facts.has_notifications = true;
    let causes = |facts: &Facts| {
        let notes = plan(facts).notes.into_iter();
        notes.map(|it| it.cause).collect::<Vec<_>>()
    };
    let found = causes(&facts);
    assert!(
        found.len() == 1 && found[0].contains("notifications controller"),
        "{found:?}"
    );
    // Its namespaces stay as they are.
    facts.parameters = Some(parameters(&json!({"application.namespaces": "*"})));
    assert_eq!(causes(&facts), Vec::<String>::new());
    let mut operated = operated();
    operated.has_notifications = true;
    let found = causes(&operated);
    assert!(!found.concat().contains("notifications"), "{found:?}");
}

#[test]
fn text_of_others_cannot_break_lines() {
    let mut facts = facts();
    facts.parameters = Some(parameters(&json!({"redis.server": "a\n+ b: c"})));
    let place = Place {
        colours: true,
        ..crate::testing::place(Format::Table, now())
    };
    let text = render(&plan(&facts), place).unwrap();
    assert!(text.contains("  - data.redis.server: a + b: c\n"), "{text}");
    let mut listed = operated();
    listed.operated.as_mut().unwrap()["spec"]["sourceNamespaces"] = json!(["a\u{9b}31mb\u{7f}"]);
    let text = render(&plan(&listed), crate::testing::place(Format::Table, now())).unwrap();
    let shown = "  - spec.sourceNamespaces: [\"a 31mb \"]\n";
    assert!(text.contains(shown), "{text:?}");
}

#[test]
fn the_instance_of_the_operator_is_the_owner_of_the_server() {
    assert_eq!(instance(&operated().server), Some("openshift-gitops"));
    assert_eq!(instance(&facts().server), None);
}
