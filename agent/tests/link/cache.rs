//! Reads of Argo CD's redis by the hub's users, through a scripted principal.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent::config::Ui;
use agent::live::cluster_stats;
use agent::live::redis::Redis;
use agent::live::tunnel::{ApiHandler, Cache};
use bytes::BytesMut;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use live::cluster_info::{self, Census, Connection};
use live::resp::{self, Kind, Limits, Value};
use live::ui_access::UiAccess;
use runtime::credentials::Material;
use runtime::credentials::login::{Login, LoginFeed};
use runtime::parts::Parts;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{broadcast, watch};
use tokio_util::sync::CancellationToken;

use super::agent_tunnel::open;
use super::principal::{Carrier, Manner, Principal};
use super::spoke::Setup;
use super::trust::Authority;
use super::wait::soon;

const PASSWORD: &str = "secret";
const TREE: &str = "/argocd/cache/resources-tree/-/guestbook/0/1.8.3.gz";
const WATCH: &str = "/argocd/cache/managed-resources/apps/guestbook/0/1.8.3?watch=true";

/// A redis with a password, some values, and a channel on which anything is a change.
#[derive(Clone)]
struct Scripted {
    values: Arc<Mutex<HashMap<String, Vec<u8>>>>,
    asked: Arc<Mutex<Vec<String>>>,
    changes: broadcast::Sender<()>,
}

impl Scripted {
    #[expect(
        clippy::disallowed_methods,
        reason = "ends with the runtime of the test"
    )]
    async fn start() -> (Self, String) {
        let scripted = Self {
            values: Arc::default(),
            asked: Arc::default(),
            changes: broadcast::channel(8).0,
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let serving = scripted.clone();
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(serving.clone().serve(socket));
            }
        });
        (scripted, address)
    }

    async fn serve(self, mut socket: TcpStream) {
        let (mut buffer, mut is_in) = (BytesMut::new(), false);
        loop {
            while let Some((command, used)) = resp::decode(&buffer, Limits::SMALL).unwrap() {
                drop(buffer.split_to(used));
                let words = command.elements().iter().filter_map(Value::as_bytes);
                let words: Vec<_> = words.map(|it| String::from_utf8_lossy(it)).collect();
                let answer = self.answer(&words, &mut is_in);
                let _gone = socket.write_all(&answer.to_bytes()).await;
                if words[0] == "SUBSCRIBE" && is_in {
                    return self.notify(socket, &words[1]).await;
                }
            }
            if socket.read_buf(&mut buffer).await.unwrap_or(0) == 0 {
                return;
            }
        }
    }

    fn answer(&self, words: &[std::borrow::Cow<'_, str>], is_in: &mut bool) -> Value {
        let key = words[1].to_string();
        match &*words[0] {
            "AUTH" if key == PASSWORD => {
                *is_in = true;
                Value::ok()
            }
            "AUTH" => Value::error("WRONGPASS"),
            _ if !*is_in => Value::error("NOAUTH Authentication required."),
            "GET" => {
                self.asked.lock().unwrap().push(key.clone());
                let value = self.values.lock().unwrap().get(&key).cloned();
                value.map_or(Value::Nothing(Kind::Bulk), Value::bytes)
            }
            _ => {
                self.asked.lock().unwrap().push(key.clone());
                let reply = vec![
                    Value::bytes("subscribe"),
                    Value::bytes(key),
                    Value::integer(1),
                ];
                Value::Group(Kind::Array, reply)
            }
        }
    }

    async fn notify(self, mut socket: TcpStream, channel: &str) {
        let mut changes = self.changes.subscribe();
        let message = ["message", channel, ""].map(Value::bytes);
        let message = Value::Group(Kind::Array, message.into()).to_bytes();
        while changes.recv().await.is_ok() {
            if socket.write_all(&message).await.is_err() {
                return;
            }
        }
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

/// An agent's tunnel between a scripted principal and that redis.
struct Window {
    principal: Principal,
    redis: Scripted,
    _material: watch::Sender<Arc<Material>>,
    token: CancellationToken,
    _parts: Parts,
}

impl Window {
    async fn with(access: UiAccess, password: &str) -> Self {
        runtime::install_crypto_provider();
        let authority = Authority::new();
        let principal = Principal::start(&authority, Manner::Ours).await;
        let (redis, address) = Scripted::start().await;
        let login = Login {
            user: None,
            password: password.to_owned(),
        };
        let login = LoginFeed::fixed(Some(login));
        let cache = Cache::new(
            Arc::new(Redis::new(redis_discovery::Redis::new(address, login))),
            "argocd".to_owned(),
            access,
        );
        let unreachable = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        let client = kube::Client::try_from(unreachable).unwrap();
        let material = authority.material("spoke1", &authority.pem());
        let material = watch::Sender::new(material);
        let token = CancellationToken::new();
        let parts = Parts::new(token.clone());
        let (ui, scope) = (Ui { access, user: None }, Setup::default().scope);
        let api_handler = ApiHandler::new(client, ui, scope, parts.spawner()).with_cache(cache);
        open(
            &principal,
            material.subscribe(),
            api_handler,
            &parts,
            &token,
        );
        Self {
            principal,
            redis,
            _material: material,
            token,
            _parts: parts,
        }
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        self.token.cancel();
    }
}

async fn ask(carrier: &mut Carrier, method: &str, target: &str) -> http::Response<Incoming> {
    let request = http::Request::builder()
        .method(method)
        .uri(format!("http://spoke{target}"))
        .body(UnsyncBoxBody::new(Empty::new()))
        .unwrap();
    soon("an answer", carrier.send_request(request))
        .await
        .unwrap()
}

#[tokio::test]
async fn cluster_statistics_are_read_compressed_or_plain() {
    let (redis, address) = Scripted::start().await;
    let login = Login {
        user: None,
        password: PASSWORD.to_owned(),
    };
    let login = LoginFeed::fixed(Some(login));
    let own = Arc::new(Redis::new(redis_discovery::Redis::new(address, login)));
    let parts = Parts::new(CancellationToken::new());
    let every = Duration::from_millis(5);
    let mut census = cluster_stats::watch(own, UiAccess::Read, every, &parts.spawner());
    let counted = |applications| Census {
        applications,
        ..Census::default()
    };
    let connection = Connection {
        is_up: true,
        message: String::new(),
        at: "2026-11-22T10:00:00Z".to_owned(),
    };
    let [compressed, plain] = cluster_info::of_this_cluster();
    // With both, the compressed value counts.
    for (applications, (key, form)) in [(1, plain), (2, compressed)] {
        let value = cluster_info::write(&connection, &counted(applications), form);
        redis.values.lock().unwrap().insert(key, value);
        let fits = |census: &Option<Census>| *census == Some(counted(applications));
        soon("the statistics", census.wait_for(fits)).await.unwrap();
    }
}

#[tokio::test]
async fn a_cached_value_is_read_by_its_local_key_with_its_length() {
    let mut window = Window::with(UiAccess::Read, PASSWORD).await;
    let mut agent_tunnel = window.principal.agent_tunnel().await;
    let large = vec![b'x'; 5 << 20];
    let key = "app|resources-tree|guestbook|1.8.3.gz".to_owned();
    window
        .redis
        .values
        .lock()
        .unwrap()
        .insert(key, large.clone());
    // Argo CD omits its own namespace, with or without the hub naming it.
    for target in [TREE, &TREE.replace("/-/", "/argocd/")] {
        let answer = ask(&mut agent_tunnel, "GET", target).await;
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["content-length"], "5242880");
        let body = soon("the value", answer.into_body().collect());
        assert_eq!(body.await.unwrap().to_bytes(), large);
    }
    let elsewhere = TREE.replace("/-/", "/apps/").replace("/0/", "/3/");
    assert_eq!(
        ask(&mut agent_tunnel, "GET", &elsewhere).await.status(),
        404
    );
    assert_eq!(
        window.redis.asked(),
        [
            "app|resources-tree|guestbook|1.8.3.gz",
            "app|resources-tree|guestbook|1.8.3.gz",
            "app|resources-tree|apps_guestbook|3|1.8.3.gz",
        ]
    );
}

#[tokio::test]
async fn foreign_redis_keys_are_never_requested() {
    let mut window = Window::with(UiAccess::Read, PASSWORD).await;
    let mut agent_tunnel = window.principal.agent_tunnel().await;
    for (method, target) in [
        ("GET", "/argocd/cache/secrets/-/guestbook/0/1.8.3.gz"),
        ("GET", "/argocd/cache/resources-tree/-/a%7Cb/0/1.8.3.gz"),
        (
            "GET",
            "/argocd/cache/resources-tree/-/guestbook/0/1.8.3.gz?x",
        ),
        ("GET", "/argocd/cache/"),
        ("DELETE", TREE),
        ("PUT", TREE),
    ] {
        let answer = ask(&mut agent_tunnel, method, target).await;
        assert_eq!(answer.status(), 403, "{method} {target}");
    }
    let mut closed = Window::with(UiAccess::None, PASSWORD).await;
    let mut agent_tunnel = closed.principal.agent_tunnel().await;
    assert_eq!(ask(&mut agent_tunnel, "GET", TREE).await.status(), 403);
    assert_eq!(ask(&mut agent_tunnel, "GET", WATCH).await.status(), 403);
    assert!(window.redis.asked().is_empty() && closed.redis.asked().is_empty());

    let mut wrong = Window::with(UiAccess::Read, "wrong").await;
    let mut agent_tunnel = wrong.principal.agent_tunnel().await;
    assert_eq!(ask(&mut agent_tunnel, "GET", TREE).await.status(), 502);
}

#[tokio::test]
async fn cache_changes_are_streamed_until_the_subscriber_leaves() {
    let mut window = Window::with(UiAccess::Read, PASSWORD).await;
    let mut agent_tunnel = window.principal.agent_tunnel().await;
    let answer = ask(&mut agent_tunnel, "GET", WATCH).await;
    assert_eq!(answer.status(), 200);
    let channel = "app|managed-resources|apps_guestbook|1.8.3";
    assert_eq!(window.redis.asked(), [channel]);
    let mut changes = answer.into_body();
    for _ in 0..3 {
        // The subscriber may not be there yet.
        while window.redis.changes.send(()).is_err() {
            tokio::task::yield_now().await;
        }
        let frame = soon("a change", changes.frame()).await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap().len(), 1);
    }
    drop(changes);
    let gone = async {
        while window.redis.changes.receiver_count() > 0 {
            let _gone = window.redis.changes.send(());
            tokio::task::yield_now().await;
        }
    };
    soon("the end of the subscription", gone).await;
}
