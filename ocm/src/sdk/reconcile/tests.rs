mod conditions;

use std::convert::Infallible;

use http::{Request, Response};
use kube::{Client, client::Body};

use super::*;
use samples::{Author, cluster_name, hub_of, observed};

/// A hub that refuses every write.
fn hub() -> Hub<Author> {
    let refuse = |_: Request<Body>| async {
        let refused = Response::builder().status(403).body(Body::empty());
        Ok::<_, Infallible>(refused.unwrap())
    };
    hub_of(Client::new(tower::service_fn(refuse), "default"))
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
