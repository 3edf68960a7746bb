//! Which clusters a Placement selects. Pure.
//!
//! Not implemented: CEL selectors (they select nothing), scores and spreading, groups
//! that a selector names, and the time limit of a toleration.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

const SET_LABEL: &str = "cluster.open-cluster-management.io/clusterset";

/// The fields of a ManagedCluster that a Placement uses.
#[derive(Clone, Debug, Default)]
pub(crate) struct Candidate {
    pub(crate) name: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) claims: BTreeMap<String, String>,
    pub(crate) taints: Vec<Value>,
}

/// The clusters of a ManagedClusterSet.
pub(crate) fn members(
    set_name: &str,
    set_spec: &Value,
    clusters: &[Candidate],
) -> BTreeSet<String> {
    let selector = &set_spec["clusterSelector"];
    let by_label = selector["selectorType"] == "LabelSelector";
    clusters
        .iter()
        .filter(|cluster| {
            if by_label {
                matches(&selector["labelSelector"], &cluster.labels)
            } else {
                cluster.labels.get(SET_LABEL).map(String::as_str) == Some(set_name)
            }
        })
        .map(|cluster| cluster.name.clone())
        .collect()
}

/// The clusters that a Placement selects, of those in the sets it may use, in order of name.
///
/// `current` is its previous selection: these are kept first when there are more than it wants, and a
/// taint for new clusters does not evict them.
pub(crate) fn select(
    spec: &Value,
    available: &BTreeSet<String>,
    clusters: &[Candidate],
    current: &BTreeSet<String>,
) -> Vec<String> {
    let mut chosen: Vec<&Candidate> = clusters
        .iter()
        .filter(|cluster| available.contains(&cluster.name))
        .filter(|cluster| fits_a_predicate(spec, cluster))
        .filter(|cluster| is_tolerated(spec, cluster, current.contains(&cluster.name)))
        .collect();
    if let Some(limit) = spec["numberOfClusters"].as_u64() {
        chosen.sort_by_key(|cluster| (!current.contains(&cluster.name), cluster.name.clone()));
        chosen.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    }
    let mut names: Vec<String> = chosen
        .into_iter()
        .map(|cluster| cluster.name.clone())
        .collect();
    names.sort();
    names
}

/// The selected clusters in decision groups: of so many each, or all in one.
pub(crate) fn groups<'a>(spec: &Value, selected: &'a [String]) -> Vec<&'a [String]> {
    let most = &spec["decisionStrategy"]["groupStrategy"]["clustersPerDecisionGroup"];
    let most = crate::rollout::most(most, selected.len()).max(1);
    if selected.is_empty() {
        return vec![selected];
    }
    selected.chunks(most).collect()
}

fn fits_a_predicate(spec: &Value, cluster: &Candidate) -> bool {
    let predicates = spec["predicates"].as_array().map_or(&[][..], Vec::as_slice);
    predicates.is_empty()
        || predicates.iter().any(|predicate| {
            let selector = &predicate["requiredClusterSelector"];
            let by_cel = selector["celSelector"]["celExpressions"].as_array();
            matches(&selector["labelSelector"], &cluster.labels)
                && matches(&selector["claimSelector"], &cluster.claims)
                && by_cel.is_none_or(Vec::is_empty)
        })
}

fn is_tolerated(spec: &Value, cluster: &Candidate, is_selected: bool) -> bool {
    let tolerations = spec["tolerations"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    cluster.taints.iter().all(|taint| {
        let harmless = match taint["effect"].as_str() {
            Some("PreferNoSelect") => true,
            Some("NoSelectIfNew") => is_selected,
            Some(_) | None => false,
        };
        harmless
            || tolerations
                .iter()
                .any(|toleration| tolerates(toleration, taint))
    })
}

fn tolerates(toleration: &Value, taint: &Value) -> bool {
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let (key, effect) = (text(toleration, "key"), text(toleration, "effect"));
    (key.is_empty() || key == text(taint, "key"))
        && (effect.is_empty() || effect == text(taint, "effect"))
        && (toleration["operator"] == "Exists" || text(toleration, "value") == text(taint, "value"))
}

/// Whether labels fit a label selector, or claims a claim selector. An absent selector fits all.
pub(crate) fn matches(selector: &Value, labels: &BTreeMap<String, String>) -> bool {
    let exact = selector["matchLabels"].as_object().is_none_or(|wanted| {
        wanted
            .iter()
            .all(|(key, value)| labels.get(key).map(String::as_str) == value.as_str())
    });
    let expressions = selector["matchExpressions"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    exact
        && expressions
            .iter()
            .all(|expression| fits(expression, labels))
}

fn fits(expression: &Value, labels: &BTreeMap<String, String>) -> bool {
    let value = expression["key"].as_str().and_then(|key| labels.get(key));
    let values = expression["values"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let is_in = value.is_some_and(|value| values.iter().any(|one| one == value.as_str()));
    match expression["operator"].as_str() {
        Some("In") => is_in,
        Some("NotIn") => !is_in,
        Some("Exists") => value.is_some(),
        Some("DoesNotExist") => value.is_none(),
        Some(_) | None => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cluster(name: &str, labels: &[(&str, &str)]) -> Candidate {
        Candidate {
            name: name.to_owned(),
            labels: labels
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect(),
            ..Candidate::default()
        }
    }

    fn names(clusters: &[Candidate]) -> BTreeSet<String> {
        clusters
            .iter()
            .map(|cluster| cluster.name.clone())
            .collect()
    }

    #[test]
    fn a_placement_selects_by_label_among_the_sets_it_may_use() {
        let clusters = [
            cluster("a", &[("on", "yes")]),
            cluster("b", &[]),
            cluster("c", &[("on", "no")]),
        ];
        let spec = json!({ "predicates": [{ "requiredClusterSelector": { "labelSelector": {
            "matchExpressions": [{ "key": "on", "operator": "In", "values": ["yes", "no"] }],
        }}}]});
        let selected = select(&spec, &names(&clusters), &clusters, &BTreeSet::new());
        assert_eq!(selected, ["a", "c"]);
        let fewer = BTreeSet::from(["c".to_owned()]);
        assert_eq!(select(&spec, &fewer, &clusters, &BTreeSet::new()), ["c"]);
    }

    #[test]
    fn clusters_are_divided_into_groups_of_one_size() {
        let selected = ["a", "b", "c"].map(str::to_owned);
        let sizes = |most: Value| -> Vec<usize> {
            let strategy = json!({ "groupStrategy": { "clustersPerDecisionGroup": most } });
            let spec = json!({ "decisionStrategy": strategy });
            groups(&spec, &selected).iter().map(|it| it.len()).collect()
        };
        assert_eq!(sizes(json!(2)), [2, 1]);
        assert_eq!(sizes(json!("50%")), [2, 1]);
        assert_eq!(sizes(json!("100%")), [3]);
        assert_eq!(sizes(json!(null)), [3]);
        assert_eq!(groups(&json!({}), &[]).len(), 1);
    }

    #[test]
    fn a_lost_cluster_is_dropped_unless_tolerated() {
        let mut lost = cluster("a", &[]);
        lost.taints = vec![json!({
            "key": "cluster.open-cluster-management.io/unreachable", "effect": "NoSelect",
        })];
        let clusters = [lost];
        let all = names(&clusters);
        assert!(select(&json!({}), &all, &clusters, &all).is_empty());
        let tolerant = json!({ "tolerations": [{
            "key": "cluster.open-cluster-management.io/unreachable", "operator": "Exists",
        }]});
        assert_eq!(select(&tolerant, &all, &clusters, &all), ["a"]);
    }

    #[test]
    fn a_limited_placement_keeps_its_current_clusters() {
        let clusters = [cluster("a", &[]), cluster("b", &[]), cluster("c", &[])];
        let all = names(&clusters);
        let spec = json!({ "numberOfClusters": 2 });
        assert_eq!(select(&spec, &all, &clusters, &BTreeSet::new()), ["a", "b"]);
        let current = BTreeSet::from(["c".to_owned()]);
        assert_eq!(select(&spec, &all, &clusters, &current), ["a", "c"]);
    }

    #[test]
    fn a_set_selects_clusters_by_its_label_or_by_any_label() {
        let clusters = [cluster("a", &[(SET_LABEL, "team")]), cluster("b", &[])];
        let exclusive =
            json!({ "clusterSelector": { "selectorType": "ExclusiveClusterSetLabel" } });
        assert_eq!(
            members("team", &exclusive, &clusters),
            BTreeSet::from(["a".to_owned()])
        );
        let global = json!({ "clusterSelector": {
            "selectorType": "LabelSelector", "labelSelector": {},
        }});
        assert_eq!(members("global", &global, &clusters), names(&clusters));
    }
}
