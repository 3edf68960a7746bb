//! By upstream's rules: certificates that are called as the cluster, and tokens beside a certificate of all clusters.

use std::{sync::Arc, time::Duration};

use futures::StreamExt as _;
use http::{Request, header::AUTHORIZATION};
use http_body_util::Empty;
use jiff::Timestamp;
use principal::{
    ClusterName, Revoked,
    admission::{
        identity::{PeerCertificate, visitor::Visitors},
        tokens::VISIT_LIFE,
    },
    store::Memory,
};

use crate::{
    authority::Leaf,
    resource_proxy::{AgentTunnel, PODS, ProxyClient, get, read, stream, whole},
    world::{JWT_KEY, World},
};

async fn world(visitors: Visitors) -> World {
    World::set(Memory::new(), &["a", "b"], |settings| {
        settings.resource_proxy = Some(([127, 0, 0, 1], 0).into());
        settings.visitors = visitors;
    })
    .await
}

fn peer(leaf: &Leaf) -> PeerCertificate {
    PeerCertificate::from_pem(&leaf.chain).unwrap()
}

/// What self-registration puts into the cluster Secret of this cluster beside that certificate.
fn token(cluster: &str, certificate: &Leaf) -> String {
    token_of(cluster, certificate, Timestamp::now())
}

fn token_of(cluster: &str, certificate: &Leaf, issued: Timestamp) -> String {
    let cluster = ClusterName::try_from(cluster).unwrap();
    let token = JWT_KEY.issue_visit(&cluster, peer(certificate).thumbprint, issued);
    token.unwrap()
}

fn with_token(token: &str) -> Request<Empty<bytes::Bytes>> {
    let mut request = get(PODS);
    let value = format!("Bearer {token}").parse().unwrap();
    request.headers_mut().insert(AUTHORIZATION, value);
    request
}

/// The status of an accepted request while no agent is connected.
const NOT_CONNECTED: u16 = 502;

#[tokio::test]
async fn bearer_token_grants_its_cluster_with_the_shared_certificate() {
    let world = world(Visitors::Upstream).await;
    let shared = world.authority.client("argocd-agent:of-all");
    let mut proxy_client = ProxyClient::with(&world, &shared).await;
    let (code, message) = proxy_client.fetch(get(PODS)).await;
    assert!(code == 401 && message.contains("certificate"), "{message}");

    let mut tunnel = AgentTunnel::of(&world, "b").await;
    let other = proxy_client.fetch(with_token(&token("a", &shared))).await;
    assert_eq!(other.0, NOT_CONNECTED, "{}", other.1);
    let answering = async { tunnel.next().await.answer(whole(b"{}")) };
    let asking = proxy_client.ask(with_token(&token("b", &shared)));
    let (answer, ()) = tokio::join!(asking, answering);

    assert_eq!(read(answer).await.unwrap(), "{}");
    let (code, message) = proxy_client.fetch(with_token(&token("c", &shared))).await;
    assert!(code == 401 && message.contains("not enrolled"), "{message}");

    let other = world.authority.client("argocd-agent:another");
    let (code, message) = proxy_client.fetch(with_token(&token("a", &other))).await;
    assert!(
        code == 401 && message.contains("another certificate"),
        "{message}"
    );
}

#[tokio::test]
async fn invalid_bearer_token_is_refused_despite_valid_certificate() {
    let world = world(Visitors::Upstream).await;
    let of_cluster = world.authority.client("a");
    let mut proxy_client = ProxyClient::with(&world, &of_cluster).await;
    assert_eq!(proxy_client.fetch(get(PODS)).await.0, NOT_CONNECTED);
    for token in ["x", "x.y.z"] {
        let (code, message) = proxy_client.fetch(with_token(token)).await;
        assert!(
            code == 401 && message.contains("token"),
            "{token:?}: {message}"
        );
    }
    let fingerprint = format!("{:?}", peer(&of_cluster).thumbprint);
    let list = Revoked::read([fingerprint.as_str()]);
    world.revoked.send_replace(Some(Arc::new(list)));
    let again = with_token(&token("a", &of_cluster));
    assert_eq!(proxy_client.fetch(again).await.0, 401, "it is on the list");
}

#[tokio::test]
async fn bearer_token_is_ignored_with_per_cluster_certificates() {
    let world = world(Visitors::Named).await;
    let shared = world.authority.client("a");
    let mut proxy_client = ProxyClient::with(&world, &shared).await;
    let (code, message) = proxy_client.fetch(with_token(&token("a", &shared))).await;
    assert!(code == 401 && message.contains("certificate"), "{message}");
}

#[tokio::test]
async fn token_expiry_ends_long_requests() {
    let world = world(Visitors::Upstream).await;
    let shared = world.authority.client("argocd-agent:of-all");
    let mut tunnel = AgentTunnel::of(&world, "a").await;
    let mut proxy_client = ProxyClient::with(&world, &shared).await;
    // Good for some seconds more.
    let issued = Timestamp::now() - VISIT_LIFE + Duration::from_secs(5);
    let mut request = with_token(&token_of("a", &shared, issued));
    *request.uri_mut() = format!("{PODS}?watch=true").parse().unwrap();
    let asking = proxy_client.ask(request);
    let answering = async {
        let never = futures::stream::pending().boxed();
        tunnel.next().await.answer(stream(never));
    };
    let (answer, ()) = tokio::join!(asking, answering);
    assert_eq!(answer.status().as_u16(), 200);
    assert!(read(answer).await.is_err(), "it has not come to its end");
    // A client with another token is accepted.
    let mut proxy_client = ProxyClient::with(&world, &shared).await;
    let answering = async { tunnel.next().await.answer(whole(b"{}")) };
    let asking = proxy_client.ask(with_token(&token("a", &shared)));
    let (answer, ()) = tokio::join!(asking, answering);
    assert_eq!(read(answer).await.unwrap(), "{}");
}
