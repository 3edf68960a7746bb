//! The hub is lost with all its data and rebuilt from the backup, with the commands of the runbook.

use anyhow::{Context as _, Result, ensure};
use lab::{
    product,
    steps::{
        At,
        deliver::{self, Application},
        enrol, workload,
    },
    wait::BOUND,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    reader::Reader,
    stage::{Stage, commit, text},
};

const PAGE: &str = "docs/runbooks.md";
/// The file in which the runbook saves the keys.
const KEYS: &str = "keys.json";

/// The hub is rebuilt from the backup: clusters keep their workloads, and then changes are delivered again.
pub(crate) async fn lost_hub_is_rebuilt_without_replacing_workloads(stage: &Stage) -> Result<()> {
    let mut fleet = Fleet::begin(stage).await?;
    let backup = the_hub_is_saved(stage).await?;
    let rebuilt = hub_is_rebuilt(stage, &backup).await?;
    fleet.comes_back_to(&rebuilt).await?;
    let after = authority(&rebuilt).await?;
    ensure!(after == fleet.authority, "the CA is another one");
    Ok(())
}

/// The keys are not in the backup. The hub program creates a new CA, and each cluster gets a new key and certificate.
pub(crate) async fn lost_hub_ca_is_rebuilt_without_replacing_workloads(
    stage: &Stage,
) -> Result<()> {
    let mut fleet = Fleet::begin(stage).await?;
    let backup = the_hub_is_saved(stage).await?;
    std::fs::remove_file(backup.path().join(KEYS))?;
    let rebuilt = hub_is_rebuilt(stage, &backup).await?;
    every_cluster_gets_another_key(&rebuilt, &backup).await?;
    fleet.comes_back_to(&rebuilt).await?;
    let after = authority(&rebuilt).await?;
    ensure!(after != fleet.authority, "the CA came back from nowhere");
    Ok(())
}

/// The fleet before the hub was lost.
struct Fleet {
    kept: Application,
    asked: Application,
    /// The UIDs of the replicas and of their resources.
    uids: Vec<Value>,
    authority: String,
}

impl Fleet {
    /// An Application at rest, and one with a sync by hand behind it.
    async fn begin(stage: &Stage) -> Result<Self> {
        stage.enrolled(1).await?;
        let kept = stage.greeter("lost-kept", 1).await?;
        let mut asked = stage.greeter("lost-asked", 1).await?;
        asked.automated = false;
        let namespace = At::namespace("lost-asked");
        stage.spoke(1).apply(&namespace, json!({})).await?;
        for app in [&kept, &asked] {
            app.apply(&stage.hub).await?;
        }
        let out_of_sync = |app: &Value| app["status"]["sync"]["status"] == "OutOfSync";
        let what = "is OutOfSync";
        stage.hub.until(&asked.at, what, BOUND, out_of_sync).await?;
        deliver::ask_for_sync(&stage.hub, &asked.at, "v1").await?;
        deliver::until_healthy(&stage.hub, &asked.at, "").await?;
        deliver::until_healthy(&stage.hub, &kept.at, "").await?;
        Ok(Self {
            uids: uids(stage).await?,
            authority: authority(stage).await?,
            kept,
            asked,
        })
    }

    /// The agent is back, nothing was replaced or done twice, and changes go through.
    async fn comes_back_to(&mut self, rebuilt: &Stage) -> Result<()> {
        enrol::until_available(&rebuilt.hub, "spoke1").await?;
        let repository = rebuilt.lab.git().repository("lost-kept")?;
        let next = commit(&repository, "found", "v2")?;
        "v2".clone_into(&mut self.kept.revision);
        self.kept.apply(&rebuilt.hub).await?;
        deliver::until_healthy(&rebuilt.hub, &self.kept.at, &next).await?;
        rebuilt.until_greets(1, "lost-kept", "found").await?;
        let seen = deliver::until_healthy(&rebuilt.hub, &self.asked.at, "").await?;
        let history = seen["status"]["history"].as_array().map(Vec::len);
        ensure!(history == Some(1), "the sync ran {history:?} times");
        let after = uids(rebuilt).await?;
        ensure!(
            after == self.uids,
            "replaced: {:?}, now {after:?}",
            self.uids
        );
        Ok(())
    }
}

/// Takes the backup of the runbook.
async fn the_hub_is_saved(stage: &Stage) -> Result<TempDir> {
    let backup = tempfile::tempdir()?;
    let reader = Reader::of(stage)?.with("BACKUP", backup.path().to_string_lossy());
    reader.follow(PAGE, "the_hub_is_saved", 1).await?;
    for file in std::fs::read_dir(backup.path())? {
        let file = file?;
        let size = file.metadata()?.len();
        ensure!(size > 0, "{} is empty", file.path().display());
    }
    Ok(backup)
}

/// Loses the hub, follows the runbook on another control plane, and has the klusterlets join there.
async fn hub_is_rebuilt(stage: &Stage, backup: &TempDir) -> Result<Stage> {
    let lab = &stage.lab;
    lab.lose_hub().await?;
    lab.prepare_spare().await?;
    let reader = Reader::of(stage)?
        .with_cluster("KUBECONFIG", lab.spare()?)
        .with("BACKUP", backup.path().to_string_lossy());
    reader.follow(PAGE, "hub_is_rebuilt", 2).await?;
    lab.join_spare().await?;
    Stage::at_spare(std::sync::Arc::clone(lab))
}

/// Follows the runbook for a lost CA.
async fn every_cluster_gets_another_key(rebuilt: &Stage, backup: &TempDir) -> Result<()> {
    let reader = Reader::of(rebuilt)?
        .with_cluster("KUBECONFIG", rebuilt.lab.spare()?)
        .with("BACKUP", backup.path().to_string_lossy());
    let e2e_test = "every_cluster_gets_another_key";
    reader.follow(PAGE, e2e_test, 1).await.map(drop)
}

/// The UIDs of the replicas and of their resources.
async fn uids(stage: &Stage) -> Result<Vec<Value>> {
    let mut uids = Vec::new();
    for at in [
        Stage::replica("lost-kept"),
        At::config_map("lost-kept", workload::NAME),
        At::deployment("lost-kept", workload::NAME),
        Stage::replica("lost-asked"),
        At::deployment("lost-asked", workload::NAME),
    ] {
        uids.push(stage.spoke(1).read(&at).await?["metadata"]["uid"].clone());
    }
    Ok(uids)
}

/// The CA's certificate.
async fn authority(stage: &Stage) -> Result<String> {
    let secret = At::secret(product::NAMESPACE, "argocd-agent-ca");
    text(&stage.hub.read(&secret).await?, "tls.crt").context("the CA")
}
