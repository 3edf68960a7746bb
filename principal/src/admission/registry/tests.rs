use super::*;
use crate::{
    admission::identity::PeerCertificate,
    report::{ShownCertificate, Traffic},
};
use rustls_pki_types::CertificateDer;

fn certificate() -> Arc<Credentials> {
    let key = rcgen::KeyPair::generate().unwrap();
    let der = rcgen::CertificateParams::default()
        .self_signed(&key)
        .unwrap()
        .der()
        .to_vec();
    let certificate = PeerCertificate::from_chain(&[CertificateDer::from(der)]).unwrap();
    Arc::new(Credentials::of_certificate(&Arc::new(certificate)))
}

fn name(raw: &str) -> ClusterName {
    ClusterName::try_from(raw).unwrap()
}

fn setup() -> (Registry, watch::Receiver<Sessions>, Clock) {
    let clock = Clock::standing_at("2026-01-01T00:00:00Z".parse().unwrap());
    let (registry, reports) = Registry::new(clock.clone());
    (registry, reports, clock)
}

#[tokio::test(start_paused = true)]
async fn a_newer_session_waits_for_the_older_to_go() {
    let (registry, reports, _) = setup();
    let (a, cert) = (name("a"), certificate());
    let older = registry
        .acquire_slot(&a, Mode::Managed, &cert)
        .await
        .unwrap();
    let newer = registry.acquire_slot(&a, Mode::Managed, &cert);
    tokio::pin!(newer);
    assert!(futures::poll!(&mut newer).is_pending());
    assert_eq!(older.ended().await, End::Superseded);
    drop(older);
    let newer = newer.await.unwrap();
    assert!(
        reports.borrow()["a"].connected,
        "the older's end is not the cluster's"
    );
    drop(newer);
    assert!(!reports.borrow()["a"].connected);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_does_not_end_is_left_behind() {
    let (registry, _, _) = setup();
    let (a, cert) = (name("a"), certificate());
    let stuck = registry
        .acquire_slot(&a, Mode::Managed, &cert)
        .await
        .unwrap();
    let newer = registry
        .acquire_slot(&a, Mode::Managed, &cert)
        .await
        .unwrap();
    assert_ne!(stuck.id(), newer.id());
    drop(stuck);
    assert!(registry.slots.lock().live.contains_key("a"));
}

#[tokio::test]
async fn name_prefix_of_another_cluster_has_its_own_session_slot() {
    let (registry, reports, _) = setup();
    let cert = certificate();
    let a = registry
        .acquire_slot(&name("a"), Mode::Managed, &cert)
        .await
        .unwrap();
    let ab = registry
        .acquire_slot(&name("ab"), Mode::Managed, &cert)
        .await
        .unwrap();
    assert!(futures::poll!(Box::pin(a.ended())).is_pending());
    registry.end_where(|cluster, _, _| (cluster.as_str() == "a").then_some(End::LeftFleet));
    assert_eq!(a.ended().await, End::LeftFleet);
    registry.keep(|cluster| cluster != "a");
    assert_eq!(reports.borrow().keys().collect::<Vec<_>>(), ["ab"]);
    drop(ab);
}

#[tokio::test]
async fn session_report_has_the_time_and_reason_of_the_end() {
    let (registry, reports, clock) = setup();
    let (a, cert) = (name("a"), certificate());
    registry.reports.authenticated(&a, Mode::Managed, "1.2.3");
    let mut session_slot = registry
        .acquire_slot(&a, Mode::Managed, &cert)
        .await
        .unwrap();
    let later = "2026-01-01T01:00:00Z".parse().unwrap();
    clock.set(later);
    session_slot.end_reason = Some("connection lost".to_owned());
    drop(session_slot);
    let shown = cert.certificate.as_ref().unwrap();
    let expected = SessionReport {
        connected: false,
        since: later,
        last_seen: Some(later),
        last_error: Some("connection lost".to_owned()),
        agent_version: Some("1.2.3".to_owned()),
        mode: Some(Mode::Managed),
        certificate: Some(ShownCertificate {
            not_before: shown.not_before,
            not_after: shown.not_after,
            authority: shown.authority.clone(),
        }),
        ..SessionReport::default()
    };
    assert_eq!(*reports.borrow()["a"], expected);
}

#[tokio::test]
async fn report_of_a_cluster_that_left_the_fleet_ends_with_its_session() {
    let (registry, reports, _) = setup();
    let session_slot = registry
        .acquire_slot(&name("a"), Mode::Managed, &certificate())
        .await
        .unwrap();
    registry.end_where(|_, _, _| Some(End::LeftFleet));
    drop(session_slot);
    assert!(reports.borrow().is_empty());
}

#[tokio::test]
async fn refusal_is_reported_without_ending_the_session() {
    let (registry, reports, _) = setup();
    let (a, cert) = (name("a"), certificate());
    let session_slot = registry
        .acquire_slot(&a, Mode::Managed, &cert)
        .await
        .unwrap();
    registry.reports.refused(&a, "wrong mode");
    let report = Arc::clone(&reports.borrow()["a"]);
    assert!(report.connected);
    assert_eq!(report.last_error.as_deref(), Some("wrong mode"));
    drop(session_slot);
}

#[tokio::test(start_paused = true)]
async fn contested_session_slot_makes_the_newer_agent_wait() {
    let (registry, reports, _) = setup();
    let (a, cert) = (name("a"), certificate());
    let acquire = async || registry.acquire_slot(&a, Mode::Managed, &cert).await;
    let mut incumbent = acquire().await.unwrap();
    // A superseded agent ends at once and reconnects.
    while !incumbent.take_contested() {
        let (newer, end) = tokio::join!(acquire(), async {
            let end = incumbent.ended().await;
            drop(incumbent);
            end
        });
        assert_eq!(end, End::Superseded);
        incumbent = newer.unwrap();
    }
    let begun = Instant::now();
    assert_eq!(acquire().await.unwrap_err(), Refusal::Contested);
    assert_eq!(begun.elapsed(), SLOT_WAIT);
    assert!(
        incumbent.take_contested(),
        "the session learns of the contest"
    );
    assert!(futures::poll!(Box::pin(incumbent.ended())).is_pending());
    assert!(reports.borrow()["a"].connected);
    let mut waiting = Box::pin(acquire());
    assert!(futures::poll!(&mut waiting).is_pending());
    drop(incumbent);
    drop(waiting.await.unwrap());
    // With the cluster its quarrel is forgotten.
    registry.keep(|_| false);
    assert!(registry.slots.lock().contests.is_empty());
}

#[tokio::test]
async fn report_of_one_cluster_copies_no_other_report() {
    let (registry, reports, _) = setup();
    for cluster in ["a", "b"] {
        registry.reports.refused(&name(cluster), "before");
    }
    let before = Arc::clone(&reports.borrow());
    registry.reports.refused(&name("a"), "after");
    let after = Arc::clone(&reports.borrow());
    assert!(Arc::ptr_eq(&before["b"], &after["b"]));
    assert_eq!(after["a"].last_error.as_deref(), Some("after"));
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_was_shed_stays_out_for_a_minute_and_is_reported() {
    let (registry, reports, clock) = setup();
    let (a, b, cert) = (name("a"), name("b"), certificate());
    let acquire = |of| registry.acquire_slot(of, Mode::Managed, &cert);
    let costly = acquire(&a).await.unwrap();
    let other = acquire(&b).await.unwrap();
    registry.shed(&a, 40);
    assert_eq!(costly.ended().await, End::Memory);
    assert!(futures::poll!(Box::pin(other.ended())).is_pending());
    drop(costly);
    let shed = || reports.borrow()["a"].shed.as_ref().map(|it| it.mib);
    assert_eq!(shed(), Some(40));
    assert_eq!(acquire(&a).await.err(), Some(Refusal::ShortOfMemory));
    tokio::time::advance(KEPT_OUT).await;
    let back = acquire(&a).await.unwrap();
    assert_eq!(shed(), Some(40), "forgotten too early");
    back.report(SessionReport::forget_shed);
    assert_eq!(shed(), Some(40), "forgotten too early");
    drop(back);
    clock.set(clock.now() + Duration::from_mins(10));
    drop(acquire(&a).await.unwrap());
    assert_eq!(shed(), None);
}

#[tokio::test(start_paused = true)]
async fn sessions_and_reports_of_a_cluster_are_counted_until_it_leaves() {
    let (registry, _reports, _) = setup();
    let (a, b, cert) = (name("a"), name("b"), certificate());
    assert!(registry.traffic().is_empty());
    for cluster in [&a, &a, &b] {
        let slot = registry
            .acquire_slot(cluster, Mode::Managed, &cert)
            .await
            .unwrap();
        slot.counter().count_report();
    }
    let slot = registry
        .acquire_slot(&a, Mode::Managed, &cert)
        .await
        .unwrap();
    let traffic = registry.traffic();
    let counts = |cluster: &str| {
        let of: Traffic = traffic[cluster];
        (of.sessions, of.reports)
    };
    assert_eq!(counts("a"), (3, 2));
    assert_eq!(counts("b"), (1, 1));
    registry.keep(|cluster| cluster == "b");
    assert_eq!(registry.traffic().into_keys().collect::<Vec<_>>(), ["b"]);
    slot.counter().count_report();
    assert!(!registry.traffic().contains_key("a"));
}
