//! The state pages of a running principal.

use principal::store::Memory;
use protocol::{Kind, Target, Verb};
use runtime::admin::Page;
use serde_json::Value;

use crate::{
    agent::{Agent, Caller, request},
    world::{World, application, bounded},
};

/// Waits until the state of a cluster is so.
async fn until(
    world: &World,
    cluster: &str,
    context: &str,
    fits: impl Fn(&Value) -> bool,
) -> Value {
    let looking = async {
        loop {
            let page = world.state.page(&Page::default());
            let rows = page["clusters"].as_array().unwrap();
            let row = rows.iter().find(|it| it["cluster"] == cluster);
            if let Some(row) = row.filter(|row| fits(row)) {
                return row.clone();
            }
            tokio::task::yield_now().await;
        }
    };
    bounded(context, looking).await
}

#[tokio::test]
async fn the_state_follows_a_session_and_shows_no_secret() {
    let world = World::set(Memory::new(), &["a", "b"], |_settings| {}).await;
    let mut canary = application("a", "canary-shop");
    canary["spec"]["source"]["helm"]["values"] = "password: canary-in-a-spec".into();
    world.create(canary);
    let is_enrolled = |row: &Value| row["enrolled"] == "managed";
    let row = until(&world, "a", "enrolled", is_enrolled).await;
    assert_eq!(row["connected"], false);
    assert_eq!(row["session"], Value::Null);

    let tokens = Caller::new(&world, &world.certificate("a")).await;
    let tokens = tokens.authenticate(request()).await.unwrap();
    let mut agent = Agent::empty(&world, "a").await;
    let waits = |row: &Value| row["session"]["inFlight"].as_u64() > Some(0);
    let row = until(&world, "a", "something is not acknowledged", waits).await;
    assert_eq!(
        (&row["connected"], &row["mode"]),
        (&true.into(), &"managed".into())
    );
    // The agent acknowledges everything that it reads.
    agent
        .event(Target::Object(Kind::Application), Verb::Create)
        .await;
    let is_done = |row: &Value| row["session"]["inFlight"] == 0;
    let row = until(&world, "a", "all is acknowledged", is_done).await;
    assert_eq!(row["session"]["outboxObjects"], 0);
    assert!(row["session"]["lastResyncSecondsAgo"].is_u64(), "{row}");

    let page = world.state.page(&Page::default()).to_string();
    let counted = world.metrics();
    let tokens = [&tokens.access_token, &tokens.refresh_token];
    let parts = tokens.iter().flat_map(|token| token.split('.'));
    for canary in parts.chain(["canary", "PRIVATE KEY", "BEGIN", "eyJ"]) {
        assert!(!page.contains(canary), "{canary} in {page}");
        assert!(!counted.contains(canary), "{canary} in {counted}");
    }
    let is_counted = |line: &str| counted.lines().any(|it| it == line);
    assert!(
        is_counted("argocd_principal_enrolled_clusters{mode=\"managed\"} 2.0"),
        "{counted}"
    );
    assert!(
        is_counted("argocd_principal_sessions{mode=\"managed\"} 1.0"),
        "{counted}"
    );

    drop(agent);
    let is_away = |row: &Value| row["connected"] == false;
    let left = until(&world, "a", "disconnected", is_away).await;
    assert!(left["lastError"].is_string(), "{left}");
    assert_eq!(left["session"], Value::Null);
}
