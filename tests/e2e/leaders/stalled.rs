//! The leader stops for longer than its lease, as on a node without processor time, and resumes.

use super::*;

/// An agent notices after 25 seconds; the liveness probe would restart the container after 55.
const STALL: Duration = Duration::from_secs(50);

/// Another replica leads and serves the agents while the leader is stopped. When that one resumes, it neither leads nor
/// writes.
pub(crate) async fn a_stalled_leader_writes_nothing_when_it_resumes(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    let hub = &stage.hub;
    let app = stage.greeter("stalled-leader", 1).await?;
    app.apply(hub).await?;
    deliver::until_healthy(hub, &app.at, "").await?;
    two_replicas(stage).await?;

    let lease = At::lease(product::NAMESPACE, product::MANAGER);
    let stalled = holder(&hub.read(&lease).await?)?;
    let process = process_of(&stalled)?;
    let at = At::pod(product::NAMESPACE, &stalled);
    let container = |pod: &Value| pod["status"]["containerStatuses"][0]["containerID"].clone();
    let before = container(&hub.read(&at).await?);
    let mark = stage.lab.hub().audit().mark()?;
    kill(process, Signal::SIGSTOP).context("stop the leader")?;
    let led = tokio::time::timeout(STALL, led_by_another(stage, &app.at, &stalled)).await;
    kill(process, Signal::SIGCONT).context("resume the former leader")?;
    let next = led.context("no change arrived while the leader was stopped")??;

    let lets_go = |pod: &Value| {
        let status = &pod["status"]["containerStatuses"][0];
        label(pod, addon_manager::keys::ACTIVE).is_null() && status["ready"] == true
    };
    let what = "is ready and gets no agents";
    let pod = hub.until(&at, what, SOON, lets_go).await?;
    ensure!(
        container(&pod) == before,
        "the stalled process was replaced: {}",
        pod["status"]
    );
    changed(stage, &app.at, "resumed").await?;
    let now = holder(&hub.read(&lease).await?)?;
    ensure!(now == next, "{now} leads instead of {next}");
    let mut written = writes_of_enrolments(stage, mark)?;
    // The next leader reports on the add-on that the agent was away.
    written.retain(|(kind, _)| !kind.contains("managedclusteraddons"));
    ensure!(written.is_empty(), "unnecessary writes: {written:?}");
    run_one_replica(stage).await?;
    stage.clear(&app).await
}

/// Waits until another replica leads and a change passes through it. Returns its Pod.
async fn led_by_another(stage: &Stage, app: &At, before: &str) -> Result<String> {
    let lease = At::lease(product::NAMESPACE, product::MANAGER);
    let other = |lease: &Value| holder(lease).is_ok_and(|now| now != before);
    let what = "has another holder";
    let lease = stage.hub.until(&lease, what, SOON, other).await?;
    changed(stage, app, "stalled").await?;
    holder(&lease)
}

/// One change on the hub arrives on spoke1.
async fn changed(stage: &Stage, app: &At, value: &str) -> Result<()> {
    let change = labelled("e2e.example.org/leader", &json!(value));
    stage.hub.merge(app, change).await?;
    let arrived = |app: &Value| label(app, "e2e.example.org/leader") == value;
    let replica = Stage::replica(app.name());
    let spoke = stage.spoke(1);
    spoke
        .until(&replica, "has the change", SOON, arrived)
        .await
        .map(drop)
}

/// The process of the hub program in this Pod.
fn process_of(pod: &str) -> Result<Pid> {
    let variable = format!("POD_NAME={pod}");
    let is_there = |process: &Pid| {
        let environment = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        environment
            .split(|byte| *byte == 0)
            .any(|it| it == variable.as_bytes())
    };
    let found = hub_programs()?.into_iter().find(is_there);
    found.with_context(|| format!("no process of {pod}"))
}
