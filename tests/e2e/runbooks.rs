//! The runbooks, run with the commands of their pages.

use anyhow::{Result, ensure};
use lab::{
    product,
    steps::{At, deliver, enrol},
};

use crate::{
    reader::Reader,
    stage::{Stage, commit, text},
};

/// The CA is rotated, an agent is revoked and restored, the hub program is upgraded and rolled back; after that changes
/// are still delivered.
pub(crate) async fn the_runbooks_are_followed_word_by_word(stage: &Stage) -> Result<()> {
    const PAGES: [(&str, usize); 2] = [("docs/troubleshooting.md", 1), ("docs/runbooks.md", 5)];
    const TEST: &str = "the_runbooks_are_followed_word_by_word";
    stage.enrolled(1).await?;
    stage.enrolled(2).await?;
    let mut app = stage.greeter("runbooks", 2).await?;
    app.apply(&stage.hub).await?;
    deliver::until_healthy(&stage.hub, &app.at, "").await?;
    let authority = At::secret(product::NAMESPACE, "argocd-agent-ca");
    let before = text(&stage.hub.read(&authority).await?, "tls.crt")?;

    let reader = Reader::of(stage)?
        .with("CLUSTER", "spoke2")
        .with_cluster("SPOKE_KUBECONFIG", stage.lab.spoke(2));
    let mut output = String::new();
    for (page, least) in PAGES {
        output = reader.follow(page, TEST, least).await?;
    }
    ensure!(
        output.contains("Available=True AgentConnected"),
        "the add-on did not become available: {output}"
    );
    let after = text(&stage.hub.read(&authority).await?, "tls.crt")?;
    ensure!(before != after, "the CA is the one of before");

    let repository = stage.lab.git().repository("runbooks")?;
    let next = commit(&repository, "after-the-runbooks", "v2")?;
    "v2".clone_into(&mut app.revision);
    app.apply(&stage.hub).await?;
    deliver::until_healthy(&stage.hub, &app.at, &next).await?;
    for cluster in ["spoke1", "spoke2"] {
        enrol::until_available(&stage.hub, cluster).await?;
    }
    stage.clear(&app).await
}
