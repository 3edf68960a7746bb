//! Rejected peers, which do not affect other agents.

use principal::{admission::identity::Method, store::Memory};
use protocol::{Event, Kind, ObjectKey, Target, Verb, wire::eventstreamapi::Event as Frame};
use rcgen::{CertificateParams, DistinguishedName, ExtendedKeyUsagePurpose, SanType};
use runtime::credentials::Material;
use time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tonic::Code;

use crate::{
    agent::{Agent, Caller, request},
    authority::{Authority, Leaf},
    world::{World, application, bounded},
};

const HANDSHAKES: &str = "argocd_principal_handshakes_total";
const REFUSALS: &str = "argocd_principal_refusals_total";
const REFUSED_EVENTS: &str = "argocd_principal_events_refused_total";

fn handshakes(outcome: &str, count: u32) -> String {
    format!("{HANDSHAKES}{{outcome=\"{outcome}\"}} {count}")
}

fn refusals(reason: &str, count: u32) -> String {
    format!("{REFUSALS}{{reason=\"{reason}\"}} {count}")
}

/// With TLS 1.3 a client learns that its certificate was refused when it first reads.
async fn is_shut(world: &World, ours: &Material) -> bool {
    match bounded("handshake", world.tls_with(ours)).await {
        Err(_refused) => true,
        Ok(mut stream) => {
            let mut byte = [0];
            !matches!(bounded("read", stream.read(&mut byte)).await, Ok(1..))
        }
    }
}

#[tokio::test]
async fn a_certificate_of_another_authority_is_refused_by_tls() {
    let world = World::with(&["a"]).await;
    let other = Authority::new();
    assert!(is_shut(&world, &other.agent("a").material(&world.authority)).await);
    world.counted(&handshakes("untrusted", 1)).await;
    Agent::of(&world, "a").await;
}

#[tokio::test]
async fn an_expired_certificate_is_refused_by_tls() {
    let world = World::with(&["a"]).await;
    let expired = world.authority.expired("a");
    assert!(is_shut(&world, &expired.material(&world.authority)).await);
    world.counted(&handshakes("expired", 1)).await;
    Agent::of(&world, "a").await;
}

#[tokio::test]
async fn connection_without_certificate_fails_in_tls() {
    let world = World::with(&["a"]).await;
    let mut anonymous = world.certificate("a").material(&world.authority);
    anonymous.identity = None;
    assert!(is_shut(&world, &anonymous).await);
    world.counted(&handshakes("no_certificate", 1)).await;
    Agent::of(&world, "a").await;
}

#[tokio::test]
async fn server_certificate_is_refused_as_agent_certificate() {
    let world = World::with(&["a"]).await;
    let server = world.authority.server();
    assert!(is_shut(&world, &server.material(&world.authority)).await);
    world.counted(&handshakes("untrusted", 1)).await;
}

#[tokio::test]
async fn certificate_without_cluster_name_is_rejected() {
    let world = World::with(&["a"]).await;
    let forms = [
        "a",
        "system:open-cluster-management:a:agent",
        "system:open-cluster-management:cluster:a:addon:other:agent:argocd-agent-addon",
    ];
    for cn in forms {
        let caller = Caller::new(&world, &world.authority.client(cn)).await;
        let refused = caller.authenticate(request()).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unauthenticated);
        assert_eq!(refused.message(), "authentication failed");
    }
    world.counted(&refusals("AuthenticationFailed", 3)).await;
    assert!(
        world.handle.sessions.borrow().is_empty(),
        "nothing is stored about unidentified peers"
    );
}

/// A world with another identity method.
async fn identified_by(flag: &str, clusters: &[&str]) -> World {
    let method = Method::from_flag(flag).unwrap();
    World::set(Memory::new(), clusters, |settings| {
        settings.identity = method;
    })
    .await
}

/// As SPIRE issues them: who it is stands in the URI names, and nothing in the subject.
fn spiffe(authority: &Authority, ids: &[&str]) -> Leaf {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    let ids = ids.iter().map(|id| SanType::URI((*id).try_into().unwrap()));
    params.subject_alt_names = ids.collect();
    authority.sign(
        params,
        ExtendedKeyUsagePurpose::ClientAuth,
        Duration::hours(1),
    )
}

#[tokio::test]
async fn certificate_subject_names_the_cluster_with_an_own_ca() {
    // The default of the Go principal.
    let world = identified_by("mtls:CN=([^,]+)", &["a", "ab"]).await;
    for cluster in ["a", "ab"] {
        let caller = Caller::new(&world, &world.authority.client(cluster)).await;
        let tokens = caller.authenticate(request()).await.unwrap();
        assert_eq!(tokens.agent_name, cluster);
        assert!(caller.subscribe(Some(&tokens.access_token)).await.is_ok());
    }
    let ocms = Caller::new(&world, &world.certificate("a")).await;
    let refused = ocms.authenticate(request()).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated);
}

#[tokio::test]
async fn spiffe_id_alone_names_the_cluster() {
    let world = identified_by("mtls:uri:^spiffe://hub/agent/([^/]+)$", &["a", "ab"]).await;
    let leaf = spiffe(&world.authority, &["spiffe://hub/agent/a"]);
    let a = Caller::new(&world, &leaf).await;
    let tokens = a.authenticate(request()).await.unwrap();
    assert_eq!(tokens.agent_name, "a");
    let mut session = a.subscribe(Some(&tokens.access_token)).await.unwrap();
    session.holds(&[]).await;

    let authority = &world.authority;
    for anonymous in [
        spiffe(
            authority,
            &["spiffe://hub/agent/a", "spiffe://hub/agent/ab"],
        ),
        spiffe(authority, &["spiffe://hub/agent/a/x"]),
        spiffe(authority, &["spiffe://elsewhere/agent/a"]),
        authority.client("a"),
        world.certificate("a"),
    ] {
        let caller = Caller::new(&world, &anonymous).await;
        let refused = caller.authenticate(request()).await.unwrap_err();
        assert_eq!(refused.message(), "authentication failed");
        let stolen = caller.subscribe(Some(&tokens.access_token)).await;
        assert_eq!(stolen.err().unwrap().code(), Code::Unauthenticated);
    }
    let stranger = spiffe(authority, &["spiffe://hub/agent/stranger"]);
    let caller = Caller::new(&world, &stranger).await;
    let refused = caller.authenticate(request()).await.unwrap_err();
    assert_eq!(refused.message(), "cluster is not enrolled");
    world.create(application("a", "app"));
    session
        .event(Target::Object(Kind::Application), Verb::Create)
        .await;
}

#[tokio::test]
async fn a_cluster_that_is_not_enrolled_is_refused() {
    let world = World::with(&["a"]).await;
    let caller = Caller::new(&world, &world.certificate("ab")).await;
    let refused = caller.authenticate(request()).await.unwrap_err();
    assert_eq!(
        (refused.code(), refused.message()),
        (Code::Unauthenticated, "cluster is not enrolled")
    );
    world.counted(&refusals("NotEnrolled", 1)).await;
    assert!(world.handle.sessions.borrow().is_empty());
}

#[tokio::test]
async fn repeatedly_refused_certificate_is_rejected_unchecked() {
    let world = World::with(&["a"]).await;
    let caller = Caller::new(&world, &world.certificate("ab")).await;
    let mut refused = Vec::new();
    while refused.last() != Some(&Code::ResourceExhausted) {
        assert!(refused.len() < 100, "still checked");
        refused.push(caller.authenticate(request()).await.unwrap_err().code());
    }
    assert!(refused.len() > 30, "an honest agent may retry");
    // One more may be checked when the budget has just been refilled.
    for _ in 0..2 {
        let stream = caller.subscribe(Some("a.b.c")).await.err().unwrap();
        refused.push(stream.code());
    }
    assert_eq!(refused.last(), Some(&Code::Unavailable));
    Agent::of(&world, "a").await;
}

#[tokio::test]
async fn mode_mismatch_is_refused_and_reported() {
    let world = World::with(&["a"]).await;
    let caller = Caller::new(&world, &world.certificate("a")).await;
    let claim = protocol::wire::authapi::AuthRequest {
        mode: "autonomous".to_owned(),
        ..request()
    };
    let refused = caller.authenticate(claim).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated);
    let mentions_both_modes = |why: &str| why.contains("autonomous") && why.contains("managed");
    world
        .reported("why", |reports| {
            reports
                .get("a")
                .and_then(|report| report.last_error.as_deref())
                .is_some_and(mentions_both_modes)
        })
        .await;
}

#[tokio::test]
async fn a_stream_needs_a_token_of_its_own_certificate() {
    let world = World::with(&["a", "ab"]).await;
    let a = Caller::new(&world, &world.certificate("a")).await;
    let ab = Caller::new(&world, &world.certificate("ab")).await;
    let tokens = a.authenticate(request()).await.unwrap();
    let attempts = [
        (&a, None),
        (&a, Some("")),
        (&a, Some("a.b.c")),
        (&a, Some(tokens.refresh_token.as_str())),
        (&ab, Some(tokens.access_token.as_str())),
    ];
    for (caller, token) in attempts {
        let refused = caller.subscribe(token).await.err().unwrap();
        assert_eq!(refused.code(), Code::Unauthenticated);
        assert_eq!(refused.message(), "invalid authentication data");
    }
    world.counted(&refusals("InvalidToken", 5)).await;
    assert!(a.subscribe(Some(&tokens.access_token)).await.is_ok());
}

#[tokio::test]
async fn refresh_token_is_bound_to_its_certificate() {
    let world = World::with(&["a", "ab"]).await;
    let leaf = world.certificate("a");
    let caller = Caller::new(&world, &leaf).await;
    let tokens = caller.authenticate(request()).await.unwrap();
    for other in ["a", "ab"] {
        let thief = Caller::new(&world, &world.certificate(other)).await;
        let refused = thief.refresh(&tokens.refresh_token).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unauthenticated);
    }
    let again = Caller::new(&world, &leaf).await;
    let fresh = again.refresh(&tokens.refresh_token).await.unwrap();
    assert!(again.subscribe(Some(&fresh.access_token)).await.is_ok());
}

#[tokio::test]
async fn garbage_on_the_port_affects_no_session() {
    let world = World::with(&["a"]).await;
    let mut open = Agent::empty(&world, "a").await;
    for garbage in [&[0; 4096][..], &[0xff; 100], b"\x16\x03\x01\xff\xff"] {
        let mut socket = world.tcp().await;
        // The other end may have closed already; that is what it should do.
        drop(socket.write_all(garbage).await);
        drop(socket.shutdown().await);
        let mut rest = Vec::new();
        drop(bounded("closed", socket.read_to_end(&mut rest)).await);
    }
    world.counted(&handshakes("garbage", 3)).await;

    let mut inside = world.tls(&world.certificate("a")).await.unwrap();
    inside
        .write_all(b"this is not HTTP/2 at all, not even nearly")
        .await
        .unwrap();
    let mut rest = Vec::new();
    drop(bounded("closed", inside.read_to_end(&mut rest)).await);

    world.create(application("a", "app"));
    open.event(Target::Object(Kind::Application), Verb::Create)
        .await;
}

#[tokio::test]
async fn an_oversized_message_ends_its_own_session_only() {
    let world = World::with(&["a", "ab"]).await;
    let mut large = Agent::empty(&world, "a").await;
    let mut other = Agent::empty(&world, "ab").await;
    let key = ObjectKey::new(Kind::Application, "argocd", "app");
    let body = vec![b' '; 1 << 20];
    large
        .send(Event::about(
            &key,
            Verb::StatusUpdate,
            "uid",
            "1",
            body.into(),
        ))
        .await;
    let status = large.end().await;
    // A Go agent would read any other end again and again.
    assert_eq!(status.code(), Code::Unavailable);
    assert!(
        status.message().contains("above the size limit"),
        "{status:?}"
    );
    world
        .reported("why", |reports| {
            let why = reports["a"].last_error.as_deref().unwrap_or_default();
            !reports["a"].connected && why.contains("size limit")
        })
        .await;
    world
        .counted("argocd_principal_events_refused_total{reason=\"too_large\"} 1")
        .await;
    world.create(application("ab", "app"));
    other
        .event(Target::Object(Kind::Application), Verb::Create)
        .await;
    assert!(world.handle.sessions.borrow()["ab"].connected);
}

#[tokio::test]
async fn malformed_events_are_counted_and_the_session_goes_on() {
    let world = World::with(&["a"]).await;
    let mut agent = Agent::empty(&world, "a").await;
    agent.send_frame(Frame { event: None }).await;
    agent
        .send_raw(protocol::wire::cloudevents::CloudEvent::default())
        .await;
    let key = ObjectKey::new(Kind::Application, "argocd", "app");
    let unreadable = Event::about(&key, Verb::StatusUpdate, "uid", "1", "no json".into());
    let answered = agent.send_and_ack(unreadable).await;
    assert!(
        answered
            .extensions
            .values()
            .any(|why| why.contains("decode")),
        "{answered:?}"
    );
    world
        .counted(&format!("{REFUSED_EVENTS}{{reason=\"malformed\"}} 3"))
        .await;

    let forbidden = Event::about(&key, Verb::SpecUpdate, "uid", "1", "{}".into());
    agent.send_and_ack(forbidden).await;
    world
        .counted(&format!("{REFUSED_EVENTS}{{reason=\"not_allowed\"}} 1"))
        .await;

    world.create(application("a", "app"));
    agent
        .event(Target::Object(Kind::Application), Verb::Create)
        .await;
}

#[tokio::test]
async fn standby_replica_refuses_and_ends_its_sessions() {
    let world = World::with(&["a"]).await;
    let mut agent = Agent::empty(&world, "a").await;
    world.active.send_replace(false);
    assert_eq!(agent.end().await.code(), Code::Unavailable);
    let caller = Caller::new(&world, &world.certificate("a")).await;
    let refused = caller.authenticate(request()).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable);
    world.active.send_replace(true);
    Agent::of(&world, "a").await;
}
