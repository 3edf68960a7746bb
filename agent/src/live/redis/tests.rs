use futures::TryStreamExt as _;
use jiff::Timestamp;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use runtime::credentials::{ClientAuth, Material, Pem, server_config};
use runtime::parts::{Parts, Spawner};
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use redis_discovery::{Endpoint, Redis as Target};
use runtime::credentials::ClientTls;
use runtime::credentials::login::LoginFeed;
use std::sync::Arc;
use tokio::sync::watch;

use super::*;

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn serving(&self, name: &str) -> Arc<ServerConfig> {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let pem = Pem {
            chain: Some(params.signed_by(&key, &self.0).unwrap().pem().into_bytes()),
            key: Some(key.serialize_pem().into_bytes()),
            roots: None,
        };
        server_config(&material(&pem), ClientAuth::None).unwrap()
    }

    fn trusted(&self, spawner: &Spawner) -> ClientTls {
        let pem = Pem {
            roots: Some(self.0.pem().into_bytes()),
            ..Pem::default()
        };
        let material = watch::channel(Arc::new(material(&pem))).1;
        ClientTls::follow(material, spawner)
    }
}

fn material(pem: &Pem) -> Material {
    Material::parse(pem, Timestamp::now()).unwrap()
}

/// Starts a redis with this password, if it has one, and `value` for every key.
async fn redis(
    password: Option<&'static str>,
    tls: Option<Arc<ServerConfig>>,
    spawner: &Spawner,
) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    spawner.spawn_short("redis", async move {
        while let Ok((socket, _)) = listener.accept().await {
            let Some(config) = tls.clone() else {
                serve(socket, password).await;
                continue;
            };
            if let Ok(stream) = TlsAcceptor::from(config).accept(socket).await {
                serve(stream, password).await;
            }
        }
    });
    address
}

async fn serve(mut io: impl AsyncRead + AsyncWrite + Unpin, password: Option<&str>) {
    let (mut buffer, mut is_in) = (BytesMut::new(), password.is_none());
    while let Ok(command) = resp::decode(&buffer, Limits::SMALL) {
        let Some((command, used)) = command else {
            if io.read_buf(&mut buffer).await.unwrap_or(0) == 0 {
                return;
            }
            continue;
        };
        drop(buffer.split_to(used));
        let words = command.elements().iter().filter_map(Value::as_bytes);
        let words: Vec<_> = words.collect();
        let is_right = password.map(str::as_bytes) == words.last().copied();
        let answer = match words[0] {
            b"AUTH" if password.is_none() => Value::error(
                "ERR AUTH <password> called without any password configured for the default user",
            ),
            b"AUTH" if is_right && words[1] != b"stranger" => {
                is_in = true;
                Value::ok()
            }
            b"AUTH" => Value::error("WRONGPASS invalid username-password pair"),
            _ if !is_in => Value::error("NOAUTH Authentication required."),
            _ => Value::bytes("value"),
        };
        let sent = io.write_all(&answer.to_bytes()).await;
        if sent.is_err() || io.flush().await.is_err() {
            return;
        }
    }
}

fn login(user: Option<&str>, password: &str) -> LoginFeed {
    let login = Login {
        user: user.map(str::to_owned),
        password: password.to_owned(),
    };
    LoginFeed::fixed(Some(login))
}

fn no_login() -> LoginFeed {
    LoginFeed::fixed(None)
}

async fn value(redis: &Redis) -> Result<Vec<u8>, Error> {
    let found = redis.get("key").await?.unwrap();
    let pieces: Vec<Bytes> = found.into_bytes().try_collect().await?;
    Ok(pieces.concat())
}

fn parts() -> Parts {
    runtime::install_crypto_provider();
    Parts::new(CancellationToken::new())
}

#[tokio::test]
async fn values_are_read_with_and_without_tls_and_a_password() {
    let (parts, authority) = (parts(), Authority::new());
    let spawner = parts.spawner();
    for (is_secure, password, login) in [
        (false, None, no_login()),
        // Argo CD may have a password of which its redis knows nothing.
        (false, None, login(None, "any")),
        (false, Some("right"), login(None, "right")),
        (true, None, no_login()),
        (true, Some("right"), login(Some("argo"), "right")),
    ] {
        let serving = is_secure.then(|| authority.serving("127.0.0.1"));
        let address = redis(password, serving, &spawner).await;
        let trusted = is_secure.then(|| authority.trusted(&spawner));
        let redis = Redis::new(Target::new(address, login).with_tls(trusted));
        assert_eq!(value(&redis).await.unwrap(), b"value");
    }
}

#[tokio::test]
async fn refused_login_names_the_variables_of_the_secret() {
    let parts = parts();
    let address = redis(Some("right"), None, &parts.spawner()).await;
    let of = |login| Target::new(address.clone(), login);
    for redis in [
        of(no_login()),
        of(login(None, "wrong")),
        // The configured user goes before that of the Secret.
        of(login(Some("argo"), "right")).with_user(Some("stranger".to_owned())),
    ] {
        let error = value(&Redis::new(redis)).await.unwrap_err();
        assert!(matches!(error, Error::Login(..)), "{error:?}");
        let message = error.to_string();
        assert!(message.contains("REDIS_SECRET"), "{message}");
    }
}

#[tokio::test]
async fn mismatch_of_tls_names_the_variables_of_the_address() {
    let (parts, authority) = (parts(), Authority::new());
    let spawner = parts.spawner();
    let plain = redis(Some("right"), None, &spawner).await;
    let serving = authority.serving("127.0.0.1");
    let secure = redis(Some("right"), Some(serving), &spawner).await;
    let elsewhere = authority.serving("elsewhere");
    let elsewhere = redis(Some("right"), Some(elsewhere), &spawner).await;
    let trusted = || Some(authority.trusted(&spawner));
    let nothing = watch::channel(Arc::default()).1;
    let nothing_yet = ClientTls::follow(nothing, &spawner);
    for (address, tls) in [
        (&plain, trusted()),
        (&secure, None),
        (&secure, Some(Authority::new().trusted(&spawner))),
        (&secure, Some(nothing_yet)),
        (&elsewhere, trusted()),
        (&"127.0.0.1:1".to_owned(), None),
    ] {
        let redis = Redis::new(Target::new(address.clone(), login(None, "right")).with_tls(tls));
        let error = value(&redis).await.unwrap_err();
        assert!(matches!(error, Error::Connect(..)), "{address}: {error:?}");
        let message = error.to_string();
        assert!(message.contains(address.as_str()), "{message}");
        for variable in ["REDIS_ADDR", "REDIS_TLS"] {
            assert!(message.contains(variable), "{message}");
        }
    }
}

#[tokio::test]
async fn another_endpoint_is_used_for_the_next_request() {
    let parts = parts();
    let address = redis(Some("right"), None, &parts.spawner()).await;
    let (endpoint, receiver) = watch::channel(Endpoint {
        address: "127.0.0.1:1".to_owned(),
        login: no_login(),
    });
    let redis = Redis::new(receiver.into());
    assert!(value(&redis).await.is_err());
    let login = login(None, "right");
    endpoint.send_replace(Endpoint { address, login });
    assert_eq!(value(&redis).await.unwrap(), b"value");
}
