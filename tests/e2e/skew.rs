//! Programs of two releases beside each other, as they are while a hub and its clusters are upgraded, or go back.
//!
//! `PREVIOUS_DIR` has the release before: `addon-manager`, `agent`, and its chart in `chart`.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use lab::{
    helm, product,
    steps::{At, deliver, enrol, workload},
};
use serde_json::Value;

use crate::stage::{SOON, Stage, commit};

/// Which release a part is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Release {
    Previous,
    This,
}

/// How a fleet is upgraded and rolled back: the hub first, as Helm does it, or the agents first, where the hub's image is
/// pinned. At the beginning everything is of this release.
const STEPS: [(Release, Release); 6] = [
    (Release::Previous, Release::Previous),
    (Release::This, Release::Previous),
    (Release::This, Release::This),
    (Release::Previous, Release::This),
    (Release::Previous, Release::Previous),
    (Release::This, Release::This),
];

/// In every combination of releases changes are delivered and reported, and no workload is replaced.
pub(crate) async fn hub_and_agents_upgrade_and_roll_back_one_by_one(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    let mut app = stage.greeter("skewed", 1).await?;
    app.apply(&stage.hub).await?;
    deliver::until_healthy(&stage.hub, &app.at, "").await?;
    let before = workload_uids(stage).await?;
    for (number, (hub, agent)) in STEPS.into_iter().enumerate() {
        let what = || format!("step {number}: hub {hub:?}, agent {agent:?}");
        install(stage, hub, agent).await.with_context(what)?;
        let word = format!("word-{number}");
        let repository = stage.lab.git().repository("skewed")?;
        let next = commit(&repository, &word, &word)?;
        app.revision.clone_from(&word);
        app.apply(&stage.hub).await?;
        let healthy = deliver::until_healthy(&stage.hub, &app.at, &next).await;
        healthy.with_context(what)?;
        stage.until_greets(1, "skewed", &word).await?;
        let after = workload_uids(stage).await?;
        ensure!(before == after, "{}: something was replaced", what());
    }
    stage.clear(&app).await
}

/// Installs the chart of the hub's release with the two programs, and waits until both run and know each other.
async fn install(stage: &Stage, hub: Release, agent: Release) -> Result<()> {
    let chart = match hub {
        Release::Previous => Path::new(&std::env::var(product::PREVIOUS)?).join("chart"),
        Release::This => helm::chart(),
    };
    let (hub, agent) = (tag(hub), tag(agent));
    let images = format!("images.manager.tag={hub},images.agent.tag={agent}");
    let helm = stage.lab.helm();
    let install = ["upgrade", product::RELEASE, helm::text(&chart)?];
    let how = [
        "--namespace",
        product::NAMESPACE,
        "--set",
        &images,
        "--wait",
    ];
    helm.run(&[&install[..], &how].concat()).await?;
    until_agent_is(stage, agent).await?;
    enrol::until_available(&stage.hub, "spoke1").await.map(drop)
}

/// The image tag of a release.
fn tag(release: Release) -> &'static str {
    match release {
        Release::Previous => product::PREVIOUS_TAG,
        Release::This => product::TAG,
    }
}

/// One Pod of the agent, with this image, and ready.
async fn until_agent_is(stage: &Stage, tag: &str) -> Result<()> {
    let labels = "app.kubernetes.io/name=argocd-agent-agent";
    let agents = At::pod(enrol::AGENT_NAMESPACE, "");
    let look = || stage.spoke(1).list(&agents, labels);
    let image = format!(":{tag}");
    let is_it = |pods: &Vec<Value>| match pods.as_slice() {
        [pod] => {
            let runs = pod["spec"]["containers"][0]["image"].as_str();
            let ready = &pod["status"]["containerStatuses"][0]["ready"];
            runs.is_some_and(|runs| runs.ends_with(&image)) && ready == true
        }
        _ => false,
    };
    let what = format!("an agent with the image {image}");
    lab::wait::until_within(SOON, &what, look, is_it)
        .await
        .map(drop)
}

async fn workload_uids(stage: &Stage) -> Result<Vec<Value>> {
    let mut uids = Vec::new();
    for at in [
        At::config_map("skewed", workload::NAME),
        At::deployment("skewed", workload::NAME),
    ] {
        uids.push(stage.spoke(1).read(&at).await?["metadata"]["uid"].clone());
    }
    Ok(uids)
}
