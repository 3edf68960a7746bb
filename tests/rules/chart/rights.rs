//! The rights that the chart grants.

use super::{
    rendered::{documents, template_for_old_hub},
    *,
};

#[test]
fn every_rule_has_a_reason_and_none_has_a_wildcard() {
    let mut rules = 0;
    for document in GOLDEN.iter().flat_map(|(_, sets)| documents(sets)) {
        let (mut reason, mut inside) = (false, false);
        for line in document.lines() {
            let trimmed = line.trim_start();
            inside |= trimmed == "rules:";
            // One reason may cover several rules that belong together.
            reason |= inside && trimmed.starts_with('#');
            if inside && trimmed.starts_with("- apiGroups") {
                assert!(reason, "{line} in\n{document}");
                rules += 1;
            }
        }
        for rule in parsed(&document)["rules"].as_array().into_iter().flatten() {
            assert!(!rule.to_string().contains('*'), "{rule}");
        }
    }
    assert!(rules > 150, "only {rules} rules were seen");
}

#[test]
fn manager_grants_only_rights_it_has() {
    for role in objects(&[]) {
        let rules = role["rules"].to_string();
        for verb in ["escalate", "bind", "impersonate", "deletecollection"] {
            assert!(!rules.contains(&format!("\"{verb}\"")), "{verb} in {rules}");
        }
    }
}

#[test]
fn secrets_of_the_own_namespace_are_granted_by_name() {
    let role = one(&[], "Role", "argocd-agent-addon-manager");
    assert_eq!(role["metadata"]["namespace"], NAMESPACE);
    for rule in role["rules"].as_array().into_iter().flatten() {
        let secrets = rule["resources"].to_string().contains("secrets");
        // A name cannot be demanded of `create`.
        if secrets && rule["verbs"] != json!(["create"]) {
            let names = rule["resourceNames"].as_array().map_or(0, Vec::len);
            assert!(names > 0, "{rule}");
        }
    }
}

#[test]
fn uninstall_rights_exist_only_during_uninstall() {
    let name = "argocd-agent-addon-uninstall";
    for kind in ["ServiceAccount", "Role", "RoleBinding", "Job"] {
        let object = one(&[], kind, name);
        let annotations = &object["metadata"]["annotations"];
        assert_eq!(annotations["helm.sh/hook"], "pre-delete", "{kind}");
        let policy = annotations["helm.sh/hook-delete-policy"]
            .as_str()
            .unwrap_or_default();
        assert!(policy.contains("hook-succeeded"), "{kind}: {policy}");
    }
    // Without a cluster, as Argo CD renders: ordinary objects, for an account that exists only then.
    let account = json!([{"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}]);
    let binding = one(&[], "ClusterRoleBinding", name);
    assert_eq!(binding["subjects"], account);
    for object in [one(&[], "ClusterRole", name), binding] {
        assert!(object["metadata"]["annotations"].is_null(), "{object}");
    }
    let without = objects(&["uninstall.enabled=false"]);
    let left = without.iter().filter(|it| it["metadata"]["name"] == name);
    assert_eq!(left.count(), 0);
}

const MANAGER: &str = "argocd-agent-addon-manager";
const POLICY: &str = "ValidatingAdmissionPolicy";

#[test]
fn admission_policy_confines_the_manager_in_the_namespace_of_argo_cd() {
    let policy = one(&["argocd.namespace=gitops"], POLICY, MANAGER);
    let matched = &policy["spec"]["matchConstraints"];
    let selected = &matched["namespaceSelector"]["matchLabels"];
    assert_eq!(*selected, json!({"kubernetes.io/metadata.name": "gitops"}));
    let rule = &matched["resourceRules"][0];
    assert_eq!(rule["resources"], json!(["secrets"]));
    assert_eq!(rule["operations"], json!(["CREATE", "UPDATE", "DELETE"]));
    let conditions = policy["spec"]["matchConditions"].to_string();
    let account = format!("system:serviceaccount:{NAMESPACE}:{MANAGER}");
    assert!(conditions.contains(&account), "{conditions}");
    let binding = one(&[], "ValidatingAdmissionPolicyBinding", MANAGER);
    assert_eq!(binding["spec"]["policyName"], MANAGER);
    assert_eq!(binding["spec"]["validationActions"], json!(["Deny"]));
}

#[test]
fn admission_policy_spares_own_secrets_in_a_shared_namespace() {
    let conditions = |sets: &[&str]| {
        let policy = one(sets, POLICY, MANAGER);
        policy["spec"]["matchConditions"].to_string()
    };
    let shared = conditions(&[&format!("argocd.namespace={NAMESPACE}")]);
    let role = one(&[], "Role", MANAGER);
    let own = role["rules"][0]["resourceNames"].as_array();
    let own = own.expect("names of Secrets");
    assert_eq!(own.len(), 4);
    for name in own.iter().filter_map(Value::as_str) {
        assert!(shared.contains(name), "{name} in {shared}");
        assert!(!conditions(&[]).contains(name), "{name}");
    }
}

#[test]
fn admission_policy_can_be_turned_off_or_missing() {
    let off = template(&["admissionPolicy.enabled=false"]);
    for output in [off, template_for_old_hub(&[])] {
        assert!(output.success, "{}", output.err);
        assert!(!output.out.contains(POLICY));
    }
}
