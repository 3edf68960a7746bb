//! The pages of lists, as an API server receives them.

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use http::{Request, Response};
use kube::{Client, client::Body};
use serde_json::json;
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

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
    assert_eq!(limits.lock().unwrap()["manifestworks"], LARGE_PAGE);
}

/// The lists of a hub.
#[derive(Debug, Default)]
struct Lists {
    under_way: usize,
    /// The most at the same time.
    most: usize,
    /// The resources whose list succeeded.
    done: BTreeSet<String>,
}

/// A hub whose lists take a moment, and whose list of this resource fails.
fn slow(failing: &'static str) -> (Arc<Hub<Author>>, Arc<Mutex<Lists>>) {
    let lists = Arc::<Mutex<Lists>>::default();
    let seen = Arc::clone(&lists);
    let service = move |request: Request<Body>| {
        let seen = Arc::clone(&seen);
        let query = request.uri().query().unwrap_or_default();
        let is_list = query.contains("limit=");
        let path = request.uri().path().to_owned();
        async move {
            if !is_list {
                return std::future::pending().await;
            }
            {
                let mut lists = seen.lock().unwrap();
                lists.under_way += 1;
                lists.most = lists.most.max(lists.under_way);
            }
            sleep(Duration::from_millis(10)).await;
            let mut lists = seen.lock().unwrap();
            lists.under_way -= 1;
            if path.ends_with(failing) {
                let refused = Response::builder().status(403);
                return Ok(refused.body(Body::from(b"{}".to_vec())).unwrap());
            }
            let resource = path.rsplit('/').next().map(str::to_owned);
            lists.done.extend(resource);
            let list = json!({"metadata": {"resourceVersion": "1"}, "items": []});
            let body = Body::from(serde_json::to_vec(&list).unwrap());
            Ok::<_, Infallible>(Response::new(body))
        }
    };
    let client = Client::new(tower::service_fn(service), "default");
    (Arc::new(hub_of(client)), lists)
}

#[tokio::test(start_paused = true)]
async fn one_kind_is_listed_at_a_time_and_a_failure_blocks_no_other() {
    let (hub, lists) = slow("managedclusteraddons");
    let watching = || Arc::clone(&hub);
    let mut watches = JoinSet::new();
    watches.spawn(watching().addons());
    watches.spawn(watching().clusters());
    watches.spawn(watching().works());
    watches.spawn(watching().decisions());
    sleep(Duration::from_secs(10)).await;
    let lists = lists.lock().unwrap();
    assert_eq!(lists.most, 1);
    let others = ["managedclusters", "manifestworks", "placementdecisions"];
    assert_eq!(lists.done, others.map(str::to_owned).into());
}
