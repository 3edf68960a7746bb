use super::*;
use crate::{admission::identity::PeerCertificate, report::ShownCertificate};
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
    let mut older = registry
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
    assert!(registry.lock().live.contains_key("a"));
}

#[tokio::test]
async fn a_cluster_whose_name_begins_like_anothers_has_its_own_seat() {
    let (registry, reports, _) = setup();
    let cert = certificate();
    let mut a = registry
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
async fn a_report_tells_when_and_why_a_session_ended() {
    let (registry, reports, clock) = setup();
    let (a, cert) = (name("a"), certificate());
    registry.report_authenticated(&a, Mode::Managed, "1.2.3");
    let mut session_slot = registry
        .acquire_slot(&a, Mode::Managed, &cert)
        .await
        .unwrap();
    let later = "2026-01-01T01:00:00Z".parse().unwrap();
    clock.set(later);
    session_slot.ends_because("connection lost");
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
            not_before: shown.not_before(),
            not_after: shown.not_after(),
            authority: shown.authority().cloned(),
        }),
        ..SessionReport::default()
    };
    assert_eq!(reports.borrow()["a"], expected);
}

#[tokio::test]
async fn who_left_the_fleet_is_forgotten_when_its_session_has_ended() {
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
async fn a_refusal_is_told_without_touching_the_session() {
    let (registry, reports, _) = setup();
    let (a, cert) = (name("a"), certificate());
    let session_slot = registry
        .acquire_slot(&a, Mode::Managed, &cert)
        .await
        .unwrap();
    registry.report_refused(&a, "wrong mode");
    let report = reports.borrow()["a"].clone();
    assert!(report.connected);
    assert_eq!(report.last_error.as_deref(), Some("wrong mode"));
    drop(session_slot);
}

#[tokio::test(start_paused = true)]
async fn contested_session_slot_makes_the_newer_agent_wait() {
    let (registry, reports, _) = setup();
    let (a, cert) = (name("a"), certificate());
    let sit = async || registry.acquire_slot(&a, Mode::Managed, &cert).await;
    let mut sitting = sit().await.unwrap();
    // Whoever is told to go goes at once and comes again.
    while !sitting.take_contested() {
        let (newer, end) = tokio::join!(sit(), async {
            let end = sitting.ended().await;
            drop(sitting);
            end
        });
        assert_eq!(end, End::Superseded);
        sitting = newer.unwrap();
    }
    let begun = Instant::now();
    assert_eq!(sit().await.unwrap_err(), Refusal::Contested);
    assert_eq!(begun.elapsed(), IN_LINE);
    assert!(sitting.take_contested(), "it is told that somebody came");
    assert!(futures::poll!(Box::pin(sitting.ended())).is_pending());
    assert!(reports.borrow()["a"].connected);
    let mut waiting = Box::pin(sit());
    assert!(futures::poll!(&mut waiting).is_pending());
    drop(sitting);
    drop(waiting.await.unwrap());
    // With the cluster its quarrel is forgotten.
    registry.keep(|_| false);
    assert!(registry.lock().contests.is_empty());
}
