use super::*;
use crate::admission::peer::Connection;
use crate::fleet::Certificates;
use crate::report::Sessions;
use crate::testing::{Authority, SIGNING_KEY, enrolment, name};

mod revoked;

struct Setup {
    gate: Admission,
    fleet: watch::Sender<Arc<Fleet>>,
    active: watch::Sender<bool>,
    uid: watch::Sender<Option<Arc<str>>>,
    reports: watch::Receiver<Sessions>,
    revoked: watch::Sender<Option<Arc<Revoked>>>,
    authority: Authority,
    clock: Clock,
}

fn setup(clusters: &[(&str, Mode)]) -> Setup {
    let clusters = clusters
        .iter()
        .map(|(name, mode)| ((*name).to_owned(), enrolment(*mode)));
    let (fleet, fleet_now) = watch::channel(Arc::new(Fleet {
        clusters: clusters.collect(),
    }));
    let (active, active_now) = watch::channel(true);
    let (uid, uid_now) = watch::channel(Some(Arc::from("principal-uid")));
    let clock = Clock::standing_at(jiff::Timestamp::now());
    let (registry, reports) = Registry::new(clock.clone());
    let authority = Authority::new();
    let (revoked, revoked_now) = watch::channel(Some(Arc::default()));
    let gate = Admission {
        identity: Method::ocm(),
        capabilities: Capabilities::ours(),
        argocd_namespace: "hub-argocd".to_owned(),
        fleet: fleet_now,
        jwt_key: watch::channel(Arc::new(SIGNING_KEY.clone())).1,
        active: active_now,
        principal_uid: uid_now,
        registry,
        metrics: Metrics::default(),
        clock: clock.clone(),
        budget: Budget::default(),
        refusal_budget: RefusalBudget::default(),
        proxies: ["proxy".to_owned()].into(),
        nonces: Nonces::new(),
        material: watch::channel(Arc::new(authority.server().material(&authority))).1,
        revoked: revoked_now,
        passwords: None,
        registrar: None,
        proved: Mutex::default(),
    };
    Setup {
        gate,
        fleet,
        active,
        uid,
        reports,
        revoked,
        authority,
        clock,
    }
}

impl Setup {
    fn verdict(&self, mode: Mode) -> Option<End> {
        self.gate
            .verdict(&name("spoke1"), mode, &peer_credentials(self))
    }

    /// Sets the certificates of `spoke1` that are accepted.
    fn counts(&self, certificates: Certificates) {
        let enrolment = Enrolment {
            certificates,
            ..enrolment(Mode::Managed)
        };
        let clusters = [("spoke1".to_owned(), enrolment)].into();
        self.fleet.send_replace(Arc::new(Fleet { clusters }));
    }

    fn peer(&self, cluster: &str) -> Peer {
        Peer {
            address: ([127, 0, 0, 1], 1).into(),
            certificate: Some(Arc::new(self.authority.agent(cluster).peer_certificate())),
            header: None,
            connection: Connection::default(),
        }
    }
}

fn peer_credentials(setup: &Setup) -> Credentials {
    Credentials::of_certificate(&setup.peer("spoke1").certificate.unwrap())
}

fn request(mode: &str) -> AuthRequest {
    AuthRequest {
        method: "mtls".to_owned(),
        mode: mode.to_owned(),
        version: "0.5.0".to_owned(),
        agent_namespace: "argocd".to_owned(),
        ..AuthRequest::default()
    }
}

#[tokio::test]
async fn an_enrolled_cluster_gets_tokens_and_a_stream() {
    let setup = setup(&[("spoke1", Mode::Managed)]);
    let peer = setup.peer("spoke1");
    let answer = setup
        .gate
        .authenticate(&peer, None, request("managed"))
        .await
        .unwrap();
    assert_eq!(answer.version, "0.5.0", "a Go agent gets its own version");
    assert_eq!(answer.principal_namespace, "hub-argocd");
    assert_eq!(answer.principal_uid, "principal-uid");
    assert_eq!(answer.agent_name, "spoke1");
    let admitted = setup.gate.admit(&peer, &answer.access_token).unwrap();
    assert_eq!(admitted.holder.cluster, name("spoke1"));
    assert_eq!(admitted.holder.announced.namespace, "argocd");
    assert_eq!(
        setup.reports.borrow()["spoke1"].agent_version.as_deref(),
        Some("0.5.0")
    );
}

#[tokio::test]
async fn agent_learns_our_version_and_the_common_capabilities() {
    let setup = setup(&[("spoke1", Mode::Managed)]);
    let words = ["digest-resync".to_owned(), "from-the-future".to_owned()];
    let ours = AuthRequest {
        capabilities: words.to_vec(),
        ..request("managed")
    };
    let answer = setup
        .gate
        .authenticate(&setup.peer("spoke1"), None, ours)
        .await
        .unwrap();
    assert_eq!(answer.version, version::VERSION);
    assert_eq!(answer.capabilities, ["digest-resync"]);

    let ours = AuthRequest {
        capabilities: words.to_vec(),
        ..request("managed")
    };
    let agent = Some("argocd-agent/0.0.9 tonic/0.14");
    setup
        .gate
        .authenticate(&setup.peer("spoke1"), agent, ours)
        .await
        .unwrap();
    assert_eq!(
        setup.reports.borrow()["spoke1"].agent_version.as_deref(),
        Some("0.0.9")
    );
}

#[tokio::test]
async fn refusals_come_in_upstreams_order() {
    let setup = setup(&[("spoke1", Mode::Managed)]);
    let refused = async |cluster: &str, request: AuthRequest| {
        setup
            .gate
            .authenticate(&setup.peer(cluster), None, request)
            .await
            .unwrap_err()
    };
    let unknown = AuthRequest {
        version: String::new(),
        ..request("both")
    };
    assert_eq!(
        refused("spoke1", unknown).await,
        Refusal::UnknownMode("both".to_owned())
    );
    let userpass = AuthRequest {
        method: "userpass".to_owned(),
        ..request("managed")
    };
    assert_eq!(
        refused("spoke1", userpass).await,
        Refusal::AuthenticationFailed
    );
    let stranger = AuthRequest {
        version: String::new(),
        ..request("managed")
    };
    assert_eq!(
        refused("spoke2", stranger.clone()).await,
        Refusal::NotEnrolled
    );
    assert_eq!(refused("spoke1", stranger).await, Refusal::VersionRequired);
    let absurd = AuthRequest {
        version: "x".repeat(1000),
        ..request("managed")
    };
    assert_eq!(refused("spoke1", absurd).await, Refusal::VersionMismatch);
    assert_eq!(
        refused("spoke1", request("autonomous")).await,
        Refusal::NotEnrolled
    );
}

#[tokio::test]
async fn mode_mismatch_is_reported_and_strangers_are_not() {
    let setup = setup(&[("spoke1", Mode::Managed)]);
    assert!(
        setup
            .gate
            .authenticate(&setup.peer("spoke1"), None, request("autonomous"))
            .await
            .is_err()
    );
    assert!(
        setup
            .gate
            .authenticate(&setup.peer("spoke2"), None, request("managed"))
            .await
            .is_err()
    );
    let reports = setup.reports.borrow();
    assert_eq!(
        reports["spoke1"].last_error.as_deref(),
        Some("the agent claims mode autonomous, recorded is managed")
    );
    assert!(!reports.contains_key("spoke2"));
}

#[tokio::test]
async fn a_name_that_begins_like_anothers_opens_nothing() {
    let setup = setup(&[("a", Mode::Managed)]);
    let refused = setup
        .gate
        .authenticate(&setup.peer("ab"), None, request("managed"))
        .await;
    assert_eq!(refused.unwrap_err(), Refusal::NotEnrolled);
    let tokens = setup
        .gate
        .authenticate(&setup.peer("a"), None, request("managed"))
        .await
        .unwrap();
    for token in [&tokens.access_token, &tokens.refresh_token] {
        let stolen = setup.gate.admit(&setup.peer("ab"), token);
        assert_eq!(stolen.unwrap_err(), Refusal::InvalidToken);
    }
}

#[tokio::test]
async fn a_refresh_is_good_on_its_own_certificate_only() {
    let setup = setup(&[("spoke1", Mode::Managed)]);
    let peer = setup.peer("spoke1");
    let tokens = setup
        .gate
        .authenticate(&peer, None, request("managed"))
        .await
        .unwrap();
    let fresh = setup.gate.refresh(&peer, &tokens.refresh_token).unwrap();
    assert!(setup.gate.admit(&peer, &fresh.access_token).is_ok());
    assert_eq!(fresh.refresh_token, "", "it is good for long");

    let renewed_certificate = setup.peer("spoke1");
    for (peer, token) in [
        (&renewed_certificate, tokens.refresh_token.as_str()),
        (&setup.peer("spoke2"), &tokens.refresh_token),
        (&peer, &tokens.access_token),
        (&peer, ""),
    ] {
        let refused = setup.gate.refresh(peer, token);
        assert_eq!(refused.unwrap_err(), Refusal::InvalidToken);
    }
}

#[tokio::test]
async fn a_refresh_token_near_its_end_is_replaced() {
    let setup = setup(&[("spoke1", Mode::Managed)]);
    let peer = setup.peer("spoke1");
    let tokens = setup
        .gate
        .authenticate(&peer, None, request("managed"))
        .await
        .unwrap();
    let nearly = jiff::SignedDuration::from_mins(24 * 60 - 1);
    setup.clock.set(setup.clock.now() + nearly);
    let fresh = setup.gate.refresh(&peer, &tokens.refresh_token).unwrap();
    assert_ne!(fresh.refresh_token, "");
    assert_eq!(
        setup.gate.admit(&peer, &tokens.access_token).unwrap_err(),
        Refusal::InvalidToken
    );
}

#[tokio::test]
async fn valid_token_is_rejected_after_unenrolment() {
    let setup = setup(&[("spoke1", Mode::Managed)]);
    let peer = setup.peer("spoke1");
    let tokens = setup
        .gate
        .authenticate(&peer, None, request("managed"))
        .await
        .unwrap();
    assert_eq!(setup.verdict(Mode::Managed), None);
    setup.fleet.send_replace(Arc::default());
    let refresh = setup.gate.refresh(&peer, &tokens.refresh_token);
    assert_eq!(refresh.unwrap_err(), Refusal::NotEnrolled);
    let stream = setup.gate.admit(&peer, &tokens.access_token);
    assert_eq!(stream.unwrap_err(), Refusal::NotEnrolled);
    assert_eq!(setup.verdict(Mode::Managed), Some(End::LeftFleet));
}

#[tokio::test]
async fn a_changed_mode_ends_the_session() {
    let setup = setup(&[("spoke1", Mode::Autonomous)]);
    let verdict = setup.verdict(Mode::Managed);
    assert_eq!(verdict, Some(End::ModeChanged));
}

#[tokio::test]
async fn a_replica_that_does_not_serve_refuses_everybody() {
    let setup = setup(&[("spoke1", Mode::Managed)]);
    let peer = setup.peer("spoke1");
    setup.uid.send_replace(None);
    let starting = setup
        .gate
        .authenticate(&peer, None, request("managed"))
        .await;
    assert_eq!(
        starting.unwrap_err(),
        Refusal::NotActive("starting".to_owned())
    );
    setup.active.send_replace(false);
    let standby = setup
        .gate
        .authenticate(&peer, None, request("managed"))
        .await;
    assert_eq!(
        standby.unwrap_err(),
        Refusal::NotActive("standby".to_owned())
    );
    assert_eq!(setup.verdict(Mode::Managed), Some(End::Inactive));
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_asks_in_a_loop_is_slowed() {
    let setup = setup(&[("spoke1", Mode::Managed)]);
    let peer = setup.peer("spoke1");
    let mut last = Ok(AuthResponse::default());
    for _ in 0..40 {
        last = setup
            .gate
            .authenticate(&peer, None, request("managed"))
            .await;
    }
    assert_eq!(last.unwrap_err(), Refusal::TooMany);
}

/// Enrols every cluster.
#[derive(Debug)]
struct Welcoming(watch::Sender<Arc<Fleet>>);

impl Registrar for Welcoming {
    fn register(&self, cluster: ClusterName, mode: Mode) -> BoxFuture<'_, bool> {
        self.0.send_modify(|fleet| {
            Arc::make_mut(fleet)
                .clusters
                .insert(cluster.to_string(), enrolment(mode));
        });
        Box::pin(async { true })
    }
}

#[tokio::test]
async fn registrar_enrols_authenticated_agents_only() {
    let mut setup = setup(&[]);
    let peer = setup.peer("spoke1");
    let strict = setup
        .gate
        .authenticate(&peer, None, request("managed"))
        .await;
    assert_eq!(strict.unwrap_err(), Refusal::NotEnrolled);
    setup.gate.registrar = Some(Arc::new(Welcoming(setup.fleet.clone())));
    let stranger = Peer {
        certificate: Some(Arc::new(
            setup.authority.client("stranger").peer_certificate(),
        )),
        ..peer.clone()
    };
    let refused = setup
        .gate
        .authenticate(&stranger, None, request("managed"))
        .await;
    assert_eq!(refused.unwrap_err(), Refusal::AuthenticationFailed);
    setup
        .revoked
        .send_replace(Some(Arc::new(Revoked::read(["cluster.spoke1"]))));
    let refused = setup
        .gate
        .authenticate(&peer, None, request("managed"))
        .await;
    assert_eq!(refused.unwrap_err(), Refusal::Revoked);
    assert!(setup.fleet.borrow().clusters.is_empty());
    setup.revoked.send_replace(Some(Arc::default()));
    assert!(
        setup
            .gate
            .authenticate(&peer, None, request("managed"))
            .await
            .is_ok()
    );
    assert_eq!(setup.fleet.borrow().clusters.len(), 1);
}
