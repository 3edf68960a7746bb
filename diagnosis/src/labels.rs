//! Labels that shall opt a cluster in and cannot be followed, as the hub program judges them. Pure.
//!
//! The hub program reports them only in an Event, which Kubernetes deletes after an hour.

use argocd::keys::addon::MODE;
use jiff::Timestamp;
use serde_json::Value;

use crate::object::list;

/// How the hub program's Event calls it.
pub const REASON: &str = "UnknownMode";

/// A `ManagedCluster` whose label names no mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// The cluster.
    pub cluster: String,
    /// What the label says.
    pub value: String,
    /// Since when, if known.
    pub since: Option<Timestamp>,
}

impl Wrong {
    /// Reads a `ManagedCluster`; none if its label can be followed, or if the hub program does not look at it.
    pub fn read(cluster: &Value) -> Option<Self> {
        let meta = argocd::Meta::of(cluster);
        let value = meta.label(MODE)?;
        let accepted = cluster.pointer("/spec/hubAcceptsClient") == Some(&Value::Bool(true));
        if matches!(value, "managed" | "autonomous") || !accepted || meta.is_deleting() {
            return None;
        }
        Some(Self {
            cluster: meta.name().to_owned(),
            value: value.to_owned(),
            since: labelled(cluster),
        })
    }

    /// What is so.
    pub fn cause(&self) -> String {
        let Self { cluster, value, .. } = self;
        format!(
            "the label {MODE} of ManagedCluster {cluster} is {value:?}; only managed and autonomous are valid, so \
            it has no effect"
        )
    }

    /// What to do.
    pub fn next(&self) -> String {
        format!(
            "correct it: kubectl label managedcluster {} {MODE}=managed --overwrite",
            self.cluster
        )
    }
}

/// Time of the last write of the label.
fn labelled(cluster: &Value) -> Option<Timestamp> {
    let writers = list(cluster, "/metadata/managedFields").iter();
    let label = format!("f:{MODE}");
    let wrote = writers.filter(|writer| {
        let labels = writer.pointer("/fieldsV1/f:metadata/f:labels");
        labels.is_some_and(|labels| labels.get(&label).is_some())
    });
    let times = wrote.filter_map(|writer| writer.get("time")?.as_str()?.parse().ok());
    times.max()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::at;

    fn cluster(mode: &str, accepted: bool) -> Value {
        json!({
            "metadata": {
                "name": "rome",
                "labels": {MODE: mode},
                "managedFields": [
                    {"manager": "registration", "time": "2026-11-22T11:30:00Z", "fieldsV1": {"f:spec": {}}},
                    {"manager": "kubectl-label", "time": "2026-11-22T11:00:00Z",
                     "fieldsV1": {"f:metadata": {"f:labels": {format!("f:{MODE}"): {}}}}},
                ],
            },
            "spec": {"hubAcceptsClient": accepted},
        })
    }

    #[test]
    fn invalid_mode_label_is_reported_with_value_and_time() {
        for mode in ["managed", "autonomous"] {
            assert_eq!(Wrong::read(&cluster(mode, true)), None);
        }
        // Like the hub program, which ignores clusters that are not accepted.
        assert_eq!(Wrong::read(&cluster("manged", false)), None);
        assert_eq!(Wrong::read(&json!({"metadata": {"name": "rome"}})), None);
        for mode in ["manged", "Managed", "true", ""] {
            let wrong = Wrong::read(&cluster(mode, true)).unwrap();
            assert_eq!(wrong.since, Some(at("2026-11-22T11:00:00Z")));
            assert!(
                wrong.cause().contains(&format!(" is {mode:?};")),
                "{wrong:?}"
            );
            assert!(wrong.next().contains("managedcluster rome"), "{wrong:?}");
        }
    }
}
