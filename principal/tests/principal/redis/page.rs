//! What Argo CD's page of clusters reads of a cluster.

use std::sync::Arc;

use principal::Fleet;
use protocol::{Event, payload::ClusterInfo, payload::SpokeInfo};
use serde_json::json;
use tokio::net::TcpStream;

use super::{Client, Redis, Value, world};
use crate::{
    agent::Agent,
    world::{World, bounded},
};

const SERVER: &str = "https://proxy.ns.svc:9090?agentName=a";
const KEY: &str = "cluster|info|https://proxy.ns.svc:9090?agentName=a|1.8.3";

/// The hub's cluster Secret of cluster a leads there.
fn known_as(world: &World, server: &str) {
    let mut fleet = Fleet::clone(&world.fleet.borrow());
    let enrolment = fleet.clusters.get_mut("a").unwrap();
    enrolment.server = Some(server.to_owned());
    world.fleet.send_replace(Arc::new(fleet));
}

async fn page(client: &mut Client<TcpStream>) -> Option<serde_json::Value> {
    let value = client.ask(&["get", KEY]).await;
    let json = value.as_bytes()?;
    Some(serde_json::from_slice(json).unwrap())
}

/// Waits until the page is so.
async fn until(
    client: &mut Client<TcpStream>,
    context: &str,
    fits: impl Fn(Option<&serde_json::Value>) -> bool,
) -> Option<serde_json::Value> {
    let looking = async {
        loop {
            let page = page(client).await;
            if fits(page.as_ref()) {
                return page;
            }
        }
    };
    bounded(context, looking).await
}

fn is(status: &str) -> impl Fn(Option<&serde_json::Value>) -> bool {
    move |page| page.is_some_and(|page| page["connectionState"]["status"] == status)
}

#[tokio::test]
async fn clusters_page_shows_connection_state_and_counts() {
    let redis = Redis::start().await;
    let world = world(redis.address.to_string(), false).await;
    known_as(&world, SERVER);
    let mut client = Client::of(&world).await;
    until(&mut client, "the fleet is known", is("Failed")).await;

    let mut agent = Agent::empty(&world, "a").await;
    let counted = SpokeInfo {
        applications_count: Some(2),
        apis_count: Some(50),
        resources_count: Some(300),
        server_version: Some("1.36".to_owned()),
        ..SpokeInfo::default()
    };
    agent.send_and_ack(Event::spoke_info(&counted)).await;
    let up = page(&mut client).await.unwrap();
    assert!(is("Successful")(Some(&up)), "{up}");
    assert_eq!(up["serverVersion"], "1.36");
    let counts = json!({"resourcesCount": 300, "apisCount": 50});
    assert_eq!(
        (&up["cacheInfo"], &up["applicationsCount"]),
        (&counts, &json!(2))
    );
    // Go's agent says numbers only.
    let less = ClusterInfo {
        applications_count: 1,
        ..ClusterInfo::default()
    };
    agent.send_and_ack(Event::cluster_info(&less)).await;
    assert_eq!(page(&mut client).await.unwrap()["applicationsCount"], 1);
    agent.send_and_ack(Event::spoke_info(&counted)).await;

    drop(agent);
    world
        .reported("its end", |reports| !reports["a"].connected)
        .await;
    let away = page(&mut client).await.unwrap();
    assert!(is("Failed")(Some(&away)), "{away}");
    let message = away["connectionState"]["message"].as_str().unwrap();
    assert!(
        message.starts_with("the agent of a is not connected (since"),
        "{message}"
    );
    assert_eq!(away["cacheInfo"], counts, "what was known last");

    // The hub's own cluster, and one of which nothing is known, are its redis's business.
    let own = "cluster|info|https://kubernetes.default.svc|1.8.3";
    assert_eq!(client.ask(&["set", own, "own"]).await, Value::ok());
    assert_eq!(client.ask(&["get", own]).await, Value::bytes("own"));
    known_as(&world, "https://elsewhere");
    until(&mut client, "the Secret leads elsewhere", |page| {
        page.is_none()
    })
    .await;
}
