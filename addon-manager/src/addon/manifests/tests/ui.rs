//! The permissions of users of the hub's Argo CD in what is rendered.

use super::*;

/// As many groups as a configuration may have.
fn many() -> ReadGroups {
    let names: Vec<_> = (0..50).map(|it| format!("g{it}.example.com")).collect();
    ReadGroups::parse(&names.join(",")).unwrap()
}

fn at(ui_access: UiAccess, read_groups: ReadGroups) -> Vec<Value> {
    render(&Spoke {
        ui_access,
        read_groups,
        ..spoke()
    })
}

/// All roles of these users, in the cluster and in namespaces.
fn roles(objects: &[Value]) -> Vec<&Value> {
    let is_role = |kind: &Value| kind == "ClusterRole" || kind == "Role";
    let of_users = |object: &&Value| {
        let name = object["metadata"]["name"].as_str().unwrap();
        is_role(&object["kind"]) && name.starts_with("argocd-agent-addon-ui")
    };
    objects.iter().filter(of_users).collect()
}

#[test]
fn configured_groups_are_readable_at_every_level_but_none() {
    let groups = || ReadGroups::parse("kyverno.io,cert-manager.io").unwrap();
    let added = json!({
        "apiGroups": ["cert-manager.io", "kyverno.io"],
        "resources": ["*"],
        "verbs": ["get", "list", "watch"],
    });
    assert_eq!(
        at(UiAccess::None, groups()),
        at(UiAccess::None, ReadGroups::default())
    );
    for level in [
        UiAccess::Applications,
        UiAccess::Read,
        UiAccess::Operate,
        UiAccess::Terminal,
    ] {
        let (objects, default) = (at(level, groups()), at(level, ReadGroups::default()));
        let changed: Vec<_> = objects
            .iter()
            .zip(&default)
            .filter(|(a, b)| a != b)
            .collect();
        let [(after, before)] = changed[..] else {
            panic!("{level}: one changed object, not {changed:?}");
        };
        assert_eq!(after["metadata"]["name"], "argocd-agent-addon-ui-read");
        let mut rules = before["rules"].as_array().unwrap().clone();
        rules.push(added.clone());
        assert_eq!(after["rules"], Value::Array(rules), "{level}");
        assert_eq!(objects.len(), default.len());
    }
}

/// RBAC cannot select objects of Applications, so the agent does.
#[test]
fn applications_level_has_the_rights_of_read() {
    let read = at(UiAccess::Read, many());
    let applications = at(UiAccess::Applications, many());
    assert_eq!(applications.len(), read.len());
    let mut changed = applications.iter().zip(&read).filter(|(a, b)| a != b);
    let (agent, _) = changed.next().unwrap();
    assert_eq!(agent["kind"], "Deployment");
    let env = &agent["spec"]["template"]["spec"]["containers"][0]["env"];
    let level = json!({ "name": "ARGOCD_AGENT_UI_ACCESS", "value": "applications" });
    assert!(env.as_array().unwrap().contains(&level), "{env}");
    assert_eq!(changed.next(), None);
}

fn all() -> ReadGroups {
    ReadGroups::parse("all").unwrap()
}

/// The groups of a cluster are unknown here, so no rule can list them.
#[test]
fn all_groups_bind_the_view_role_and_add_no_rule() {
    assert_eq!(
        at(UiAccess::None, all()),
        at(UiAccess::None, ReadGroups::default())
    );
    for level in [UiAccess::Applications, UiAccess::Read, UiAccess::Operate] {
        let (objects, default) = (at(level, all()), at(level, ReadGroups::default()));
        let mut added = objects.iter().filter(|it| !default.contains(it));
        let binding = added.next().unwrap();
        assert_eq!(added.next(), None, "{level}");
        assert_eq!(objects.len(), default.len() + 1);
        assert_eq!(binding["kind"], "ClusterRoleBinding");
        let role = json!({
            "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view",
        });
        assert_eq!(binding["roleRef"], role);
        let user = json!([{
            "kind": "ServiceAccount",
            "name": "argocd-agent-addon-ui",
            "namespace": "open-cluster-management-agent-addon",
        }]);
        assert_eq!(binding["subjects"], user);
    }
}

/// `view` is the only role of others, so the roles above are all that these users have besides.
#[test]
fn users_are_bound_to_our_roles_and_to_view() {
    let objects = at(UiAccess::Terminal, all());
    let ours: Vec<_> = roles(&objects)
        .into_iter()
        .map(|role| &role["metadata"]["name"])
        .collect();
    let user = Value::from("argocd-agent-addon-ui");
    let of_users = |object: &&Value| {
        let mut subjects = object["subjects"].as_array().into_iter().flatten();
        subjects.any(|it| it["name"] == user)
    };
    let bound = objects.iter().filter(of_users);
    let names: Vec<_> = bound.map(|it| &it["roleRef"]["name"]).collect();
    assert!(names.len() > 3, "{names:?}");
    let others: Vec<_> = names.into_iter().filter(|it| !ours.contains(it)).collect();
    assert_eq!(others, ["view"]);
}

/// Whether a list of a rule has one of these names, also with a subresource.
fn has(rule: &Value, field: &str, names: &[&str]) -> bool {
    let mut values = rule[field].as_array().unwrap().iter();
    values.any(|value| {
        let name = value.as_str().unwrap().split('/').next();
        name.is_some_and(|name| names.contains(&name))
    })
}

fn reads_secrets(role: &Value) -> bool {
    let mut rules = role["rules"].as_array().unwrap().iter();
    rules
        .any(|rule| has(rule, "apiGroups", &["", "*"]) && has(rule, "resources", &["secrets", "*"]))
}

/// RBAC only adds permissions, so one rule with a wildcard would be enough to read Secrets.
#[test]
fn no_role_below_operate_reads_secrets() {
    for groups in [ReadGroups::default(), many(), all()] {
        let objects = at(UiAccess::Read, groups.clone());
        let found = roles(&objects);
        assert!(found.len() > 1, "{found:?}");
        for role in found {
            assert!(!reads_secrets(role), "{role}");
            assert!(role.get("aggregationRule").is_none(), "{role}");
        }
        let objects = at(UiAccess::Operate, groups);
        let of_operate = roles(&objects).into_iter().filter(|it| reads_secrets(it));
        let names: Vec<_> = of_operate.map(|it| &it["metadata"]["name"]).collect();
        assert_eq!(names, ["argocd-agent-addon-ui-operate"]);
    }
    for core in ["", "core", "v1", "*"] {
        let groups = ReadGroups::parse(&format!("cert-manager.io,{core}"));
        assert_eq!(groups, None, "{core}");
    }
}
