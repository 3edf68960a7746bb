//! The pages of lists, as an API server receives them.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use http::{Request, Response};
use kube::{Client, client::Body};
use serde_json::json;
use tokio::time::timeout;

use super::*;
use crate::sdk::reconcile::samples::{Author, hub_of};

/// The largest object that etcd takes with its default.
const LARGEST: u32 = 1536 * 1024;
const MOST: u32 = 32 * 1024 * 1024;

/// The `limit` of each list, by resource.
type Limits = Arc<Mutex<BTreeMap<String, u32>>>;

/// A hub whose API has no objects, and the limits of its lists.
fn listed() -> (Arc<Hub<Author>>, Limits) {
    let limits = Limits::default();
    let seen = Arc::clone(&limits);
    let service = move |request: Request<Body>| {
        let path = request.uri().path().rsplit('/').next();
        let query = request.uri().query().unwrap_or_default();
        let limit = query.split('&').find_map(|it| it.strip_prefix("limit="));
        if let (Some(resource), Some(Ok(limit))) = (path, limit.map(str::parse)) {
            seen.lock().unwrap().insert(resource.to_owned(), limit);
        }
        let list = json!({"metadata": {"resourceVersion": "1"}, "items": []});
        let body = Body::from(serde_json::to_vec(&list).unwrap());
        async { Ok::<_, Infallible>(Response::new(body)) }
    };
    let client = Client::new(tower::service_fn(service), "default");
    (Arc::new(hub_of(client)), limits)
}

#[tokio::test(start_paused = true)]
async fn a_page_of_certificate_requests_of_any_size_is_bounded() {
    for signer in [None, Some("example.com/signer".to_owned())] {
        let (hub, limits) = listed();
        let following = timeout(Duration::from_secs(1), hub.requests(signer)).await;
        assert!(following.is_err());
        let limit = limits.lock().unwrap()["certificatesigningrequests"];
        assert!(limit > 1 && limit * LARGEST <= MOST, "{limit} in a page");
    }
}

#[tokio::test(start_paused = true)]
async fn works_are_listed_in_pages() {
    let (hub, limits) = listed();
    let following = timeout(Duration::from_secs(1), hub.works()).await;
    assert!(following.is_err());
    assert_eq!(limits.lock().unwrap()["manifestworks"], PAGE);
}
