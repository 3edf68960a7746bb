//! The fleet page and the page of one cluster.

use anyhow::{Context as _, Result, ensure};
use lab::steps::At;
use serde_json::{Value, json};

use super::{Ui, fleet_page, page::Theme};
use crate::stage::Stage;

/// The part of the address that only requests for the whole fleet have.
pub(super) const FLEET_API: &str = "/extensions/argocd-agent-fleet/api/v1/fleet";
/// The table of clusters.
pub(super) const TABLE: &str = "[role=table][aria-label=Clusters]";
const CLUSTER_SET: &str = "cluster.open-cluster-management.io/clusterset";
/// A label of the tests.
const SITE: &str = "site";
/// The rows of the fixture, and the most of them that the page draws at once.
const MANY: usize = 5_000;
const DRAWN: u64 = 200;
/// The longest time for which the page may not react.
const BLOCKED: f64 = 1_000.0;

/// The table lists both clusters with their state, and filters by label, `ClusterSet`, version, text and state without another load.
pub(crate) async fn fleet_page_lists_clusters_and_filters_them(stage: &Stage) -> Result<()> {
    let ui = Ui::open(stage).await?;
    let cluster = stage.hub.read(&At::cluster("spoke1")).await?;
    let before = &cluster["metadata"]["labels"];
    label(stage, json!({SITE: "paris", CLUSTER_SET: "blue"})).await?;

    let mut page = ui.page().await?;
    page.goes(fleet_page()).await?;
    let both = ["spoke1", "spoke2", "connected", env!("CARGO_PKG_VERSION")];
    page.until(TABLE, &both, &[]).await?;
    // The page shows a change of the labels by itself.
    page.fills("searchbox", "Labels", "site=paris").await?;
    page.until(TABLE, &["spoke1"], &["spoke2"]).await?;
    page.until_shows(&["1 of 2 clusters"]).await?;
    page.clicks("button", "clear filters").await?;
    page.until(TABLE, &both, &[]).await?;
    page.chooses("ClusterSet", "blue").await?;
    page.until(TABLE, &["spoke1"], &["spoke2"]).await?;
    page.clicks("button", "clear filters").await?;
    page.chooses("Version", env!("CARGO_PKG_VERSION")).await?;
    page.fills("searchbox", "Text", "spoke2").await?;
    page.until(TABLE, &["spoke2"], &["spoke1"]).await?;
    page.clicks("button", "clear filters").await?;
    page.clicks("button", "being removed").await?;
    page.until(TABLE, &[], &["spoke1", "spoke2"]).await?;
    page.clicks("button", "clear filters").await?;
    page.until(TABLE, &both, &[]).await?;
    ensure!(page.loads().await? == 1, "a filter loads the page again");
    page.is_innocent().await?;

    label(stage, json!({SITE: null, CLUSTER_SET: before[CLUSTER_SET]})).await
}

async fn label(stage: &Stage, labels: Value) -> Result<()> {
    let labels = json!({"metadata": {"labels": labels}});
    let labelled = stage.hub.merge(&At::cluster("spoke1"), labels).await;
    labelled.map(drop)
}

/// A click on a cluster shows its conditions, its certificate and its facts; a link leads back to the table.
pub(crate) async fn cluster_page_shows_conditions_and_facts(stage: &Stage) -> Result<()> {
    let ui = Ui::open(stage).await?;
    let mut page = ui.page().await?;
    page.goes(fleet_page()).await?;
    page.until(TABLE, &["spoke1"], &[]).await?;
    page.clicks("link", "spoke1").await?;
    let conditions = "[aria-label=Conditions]";
    let texts = ["Available", "True", "AgentConnected", "Degraded", "False"];
    page.until(conditions, &texts, &[]).await?;
    let facts = ["managed", env!("CARGO_PKG_VERSION"), "ends in"];
    page.until("[aria-label=Facts]", &facts, &[]).await?;
    page.until_shows(&["Cluster spoke1", "The last hour"])
        .await?;
    page.clicks("link", "all clusters").await?;
    page.until(TABLE, &["spoke1", "spoke2"], &[]).await?;
    ensure!(page.loads().await? == 1, "a link loads the page again");
    page.is_innocent().await
}

/// With the keys Tab, the arrows and Enter a user filters the table, opens a cluster and returns to its row.
pub(crate) async fn pages_are_used_with_the_keyboard_alone(stage: &Stage) -> Result<()> {
    let ui = Ui::open(stage).await?;
    let mut page = ui.page().await?;
    page.goes(fleet_page()).await?;
    page.until(TABLE, &["spoke1", "spoke2"], &[]).await?;
    let is_text = |it: &Value| it["name"] == "name, version, error";
    page.presses_until("Tab", 30, is_text).await?;
    page.types("spoke").await?;
    // The map before the table is one stop, and so are all rows.
    let is_row = |it: &Value| it["key"].is_string() && it["table"] == "Clusters";
    page.presses_until("Tab", 30, is_row).await?;
    page.presses("Home").await?;
    let first = page.focused().await?["key"].clone();
    page.presses("ArrowDown").await?;
    let second = page.focused().await?["key"].clone();
    ensure!(first == "spoke1" && second == "spoke2", "{first} {second}");
    page.presses("Enter").await?;
    page.until_shows(&["Cluster spoke2", "Conditions"]).await?;
    let heading = page.focused().await?;
    let is_announced = heading["name"].as_str();
    ensure!(is_announced == Some("Cluster spoke2"), "{heading}");
    let is_back = |it: &Value| {
        let name = it["name"].as_str();
        name.is_some_and(|name| name.contains("all clusters"))
    };
    page.presses_until("Shift+Tab", 5, is_back).await?;
    page.presses("Enter").await?;
    page.until(TABLE, &["spoke1", "spoke2"], &[]).await?;
    let row = page.focused().await?;
    ensure!(row["key"] == "spoke2", "the focus is lost: {row}");
    page.is_innocent().await
}

/// A fixture of 5,000 clusters, made of a real answer: the page draws only what is visible, and no task blocks it for a second while
/// it opens, scrolls, filters and sorts.
pub(crate) async fn five_thousand_rows_leave_the_page_responsive(stage: &Stage) -> Result<()> {
    let ui = Ui::open(stage).await?;
    let mut page = ui.page().await?;
    page.goes(fleet_page()).await?;
    page.until(TABLE, &["spoke1"], &[]).await?;
    let fixture = many(ui.fleet(&mut page).await?)?;
    page.becomes(&ui.console.token()?, Theme::Light).await?;
    page.answers(FLEET_API, &fixture).await?;
    page.goes(fleet_page()).await?;
    page.until_shows(&["5000 clusters"]).await?;
    let drawn = page.count(".acda-body-row").await?;
    ensure!((1..DRAWN).contains(&drawn), "{drawn} rows are drawn");
    page.scrolls(".acda-clusters", 90_000).await?;
    page.until(TABLE, &["cluster-2500"], &["cluster-0000"])
        .await?;
    page.fills("searchbox", "Text", "cluster-49").await?;
    page.until_shows(&["100 of 5000 clusters"]).await?;
    page.fills("searchbox", "Text", "").await?;
    page.clicks("button", "Cluster").await?;
    page.until_shows(&["5000 clusters"]).await?;
    let longest = page.longest_task().await?;
    ensure!(longest < BLOCKED, "a task took {longest} ms");
    page.is_innocent().await
}

/// The fleet with copies of its first cluster in place of its clusters.
fn many(mut fleet: Value) -> Result<Value> {
    let one = fleet["clusters"].get(0).context("a cluster")?.clone();
    let copies = (0..MANY).map(|number| {
        let mut copy = one.clone();
        copy["name"] = format!("cluster-{number:04}").into();
        copy["labels"]["zone"] = format!("z{}", number % 7).into();
        copy
    });
    fleet["clusters"] = copies.collect();
    Ok(fleet)
}
