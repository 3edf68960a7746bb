//! One cluster with very many Applications: everything arrives, once, without unnecessary messages.

use std::sync::Arc;
use std::time::Duration;

use agent::sync::api;
use principal::store::{Memory as Hub, Watched};
use principal::{Certificates, Enrolment, Fleet};
use protocol::{Kind, Mode, ObjectKey};
use runtime::parts::Parts;
use rustls_pki_types::CertificateDer;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::dice::{Dice, Trace};
use crate::fault::Fault;
use crate::history::Releases;
use crate::network::Network;
use crate::people::project;
use crate::process::{ARGOCD, Agent, Inputs, Principal};
use crate::slow::Slow;

const CLUSTER: &str = "spoke1";
/// How often it is looked whether all has arrived.
const LOOK: Duration = Duration::from_secs(5);
/// In the time of the simulation, in which the API servers take a few milliseconds for each write.
const TIME_LIMIT: Duration = Duration::from_mins(10);

fn application(number: usize) -> Value {
    json!({
        "apiVersion": argocd::keys::API_VERSION,
        "kind": "Application",
        "metadata": { "name": format!("app-{number:05}"), "namespace": CLUSTER },
        "spec": {
            "project": "default",
            "source": { "repoURL": "https://git.lab/apps.git", "path": format!("apps/{number}") },
            "destination": { "name": CLUSTER, "namespace": "work" },
        },
    })
}

fn fleet() -> Fleet {
    let enrolment = Enrolment {
        certificates: Certificates::All,
        mode: Mode::Managed,
        server: None,
        since: None,
        fresh: false,
        confirm_delete: None,
        shares_unscoped: Some(false),
    };
    Fleet {
        clusters: [(CLUSTER.to_owned(), enrolment)].into(),
    }
}

/// Runs it with so many Applications and returns the findings.
pub(crate) async fn live(certificate: &CertificateDer<'static>, many: usize) -> Vec<String> {
    runtime::random::seed(1);
    let (dice, trace) = (Dice::new(1), Trace::new());
    let network = Network::new(&dice, &trace, &[CLUSTER.to_owned()], Fault::None);
    let hub = Slow::new(Hub::new(), &dice);
    let spoke = Slow::new(api::Memory::new(), &dice);
    let stop = CancellationToken::new();
    let nature = Parts::new(stop.clone());
    nature.spawn("network", network.clone().keep(stop.clone()));
    hub.inner
        .put(Watched::AppProject, project("default", "*", 0));
    for number in 0..many {
        hub.inner.put(Watched::Application, application(number));
    }
    let fleet = watch::Sender::new(Arc::new(fleet()));
    let level = Releases::Any.principal(&dice);
    let watched = fleet.subscribe();
    let principal = Principal::start(level.clone(), &hub, watched, &network, Inputs::usual());
    let agent = Agent::start(level, CLUSTER, Mode::Managed, certificate, &spoke, &network);
    let mut findings = vec![];
    let arrived = || {
        let all = spoke.inner.all().into_iter();
        all.filter(|(key, _)| key.kind == Kind::Application).count()
    };
    findings.extend(until("all have arrived", many, arrived).await);
    let writes = spoke.inner.writes();
    if writes.changes != many + 1 || writes.idle + writes.denied != 0 {
        findings.push(format!("the spoke was written to {writes:?}"));
    }
    // Argo CD has looked at all of them, at once.
    let before = hub.inner.all_writes().changes;
    for number in 0..many {
        let key = ObjectKey::new(Kind::Application, ARGOCD, format!("app-{number:05}"));
        let status = json!({ "status": { "sync": { "status": "Synced" } } });
        spoke.inner.edit(&key, status);
    }
    let shown = || {
        let all = hub.inner.all(Watched::Application).into_values();
        all.filter(|app| app["status"]["sync"]["status"] == "Synced")
            .count()
    };
    findings.extend(until("all are shown", many, shown).await);
    // A new connection finds both sides equal.
    network.break_lines(CLUSTER);
    tokio::time::sleep(Duration::from_mins(1)).await;
    let writes = hub.inner.all_writes();
    if writes.changes - before != many || writes.idle != 0 {
        findings.push(format!("the hub was written to {writes:?}, after {before}"));
    }
    if agent.metrics.outbox_objects.get() != 0 {
        findings.push("the outbox is not empty".to_owned());
    }
    agent.crash(&network).await;
    principal.crash(&network).await;
    stop.cancel();
    nature.crash().await;
    findings
}

async fn until(what: &str, many: usize, count: impl Fn() -> usize) -> Option<String> {
    let begun = tokio::time::Instant::now();
    while count() < many {
        if begun.elapsed() > TIME_LIMIT {
            return Some(format!("{what}: {} of {many}", count()));
        }
        tokio::time::sleep(LOOK).await;
    }
    None
}
