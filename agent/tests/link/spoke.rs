//! The agent under test, between the scripted principal and the API server.

use std::sync::Arc;
use std::time::Duration;

use agent::config::proxy::Proxy;
use agent::config::{Adoption, Hub, Method, Mismatch, Policy, Recreated, Scope, Ui};
use agent::live::tunnel::ApiHandler;
use agent::metrics::Metrics;
use agent::sync::cache::Store;
use agent::sync::kube::Kubernetes;
use agent::sync::replica::Replica;
use agent::sync::report::Reports;
use agent::{
    session::{Link, LinkState},
    transport::{Dialer, Network},
};
use live::cluster_info::Census;
use live::ui_access::UiAccess;
use protocol::Mode;
use protocol::version::Capabilities;
use runtime::credentials::{ClientTls, Material};
use runtime::parts::{Parts, Spawner};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::api::Api;
use super::principal::Principal;
use super::wait::soon;

pub(super) struct Spoke {
    pub(super) state: watch::Receiver<LinkState>,
    pub(super) takes_tunnels: watch::Receiver<bool>,
    pub(super) material: watch::Sender<Arc<Material>>,
    pub(super) census: watch::Sender<Option<Census>>,
    pub(super) metrics: Metrics,
    token: CancellationToken,
    // Parts end with their supervisor.
    _parts: Parts,
}

/// The settings of an agent.
#[derive(Clone)]
pub(super) struct Setup {
    pub(super) scope: Scope,
    pub(super) policy: Policy,
    pub(super) access: UiAccess,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            scope: Scope {
                argocd_namespace: "argocd".to_owned(),
                further_namespaces: vec![],
                keep_namespaces: false,
                mode: Mode::Managed,
                create_namespaces: false,
                label_selector: String::new(),
            },
            policy: Policy {
                mismatch: Mismatch::Upsert,
                adoption: Adoption::Always,
                recreated: Recreated::Ignore,
            },
            access: UiAccess::Read,
        }
    }
}

impl Spoke {
    pub(super) fn start(
        api: &Api,
        principal: &Principal,
        material: Arc<Material>,
        setup: Setup,
    ) -> Self {
        let token = CancellationToken::new();
        let parts = Parts::new(token.clone());
        let spawner = parts.spawner();
        let metrics = Metrics::default();
        let Setup {
            scope,
            policy,
            access,
        } = setup;
        let store = Arc::new(Store::default());
        let reports = Arc::new(Reports::new(Arc::clone(&store)));
        let replica = Arc::new(Replica::new(
            Arc::new(Kubernetes::new(api.client(), scope.label_selector.clone())),
            scope,
            policy,
            store,
            Arc::clone(&reports),
            metrics.clone(),
        ));
        replica.start(&spawner);
        let material = watch::Sender::new(material);
        let census = watch::Sender::new(None);
        let (agent_tunnel, takes_tunnels) = watch::channel(false);
        let (state_sender, state) = watch::channel(LinkState::Down);
        let hub = hub(principal.address.port());
        let tls = ClientTls::follow(material.subscribe(), &spawner);
        let in_effect = tls.material();
        let network = Network::new(hub.clone(), tls, spawner.clone());
        let dialer = Dialer {
            hub,
            network: Arc::new(network),
            material: in_effect,
            argocd_namespace: "argocd".to_owned(),
            mode: replica.mode(),
            capabilities: Capabilities::ours(),
        };
        let link = Link {
            dialer,
            replica,
            reports,
            api_handler: Some(Arc::new(api_handler(api, access, parts.spawner()))),
            census: census.subscribe(),
            metrics: metrics.clone(),
            state: state_sender,
            agent_tunnel,
        };
        spawner.spawn("link", link.run(token.clone()));
        Self {
            state,
            takes_tunnels,
            material,
            census,
            metrics,
            token,
            _parts: parts,
        }
    }

    pub(super) async fn is(&mut self, wanted: LinkState) {
        soon(
            "the link's state",
            self.state.wait_for(|state| *state == wanted),
        )
        .await
        .unwrap();
    }

    pub(super) fn stop(&self) {
        self.token.cancel();
    }
}

impl Drop for Spoke {
    fn drop(&mut self) {
        self.token.cancel();
    }
}

fn api_handler(api: &Api, access: UiAccess, spawner: Spawner) -> ApiHandler {
    let ui = Ui { access, user: None };
    ApiHandler::new(api.client(), ui, Setup::default().scope, spawner)
}

/// A hub with short heartbeats, so that a silent principal times out soon.
pub(super) fn hub(port: u16) -> Hub {
    Hub {
        host: "localhost".to_owned(),
        port,
        method: Method::Mtls,
        heartbeat: Some(Duration::from_millis(500)),
        keep_alive: None,
        max_message: 4 << 20,
        only_websockets: false,
        plaintext: false,
        proxy: Proxy::default(),
        compression: false,
    }
}
