use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::{Request, Response};
use kube::client::Body;
use live::redis_service::ON_HUB;
use runtime::credentials::login::Login;
use runtime::parts::Parts;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::*;

const SERVICES: &str = "/api/v1/namespaces/cd/services?";
const DEFAULT: &str = "argocd-redis.cd.svc:6379";

/// An API whose Services change; each Secret has a password that is its own name.
#[derive(Default)]
struct World {
    services: Mutex<(u16, Value)>,
    requests: Mutex<Vec<String>>,
    /// Replaces the password in each Secret.
    rotated: Mutex<Option<&'static str>>,
}

impl World {
    fn new(code: u16, instances: &[&str]) -> Arc<Self> {
        let world = Self::default();
        world.set(code, instances);
        Arc::new(world)
    }

    /// The Services of operators' instances.
    fn set(&self, code: u16, instances: &[&str]) {
        let service = |instance: &&str| {
            json!({
                "metadata": { "name": format!("{instance}-redis"), "labels": {
                    "app.kubernetes.io/part-of": "argocd", "app.kubernetes.io/managed-by": instance,
                }, "ownerReferences": [{
                    "apiVersion": "argoproj.io/v1beta1", "kind": "ArgoCD", "name": instance, "uid": instance,
                }]},
                "spec": { "ports": [{ "port": 6379 }] },
            })
        };
        let items: Vec<_> = instances.iter().map(service).collect();
        let body = match code {
            200 => json!({ "metadata": {}, "items": items }),
            _ => json!({ "status": "Failure", "code": code }),
        };
        *self.services.lock().unwrap() = (code, body);
    }

    /// None for a watch, which nothing ends; the program has none.
    fn answer(&self, target: &str) -> Option<(u16, Value)> {
        self.requests.lock().unwrap().push(target.to_owned());
        if target.contains("watch=true") {
            return None;
        }
        if target.starts_with(SERVICES) {
            return Some(self.services.lock().unwrap().clone());
        }
        let (_, name) = target.split_once("/secrets/")?;
        let key = match name {
            "argocd-redis" => "auth",
            _ => "admin.password",
        };
        let password = self.rotated.lock().unwrap().unwrap_or(name);
        let secret = json!({
            "metadata": { "namespace": "cd", "name": name, "uid": name, "resourceVersion": "1" },
            "data": { key: k8s_openapi::ByteString(password.into()) },
        });
        Some((200, secret))
    }

    /// How often the program looked.
    fn looks(&self) -> usize {
        let requests = self.requests.lock().unwrap();
        requests
            .iter()
            .filter(|it| it.starts_with(SERVICES))
            .count()
    }

    /// How often the program read a Secret.
    fn reads(&self) -> usize {
        let requests = self.requests.lock().unwrap();
        requests.iter().filter(|it| it.contains("/secrets")).count()
    }
}

fn client(world: &Arc<World>) -> Client {
    let world = Arc::clone(world);
    let service = tower::service_fn(move |request: Request<Body>| {
        let answer = world.answer(&request.uri().to_string());
        async move {
            let Some((code, body)) = answer else {
                return std::future::pending::<Result<Response<Body>, Infallible>>().await;
            };
            let body = Body::from(serde_json::to_vec(&body).unwrap());
            Ok(Response::builder().status(code).body(body).unwrap())
        }
    });
    Client::new(service, "default")
}

async fn password(endpoint: &watch::Receiver<Endpoint>) -> String {
    loop {
        let login = endpoint.borrow().login.current();
        if let Some(login) = login {
            return login.password.clone();
        }
        sleep(UNSETTLED).await;
    }
}

fn parts() -> Parts {
    Parts::new(CancellationToken::new())
}

#[tokio::test(start_paused = true)]
async fn redis_that_appears_later_is_used_with_its_password() {
    let (world, parts) = (World::new(200, &[]), parts());
    let mut endpoint = watch(client(&world), "cd", None, &ON_HUB, &parts.spawner());
    assert_eq!(endpoint.borrow().address, DEFAULT);
    for instance in ["openshift-gitops", "argocd", "openshift-gitops"] {
        world.set(200, &[instance]);
        let address = format!("{instance}-redis.cd.svc:6379");
        let is_found = |it: &Endpoint| it.address == address && it.login.current().is_some();
        let found = async {
            while !is_found(&endpoint.borrow_and_update().clone()) {
                sleep(UNSETTLED).await;
            }
        };
        tokio::time::timeout(SETTLED * 2, found).await.unwrap();
        let secret = format!("{instance}-redis-initial-password");
        assert_eq!(password(&endpoint).await, secret);
    }
}

#[tokio::test(start_paused = true)]
async fn without_the_right_to_list_services_the_default_is_used() {
    let (world, parts) = (World::new(403, &["openshift-gitops"]), parts());
    let mut endpoint = watch(client(&world), "cd", None, &ON_HUB, &parts.spawner());
    endpoint.changed().await.unwrap();
    assert_eq!(endpoint.borrow().address, DEFAULT);
    assert_eq!(password(&endpoint).await, "argocd-redis");
    // With the right, the next look finds it.
    world.set(200, &["openshift-gitops"]);
    endpoint.changed().await.unwrap();
    let address = endpoint.borrow().address.clone();
    assert_eq!(address, "openshift-gitops-redis.cd.svc:6379");
    // A failed look changes nothing.
    world.set(500, &[]);
    sleep(SETTLED * 3).await;
    assert!(!endpoint.has_changed().unwrap());
}

#[tokio::test(start_paused = true)]
async fn redis_that_is_certain_is_looked_for_less_often() {
    for (code, instances, looks) in [
        (200, &["argocd"][..], 1),
        // Once more, since a Role may come after the agent.
        (403, &[][..], 2),
        (200, &[][..], 10),
        (200, &["team"][..], 10),
        (200, &["argocd", "team"][..], 10),
        (500, &[][..], 10),
    ] {
        let (world, parts) = (World::new(code, instances), parts());
        let endpoint = watch(client(&world), "cd", None, &ON_HUB, &parts.spawner());
        sleep(SETTLED.saturating_sub(UNSETTLED / 2)).await;
        assert_eq!(world.looks(), looks, "{code} {instances:?}");
        drop(endpoint);
    }
}

#[tokio::test(start_paused = true)]
async fn configured_login_replaces_the_secret() {
    let (world, parts) = (World::new(200, &["team"]), parts());
    let login = Login {
        user: None,
        password: "configured".to_owned(),
    };
    let login = LoginFeed::fixed(Some(login));
    let mut endpoint = watch(client(&world), "cd", Some(login), &ON_HUB, &parts.spawner());
    assert_eq!(password(&endpoint).await, "configured");
    endpoint.changed().await.unwrap();
    assert_eq!(endpoint.borrow().address, "team-redis.cd.svc:6379");
    assert_eq!(password(&endpoint).await, "configured");
    assert_eq!(world.reads(), 0);
}

#[tokio::test(start_paused = true)]
async fn secret_of_an_unknown_instance_is_not_read() {
    let (world, parts) = (World::new(200, &["team"]), parts());
    let mut endpoint = watch(client(&world), "cd", None, &ON_HUB, &parts.spawner());
    endpoint.changed().await.unwrap();
    assert_eq!(endpoint.borrow().address, "team-redis.cd.svc:6379");
    sleep(UNSETTLED * 3).await;
    assert!(endpoint.borrow().login.current().is_none());
    assert_eq!(world.reads(), 0);
}

#[tokio::test(start_paused = true)]
async fn refused_password_is_read_again_at_most_once_a_second() {
    let (world, parts) = (World::new(200, &["argocd"]), parts());
    let mut endpoint = watch(client(&world), "cd", None, &ON_HUB, &parts.spawner());
    endpoint.changed().await.unwrap();
    assert_eq!(password(&endpoint).await, "argocd-redis-initial-password");
    *world.rotated.lock().unwrap() = Some("rotated");
    let login = endpoint.borrow().login.clone();
    let reads = world.reads();
    for _ in 0..100 {
        login.refused();
        sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(password(&endpoint).await, "rotated");
    let more = world.reads().saturating_sub(reads);
    assert!((1..=11).contains(&more), "{more} reads in ten seconds");
    // Without a refusal it is read now and then.
    *world.rotated.lock().unwrap() = Some("rotated again");
    sleep(SETTLED + UNSETTLED).await;
    assert_eq!(password(&endpoint).await, "rotated again");
}
