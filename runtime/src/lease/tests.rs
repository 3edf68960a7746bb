use ::kube::client::Body;
use http::{Method, Request, Response};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::parts::Parts;

fn me() -> Candidate {
    Candidate {
        namespace: "ns".to_owned(),
        name: "lease".to_owned(),
        identity: "pod-a_1_2".to_owned(),
        pod: Some("pod-a".to_owned()),
    }
}

fn lease_of(holder: Option<&str>) -> Lease {
    Lease {
        spec: Some(LeaseSpec {
            holder_identity: holder.map(ToOwned::to_owned),
            lease_duration_seconds: Some(15),
            ..LeaseSpec::default()
        }),
        ..Lease::default()
    }
}

#[tokio::test(start_paused = true)]
async fn free_lease_is_taken_and_own_lease_is_renewed() {
    let now = Instant::now();
    assert_eq!(plan(None, &me(), None, now), Step::Create);
    assert_eq!(plan(Some(&lease_of(None)), &me(), None, now), Step::Take);
    assert_eq!(
        plan(Some(&lease_of(Some("pod-a_1_2"))), &me(), None, now),
        Step::Renew
    );
}

#[test]
fn holder_stops_before_the_next_leader_starts() {
    // One late read sees the last change, another one takes the lease.
    let latest = DURATION + RETRY + RETRY;
    assert!(latest < Duration::from_secs(15));
    assert!(RENEW_DEADLINE + RETRY < DURATION);
}

#[tokio::test(start_paused = true)]
async fn lease_of_another_is_taken_after_its_duration_without_change() {
    let begun = Instant::now();
    let lease = lease_of(Some("other"));
    let seen = observe(None, Some(&lease), begun);
    assert_eq!(plan(Some(&lease), &me(), seen.as_ref(), begun), Step::Wait);

    let mut renewed = lease.clone();
    renewed.spec.as_mut().unwrap().lease_transitions = Some(1);
    let later = begun + Duration::from_secs(14);
    let seen = observe(seen, Some(&renewed), later);
    let then = later + Duration::from_secs(14);
    assert_eq!(plan(Some(&renewed), &me(), seen.as_ref(), then), Step::Wait);

    let seen = observe(seen, Some(&renewed), then);
    let over = later + Duration::from_secs(15);
    assert_eq!(plan(Some(&renewed), &me(), seen.as_ref(), over), Step::Take);
}

#[tokio::test(start_paused = true)]
async fn lease_of_an_earlier_process_of_our_pod_is_taken_at_once() {
    let now = Instant::now();
    let step = |holder, me: &Candidate| plan(Some(&lease_of(Some(holder))), me, None, now);
    assert_eq!(step("pod-a_1_1", &me()), Step::Take);
    for other in ["pod-ab_1_1", "pod_1_1", "pod-a", "_1_1"] {
        assert_eq!(step(other, &me()), Step::Wait, "{other}");
    }
    // Outside of a Pod, two processes of a name may run at a time.
    let outside = Candidate { pod: None, ..me() };
    assert_eq!(step("pod-a_1_1", &outside), Step::Wait);
}

/// An API with one Lease. It fails every request while `fails` is true.
fn api(fails: watch::Receiver<bool>, stored: watch::Sender<Option<Value>>) -> Client {
    let service = tower::service_fn(move |request: Request<Body>| {
        let (fails, stored) = (*fails.borrow(), stored.clone());
        async move {
            let (method, body) = (request.method().clone(), request.into_body());
            if fails {
                return Err(std::io::Error::other("no API"));
            }
            if method != Method::GET {
                let written = body.collect_bytes().await.unwrap();
                stored.send_replace(Some(serde_json::from_slice(&written).unwrap()));
            }
            let lease = stored.borrow().clone();
            let (code, answer) = lease.map_or_else(
                || {
                    (
                        404,
                        json!({ "kind": "Status", "code": 404, "reason": "NotFound" }),
                    )
                },
                |lease| (200, lease),
            );
            let answer = Body::from(answer.to_string().into_bytes());
            let response = Response::builder().status(code).body(answer);
            response.map_err(std::io::Error::other)
        }
    });
    Client::new(service, "ns")
}

#[tokio::test(start_paused = true)]
async fn leader_without_the_api_stops_and_its_writes_end_before_the_lease() {
    let (outage, fails) = watch::channel(false);
    let parts = Parts::new(CancellationToken::new());
    let (fence, clock) = (
        Fence::closed(),
        Clock::of_runtime(jiff::Timestamp::UNIX_EPOCH),
    );
    let api = api(fails, watch::Sender::new(None));
    let mut leading = campaign(api, me(), clock, fence.clone(), &parts.spawner());
    assert!(
        fence.check().is_err(),
        "nothing is written before the lease"
    );
    leading.wait_for(|leads| *leads).await.unwrap();
    assert_eq!(fence.check(), Ok(()));
    outage.send_replace(true);
    let begun = Instant::now();
    leading.wait_for(|leads| !*leads).await.unwrap();
    assert_eq!(fence.check(), Ok(()), "its parts may finish");
    while fence.check().is_ok() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let wrote = begun.elapsed();
    assert!(
        wrote < DURATION && wrote + TRAVEL + RETRY > DURATION,
        "{wrote:?}"
    );
    parts.crash().await;
}

#[tokio::test(start_paused = true)]
async fn no_write_leaves_after_the_lease_is_released() {
    let (_outage, fails) = watch::channel(false);
    let stored = watch::Sender::new(None);
    let token = CancellationToken::new();
    let parts = Parts::new(token.clone());
    let (fence, clock) = (
        Fence::closed(),
        Clock::of_runtime(jiff::Timestamp::UNIX_EPOCH),
    );
    let api = api(fails, stored.clone());
    let mut leading = campaign(api, me(), clock, fence.clone(), &parts.spawner());
    leading.wait_for(|leads| *leads).await.unwrap();
    token.cancel();
    let is_released = |lease: &Option<Value>| {
        let spec = lease.as_ref().map(|lease| &lease["spec"]);
        spec.is_some_and(|spec| spec["holderIdentity"].is_null())
    };
    stored.subscribe().wait_for(is_released).await.unwrap();
    assert_eq!(fence.check(), Err(Refused));
    parts.run_until_stopped(RETRY).await.unwrap();
}
