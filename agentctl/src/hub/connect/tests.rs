use std::{net::Ipv4Addr, sync::Arc};

use runtime::credentials::provider;
use rustls::ServerConfig;
use rustls_pki_types::PrivateKeyDer;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, copy_bidirectional},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::{
    hub::{Hub, Target},
    progress::Progress,
};

/// What comes before the body.
async fn head(io: &mut (impl AsyncRead + Unpin)) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(io.read_u8().await.unwrap());
    }
    String::from_utf8(head).unwrap()
}

async fn answer(io: &mut (impl AsyncWrite + Unpin), status: &str, body: &str) {
    let length = body.len();
    let text =
        format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}");
    io.write_all(text.as_bytes()).await.unwrap();
    io.shutdown().await.unwrap();
}

/// An API server with its certificate, which answers once.
async fn api(listener: TcpListener, config: ServerConfig) -> String {
    let (tcp, _) = listener.accept().await.unwrap();
    let mut tls = TlsAcceptor::from(Arc::new(config))
        .accept(tcp)
        .await
        .unwrap();
    let asked = head(&mut tls).await;
    answer(&mut tls, "200 OK", r#"{"metadata": {"name": "argocd"}}"#).await;
    asked
}

/// A forward proxy that forwards one connection and returns the request.
async fn proxy(listener: TcpListener, to: u16) -> String {
    let (mut tcp, _) = listener.accept().await.unwrap();
    let asked = head(&mut tcp).await;
    let mut there = TcpStream::connect((Ipv4Addr::LOCALHOST, to)).await.unwrap();
    tcp.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")
        .await
        .unwrap();
    // Either end may hang up as it likes.
    drop(copy_bidirectional(&mut tcp, &mut there).await);
    asked
}

async fn listen() -> (TcpListener, u16) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

/// A certificate for a name that only a proxy can resolve, and its PEM.
fn certificate() -> (ServerConfig, String) {
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["hub.invalid".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let builder = ServerConfig::builder_with_provider(provider());
    let builder = builder
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap();
    let chain = vec![certificate.der().clone()];
    let config = builder
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    (config, certificate.pem())
}

async fn of_kubeconfig(server: &str, pem: &str, proxy: &str) -> Config {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    let text = format!(
        "{{apiVersion: v1, kind: Config, current-context: c, \
         clusters: [{{name: c, cluster: {{server: \"{server}\", certificate-authority-data: {}, proxy-url: \"{proxy}\"}}}}], \
         contexts: [{{name: c, context: {{cluster: c, user: c}}}}], users: [{{name: c, user: {{token: t}}}}]}}",
        STANDARD.encode(pem)
    );
    let file = Kubeconfig::from_yaml(&text).unwrap();
    let options = KubeConfigOptions::default();
    Config::from_custom_kubeconfig(file, &options)
        .await
        .unwrap()
}

fn hub_of((client, proxy): (Client, Option<String>)) -> Hub {
    Hub {
        client,
        target: Target::Hub,
        proxy,
        progress: Progress::new(false),
    }
}

#[tokio::test]
async fn the_hub_is_reached_through_the_proxy_of_the_kubeconfig_as_its_user() {
    runtime::install_crypto_provider();
    let ((at_api, to), (at_proxy, port)) = (listen().await, listen().await);
    let (tls, pem) = certificate();
    let url = format!("http://me:pa%40ss@127.0.0.1:{port}");
    let config = of_kubeconfig("https://hub.invalid:6443", &pem, &url).await;
    let hub = hub_of(client(config, "").unwrap());
    let read = async {
        let found = hub.get(crate::hub::NAMESPACES, None, "argocd").await;
        assert_eq!(found.unwrap().unwrap()["metadata"]["name"], "argocd");
        // The proxy ends when both sides have hung up.
        drop(hub);
    };
    let ((), of_api, of_proxy) = tokio::join!(read, api(at_api, tls), proxy(at_proxy, to));
    assert!(
        of_proxy.starts_with("CONNECT hub.invalid:6443 "),
        "{of_proxy}"
    );
    let of_proxy = of_proxy.to_lowercase();
    // me:pa@ss
    assert!(
        of_proxy.contains("proxy-authorization: basic bwu6cgfac3m="),
        "{of_proxy}"
    );
    assert!(
        of_api.starts_with("GET /api/v1/namespaces/argocd "),
        "{of_api}"
    );
    assert!(
        of_api.to_lowercase().contains("authorization: bearer t"),
        "{of_api}"
    );
}

#[tokio::test]
async fn a_proxy_that_leads_nowhere_is_named_without_its_password() {
    runtime::install_crypto_provider();
    let (at_proxy, port) = listen().await;
    let (_, pem) = certificate();
    let url = format!("http://me:secret@127.0.0.1:{port}");
    let config = of_kubeconfig("https://hub.invalid:6443", &pem, &url).await;
    let hub = hub_of(client(config, "").unwrap());
    let refuse = async {
        let (mut tcp, _) = at_proxy.accept().await.unwrap();
        head(&mut tcp).await;
        answer(&mut tcp, "403 Forbidden", "").await;
    };
    let asked = hub.get(crate::hub::NAMESPACES, None, "argocd");
    let (error, ()) = tokio::join!(asked, refuse);
    let text = error.unwrap_err().to_string();
    let way = format!("the connection uses the proxy 127.0.0.1:{port} (");
    assert!(text.contains(&way) && !text.contains("secret"), "{text}");
}

#[tokio::test]
async fn no_proxy_hosts_bypass_the_proxy_and_bad_proxies_fail() {
    runtime::install_crypto_provider();
    let (_, pem) = certificate();
    let of = async |proxy: &str, except: &str| {
        let config = of_kubeconfig("https://hub.invalid:6443", &pem, proxy).await;
        client(config, except).map(|(_, proxy)| proxy)
    };
    let through = Ok(Some("proxy.invalid:3128".to_owned()));
    assert_eq!(of("http://proxy.invalid:3128", "").await, through);
    assert_eq!(
        of("socks5://proxy.invalid:3128", "other.invalid").await,
        through
    );
    assert_eq!(
        of("http://proxy.invalid:3128", "a.b,.invalid").await,
        Ok(None)
    );
    let refused = of("https://me:secret@proxy.invalid:3128", "")
        .await
        .unwrap_err();
    assert!(refused.contains("use http:// or socks5://"), "{refused}");
    assert!(!refused.contains("secret"), "{refused}");
}
