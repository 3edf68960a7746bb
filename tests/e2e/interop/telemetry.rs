//! Traces: a change on the hub and its effects are one trace, in every pairing. The collector is a stand-in.

use std::{fs, sync::Arc};

use anyhow::{Result, bail, ensure};
use lab::{
    Lab,
    collector::Collector,
    peers::{Make, Mapping, Pair, Pairing, prepare},
    wait,
};

use super::{Replicated, SOON, autonomous, finish};

/// The agent takes in a change of the hub.
const SPEC: &str = "agent-managed application.io.argoproj.argocd-agent.event.spec-update";
/// The principal takes in a status.
const STATUS: &str = "principal application.io.argoproj.argocd-agent.event.status-update";

/// The attributes of spans. None contains a value from a body.
const ATTRIBUTES: [&str; 12] = [
    "argocd.agent.mode",
    "argocd.agent.name",
    "argocd.component.type",
    "argocd.event.changes",
    "argocd.event.id",
    "argocd.event.target",
    "argocd.event.type",
    "argocd.operation.type",
    "k8s.resource.kind",
    "k8s.resource.name",
    "k8s.resource.namespace",
    "k8s.resource.uid",
];

pub(crate) async fn a_change_is_one_trace_from_the_hub_to_the_spoke_and_back(
    lab: Arc<Lab>,
) -> Result<()> {
    let pairing = Pairing {
        principal: Make::Ours,
        agent: Make::Ours,
    };
    let there: &[&str] = &[
        "principal Application.update",
        "principal Application.send",
        SPEC,
    ];
    let back = [
        "agent-managed Application.update",
        "agent-managed Application.send",
        STATUS,
        "principal Application.patch",
    ];
    let ways = [
        [there, &["agent-managed Application.patch"]].concat(),
        [there, &back].concat(),
    ];
    is_traced(&lab, "o-trace", pairing, Mapping::Namespace, &ways).await
}

pub(crate) async fn a_change_of_an_autonomous_cluster_is_one_trace_with_its_mirror(
    lab: Arc<Lab>,
) -> Result<()> {
    let pairing = Pairing {
        principal: Make::Ours,
        agent: Make::Ours,
    };
    let way = [
        "agent-autonomous Application.update",
        "agent-autonomous Application.send",
        "principal application.io.argoproj.argocd-agent.event.spec-update",
        "principal Application.patch",
    ];
    is_traced(
        &lab,
        "a-trace",
        pairing,
        Mapping::Autonomous,
        &[way.to_vec()],
    )
    .await
}

pub(crate) async fn a_go_agent_continues_our_traces(lab: Arc<Lab>) -> Result<()> {
    let pairing = Pairing {
        principal: Make::Ours,
        agent: Make::Go,
    };
    let there = [
        "principal Application.update",
        "principal Application.send",
        SPEC,
    ];
    // Go's agent begins another trace for the status.
    let back = [
        "agent-managed Application.update",
        STATUS,
        "principal Application.patch",
    ];
    let ways = [there.to_vec(), back.to_vec()];
    is_traced(&lab, "g-trace", pairing, Mapping::Namespace, &ways).await
}

pub(crate) async fn our_agent_continues_the_traces_of_a_go_principal(lab: Arc<Lab>) -> Result<()> {
    let pairing = Pairing {
        principal: Make::Go,
        agent: Make::Ours,
    };
    let there: &[&str] = &["principal Application.update", SPEC];
    let back = [
        "agent-managed Application.update",
        "agent-managed Application.send",
        STATUS,
    ];
    let ways = [
        [there, &["agent-managed Application.patch"]].concat(),
        [there, &back].concat(),
    ];
    is_traced(&lab, "p-trace", pairing, Mapping::Namespace, &ways).await
}

/// Changes an Application and its status, and waits until the collector has all of these ways.
async fn is_traced(
    lab: &Lab,
    name: &str,
    pairing: Pairing,
    mapping: Mapping,
    ways: &[Vec<&str>],
) -> Result<()> {
    let mut setting = prepare(lab, name, mapping).await?;
    let (collector, trust) = if pairing.needs().is_none() {
        let (collector, certificate) = Collector::with_tls().await?;
        fs::create_dir_all(&setting.directory)?;
        let path = setting.directory.join("collector.crt");
        fs::write(&path, certificate)?;
        (collector, ("otlp-ca-path", path.display().to_string()))
    } else {
        // Go has no flag for certificates.
        (
            Collector::start().await?,
            ("otlp-insecure", "true".to_owned()),
        )
    };
    let flags = vec![("otlp-address", collector.address()), trust];
    setting.way.principal.clone_from(&flags);
    setting.way.agent = flags;
    let mut pair = Pair::start_in(lab, setting, pairing).await?;
    let changed = match mapping {
        Mapping::Namespace | Mapping::Destination => changed(&pair).await,
        Mapping::Autonomous => {
            autonomous::autonomous_application_is_mirrored_and_updated(&mut pair).await
        }
    };
    let outcome = match changed {
        Ok(()) => arrived(&collector, ways).await,
        Err(error) => Err(error),
    };
    let outcome = outcome.and_then(|()| has_known_attributes_only(&collector, pairing));
    finish(pair, outcome).await
}

async fn changed(pair: &Pair) -> Result<()> {
    let app = Replicated::new(pair, "app");
    app.deliver(pair, &[]).await?;
    app.set_status(pair, "OutOfSync", "Missing").await?;
    app.until_status(pair, "OutOfSync", "Missing").await?;
    app.set_revision(pair, "v2").await?;
    app.until_revision(pair, "v2").await?;
    app.set_status(pair, "Synced", "Healthy").await?;
    app.until_status(pair, "Synced", "Healthy").await.map(drop)
}

/// Spans of our own programs have no other attributes.
fn has_known_attributes_only(collector: &Collector, pairing: Pairing) -> Result<()> {
    if pairing.needs().is_some() {
        return Ok(());
    }
    let all = collector.spans().into_iter().flat_map(|it| it.attributes);
    let strangers: Vec<_> = all
        .filter(|(name, _)| !ATTRIBUTES.contains(&name.as_str()))
        .collect();
    ensure!(strangers.is_empty(), "unknown attributes: {strangers:?}");
    Ok(())
}

async fn arrived(collector: &Collector, ways: &[Vec<&str>]) -> Result<()> {
    for way in ways {
        let Some((service, name)) = way.last().and_then(|last| last.split_once(' ')) else {
            bail!("a way leads somewhere");
        };
        let look = || async { Ok(collector.ways_to(service, name)) };
        let what = format!("the collector has {way:?}");
        let has = |found: &Vec<Vec<String>>| found.iter().any(|it| it == way);
        wait::until_within(SOON, &what, look, has).await?;
    }
    Ok(())
}
