mod conditions;

use std::convert::Infallible;

use http::{Request, Response};
use kube::{Client, client::Body};

use super::*;
use crate::{
    api::addon::Version,
    sdk::{Metrics, View, event::Events, queue::PendingWork},
};
use samples::{Author, author, cluster_name, observed};

/// A hub that refuses every write.
fn hub() -> Hub<Author> {
    let refuse = |_: Request<Body>| async {
        let refused = Response::builder().status(403).body(Body::empty());
        Ok::<_, Infallible>(refused.unwrap())
    };
    hub_of(Client::new(tower::service_fn(refuse), "default"))
}

fn hub_of(client: Client) -> Hub<Author> {
    let addon = Arc::new(author(Vec::new()));
    Hub {
        events: Events::new(client.clone(), addon.name(), Metrics::default()),
        addon,
        client,
        version: Version::V1Beta1,
        world: Arc::clone(View::new().world()),
        metrics: Metrics::default(),
        pending: PendingWork::default(),
    }
}

#[tokio::test]
async fn an_event_is_repeated_for_a_recreated_add_on() {
    let (hub, name, now) = (hub(), cluster_name(), Timestamp::UNIX_EPOCH);
    let addon = observed().addon.unwrap();
    let emits = async || {
        let about = regarding(&hub, &name, Some(&addon));
        hub.events.warn(None, about, "NotTakenIn", "").await
    };
    assert!(emits().await);
    assert!(!emits().await);
    // The cache has neither an add-on nor works.
    reconcile(&hub, &name, now).await.unwrap();
    assert!(emits().await);
}
