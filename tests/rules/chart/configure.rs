//! The Jobs that set up argocd-server and restore it: what they run, with which rights, and what stays.

use super::*;
use crate::shared::sources;

const NAME: &str = "argocd-agent-addon-configure";
/// What argocd-server gets, which stays while `argocd.configure` is on.
const GRANTED: &str = "argocd-agent-addon-server-applications";
const ON: [&str; 2] = ["argocd.configure=true", "redisProxy.enabled=true"];

/// The objects of `argocd.configure` with these values.
fn of_configure(sets: &[&str]) -> Vec<Value> {
    let mut all = objects(sets);
    all.retain(|it| it["metadata"]["labels"]["app.kubernetes.io/name"] == NAME);
    all
}

#[test]
fn argocd_server_is_left_alone_by_default() {
    assert_eq!(of_configure(&[]), Vec::<Value>::new());
    assert_eq!(
        of_configure(&["redisProxy.enabled=true"]),
        Vec::<Value>::new()
    );
}

#[test]
fn configure_rights_exist_only_while_its_jobs_run() {
    let (granted, hooks): (Vec<_>, Vec<_>) = of_configure(&ON)
        .into_iter()
        .partition(|it| it["metadata"]["name"] == GRANTED);
    assert_eq!((granted.len(), hooks.len()), (2, 9));
    for object in hooks {
        let annotations = &object["metadata"]["annotations"];
        let (hook, policy) = (
            annotations["helm.sh/hook"].as_str().unwrap_or_default(),
            annotations["helm.sh/hook-delete-policy"].as_str(),
        );
        // Without a cluster, as Argo CD renders: ordinary objects, for an account that exists only then.
        if object["metadata"]["namespace"].is_null() {
            assert_eq!((hook, policy), ("", None), "{object}");
            continue;
        }
        let expected = match (&object["kind"], &object["metadata"]["name"]) {
            (kind, name) if kind == "Job" && name == NAME => "post-install,post-upgrade",
            (kind, _) if kind == "Job" => "pre-delete",
            _ => "post-install,post-upgrade,pre-delete",
        };
        assert_eq!(hook, expected, "{object}");
        assert_eq!(
            policy,
            Some("before-hook-creation,hook-succeeded"),
            "{object}"
        );
    }
}

#[test]
fn undo_runs_after_the_add_on_is_off_the_clusters() {
    let weight = |kind: &str, name: &str| {
        let object = one(&ON, kind, name);
        let weight = &object["metadata"]["annotations"]["helm.sh/hook-weight"];
        weight
            .as_str()
            .and_then(|it| it.parse::<i32>().ok())
            .expect(name)
    };
    let undo = format!("{NAME}-undo");
    assert!(weight("Job", &undo) > weight("Job", "argocd-agent-addon-uninstall"));
    assert!(weight("ServiceAccount", NAME) < weight("Job", &undo));
    let container = |name: &str| {
        let job = one(&ON, "Job", name);
        let pod = &job["spec"]["template"]["spec"];
        assert_eq!(pod["serviceAccountName"], NAME);
        pod["containers"][0].clone()
    };
    let own = format!("--own-namespace={NAMESPACE}");
    assert_eq!(container(NAME)["args"], json!(["hub", "setup", own]));
    assert_eq!(
        container(&undo)["args"],
        json!(["hub", "setup", own, "--undo"])
    );
}

#[test]
fn jobs_of_configure_write_named_objects_and_grant_nothing() {
    let mut writes = BTreeSet::new();
    for object in of_configure(&ON) {
        if object["metadata"]["name"] == GRANTED {
            continue;
        }
        for rule in object["rules"].as_array().into_iter().flatten() {
            let verbs = rule["verbs"].as_array().into_iter().flatten();
            let verbs: BTreeSet<_> = verbs.filter_map(Value::as_str).collect();
            let resources = rule["resources"].to_string();
            let is_read = verbs.iter().all(|it| ["get", "list"].contains(it));
            if is_read && !resources.contains("secrets") {
                continue;
            }
            if verbs.contains("create") {
                assert_eq!(rule["resources"], json!(["subjectaccessreviews"]));
                continue;
            }
            let names = rule["resourceNames"].as_array();
            let names = names.unwrap_or_else(|| panic!("{rule} is without names"));
            writes.extend(names.iter().filter_map(Value::as_str).map(str::to_owned));
        }
    }
    let expected = [
        "argocd-agent-addon-argocd-server",
        "argocd-agent-addon-ui",
        "argocd-cmd-params-cm",
        "argocd-redis",
        "argocd-redis-initial-password",
        "argocd-server",
        "openshift-gitops-redis-initial-password",
    ];
    assert_eq!(writes, expected.map(str::to_owned).into());
}

/// `hub setup` finds the permission of the chart, so it has to be what it would create.
#[test]
fn argocd_server_gets_all_that_hub_setup_grants() {
    let sets = ["argocd.namespace=gitops", ON[0], ON[1]];
    let rules = one(&sets, "ClusterRole", GRANTED)["rules"].to_string();
    let page = sources::file("docs/agentctl.md");
    assert!(page.contains(&format!("+ rules: {rules}\n")), "{rules}");
    let binding = one(&sets, "ClusterRoleBinding", GRANTED);
    let subject = json!({"kind": "ServiceAccount", "name": "argocd-server", "namespace": "gitops"});
    assert_eq!(binding["subjects"], json!([subject]));
}

#[test]
fn every_container_of_configure_is_confined() {
    for name in [NAME.to_owned(), format!("{NAME}-undo")] {
        let job = one(&ON, "Job", &name);
        let pod = &job["spec"]["template"]["spec"];
        let lists = ["initContainers", "containers"].map(|it| pod[it].as_array());
        for container in lists.into_iter().flatten().flatten() {
            let security = &container["securityContext"];
            assert_eq!(security["readOnlyRootFilesystem"], true, "{name}");
            assert_eq!(security["allowPrivilegeEscalation"], false, "{name}");
            assert!(!container["resources"].is_null(), "{name}");
        }
    }
}
