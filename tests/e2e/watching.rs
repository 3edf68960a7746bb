//! Metrics and Events for the operators of the product.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use lab::{metrics::documented, steps::At, wait};
use serde_json::Value;

use crate::{programs::Program, stage::Stage};

const PAGE: &str = "docs/metrics.md";

/// The running programs expose exactly the documented metrics, and the metrics count. The port for metrics serves no
/// debug endpoint.
pub(crate) async fn metrics_match_the_documentation(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .join(PAGE);
    let page = std::fs::read_to_string(path).context(PAGE)?;
    let principal = "The principal: in the hub program, and alone";
    let hub: &[&str] = &[principal, "The hub program besides", "Every program"];
    let spoke: &[&str] = &["The agent", "Every program"];
    for (program, headings, least) in [(Program::Manager, hub, 40), (Program::Agent(1), spoke, 20)]
    {
        let running = program.running(stage).await?;
        let (shown, expected) = (running.metrics().await?, documented(&page, headings));
        let of = |it: BTreeSet<&String>| it.into_iter().cloned().collect::<Vec<_>>();
        let missing = of(expected.difference(shown.names()).collect());
        let unknown = of(shown.names().difference(&expected).collect());
        ensure!(
            expected.len() > least,
            "{PAGE} has {expected:?} for {program:?}"
        );
        ensure!(
            missing.is_empty() && unknown.is_empty(),
            "{program:?} does not show {missing:?}; {PAGE} does not have {unknown:?}"
        );
        for path in ["/debug/state", "/debug/log-level"] {
            let (status, text) = running.answer(path).await?;
            ensure!(
                status.contains(" 403 "),
                "{program:?} answers {path}: {status} {text}"
            );
        }
    }
    shows(stage, Program::Manager, ON_THE_HUB).await?;
    shows(stage, Program::Agent(1), ON_A_SPOKE).await
}

/// An Event on the add-on of a cluster reports that its agent connected.
pub(crate) async fn a_connected_agent_is_an_event_on_its_add_on(stage: &Stage) -> Result<()> {
    stage.enrolled(2).await?;
    let events = At::event("spoke2");
    let look = || stage.hub.list(&events, "");
    let is_reported = |events: &Vec<Value>| {
        events.iter().any(|event| {
            event["involvedObject"]["kind"] == "ManagedClusterAddOn"
                && event["reason"] == "AgentConnected"
                && event["type"] == "Normal"
                && event["reportingComponent"] == "open-cluster-management.io/argocd-agent-addon"
        })
    };
    let what = "an Event says that the agent connected";
    wait::until(what, look, is_reported).await.map(drop)
}

/// So much at least while a managed cluster is connected; times are later than those of 2023.
const ON_THE_HUB: &[(&str, f64)] = &[
    ("argocd_agent_addon_manager_leader", 1.0),
    ("argocd_principal_enrolled_clusters{mode=\"managed\"}", 1.0),
    ("argocd_principal_sessions{mode=\"managed\"}", 1.0),
    ("argocd_principal_resyncs_total{cause=\"connect\"}", 1.0),
    ("argocd_principal_events_total{direction=\"sent\"}", 1.0),
    ("argocd_principal_lanes", 1.0),
    (
        "argocd_principal_agent_certificate_expiry_timestamp_seconds",
        1.7e9,
    ),
    (
        "argocd_agent_addon_manager_certificate_expiry_timestamp_seconds{use=\"argocd-agent-ca\"}",
        1.7e9,
    ),
    ("process_resident_memory_bytes", 1e6),
];

const ON_A_SPOKE: &[(&str, f64)] = &[
    ("argocd_agent_connection_status", 1.0),
    ("argocd_agent_resyncs_total", 1.0),
    ("argocd_agent_last_resync_timestamp_seconds", 1.7e9),
    ("argocd_agent_lanes", 1.0),
    ("argocd_agent_certificate_expiry_timestamp_seconds", 1.7e9),
];

/// Waits until a program shows as much.
async fn shows(stage: &Stage, program: Program, all: &[(&str, f64)]) -> Result<()> {
    let running = program.running(stage).await?;
    let look = || async {
        let counted = running.metrics().await?;
        let less = all
            .iter()
            .filter(|(series, least)| counted.value(series) < *least);
        Ok(less
            .map(|(series, _)| (*series).to_owned())
            .collect::<Vec<_>>())
    };
    let what = format!("{program:?} shows what it should");
    wait::until(&what, look, Vec::is_empty).await.map(drop)
}
