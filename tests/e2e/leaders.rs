//! The leader among the replicas of the hub program: lost with its Pod, asked to go, killed in its container, and stalled.

pub(crate) mod stalled;

use std::{fs, time::Duration};

use anyhow::{Context as _, Result, ensure};
use lab::{
    product,
    steps::{At, deliver, enrol::until_available},
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Value, json};

use crate::{
    hubside::{label, labelled},
    programs::Program,
    stage::{SOON, Stage},
};

/// A container that starts again leads at once. Another replica would wait for nine seconds at least.
const AT_ONCE: Duration = Duration::from_secs(5);

/// The second replica acquires the lease within seconds after the leader was killed, and at once after a graceful stop;
/// agents reconnect to it, and nothing is written twice.
pub(crate) async fn another_replica_takes_the_lease_of_a_lost_leader(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    let hub = &stage.hub;
    let app = stage.greeter("two-replicas", 1).await?;
    app.apply(hub).await?;
    deliver::until_healthy(hub, &app.at, "").await?;
    for (how, bound) in [("killed", 15), ("asked", 8)] {
        two_replicas(stage).await?;
        let mark = stage.lab.hub().audit().mark()?;
        let took = lead_away(stage, how == "killed").await?;
        let bound = Duration::from_secs(bound);
        ensure!(took < bound, "{how}: another leads after {took:?}");

        let value = labelled("e2e.example.org/leader", &json!(how));
        hub.merge(&app.at, value).await?;
        let arrived = |app: &Value| label(app, "e2e.example.org/leader") == how;
        let replica = Stage::replica("two-replicas");
        let spoke = stage.spoke(1);
        spoke
            .until(&replica, "has the change", SOON, arrived)
            .await?;
        let written = writes_of_enrolments(stage, mark)?;
        ensure!(written.is_empty(), "unnecessary writes: {written:?}");
    }
    run_one_replica(stage).await?;
    stage.clear(&app).await
}

/// Scales the hub program to one replica again.
async fn run_one_replica(stage: &Stage) -> Result<()> {
    let hub = &stage.hub;
    let manager = At::deployment(product::NAMESPACE, product::MANAGER);
    hub.merge(&manager, json!({"spec": {"replicas": 1}}))
        .await?;
    let one = |manager: &Value| {
        manager["status"]["replicas"] == 1 && manager["status"]["availableReplicas"] == 1
    };
    hub.until(&manager, "has one replica", SOON * 2, one)
        .await?;
    until_replicas(stage, 1.0).await?;
    until_available(hub, "spoke1").await.map(drop)
}

/// Waits until a replica counts as many live ones by their Leases.
async fn until_replicas(stage: &Stage, count: f64) -> Result<()> {
    let one = Program::Manager.running(stage).await?;
    one.until_counts("argocd_agent_addon_manager_replicas", count)
        .await
}

/// Runs two replicas of the hub program, and returns when each knows the other.
async fn two_replicas(stage: &Stage) -> Result<()> {
    let manager = At::deployment(product::NAMESPACE, product::MANAGER);
    let two = json!({"spec": {"replicas": 2}});
    stage.hub.merge(&manager, two).await?;
    let both = |manager: &Value| manager["status"]["availableReplicas"] == 2;
    let what = "has two replicas";
    stage.hub.until(&manager, what, SOON * 2, both).await?;
    until_replicas(stage, 2.0).await
}

/// Removes the leader's pod; returns the time until another replica acquired the lease.
async fn lead_away(stage: &Stage, kills: bool) -> Result<Duration> {
    let hub = &stage.hub;
    let lease = At::lease(product::NAMESPACE, product::MANAGER);
    let before = holder(&hub.read(&lease).await?)?;
    let leader = At::pod(product::NAMESPACE, &before);
    let gone = jiff::Timestamp::now();
    if kills {
        hub.kill(&leader).await?;
    } else {
        hub.delete(&leader).await?;
    }
    let other = |lease: &Value| holder(lease).is_ok_and(|now| now != before);
    let lease = hub.until(&lease, "has another holder", SOON, other).await?;
    let at = lease["spec"]["acquireTime"].as_str().context("a time")?;
    let at: jiff::Timestamp = at.parse()?;
    Ok(Duration::try_from(at.duration_since(gone)).unwrap_or_default())
}

/// The pod that holds the lease.
fn holder(lease: &Value) -> Result<String> {
    let identity = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
    let mut parts = identity.rsplitn(3, '_');
    let pod = parts.nth(2).filter(|pod| !pod.is_empty());
    Ok(pod
        .with_context(|| format!("no holder: {identity:?}"))?
        .to_owned())
}

/// The manager's writes of enrolments: add-ons, works, CSRs and Secrets.
fn writes_of_enrolments(stage: &Stage, mark: lab::audit::Mark) -> Result<Vec<(String, u64)>> {
    let user = format!(
        "system:serviceaccount:{}:{}",
        product::NAMESPACE,
        product::MANAGER
    );
    let kinds = [
        "managedclusteraddons",
        "manifestworks",
        "certificatesigningrequests",
        "secrets",
    ];
    let all = stage.lab.hub().audit().writes(mark)?;
    let ours = all.get(&user).into_iter().flatten();
    let of_enrolments = ours.filter(|(what, _)| kinds.iter().any(|kind| what.contains(kind)));
    Ok(of_enrolments
        .map(|(what, times)| (what.clone(), u64::try_from(*times).unwrap_or_default()))
        .collect())
}

/// The process of the only replica is killed, and its container starts again: the new process does not wait until the lease
/// of the old one has expired.
pub(crate) async fn a_restarted_container_leads_at_once(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    let hub = &stage.hub;
    let at = At::lease(product::NAMESPACE, product::MANAGER);
    let before = hub.read(&at).await?;
    kill_hub_program()?;
    let other = |lease: &Value| {
        let holder = &lease["spec"]["holderIdentity"];
        !holder.is_null() && *holder != before["spec"]["holderIdentity"]
    };
    let lease = hub.until(&at, "has another holder", SOON, other).await?;
    let pod = holder(&lease)?;
    ensure!(pod == holder(&before)?, "{pod} is another Pod");
    let pod = hub.read(&At::pod(product::NAMESPACE, &pod)).await?;
    let started = &pod["status"]["containerStatuses"][0]["state"]["running"]["startedAt"];
    let took = time(&lease["spec"]["acquireTime"])?.duration_since(time(started)?);
    let took = Duration::try_from(took).unwrap_or_default();
    ensure!(took < AT_ONCE, "it leads {took:?} after its start");
    until_available(hub, "spoke1").await.map(drop)
}

fn time(value: &Value) -> Result<jiff::Timestamp> {
    let text = value
        .as_str()
        .with_context(|| format!("no time: {value}"))?;
    Ok(text.parse()?)
}

/// Kills the process of the hub program, whose Pod stays.
pub(crate) fn kill_hub_program() -> Result<()> {
    let all = hub_programs()?;
    ensure!(all.len() == 1, "processes of the hub program: {all:?}");
    for process in all {
        kill(process, Signal::SIGKILL).context("kill the hub program")?;
    }
    Ok(())
}

/// The processes of the hub program in all of its Pods.
fn hub_programs() -> Result<Vec<Pid>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").context("read /proc")?.flatten() {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let mut words = line.split(|byte| *byte == 0);
        let program = words.next().unwrap_or_default();
        let is_manager = words.any(|word| word.starts_with(b"--own-namespace="));
        let process = entry.file_name().to_string_lossy().parse();
        if let (true, true, Ok(process)) =
            (program.ends_with(b"/addon-manager"), is_manager, process)
        {
            found.push(Pid::from_raw(process));
        }
    }
    Ok(found)
}
