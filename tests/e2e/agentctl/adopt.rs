//! `cluster adopt` takes over clusters that the hub's Argo CD reached directly.

use anyhow::{Context as _, Result, ensure};
use lab::{
    product,
    steps::{
        At,
        deliver::{self, Application},
        enrol::{self, ARGOCD, until_available},
    },
    wait::BOUND,
};
use serde_json::{Value, json};

use super::{MEMBER, ask};
use crate::stage::Stage;

/// The API server URL in the cluster Secret of push mode.
const PUSHED: &str = "https://spoke2.example.com:6443";

/// A cluster in push mode: `cluster adopt` reports blockers without a write. When they are resolved, it adopts the cluster
/// with one write, and the cluster's own Argo CD syncs the Application that named its server.
pub(crate) async fn a_cluster_in_push_mode_is_adopted(stage: &Stage) -> Result<()> {
    stage.not_enrolled(2).await?;
    let team = stage.platform_team().await?;
    let app = pushed(stage).await?;
    let log = stage.lab.hub().audit();
    let mark = log.mark()?;
    let adopt = ["cluster", "adopt", "spoke2"];
    let look = ["cluster", "adopt", "--dry-run", "spoke2"];

    for asked in [&look[..], &adopt] {
        let plan = ask(team.clone(), 1, asked).await?;
        let row = of_secret(&plan, "push-spoke2")?;
        ensure!(
            row["cluster"] == "spoke2" && row["by"] == "server",
            "{plan:#}"
        );
        ensure!(
            row["kind"] == "push" && row["state"] == "blocked",
            "{plan:#}"
        );
        ensure!(plan["applications"][0]["fate"] == "change", "{plan:#}");
        ensure!(plan["hub"] == json!([]), "{plan:#}");
    }
    let plan = ask(team.clone(), 1, &look).await?;
    let set = plan["applications"][0]["set"].clone();
    stage.hub.merge(&app.at, set).await?;
    let plan = ask(team.clone(), 0, &look).await?;
    let row = of_secret(&plan, "push-spoke2")?;
    ensure!(row["state"] == "ready", "{plan:#}");
    ensure!(log.writes_by(MEMBER, mark)? == 0, "something was written");
    let cluster = stage.hub.read(&At::cluster("spoke2")).await?;
    ensure!(
        cluster["metadata"]["labels"][enrol::MODE].is_null(),
        "{cluster:#}"
    );

    let wait = [&adopt[..], &["--wait", "--timeout", "2m", "-o", "json"]].concat();
    let output = product::agentctl_within(BOUND * 2, &team, &wait).await?;
    ensure!(output.succeeded(), "{output:?}");
    let plan: Value = serde_json::from_str(&output.out)?;
    let row = of_secret(&plan, "push-spoke2")?;
    ensure!(row["state"] == "adopted", "{plan:#}");
    until_available(&stage.hub, "spoke2").await?;
    deliver::until_healthy(&stage.hub, &app.at, "").await?;
    stage.until_greets(2, "pushed", "hello").await?;

    let plan = ask(team.clone(), 0, &adopt).await?;
    for secret in ["push-spoke2", "cluster-spoke2"] {
        let row = of_secret(&plan, secret)?;
        ensure!(row["state"] == "adopted", "{plan:#}");
    }
    let left = of_secret(&plan, "push-spoke2")?["afterwards"].as_str();
    ensure!(left.is_some_and(|it| it.contains("delete")), "{plan:#}");
    ensure!(
        log.writes_by(MEMBER, mark)? == 1,
        "more was written than a label"
    );

    stage.hub.delete(&At::secret(ARGOCD, "push-spoke2")).await?;
    let plan = ask(team, 0, &look).await?;
    let rows = plan["clusters"].as_array().map_or(0, Vec::len);
    ensure!(rows == 1, "{plan:#}");
    stage.clear(&app).await
}

/// The cluster Secret of push mode, and an Application that names its server.
async fn pushed(stage: &Stage) -> Result<Application> {
    let known = json!({"spec": {"managedClusterClientConfigs": [{"url": PUSHED}]}});
    stage.hub.merge(&At::cluster("spoke2"), known).await?;
    let secret = json!({
        "metadata": {"labels": {"argocd.argoproj.io/secret-type": "cluster"}},
        "stringData": {"name": "old-spoke2", "server": PUSHED, "config": "{}"},
    });
    stage
        .hub
        .apply(&At::secret(ARGOCD, "push-spoke2"), secret)
        .await?;
    let mut app = stage.greeter("pushed", 2).await?;
    app.at = At::application(ARGOCD, "pushed");
    let mut body = app.body();
    body["spec"]["destination"] = json!({"server": PUSHED, "namespace": "pushed"});
    stage.hub.apply(&app.at, body).await?;
    Ok(app)
}

fn of_secret<'a>(plan: &'a Value, secret: &str) -> Result<&'a Value> {
    let rows = plan["clusters"].as_array().into_iter().flatten();
    let mut of = rows.filter(|row| row["secret"] == secret);
    of.next()
        .with_context(|| format!("no row of {secret} in {plan:#}"))
}
