use proptest::prelude::*;

use super::*;
use crate::keys;

fn config(setting: &str) -> Value {
    json!({ "metadata": { "name": keys::SETTINGS }, "data": { ENTRY: setting } })
}

fn globals(setting: &str) -> GlobalProjects {
    GlobalProjects::of(&config(setting)).unwrap()
}

fn project(name: &str, labels: &Value, spec: &Value) -> Value {
    json!({ "metadata": { "name": name, "namespace": "argocd", "labels": labels }, "spec": spec })
}

/// Projects `g1` and `g2`, which deny kinds of their own name.
fn hub() -> Vec<Value> {
    let global = |name: &str| {
        let denied = json!({ "namespaceResourceBlacklist": [{ "group": "", "kind": name }] });
        project(name, &json!({}), &denied)
    };
    vec![global("g1"), global("g2")]
}

fn find<'a>(projects: &'a [Value], name: &str) -> Option<&'a Value> {
    let mut projects = projects.iter();
    projects.find(|project| Meta::of(project).name() == name)
}

/// The kinds that a project with these labels denies.
fn denied(setting: &str, name: &str, labels: &Value) -> Vec<String> {
    let (hub, own) = (hub(), project(name, labels, &json!({})));
    let merged = globals(setting).merged(&own, |name| find(&hub, name));
    let spec = merged.map(|it| it["spec"].clone()).unwrap_or_default();
    let kinds = list(&spec, "namespaceResourceBlacklist").iter();
    kinds.map(|it| text(it, "kind").to_owned()).collect()
}

#[test]
fn lists_are_appended_and_all_other_fields_stay() {
    let item = |name: &str| json!([{ "name": name }]);
    let mut own =
        json!({ "description": "own", "roles": item("own"), "sourceNamespaces": ["own"] });
    let mut global = json!({
        "description": "global", "roles": item("global"), "sourceNamespaces": ["global"],
        "permitOnlyProjectScopedClusters": true, "orphanedResources": { "warn": true },
        "signatureKeys": item("global"),
    });
    let mut expected = own.clone();
    for field in APPENDED {
        own[field] = item("own");
        global[field] = item("global");
        expected[field] = json!([{ "name": "own" }, { "name": "global" }]);
    }
    let (own, global) = (
        project("own", &json!({}), &own),
        project("global", &json!({}), &global),
    );
    let merged = globals("- projectName: global").merged(&own, |_| Some(&global));
    let merged = merged.unwrap();
    assert_eq!(merged["spec"], expected);
    assert_eq!(merged["metadata"], own["metadata"]);
}

#[test]
fn absent_and_empty_lists_add_nothing() {
    let own = json!({ "sourceRepos": null, "destinations": [] });
    let global = json!({ "sourceRepos": ["a"], "destinations": [], "syncWindows": "none" });
    let (own, global) = (
        project("own", &json!({}), &own),
        project("global", &json!({}), &global),
    );
    let merged = globals("- projectName: global").merged(&own, |_| Some(&global));
    let expected = json!({ "sourceRepos": ["a"], "destinations": [] });
    assert_eq!(merged.unwrap()["spec"], expected);
    let bare = json!({ "metadata": { "name": "own" } });
    let merged = globals("- projectName: global").merged(&bare, |_| Some(&global));
    assert_eq!(merged.unwrap()["spec"], json!({ "sourceRepos": ["a"] }));
}

#[test]
fn selectors_select_as_in_kubernetes() {
    let yes = json!({ "tier": "gold", "example.com/x": "" });
    for (selector, expected) in [
        ("{}", true),
        ("null", true),
        ("{matchLabels: {tier: gold}}", true),
        ("{matchLabels: {tier: gold, example.com/x: ''}}", true),
        ("{matchLabels: {tier: gold, other: x}}", false),
        ("{matchLabels: {tier: silver}}", false),
        (
            "{matchExpressions: [{key: tier, operator: In, values: [silver, gold]}]}",
            true,
        ),
        (
            "{matchExpressions: [{key: tier, operator: In, values: [silver]}]}",
            false,
        ),
        (
            "{matchExpressions: [{key: tier, operator: NotIn, values: [gold]}]}",
            false,
        ),
        (
            "{matchExpressions: [{key: other, operator: NotIn, values: [gold]}]}",
            true,
        ),
        ("{matchExpressions: [{key: tier, operator: Exists}]}", true),
        (
            "{matchExpressions: [{key: other, operator: Exists, values: []}]}",
            false,
        ),
        (
            "{matchExpressions: [{key: tier, operator: DoesNotExist}]}",
            false,
        ),
        (
            "{matchExpressions: [{key: other, operator: DoesNotExist}]}",
            true,
        ),
    ] {
        let setting = format!("- {{projectName: g1, labelSelector: {selector}}}");
        let denied = denied(&setting, "own", &yes);
        assert_eq!(!denied.is_empty(), expected, "{selector}");
        assert!(globals(&setting).ignored(|_| Some(&Value::Null)).is_empty());
    }
}

#[test]
fn entries_count_in_their_order_until_one_is_no_good() {
    let none = json!({});
    let all = "- projectName: g1\n- projectName: g2\n- projectName: g1\n";
    assert_eq!(denied(all, "own", &none), ["g1", "g2"]);
    assert_eq!(denied(all, "g1", &none), ["g2"], "not its own");
    let missing = "- projectName: g1\n- projectName: gone\n- projectName: g2\n";
    assert_eq!(denied(missing, "own", &none), ["g1"]);
    assert_eq!(
        denied(missing, "gone", &none),
        ["g1", "g2"],
        "its own entry does not count"
    );
    let empty = "- projectName: g1\n-\n- projectName: g2\n";
    assert_eq!(denied(empty, "own", &none), ["g1"]);
    let others = "- {projectName: gone, labelSelector: {matchLabels: {a: b}}}\n- projectName: g2\n";
    assert_eq!(denied(others, "own", &none), ["g2"], "it is not selected");
}

#[test]
fn invalid_selector_ends_the_list_and_is_reported() {
    let long = "x".repeat(64);
    for selector in [
        "{matchExpressions: [{key: tier, operator: Is, values: [a]}]}",
        "{matchExpressions: [{key: tier}]}",
        "{matchExpressions: [{operator: Exists}]}",
        "{matchExpressions: [null]}",
        "{matchExpressions: [{key: tier, operator: In}]}",
        "{matchExpressions: [{key: tier, operator: Exists, values: [a]}]}",
        "{matchLabels: {tier: -a}}",
        "{matchLabels: {'a b': c}}",
        "{matchLabels: {A/b: c}}",
        "{matchLabels: {a/b/c: d}}",
        "{matchLabels: {/a: b}}",
        &format!("{{matchLabels: {{{long}: a}}}}"),
        &format!("{{matchLabels: {{a: {long}}}}}"),
    ] {
        let setting = format!(
            "- projectName: g1\n- {{projectName: bad, labelSelector: {selector}}}\n- projectName: g2"
        );
        assert_eq!(denied(&setting, "own", &json!({})), ["g1"], "{selector}");
        assert_eq!(denied(&setting, "bad", &json!({})), ["g1", "g2"]);
        let ignored = globals(&setting).ignored(|_| Some(&Value::Null));
        assert!(
            ignored.len() == 1 && ignored[0].contains("\"bad\""),
            "{ignored:?}"
        );
    }
}

#[test]
fn setting_of_another_form_is_refused() {
    for absent in [
        json!({}),
        json!({ "data": null }),
        config(""),
        config(" \n"),
    ] {
        assert_eq!(GlobalProjects::of(&absent), Ok(GlobalProjects::default()));
    }
    let bomb = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let repeated_entries = format!("- &a {{projectName: g1}}\n{}", "- *a\n".repeat(40_000));
    let repeated_value = format!(
        "- &a {{projectName: {}}}\n{}",
        "x".repeat(500_000),
        "- *a\n".repeat(100)
    );
    for bad in [
        "g1",
        "projectName: g1",
        "- g1",
        "- projectName: [g1]",
        "- {projectName: g1, labelSelector: [a]}",
        "- {projectName: g1, labelSelector: {matchLabels: [a]}}",
        "- projectName: g1\n  - x: [",
        &bomb,
        &repeated_entries,
        &repeated_value,
    ] {
        let error = GlobalProjects::of(&config(bad)).unwrap_err().to_string();
        assert!(error.contains("labelSelector"), "{error}");
        assert!(error.chars().count() < 2 * LONGEST_ERROR, "{error}");
    }
}

#[test]
fn only_the_first_document_counts_as_in_argo_cd() {
    let setting = "---\n- projectName: g1\n---\n- projectName: g2\n";
    let globals = globals(setting);
    assert!(globals.has("g1") && !globals.has("g2"));
    let ignored = globals.ignored(|_| Some(&Value::Null));
    assert_eq!(ignored, ["all YAML documents after the first one"]);
}

#[test]
fn the_last_of_equal_keys_counts_as_in_argo_cd() {
    let setting = "- projectName: g2\n  projectName: g1\n  \
        labelSelector: {matchLabels: {tier: gold, tier: silver}}\n";
    let globals = globals(setting);
    assert!(globals.has("g1") && !globals.has("g2"));
    assert_eq!(denied(setting, "own", &json!({ "tier": "silver" })), ["g1"]);
    assert!(denied(setting, "own", &json!({ "tier": "gold" })).is_empty());
}

#[test]
fn an_alias_may_repeat_a_selector() {
    let setting = "- projectName: g1\n  labelSelector: &a {matchLabels: {tier: gold}}\n\
        - projectName: g2\n  labelSelector: *a\n";
    let gold = json!({ "tier": "gold" });
    assert_eq!(denied(setting, "own", &gold), ["g1", "g2"]);
    assert!(denied(setting, "own", &json!({})).is_empty());
}

#[test]
fn only_the_first_hundred_entries_count() {
    let setting = "- projectName: none\n".repeat(MOST) + "- projectName: g1\n";
    let globals = globals(&setting);
    assert!(globals.has("none") && !globals.has("g1"));
    let ignored = globals.ignored(|_| Some(&Value::Null));
    assert_eq!(ignored, ["1 entries after the first 100"]);
}

#[test]
fn missing_projects_are_reported() {
    let hub = hub();
    let globals = globals("- projectName: g1\n- projectName: gone\n");
    let ignored = globals.ignored(|name| find(&hub, name));
    assert_eq!(ignored, ["there is no project \"gone\""]);
}

#[test]
fn mirror_of_an_autonomous_cluster_takes_no_part() {
    let mirror = |name: &str| {
        let mut mirror = project(name, &json!({}), &json!({ "sourceRepos": ["theirs"] }));
        mirror["metadata"]["annotations"] = json!({ keys::MIRRORED_FROM: "spoke2" });
        mirror
    };
    let globals = globals("- projectName: g1");
    let hub = hub();
    let find = |name: &str| find(&hub, name);
    assert_eq!(globals.merged(&mirror("spoke2-a"), find), None);
    let (own, theirs) = (project("own", &json!({}), &json!({})), mirror("g1"));
    assert!(globals.merged(&own, find).is_some());
    assert_eq!(globals.merged(&own, |_| Some(&theirs)), None);
    let ignored = globals.ignored(|_| Some(&theirs));
    assert_eq!(ignored, ["project \"g1\" belongs to an autonomous cluster"]);
}

proptest! {
    #[test]
    fn any_objects_are_merged_without_a_panic(
        own in crate::testing::json(),
        global in crate::testing::json(),
        spec in crate::testing::json(),
        setting in ".*",
    ) {
        drop(GlobalProjects::of(&config(&setting)));
        let globals = globals("- projectName: global");
        let nested = json!({ "spec": spec });
        for own in [own.clone(), json!({ "spec": own })] {
            drop(globals.merged(&own, |_| Some(&global)));
            drop(globals.merged(&own, |_| Some(&nested)));
        }
    }
}
