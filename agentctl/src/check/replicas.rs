//! The replicas of the hub program, from their Leases. Pure.

use std::collections::BTreeSet;

use argocd::{
    Meta,
    keys::addon::{MANAGER, REPLICA_OF, VERSION},
};
use diagnosis::object::{text, time};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::{Checked, Facts, ok, unclear, warning};

/// A replica, as its Lease shows it.
struct Replica<'a> {
    name: &'a str,
    version: &'a str,
    renewed: Timestamp,
    duration: SignedDuration,
    leads: bool,
}

/// The live replicas, and whether they have one version.
pub(super) fn replicas(facts: &Facts) -> Checked {
    let leases = facts.leases.as_ref()?;
    let namespace = &facts.own_namespace;
    let live = live(leases);
    if live.is_empty() {
        return unclear(
            "no replica of the hub program has a Lease",
            format!("none runs, or it is an older version: kubectl -n {namespace} get pods,leases"),
        );
    }
    let shown = |it: &Replica<'_>| {
        let role = if it.leads { " (leader)" } else { "" };
        format!("{}{role}", it.name)
    };
    let names: Vec<_> = live.iter().map(shown).collect();
    let (count, names) = (live.len(), names.join(", "));
    let versions: BTreeSet<_> = live.iter().map(|it| it.version).collect();
    if let [version] = *Vec::from_iter(versions) {
        return ok(format!("{count} live: {names}; version {version}"));
    }
    let versions: Vec<_> = live
        .iter()
        .map(|it| format!("{} has {}", it.name, it.version))
        .collect();
    warning(
        format!(
            "the replicas have different versions: {}",
            versions.join(", ")
        ),
        format!(
            "usual during an upgrade; if it lasts: kubectl -n {namespace} rollout status deployment {MANAGER}"
        ),
    )
}

/// Those whose Lease had not expired when another replica renewed its own last. So the clock of this machine does not
/// matter, but those of the replicas may differ by less than the duration of a Lease only.
fn live(leases: &[Value]) -> Vec<Replica<'_>> {
    let holder = |lease| text(lease, "/spec/holderIdentity");
    let duration = |lease: &Value| lease.pointer("/spec/leaseDurationSeconds")?.as_i64();
    let mut leader = leases
        .iter()
        .filter(|lease| Meta::of(lease).name() == MANAGER);
    let leader = leader.next().map(holder).unwrap_or_default();
    let ours = leases
        .iter()
        .filter(|lease| Meta::of(lease).label(REPLICA_OF) == Some(MANAGER));
    let replicas = ours.filter_map(|lease| {
        Some(Replica {
            name: Meta::of(lease).name(),
            version: Meta::of(lease).annotation(VERSION).unwrap_or("unknown"),
            renewed: time(lease, "/spec/renewTime")?,
            duration: SignedDuration::from_secs(duration(lease)?),
            leads: !leader.is_empty() && holder(lease) == leader,
        })
    });
    let mut replicas: Vec<_> = replicas.collect();
    let newest = replicas.iter().map(|it| it.renewed).max();
    replicas
        .retain(|it| newest.is_none_or(|newest| newest.duration_since(it.renewed) < it.duration));
    replicas
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::check::Outcome;

    fn lease(name: &str, version: &str, renewed: &str) -> Value {
        json!({
            "metadata": {
                "name": name,
                "labels": { REPLICA_OF: MANAGER },
                "annotations": { VERSION: version },
            },
            "spec": {
                "holderIdentity": format!("{name}_1_1"),
                "leaseDurationSeconds": 6,
                "renewTime": format!("2026-11-26T10:00:{renewed}Z"),
            },
        })
    }

    fn leader(name: &str) -> Value {
        json!({
            "metadata": { "name": MANAGER },
            "spec": { "holderIdentity": format!("{name}_1_1"), "renewTime": "2026-11-26T10:00:01Z" },
        })
    }

    fn found(leases: Vec<Value>) -> (Outcome, String) {
        let facts = Facts {
            leases: Ok(leases),
            ..crate::check::tests::facts()
        };
        let finding = replicas(&facts).unwrap();
        (finding.result, finding.cause)
    }

    #[test]
    fn live_replicas_and_their_leader_are_named() {
        let leases = vec![
            lease("a", "0.1.0", "20.5"),
            leader("b"),
            lease("b", "0.1.0", "21"),
            lease("gone", "0.0.9", "10"),
        ];
        let (result, cause) = found(leases);
        assert_eq!(result, Outcome::Ok);
        assert_eq!(cause, "2 live: a, b (leader); version 0.1.0");
    }

    #[test]
    fn different_versions_are_a_warning() {
        let (result, cause) = found(vec![lease("a", "0.1.0", "20"), lease("b", "0.2.0", "21")]);
        assert_eq!(result, Outcome::Warning);
        assert!(cause.ends_with("a has 0.1.0, b has 0.2.0"), "{cause}");
    }

    #[test]
    fn leases_of_others_are_no_replicas() {
        let mut other = lease("x", "1", "20");
        other["metadata"]["labels"] = json!({});
        let (result, _) = found(vec![leader("x"), other]);
        assert_eq!(result, Outcome::Unclear);
    }
}
