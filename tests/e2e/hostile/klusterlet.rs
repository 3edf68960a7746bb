//! A klusterlet in wrong hands: what it may write on the hub costs the manager little, and no other cluster notices.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use base64::Engine as _;
use lab::{
    audit::Mark,
    bench::hostile::{BY_KLUSTERLET, CONFIGURATION, CSRS, HONEST_BOUND, LABELS, Measure, Verdict},
    product,
    raw_client::agent_name,
    steps::{ADDON, At, Objects, enrol},
};
use rcgen::{CertificateParams, DnType, KeyPair};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::{
    programs::{Program, Running},
    stage::{SOON, Stage},
};

/// How long one attack lasts.
const TIME: Duration = Duration::from_secs(5);
/// The pause between two writes of an attack.
const PAUSE: Duration = Duration::from_millis(50);
/// Text before a certificate request, which the API server stores.
const PADDING: usize = 500_000;
const REQUESTS: usize = 100;
const ATTACKER: &str = "spoke2";
/// The annotation of a ManifestWork with the configurations from which it was rendered.
const CONFIGURATION_HASH: &str = "open-cluster-management.io/config-spec-hash";

/// Each attack by a klusterlet has the result of its row in docs/security.md. Meanwhile the manager is the same process and
/// leads, and a change of another cluster arrives.
pub(crate) async fn a_hostile_klusterlet_is_bounded(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    stage.enrolled(2).await?;
    enrol::with_variable(&stage.hub, ATTACKER, "UI_ACCESS", "none").await?;
    let app = stage.greeter("beside-a-klusterlet", 1).await?;
    app.apply(&stage.hub).await?;
    stage
        .until_greets(1, "beside-a-klusterlet", "hello")
        .await?;
    until_rendered(stage).await?;
    let mut lines = Vec::new();
    let mut failed = 0;
    for (name, verdict) in BY_KLUSTERLET {
        until_quiet(stage).await?;
        let judged = judge(stage, name, *verdict, &app.at).await;
        failed += usize::from(judged.is_err());
        let line = judged.unwrap_or_else(|error| format!("FAILED: {error:#}"));
        lines.push(format!("{name}: {line}"));
    }
    ensure!(failed == 0, "{failed} attacks:\n{}", lines.join("\n"));
    enrol::without_variables(&stage.hub, ATTACKER).await?;
    stage.clear(&app).await
}

/// The configuration is in the attacker's work.
async fn until_rendered(stage: &Stage) -> Result<()> {
    let look = || async {
        let works = At::work(ATTACKER, "");
        stage.hub.list(&works, &enrol::of_addon()).await
    };
    let rendered = |works: &Vec<Value>| {
        let annotations = works.iter().map(|work| &work["metadata"]["annotations"]);
        let mut hashes = annotations.map(|it| it[CONFIGURATION_HASH].to_string());
        hashes.any(|hash| hash.contains("spoke2/variables"))
    };
    lab::wait::until("the configuration is in the work", look, rendered)
        .await
        .map(drop)
}

/// The manager has written all that the enrolments, the configuration and the attack before change: later writes are because
/// of the next attack.
async fn until_quiet(stage: &Stage) -> Result<()> {
    let look = || async {
        let mark = stage.lab.hub().audit().mark()?;
        sleep(TIME).await;
        Ok(writes(stage, CONFIGURATION, mark)? + writes(stage, LABELS, mark)?)
    };
    let what = "the manager writes nothing more";
    lab::wait::until(what, look, |count| *count == 0)
        .await
        .map(drop)
}

async fn judge(stage: &Stage, name: &str, verdict: Verdict, probe: &At) -> Result<String> {
    let Verdict::Bounded(measure, most) = verdict else {
        bail!("only bounded attacks")
    };
    let manager = Program::Manager.running(stage).await?;
    let (leader, before) = (leader(stage).await?, resident(&manager).await?);
    let mark = stage.lab.hub().audit().mark()?;
    let until = Instant::now() + TIME;
    let attack = async {
        match name {
            CSRS => request_certificates(stage).await,
            LABELS => change_labels(stage, until).await,
            CONFIGURATION => drop_configuration(stage, until).await,
            other => bail!("no attack is called {other}"),
        }
    };
    let (attacked, changed) = tokio::join!(attack, change(stage, probe, name));
    attacked.context("the attack")?;
    changed?;
    sleep(PAUSE * 20).await;
    manager.still_runs(stage).await?;
    let number = match measure {
        Measure::Memory => resident(&manager).await?.saturating_sub(before),
        Measure::Writes => writes(stage, name, mark)?,
        Measure::Forged | Measure::Replies | Measure::LogLines => {
            bail!("{measure:?} cannot be measured here")
        }
    };
    if name == CSRS {
        none_is_approved(stage).await?;
    }
    ensure!(leader == self::leader(stage).await?, "another leader");
    ensure!(number <= most, "{measure:?} {number}, more than {most}");
    Ok(format!("{measure:?} {number}"))
}

/// An honest cluster's Application changes, and the change arrives.
async fn change(stage: &Stage, probe: &At, name: &str) -> Result<()> {
    let revision = format!("v-{}", name.replace(' ', "-"));
    let patch = json!({"spec": {"source": {"targetRevision": revision}}});
    stage.hub.merge(probe, patch).await?;
    let arrived = |app: &Value| app["spec"]["source"]["targetRevision"] == revision.as_str();
    let replica = Stage::replica(probe.name());
    let spoke = stage.spoke(1);
    spoke
        .until(&replica, "gets the change", HONEST_BOUND, arrived)
        .await
        .map(drop)
}

async fn leader(stage: &Stage) -> Result<Value> {
    let lease = At::lease(product::NAMESPACE, product::MANAGER);
    Ok(stage.hub.read(&lease).await?["spec"]["holderIdentity"].clone())
}

/// The manager's resident memory in MiB, by its own metric.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a positive number of MiB"
)]
async fn resident(manager: &Running) -> Result<u64> {
    const MIB: f64 = 1024.0 * 1024.0;
    let bytes = manager
        .metrics()
        .await?
        .value("process_resident_memory_bytes");
    ensure!(bytes > MIB, "resident memory of {bytes} bytes");
    Ok((bytes / MIB).ceil() as u64)
}

/// The manager's writes that the attack wants to cause.
fn writes(stage: &Stage, name: &str, mark: Mark) -> Result<u64> {
    let resource = if name == LABELS {
        "secrets"
    } else {
        "manifestworks"
    };
    let (namespace, manager) = (product::NAMESPACE, product::MANAGER);
    let user = format!("system:serviceaccount:{namespace}:{manager}");
    let entries = stage.lab.hub().audit().by(&user, mark)?.into_iter();
    let about = entries.filter(|it| {
        let object = it.object.as_ref();
        it.is_write() && object.is_some_and(|it| it.resource == resource)
    });
    Ok(about.count() as u64)
}

/// As the registration agent of the attacker's cluster.
async fn klusterlet(stage: &Stage) -> Result<Objects> {
    let group = format!("system:open-cluster-management:{ATTACKER}");
    let user = format!("{group}:{ATTACKER}-agent");
    // This does not test rights.
    let groups = [
        group.as_str(),
        "system:open-cluster-management:managed-clusters",
        "system:masters",
    ];
    Ok(Objects::new(
        stage.lab.hub().client_as(&user, &groups).await?,
    ))
}

fn request_name(number: usize) -> At {
    At::csr(&format!("hostile-{number}"))
}

/// For another cluster's name, with text before the request.
async fn request_certificates(stage: &Stage) -> Result<()> {
    let klusterlet = klusterlet(stage).await?;
    let mut params = CertificateParams::default();
    let name = agent_name("spoke1");
    params.distinguished_name.push(DnType::CommonName, name);
    let pem = params.serialize_request(&KeyPair::generate()?)?.pem()?;
    let padded = format!("{}\n{pem}", "x".repeat(PADDING));
    let request = base64::engine::general_purpose::STANDARD.encode(padded);
    for number in 0..REQUESTS {
        let body = json!({
            "metadata": {"labels": {
                "open-cluster-management.io/addon-name": ADDON,
                "open-cluster-management.io/cluster-name": ATTACKER,
            }},
            "spec": {
                "signerName": "open-cluster-management.io/argocd-agent-addon",
                "usages": ["digital signature", "key encipherment", "client auth"],
                "request": request,
            },
        });
        klusterlet.apply(&request_name(number), body).await?;
    }
    Ok(())
}

/// None of the requests has a condition; they are deleted again.
async fn none_is_approved(stage: &Stage) -> Result<()> {
    for number in 0..REQUESTS {
        let at = request_name(number);
        let csr = stage.hub.read(&at).await?;
        ensure!(csr["status"]["conditions"].is_null(), "{}", csr["status"]);
        stage.hub.delete(&at).await?;
    }
    Ok(())
}

/// Whether a patch was applied. The API server gives up one that other writers overtake several times.
fn is_applied(patched: Result<Value>) -> Result<bool> {
    match patched {
        Err(error) if is_conflict(&error) => Ok(false),
        other => other.map(|_| true),
    }
}

fn is_conflict(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(kube::Error::Api(status)) if status.is_conflict())
}

async fn change_labels(stage: &Stage, until: Instant) -> Result<()> {
    let (klusterlet, at) = (klusterlet(stage).await?, At::cluster(ATTACKER));
    let (mut number, mut applied) = (0, 0);
    while Instant::now() < until {
        number += 1;
        let labels = json!({"metadata": {"labels": {"flap": number.to_string()}}});
        applied += u32::from(is_applied(klusterlet.merge(&at, labels).await)?);
        sleep(PAUSE).await;
    }
    ensure!(applied > 1, "{applied} of {number} patches were applied");
    let none = json!({"metadata": {"labels": {"flap": null}}});
    klusterlet.merge(&at, none).await.map(drop)
}

/// Without its own configuration the cluster would have the default level for people.
async fn drop_configuration(stage: &Stage, until: Instant) -> Result<()> {
    let (klusterlet, at) = (klusterlet(stage).await?, At::addon(ATTACKER));
    let is_there = |addon: &Value| {
        let references = addon["status"]["configReferences"].as_array();
        references.is_some_and(|it| !it.is_empty())
    };
    let mut applied = 0;
    while Instant::now() < until {
        let none = json!({"status": {"configReferences": []}});
        applied += u32::from(is_applied(klusterlet.merge_status(&at, none).await)?);
        sleep(PAUSE).await;
    }
    ensure!(applied > 1, "{applied} patches were applied");
    // OCM's controller corrects it.
    stage
        .hub
        .until(&at, "has its configuration again", SOON, is_there)
        .await
        .map(drop)
}
