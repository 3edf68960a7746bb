//! The principal alone, without OCM: the cluster Secrets enrol agents.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use futures::future::OptionFuture;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use live::redis_service::ON_HUB;
use ocm::name::is_dns_label;
use principal::{
    Certificates, Enrolment, Feeds, Fleet, JwtKey, Mode, RedisFeeds, Registrar, follow_revoked,
};
use runtime::{
    clock::Clock,
    credentials::{
        self, Material,
        files::{self, Paths},
        secrets::{self, Take},
    },
    kube::{Event, Watch, watch_trimmed},
    parts::Spawner,
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{ProcessContext, forward};
use crate::{
    args::SharedArgs,
    config::{Registration, Shared, Source, Standalone, StandaloneRedis, TlsEndpoint},
    fleet::secrets::selector,
    hub::{is_of_kubernetes, mode_of},
    keys,
    publish::publish,
    registration::{SelfRegistration, keep},
    token_key,
};

/// Starts the principal and returns when it serves.
pub(super) async fn start(
    config: Standalone,
    metrics: principal::Metrics,
    process: ProcessContext,
) -> anyhow::Result<()> {
    let (client, spawner) = (process.client, process.spawner);
    let ready = process.readiness.register("principal");
    let shared = config.shared;
    let namespace = shared.principal.argocd_namespace.clone();
    let server_tls = material(config.agents, &client, &namespace, &spawner).await;
    let visitors_tls = match config.visitors {
        Some(visitors) => material(visitors, &client, &namespace, &spawner).await,
        None => server_tls.clone(),
    };
    let redis = match config.redis {
        Some(redis) => redis_feeds(redis, &client, &namespace, &spawner).await,
        None => RedisFeeds::default(),
    };
    let jwt_key = match config.token_key {
        Source::Secret(name) => {
            token_key::from_secret(client.clone(), &namespace, &name, &spawner).await?
        }
        Source::Files(path) => token_key::from_file(&path).await?,
    };
    let (enrolled, active) = enrolled(&shared, &client, &spawner);
    let registrar = config.registration;
    let registrar = registrar.map(|it| register(it, &shared, &client, &jwt_key, &spawner));
    let feeds = Feeds {
        revoked: follow_revoked(client.clone(), &namespace, &spawner),
        registrar,
        fleet: enrolled,
        visitors_tls,
        redis,
        server_tls,
        jwt_key,
        active,
        metrics,
        spawner: spawner.clone(),
        clock: Clock::system(),
    };
    let handle = principal::start(client, shared.principal, feeds).await?;
    tracing::info!(address = %handle.address, "the principal listens");
    let token = spawner.token().clone();
    spawner.spawn(
        "readiness",
        forward(handle.ready, token, move |is_ready| ready.set(is_ready)),
    );
    Ok(())
}

/// Watches the enrolled clusters, and whether they are known.
fn enrolled(
    shared: &Shared,
    client: &Client,
    spawner: &Spawner,
) -> (watch::Receiver<Arc<Fleet>>, watch::Receiver<bool>) {
    let (fleet, enrolled) = watch::channel(Arc::default());
    // There is no other replica, but no agent is admitted before the Secrets are known.
    let (serving, active) = watch::channel(false);
    let argocd_namespace = &shared.principal.argocd_namespace;
    let secrets = Watch::new(Api::namespaced(client.clone(), argocd_namespace));
    let args = shared.args.clone();
    let following = follow_fleet(secrets, args, fleet, serving, spawner.token().clone());
    spawner.spawn("cluster Secrets", following);
    (enrolled, active)
}

/// Builds the registrar, which enrols new agents and renews the credentials in their cluster Secrets.
fn register(
    registration: Registration,
    shared: &Shared,
    client: &Client,
    jwt_key: &watch::Receiver<Arc<JwtKey>>,
    spawner: &Spawner,
) -> Arc<dyn Registrar> {
    let namespace = &shared.principal.argocd_namespace;
    let Registration { certificate } = registration;
    let follow = |name: &String| {
        let (client, take) = (client.clone(), Take::Identity);
        secrets::watch(client, namespace, name, take, Clock::system(), spawner)
    };
    let changes = certificate.as_ref().map(follow);
    let registration = SelfRegistration {
        secrets: Api::namespaced(client.clone(), namespace),
        argocd_namespace: namespace.clone(),
        resource_proxy: shared.resource_proxy.clone(),
        certificate,
        jwt_key: jwt_key.clone(),
        clock: Clock::system(),
    };
    if let Some(changes) = changes {
        let keeping = keep(registration.clone(), changes, spawner.token().clone());
        spawner.spawn("self-registered cluster Secrets", keeping);
    }
    Arc::new(registration)
}

/// The hub's redis, and the credentials for clients of the redis proxy.
async fn redis_feeds(
    redis: StandaloneRedis,
    client: &Client,
    namespace: &str,
    spawner: &Spawner,
) -> RedisFeeds {
    let StandaloneRedis { server, serving } = redis;
    let server = redis_discovery::follow(server, client, namespace, &ON_HUB, spawner).await;
    let serving = serving.map(|it| identity(it, client, namespace, spawner));
    let serving = OptionFuture::from(serving).await;
    RedisFeeds {
        server,
        serving: serving.unwrap_or_else(|| watch::channel(Arc::default()).1),
    }
}

type Followed = watch::Receiver<Arc<Material>>;

/// The serving certificate, and the CA of the clients.
async fn material(
    endpoint: TlsEndpoint,
    client: &Client,
    namespace: &str,
    spawner: &Spawner,
) -> Followed {
    let TlsEndpoint { serving, ca } = endpoint;
    let identity = identity(serving, client, namespace, spawner).await;
    let roots = match ca {
        Source::Secret(name) => {
            let (client, take) = (client.clone(), Take::Roots(&["ca.crt", "tls.crt"]));
            secrets::watch(client, namespace, &name, take, Clock::system(), spawner)
        }
        Source::Files(path) => {
            let paths = Paths {
                roots: Some(path),
                ..Paths::default()
            };
            files::watch(paths, Clock::system(), spawner).await
        }
    };
    credentials::combine(identity, roots, spawner)
}

/// A serving certificate.
async fn identity(
    serving: Source<(PathBuf, PathBuf)>,
    client: &Client,
    namespace: &str,
    spawner: &Spawner,
) -> Followed {
    match serving {
        Source::Secret(name) => {
            let (client, take) = (client.clone(), Take::Identity);
            secrets::watch(client, namespace, &name, take, Clock::system(), spawner)
        }
        Source::Files((chain, key)) => {
            let paths = Paths {
                chain: Some(chain),
                key: Some(key),
                roots: None,
            };
            files::watch(paths, Clock::system(), spawner).await
        }
    }
}

/// Keeps the fleet equal to the cluster Secrets: every Secret that names an agent is an enrolment.
async fn follow_fleet(
    secrets: Watch<Secret>,
    args: SharedArgs,
    fleet: watch::Sender<Arc<Fleet>>,
    serving: watch::Sender<bool>,
    token: CancellationToken,
) {
    let mut clusters: BTreeMap<String, (String, Enrolment)> = BTreeMap::new();
    let mut synced = false;
    watch_trimmed(secrets.labels(&selector()), token, |event| {
        match event {
            Event::Applied { object, .. } => {
                let name = object.metadata.name.clone().unwrap_or_default();
                match enrolment(&object, &args.namespace) {
                    Ok((cluster, mut enrolment)) => {
                        enrolment.shares_unscoped = Some(args.share_unscoped_repositories);
                        clusters.insert(name, (cluster, enrolment));
                    }
                    Err(reason) => {
                        tracing::warn!(
                            secret = name,
                            reason,
                            "ignoring a cluster Secret that admits no agent"
                        );
                        clusters.remove(&name);
                    }
                }
            }
            Event::Deleted(gone) => {
                clusters.remove(&gone.name);
            }
            Event::Synced => synced = true,
            // The next list shows which clusters are gone; until it is complete we remove none.
            Event::Rewound => return,
        }
        // An incomplete list must not remove clusters that it does not contain yet.
        if synced {
            let now = Fleet {
                clusters: clusters.values().cloned().collect(),
            };
            publish(&fleet, Arc::new(now));
            publish(&serving, true);
        }
    })
    .await;
}

/// The enrolment of a cluster Secret, or the reason why it enrols no agent.
fn enrolment(secret: &Secret, argocd_namespace: &str) -> Result<(String, Enrolment), String> {
    let labels = secret.metadata.labels.as_ref();
    let agent = labels.and_then(|labels| labels.get(argocd::keys::AGENT_NAME));
    let agent = agent.ok_or("it names no agent")?;
    if !is_dns_label(agent) {
        return Err(format!("{agent:?} cannot be the name of a namespace"));
    }
    if agent == argocd_namespace || is_of_kubernetes(agent) {
        return Err(format!("the namespace {agent} is reserved"));
    }
    let text = |key: &str| String::from_utf8(secret.data.as_ref()?.get(key)?.0.clone()).ok();
    let annotation = |key: &str| secret.metadata.annotations.as_ref()?.get(key).cloned();
    let mode = annotation(keys::MODE).map_or(Ok(Mode::Managed), |word| {
        mode_of(&word).ok_or_else(|| format!("its mode {word:?} is invalid"))
    })?;
    // The cluster may have had sessions before this process started, so this is not a first enrolment.
    let enrolment = Enrolment {
        mode,
        server: text("server"),
        since: None,
        fresh: false,
        confirm_delete: annotation(keys::CONFIRM_DELETE),
        shares_unscoped: None,
        certificates: match annotation(keys::REVOKED) {
            Some(_) => Certificates::Revoked,
            None => Certificates::All,
        },
    };
    Ok((agent.clone(), enrolment))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn secret(agent: &str, mode: Option<&str>) -> Secret {
        let annotations: BTreeMap<_, _> = mode.map(|mode| (keys::MODE, mode)).into_iter().collect();
        serde_json::from_value(json!({
            "metadata": { "name": "cluster-a", "annotations": annotations, "labels": {
                argocd::keys::AGENT_NAME: agent, argocd::keys::SECRET_TYPE: "cluster" } },
            "data": { "server": "aHR0cHM6Ly94" },
        }))
        .unwrap()
    }

    #[test]
    fn a_cluster_secret_that_names_an_agent_is_an_enrolment() {
        let (name, managed) = enrolment(&secret("a", None), "argocd").unwrap();
        assert_eq!(
            (name.as_str(), managed.server.as_deref()),
            ("a", Some("https://x"))
        );
        assert_eq!(managed.mode, Mode::Managed);
        let (_, autonomous) = enrolment(&secret("a", Some("autonomous")), "argocd").unwrap();
        assert_eq!(autonomous.mode, Mode::Autonomous);
        let mut revoked = secret("a", None);
        let mark = [(keys::REVOKED.to_owned(), String::new())];
        revoked.metadata.annotations = Some(mark.into());
        let (_, revoked) = enrolment(&revoked, "argocd").unwrap();
        assert_eq!(revoked.certificates, Certificates::Revoked);
    }

    #[test]
    fn an_invalid_cluster_secret_enrols_no_agent_and_has_a_reason() {
        let refused = |secret: &Secret| enrolment(secret, "argocd").unwrap_err();
        assert_eq!(refused(&Secret::default()), "it names no agent");
        for (agent, mode, word) in [
            ("", None, "cannot be the name"),
            ("A.b", None, "cannot be the name"),
            ("argocd", None, "is reserved"),
            ("kube-system", None, "is reserved"),
            ("a", Some("autonomus"), "\"autonomus\""),
        ] {
            let reason = refused(&secret(agent, mode));
            assert!(reason.contains(word), "{agent:?} {mode:?}: {reason}");
        }
    }
}
