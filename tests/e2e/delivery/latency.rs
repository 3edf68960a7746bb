//! How long a change takes on a quiet system. The bounds are far below the interval of any poll, so a watch that stopped
//! working cannot hide behind one.

use std::time::Duration;

use tokio::time::Instant;

use super::{At, Result, SOON, Stage, Value, deliver, ensure, json};

/// The bound of most rounds.
const USUAL: Duration = Duration::from_secs(2);
/// The bound of each round: other tests use the same processors.
const LONGEST: Duration = Duration::from_secs(8);
/// So many that a slow one is not the median.
const ROUNDS: usize = 7;

/// The times of several rounds.
#[derive(Debug, Default)]
struct Times(Vec<Duration>);

impl Times {
    fn add(&mut self, begun: Instant) {
        self.0.push(begun.elapsed());
    }

    fn are_within_the_bounds(mut self) -> Result<()> {
        self.0.sort();
        let (median, longest) = (self.0.get(self.0.len() / 2), self.0.last());
        ensure!(
            median.is_some_and(|it| *it < USUAL),
            "the median is not below {USUAL:?}: {self:?}"
        );
        ensure!(
            longest.is_some_and(|it| *it < LONGEST),
            "the longest is not below {LONGEST:?}: {self:?}"
        );
        Ok(())
    }
}

/// An Application without automated sync, as soon as Argo CD has compared it and leaves it alone.
async fn quiet(stage: &Stage, name: &str) -> Result<deliver::Application> {
    stage.enrolled(1).await?;
    let mut app = stage.greeter(name, 1).await?;
    app.automated = false;
    let mut body = app.body();
    body["metadata"] = json!({});
    stage.hub.apply(&app.at, body).await?;
    let is_out_of_sync = |app: &Value| app["status"]["sync"]["status"] == "OutOfSync";
    let what = "is OutOfSync";
    let bound = lab::wait::BOUND;
    stage
        .hub
        .until(&app.at, what, bound, is_out_of_sync)
        .await?;
    Ok(app)
}

/// A change on the hub reaches the replica, in most rounds within two seconds.
pub(crate) async fn a_change_reaches_its_cluster_within_two_seconds(stage: &Stage) -> Result<()> {
    let app = quiet(stage, "fast-change").await?;
    let replica = Stage::replica("fast-change");
    let mut times = Times::default();
    for round in 0..ROUNDS {
        let round = round.to_string();
        let change = json!({"metadata": {"labels": {"e2e.example.org/round": round}}});
        let begun = Instant::now();
        stage.hub.merge(&app.at, change).await?;
        let arrived = |app: &Value| app["metadata"]["labels"]["e2e.example.org/round"] == *round;
        let spoke = stage.spoke(1);
        spoke
            .until(&replica, "has the round", SOON, arrived)
            .await?;
        times.add(begun);
    }
    times.are_within_the_bounds()?;
    stage.clear(&app).await
}

/// A change of the status on the cluster reaches the hub, in most rounds within two seconds.
pub(crate) async fn a_status_reaches_the_hub_within_two_seconds(stage: &Stage) -> Result<()> {
    let app = quiet(stage, "fast-status").await?;
    let replica = Stage::replica("fast-status");
    let mut times = Times::default();
    for round in 0..ROUNDS {
        let image = format!("e2e.example.org/image:{round}");
        let change = json!({"status": {"summary": {"images": [image]}}});
        let begun = Instant::now();
        stage.spoke(1).merge(&replica, change).await?;
        let shown = |app: &Value| app["status"]["summary"]["images"][0] == *image;
        let what = "shows the status";
        stage.hub.until(&app.at, what, SOON, shown).await?;
        times.add(begun);
    }
    times.are_within_the_bounds()?;
    stage.clear(&app).await
}

/// A new Application reaches its cluster, and its deletion, too; in most rounds each within two seconds.
pub(crate) async fn a_deletion_reaches_its_cluster_within_two_seconds(stage: &Stage) -> Result<()> {
    let app = quiet(stage, "fast-deletion").await?;
    let (mut made, mut deleted) = (Times::default(), Times::default());
    for round in 0..ROUNDS {
        let at = At::application("spoke1", &format!("fast-deletion-{round}"));
        let replica = Stage::replica(at.name());
        let mut body = app.body();
        body["metadata"] = json!({});
        let begun = Instant::now();
        stage.hub.apply(&at, body).await?;
        stage.spoke(1).until_there(&replica, SOON).await?;
        made.add(begun);
        let begun = Instant::now();
        stage.hub.delete(&at).await?;
        stage.spoke(1).until_gone(&replica, SOON).await?;
        deleted.add(begun);
    }
    made.are_within_the_bounds()?;
    deleted.are_within_the_bounds()?;
    stage.clear(&app).await
}
