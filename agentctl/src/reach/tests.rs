use std::net::{IpAddr, Ipv4Addr};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls_pki_types::PrivateKeyDer;
use tokio::{io::AsyncWriteExt as _, net::TcpListener};
use tokio_rustls::TlsAcceptor;

use super::*;

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// What a door shows.
fn served(authority: &Authority, name: &str, hours: i64, protocols: &[&str]) -> ServerConfig {
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    params.not_before = time::OffsetDateTime::now_utc() - time::Duration::hours(48);
    params.not_after = time::OffsetDateTime::now_utc() + time::Duration::hours(hours);
    let key = KeyPair::generate().unwrap();
    let leaf = params.signed_by(&key, authority).unwrap();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let builder = ServerConfig::builder_with_provider(provider());
    let builder = builder
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap();
    let chain = vec![leaf.der().clone()];
    let mut config = builder
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    config.alpn_protocols = protocols.iter().map(|it| it.as_bytes().to_vec()).collect();
    config
}

/// Goes to a door that shows this, once.
async fn met(config: ServerConfig, roots: &Result<String, String>) -> Met {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let serve = async {
        let (tcp, _) = listener.accept().await.unwrap();
        let shaken = TlsAcceptor::from(Arc::new(config)).accept(tcp).await;
        drop(shaken);
    };
    let now = runtime::clock::Clock::system().now();
    let (met, ()) = tokio::join!(reach("127.0.0.1", port, roots, now), serve);
    met
}

fn verdict_of(met: Met) -> Verdict {
    met.unwrap().unwrap().verdict
}

#[tokio::test]
async fn endpoint_certificate_is_verified_as_agents_do() {
    let (ca, other) = (authority(), authority());
    let roots = Ok(ca.pem());
    let both = ["h2", "http/1.1"];
    let good = met(served(&ca, "127.0.0.1", 5, &both), &roots).await;
    let good = good.unwrap().unwrap();
    assert_eq!((good.verdict, good.http2), (Verdict::Trusted, true));
    assert_eq!(good.names, [IpAddr::V4(Ipv4Addr::LOCALHOST).to_string()]);
    let left = good
        .expires
        .unwrap()
        .duration_since(runtime::clock::Clock::system().now());
    assert!((4..=5).contains(&left.as_hours()), "{left:?}");

    let old = met(served(&ca, "127.0.0.1", 5, &both[1..]), &roots).await;
    assert!(!old.unwrap().unwrap().http2);
    for (config, expected) in [
        (served(&ca, "hub.example.com", 5, &both), Verdict::WrongName),
        (
            served(&other, "127.0.0.1", 5, &both),
            Verdict::UnknownAuthority,
        ),
        (served(&ca, "127.0.0.1", -5, &both), Verdict::WrongTime),
    ] {
        assert_eq!(verdict_of(met(config, &roots).await), expected);
    }
    let unknown = Err("you may not".to_owned());
    let shown = verdict_of(met(served(&ca, "127.0.0.1", 5, &both), &unknown).await);
    assert_eq!(shown, Verdict::NotJudged("you may not".to_owned()));
}

#[tokio::test]
async fn closed_port_and_foreign_protocol_are_distinguished() {
    let now = runtime::clock::Clock::system().now();
    let roots = Ok(authority().pem());
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let serve = async {
        let (mut tcp, _) = listener.accept().await.unwrap();
        tcp.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            .await
            .unwrap();
        tcp.shutdown().await.unwrap();
        drop(listener);
    };
    let (met, ()) = tokio::join!(reach("127.0.0.1", port, &roots, now), serve);
    assert!(met.unwrap().is_err());
    // The listener is gone.
    let met = reach("127.0.0.1", port, &roots, now).await;
    assert!(met.is_err());
}
