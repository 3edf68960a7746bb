//! Proxies that end TLS, and other ways than a certificate of one's own to say who one is.

use principal::{Revoked, admission::identity::PeerCertificate, store::Memory};
use protocol::{
    proof,
    wire::authapi::{AuthRequest, AuthResponse, Proof},
};
use rustls_pki_types::{CertificateDer, pem::PemObject as _};
use tonic::{Code, Status};

use crate::{
    agent::{Agent, Caller, request},
    authority::Leaf,
    world::{World, application, bounded},
};

async fn world() -> World {
    World::set(Memory::new(), &["a", "b"], |settings| {
        settings.trusted_proxies = vec!["edge".to_owned()];
    })
    .await
}

/// Metadata of the agent with this certificate over a connection of a proxy.
async fn proved(world: &World, over: &Caller, leaf: &Leaf, host: &str) -> AuthRequest {
    let version = over.version().await;
    let ours = leaf.material(&world.authority);
    let identity = ours.identity.as_ref().unwrap();
    let signed = proof::signed(host, &version.principal_uid, &version.nonce);
    let signature = identity.sign(&signed).unwrap();
    let chain = identity.chain().iter();
    AuthRequest {
        proof: Some(Proof {
            chain: chain
                .map(|der| bytes::Bytes::copy_from_slice(der))
                .collect(),
            scheme: signature.scheme.into(),
            signature: signature.bytes.into(),
            server_name: host.to_owned(),
            nonce: version.nonce,
        }),
        ..request()
    }
}

fn refused(answer: Result<AuthResponse, Status>, why: &str) {
    let status = answer.unwrap_err();
    assert_eq!(status.code(), Code::Unauthenticated, "{status:?}");
    assert!(status.message().contains(why), "{status:?}");
}

fn refusals(reason: &str, count: u32) -> String {
    format!("argocd_principal_refusals_total{{reason=\"{reason}\"}} {count}")
}

#[tokio::test]
async fn agent_behind_configured_proxy_gets_a_session_by_proof() {
    let world = world().await;
    let edge = Caller::new(&world, &world.authority.client("edge")).await;
    for cluster in ["a", "b"] {
        let leaf = world.certificate(cluster);
        let answer = edge
            .authenticate(proved(&world, &edge, &leaf, "localhost").await)
            .await
            .unwrap();
        assert_eq!(answer.agent_name, cluster);
        // A proxy opens a new connection when it likes.
        let again = Caller::new(&world, &world.authority.client("edge")).await;
        let mut agent = again.subscribe(Some(&answer.access_token)).await.unwrap();
        agent.holds(&[]).await;
        world.create(application(cluster, "app"));
        agent.about("app").await;
        let fresh = edge.refresh(&answer.refresh_token).await.unwrap();
        assert!(!fresh.access_token.is_empty());
    }
}

#[tokio::test]
async fn missing_reused_or_misdirected_proof_is_refused() {
    let world = world().await;
    let edge = Caller::new(&world, &world.authority.client("edge")).await;
    let leaf = world.certificate("a");
    refused(edge.authenticate(request()).await, "there is no proof");
    world.counted(&refusals("ProofMissing", 1)).await;

    let once = proved(&world, &edge, &leaf, "localhost").await;
    assert!(edge.authenticate(once.clone()).await.is_ok());
    refused(edge.authenticate(once).await, "used before");
    world.counted(&refusals("ProofReplayed", 1)).await;

    let elsewhere = proved(&world, &edge, &leaf, "evil.example").await;
    refused(edge.authenticate(elsewhere).await, "dialled a name");
    world.counted(&refusals("ProofServerName", 1)).await;

    let mut stolen = proved(&world, &edge, &leaf, "localhost").await;
    let other = proved(&world, &edge, &world.certificate("b"), "localhost").await;
    stolen.proof.as_mut().unwrap().chain = other.proof.unwrap().chain;
    refused(edge.authenticate(stolen).await, "does not fit");
    world.counted(&refusals("ProofSignature", 1)).await;

    let foreign = crate::authority::Authority::new().agent("a");
    let foreign = proved(&world, &edge, &foreign, "localhost").await;
    refused(edge.authenticate(foreign).await, "not trusted");
    world.counted(&refusals("ProofCertificate", 1)).await;
}

#[tokio::test]
async fn only_configured_proxies_carry_proofs_and_none_is_an_agent() {
    let world = world().await;
    let edge = Caller::new(&world, &world.authority.client("edge")).await;
    let leaf = world.certificate("a");
    for other in [world.authority.client("another"), world.certificate("b")] {
        let caller = Caller::new(&world, &other).await;
        assert!(
            caller.version().await.nonce.is_empty(),
            "only proxies are asked"
        );
        let proof = proved(&world, &edge, &leaf, "localhost").await;
        refused(caller.authenticate(proof).await, "configured proxies");
    }
    world.counted(&refusals("ProofNotAProxy", 2)).await;
    // A proxy of the same name with another certificate cannot use the challenge of the first.
    let second = Caller::new(&world, &world.authority.client("edge")).await;
    let proof = proved(&world, &edge, &leaf, "localhost").await;
    refused(second.authenticate(proof).await, "not one that was given");
    world.counted(&refusals("ProofNonce", 1)).await;
}

#[tokio::test]
async fn proxied_session_tokens_are_valid_over_proxies_only() {
    let world = world().await;
    let edge = Caller::new(&world, &world.authority.client("edge")).await;
    let leaf = world.certificate("a");
    let proxied = edge
        .authenticate(proved(&world, &edge, &leaf, "localhost").await)
        .await
        .unwrap();
    let direct = Caller::new(&world, &leaf).await;
    let own = direct.authenticate(request()).await.unwrap();
    for (caller, token) in [(&direct, &proxied.access_token), (&edge, &own.access_token)] {
        let status = caller.subscribe(Some(token)).await.err().unwrap();
        assert_eq!(status.code(), Code::Unauthenticated);
    }
}

#[tokio::test]
async fn a_revoked_certificate_ends_its_session_at_once_and_no_other() {
    let world = World::with(&["a", "b"]).await;
    let leaf = world.certificate("a");
    let mut agent = Agent::with(&world, &leaf).await;
    let mut other = Agent::empty(&world, "b").await;
    world
        .reported("connected", |reports| reports["a"].connected)
        .await;
    let fingerprint = fingerprint(&leaf);
    world
        .revoked
        .send_replace(Some(Revoked::read([fingerprint.as_str()]).into()));
    let end = agent.end().await;
    assert_eq!(
        (end.code(), end.message()),
        (
            Code::Unauthenticated,
            "its certificate or cluster is revoked"
        )
    );
    world
        .counted("argocd_principal_session_ends_total{reason=\"revoked\"} 1")
        .await;
    let caller = Caller::new(&world, &leaf).await;
    refused(caller.authenticate(request()).await, "revoked");
    world.counted(&refusals("Revoked", 1)).await;
    // The cluster may come back with another certificate, until it is revoked itself.
    let mut renewed = Agent::of(&world, "a").await;
    world
        .revoked
        .send_replace(Some(Revoked::read(["cluster.a"]).into()));
    renewed.end().await;
    world.create(application("b", "app"));
    other.about("app").await;
}

/// As the revocation list names it.
fn fingerprint(leaf: &Leaf) -> String {
    let der = CertificateDer::from_pem_slice(leaf.chain.as_bytes()).unwrap();
    let certificate = PeerCertificate::from_chain(&[der]).unwrap();
    format!("{:?}", certificate.thumbprint).to_ascii_uppercase()
}

fn with_password(user: &str, password: &str) -> AuthRequest {
    let credentials = [("clientid", user), ("clientsecret", password)];
    AuthRequest {
        method: "userpass".to_owned(),
        credentials: credentials
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
        ..request()
    }
}

#[tokio::test]
async fn password_authenticates_until_it_is_changed() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let users = |password: &str| format!("a:{}\n", bcrypt::hash(password, 4).unwrap());
    std::fs::write(file.path(), users("secret")).unwrap();
    let path = file.path().to_owned();
    let world = World::set(Memory::new(), &["a", "b"], |settings| {
        settings.identity = principal::admission::identity::Method::UserPass(path);
    })
    .await;
    let anonymous = Caller::without_certificate(&world).await;
    refused(
        anonymous.authenticate(request()).await,
        "authentication failed",
    );
    refused(
        anonymous.authenticate(with_password("a", "wrong")).await,
        "authentication failed",
    );
    refused(
        anonymous.authenticate(with_password("b", "secret")).await,
        "authentication failed",
    );
    let tokens = anonymous
        .authenticate(with_password("a", "secret"))
        .await
        .unwrap();
    let mut agent = anonymous
        .subscribe(Some(&tokens.access_token))
        .await
        .unwrap();
    agent.holds(&[]).await;
    world.create(application("a", "app"));
    agent.about("app").await;

    std::fs::write(file.path(), users("changed")).unwrap();
    let end = bounded("the end of the old password", agent.end()).await;
    assert_eq!(end.code(), Code::Unauthenticated);
    world
        .counted("argocd_principal_session_ends_total{reason=\"password\"} 1")
        .await;
    let late = anonymous
        .subscribe(Some(&tokens.access_token))
        .await
        .err()
        .unwrap();
    assert_eq!(late.code(), Code::Unauthenticated);
    assert!(
        anonymous
            .authenticate(with_password("a", "changed"))
            .await
            .is_ok()
    );
}

#[tokio::test]
async fn identity_header_authenticates_requests_behind_a_mesh() {
    let world = World::set(Memory::new(), &["a", "b"], |settings| {
        let flag = "header:x-forwarded-client-cert:URI=spiffe://mesh/ns/([^/]+)/sa/agent$";
        settings.identity = principal::admission::identity::Method::from_flag(flag).unwrap();
        settings.plaintext = true;
    })
    .await;
    let meshed = AuthRequest {
        method: "header".to_owned(),
        ..request()
    };
    let caller = |value: &'static str| Caller::plaintext(&world, value);
    let a = caller("By=x;URI=spiffe://mesh/ns/a/sa/agent").await;
    let b = caller("By=x;URI=spiffe://mesh/ns/b/sa/agent").await;
    let anonymous = caller("something else").await;
    refused(
        anonymous.authenticate(meshed.clone()).await,
        "authentication failed",
    );
    refused(a.authenticate(request()).await, "authentication failed");
    let tokens = a.authenticate(meshed).await.unwrap();
    assert_eq!(tokens.agent_name, "a");
    for other in [&b, &anonymous] {
        let status = other
            .subscribe(Some(&tokens.access_token))
            .await
            .err()
            .unwrap();
        assert_eq!(status.code(), Code::Unauthenticated);
    }
    let mut agent = a.subscribe(Some(&tokens.access_token)).await.unwrap();
    agent.holds(&[]).await;
}
