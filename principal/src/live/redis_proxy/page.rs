//! The cluster info keys that Argo CD's clusters page reads, for clusters with an agent.
//!
//! An application controller would write them, and the hub has none. So each is computed on request: always current,
//! with nothing to write or to expire.

use jiff::Timestamp;
use live::cluster_info::{self, Census, Connection, Form};

use super::shared::Shared;
use crate::{fleet::ClusterName, report::SessionReport};

/// The value of a key, if it is about a cluster with an agent.
pub(super) fn value(shared: &Shared, key: &[u8]) -> Option<Vec<u8>> {
    let (server, form) = cluster_info::server_of(key)?;
    let live = &shared.live;
    let cluster = live.applications.cluster_at(server)?;
    let (report, census) = live.admission.registry.reports.known(&cluster);
    let now = live.clock.now();
    Some(written(&cluster, report.as_deref(), census, now, form))
}

fn written(
    cluster: &ClusterName,
    report: Option<&SessionReport>,
    census: Option<Census>,
    now: Timestamp,
    form: Form,
) -> Vec<u8> {
    let connection = connection(cluster, report, now);
    cluster_info::write(&connection, &census.unwrap_or_default(), form)
}

fn connection(cluster: &ClusterName, report: Option<&SessionReport>, now: Timestamp) -> Connection {
    let Some(report) = report else {
        return Connection {
            is_up: false,
            message: format!("the agent of {cluster} has not connected yet"),
            at: seconds(now),
        };
    };
    let since = seconds(report.since);
    let message = match &report.last_error {
        _ if report.connected => format!("the agent of {cluster} is connected since {since}"),
        None => format!("the agent of {cluster} is not connected (since {since})"),
        Some(why) => format!("the agent of {cluster} is not connected (since {since}): {why}"),
    };
    Connection {
        is_up: report.connected,
        message,
        at: since,
    }
}

/// As Kubernetes writes times.
fn seconds(at: Timestamp) -> String {
    Timestamp::from_second(at.as_second())
        .unwrap_or(at)
        .to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn shown(report: Option<&SessionReport>, census: Option<Census>) -> Value {
        let cluster = ClusterName::try_from("spoke1").unwrap();
        let now = "2026-11-22T10:00:00.5Z".parse().unwrap();
        serde_json::from_slice(&written(&cluster, report, census, now, Form::Plain)).unwrap()
    }

    fn report(connected: bool, why: Option<&str>) -> SessionReport {
        SessionReport {
            connected,
            since: "2026-11-22T09:00:00.75Z".parse().unwrap(),
            last_error: why.map(str::to_owned),
            ..SessionReport::default()
        }
    }

    #[test]
    fn connection_state_follows_the_agent_and_counts_survive_disconnects() {
        let census = Census {
            applications: 2,
            apis: 50,
            resources: 300,
            server_version: Some("1.36".to_owned()),
        };
        let up = shown(Some(&report(true, None)), Some(census.clone()));
        let counts = json!({"resourcesCount": 300, "apisCount": 50});
        assert_eq!(
            up,
            json!({
                "connectionState": {
                    "status": "Successful",
                    "message": "the agent of spoke1 is connected since 2026-11-22T09:00:00Z",
                    "attemptedAt": "2026-11-22T09:00:00Z",
                },
                "serverVersion": "1.36",
                "cacheInfo": counts,
                "applicationsCount": 2,
            })
        );
        let away = shown(
            Some(&report(false, Some("the connection broke"))),
            Some(census),
        );
        assert_eq!(away["connectionState"]["status"], "Failed");
        assert_eq!(
            away["connectionState"]["message"],
            "the agent of spoke1 is not connected (since 2026-11-22T09:00:00Z): the connection broke"
        );
        assert_eq!(away["cacheInfo"], counts);
    }

    #[test]
    fn a_cluster_that_never_connected_is_reported_as_failed() {
        let shown = shown(None, None);
        assert_eq!(
            shown["connectionState"],
            json!({
                "status": "Failed",
                "message": "the agent of spoke1 has not connected yet",
                "attemptedAt": "2026-11-22T10:00:00Z",
            })
        );
        assert_eq!(shown["applicationsCount"], 0);
    }
}
