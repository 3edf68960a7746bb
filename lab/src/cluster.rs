//! One cluster of a lab.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context, Result};
use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::ServiceAccount,
};
use kube::{
    Api, Client,
    api::{DynamicObject, PostParams},
    core::GroupVersionKind,
};
use lab_kubelet::{Network, Serving};
use tokio::sync::Mutex;

use crate::{
    Tools,
    apply::{self, Kinds},
    audit,
    certs::Authority,
    control_plane::{ApiServer, Keys, controller_manager, port, url_among_pods},
    kubeconfig::{Access, Credential},
    process::Process,
};

/// The file with cluster admin's access for users and programs outside the lab.
pub const KUBECONFIG: &str = "kubeconfig";

/// A cluster: its API server and controller manager, and the layers that [`Options`](crate::Options) request. Clones
/// are the same cluster.
#[derive(Clone, Debug)]
pub struct Cluster {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    name: String,
    index: u8,
    network: Network,
    dir: PathBuf,
    authority: Authority,
    kubelet: Serving,
    admin: Access,
    client: OnceClient,
    kinds: Kinds,
    // Locked while the program starts or stops, so that two tests cannot do both at once.
    api_server: Mutex<ApiServer>,
    controller_manager: Mutex<Option<Process>>,
}

/// A client that is hidden from debug output.
struct OnceClient(Client);

impl std::fmt::Debug for OnceClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Client")
    }
}

/// The paths and numbers of a cluster.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The cluster's name.
    pub(crate) name: String,
    /// Its number: 0 is the hub.
    pub(crate) index: u8,
    /// The addresses of its Pods and Services.
    pub(crate) network: Network,
    /// Logs, kubeconfigs.
    pub(crate) dir: PathBuf,
    /// Keys and data, in memory.
    pub(crate) state: PathBuf,
    /// The port that leads here from outside the lab, if there is one.
    pub(crate) outside_port: Option<u16>,
}

impl Cluster {
    /// Starts the control plane, and returns when the API and the controllers serve.
    pub(crate) async fn start(tools: &Tools, place: Place) -> Result<Self> {
        let Place {
            name,
            index,
            network,
            dir,
            state,
            outside_port,
        } = place;
        let authority = Authority::new(&format!("{name} authority"))?;
        let keys = Keys::write(&state, &authority, &network)?;
        let access = |user: &str, organization| -> Result<Access> {
            Ok(Access {
                cluster: name.clone(),
                server: format!("https://127.0.0.1:{}", port(index)),
                authority: authority.pair().cert.clone(),
                user: user.to_owned(),
                credential: Credential::Certificate(authority.client(user, Some(organization))?),
            })
        };
        let admin = access("lab:admin", "system:masters")?;
        let client = admin.client().await?;
        let program = &tools.kube_apiserver;
        let mut api_server = ApiServer::start(program, &name, index, &keys, &network, &dir)?;
        api_server
            .ready(&client)
            .await
            .with_context(|| format!("start cluster {name}"))?;

        let kubeconfig = dir.join("controller-manager.kubeconfig");
        access("system:kube-controller-manager", "system:masters")?.write(&kubeconfig)?;
        let manager =
            controller_manager(&tools.kube_controller_manager, &kubeconfig, &keys, &dir).start()?;
        admin.write(&dir.join("inside.kubeconfig"))?;
        admin
            .through(url_among_pods(&network, index))
            .write(&dir.join("pods.kubeconfig"))?;
        if let Some(port) = outside_port {
            admin
                .through(format!("https://127.0.0.1:{port}"))
                .write(&dir.join(KUBECONFIG))?;
        }
        Ok(Self {
            inner: Arc::new(Inner {
                name,
                index,
                network,
                dir,
                authority,
                kubelet: keys.kubelet().clone(),
                admin,
                client: OnceClient(client),
                kinds: Kinds::default(),
                api_server: Mutex::new(api_server),
                controller_manager: Mutex::new(Some(manager)),
            }),
        })
    }

    /// `hub`, `spoke1`, `spoke2` and so on.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// 0 for the hub, 1 for `spoke1`: the third byte of the cluster's addresses.
    pub fn index(&self) -> u8 {
        self.inner.index
    }

    /// The addresses of its Pods and Services.
    pub(crate) fn network(&self) -> &Network {
        &self.inner.network
    }

    /// Where the cluster's logs and kubeconfigs are.
    pub fn dir(&self) -> &Path {
        &self.inner.dir
    }

    /// A client that may do everything (user `lab:admin`).
    pub fn client(&self) -> Client {
        self.inner.client.0.clone()
    }

    /// A client that acts as another user, with that user's rights only.
    pub async fn client_as(&self, user: &str, groups: &[&str]) -> Result<Client> {
        self.inner.admin.client_as(Some(user), groups).await
    }

    /// The address of the API inside the lab.
    pub fn api_url(&self) -> &str {
        &self.inner.admin.server
    }

    /// The port of the API, on every address of the lab.
    pub fn api_port(&self) -> u16 {
        port(self.inner.index)
    }

    /// The certificate of the authority that signs the cluster's serving and client certificates, as PEM.
    pub fn ca_pem(&self) -> &str {
        &self.inner.authority.pair().cert
    }

    /// The authority itself, to issue certificates of the cluster.
    pub fn authority(&self) -> &Authority {
        &self.inner.authority
    }

    /// The admin's kubeconfig, for use inside the lab.
    pub fn kubeconfig(&self) -> PathBuf {
        self.inner.dir.join("inside.kubeconfig")
    }

    /// The admin's kubeconfig with an address that Pods of all clusters reach, once there are Pods.
    pub fn kubeconfig_among_pods(&self) -> PathBuf {
        self.inner.dir.join("pods.kubeconfig")
    }

    /// The certificates with which the cluster's kubelet serves its API server.
    pub(crate) fn kubelet_serving(&self) -> Serving {
        self.inner.kubelet.clone()
    }

    /// Writes a kubeconfig for a user with a client certificate, and returns its path.
    pub fn kubeconfig_for(&self, user: &str, group: Option<&str>) -> Result<PathBuf> {
        let pair = self.inner.authority.client(user, group)?;
        self.write_access(user, Credential::Certificate(pair))
    }

    /// Writes a kubeconfig for a service account (made if absent) with a fresh token, and returns its path.
    pub async fn service_account_kubeconfig(&self, namespace: &str, name: &str) -> Result<PathBuf> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client(), namespace);
        if accounts.get_opt(name).await?.is_none() {
            let mut account = ServiceAccount::default();
            account.metadata.name = Some(name.to_owned());
            accounts.create(&PostParams::default(), &account).await?;
        }
        let request = TokenRequest {
            spec: Some(TokenRequestSpec {
                expiration_seconds: Some(24 * 60 * 60),
                ..TokenRequestSpec::default()
            }),
            ..TokenRequest::default()
        };
        let made = accounts
            .create_token_request(name, &PostParams::default(), &request)
            .await?;
        let token = made
            .status
            .and_then(|status| status.token)
            .context("a token that was made")?;
        self.write_access(&format!("{namespace}-{name}"), Credential::Token(token))
    }

    fn write_access(&self, user: &str, credential: Credential) -> Result<PathBuf> {
        let access = Access {
            user: user.to_owned(),
            credential,
            ..self.inner.admin.clone()
        };
        let file = user.replace([':', '/'], "-");
        let path = self.inner.dir.join(format!("{file}.kubeconfig"));
        access.write(&path)?;
        Ok(path)
    }

    /// Applies every object of a YAML text: namespaces first, and waiting for kinds whose CRD is new.
    pub async fn apply(&self, yaml: &str) -> Result<()> {
        apply::apply(&self.inner.client.0, &self.inner.kinds, yaml)
            .await
            .with_context(|| format!("on {}", self.inner.name))
    }

    /// Deletes every object of a YAML text that is there, without waiting for the end.
    pub async fn delete(&self, yaml: &str) -> Result<()> {
        apply::delete(&self.inner.client.0, &self.inner.kinds, yaml)
            .await
            .with_context(|| format!("on {}", self.inner.name))
    }

    /// The API of a kind that has no type here, such as `("argoproj.io/v1alpha1", "Application")`; `namespace` is
    /// ignored for kinds that have none.
    pub async fn api(
        &self,
        api_version: &str,
        kind: &str,
        namespace: Option<&str>,
    ) -> Result<Api<DynamicObject>> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let kind = GroupVersionKind::gvk(group, version, kind);
        self.inner
            .kinds
            .api(&self.inner.client.0, &kind, namespace)
            .await
    }

    /// The API server's audit log.
    pub fn audit(&self) -> audit::Log {
        audit::Log::of(self.inner.dir.join("audit.log"))
    }

    /// Stops the API server in order; its data stay.
    pub async fn stop_api(&self) {
        self.inner.api_server.lock().await.stop().await;
    }

    /// Kills the API server, like a crash.
    pub async fn kill_api(&self) {
        self.inner.api_server.lock().await.kill().await;
    }

    /// Starts the API server if it does not run, and waits until it serves.
    pub async fn start_api(&self) -> Result<()> {
        let mut server = self.inner.api_server.lock().await;
        server.restart()?;
        server.ready(&self.inner.client.0).await
    }

    /// Ends the controllers of Kubernetes and starts them again.
    pub async fn restart_controllers(&self) -> Result<()> {
        let mut manager = self.inner.controller_manager.lock().await;
        if let Some(manager) = manager.as_mut() {
            manager.stop().await;
            manager.restart()?;
        }
        Ok(())
    }

    /// Ends both programs.
    pub(crate) async fn stop(&self) {
        let manager = self.inner.controller_manager.lock().await.take();
        if let Some(mut manager) = manager {
            manager.kill().await;
        }
        self.kill_api().await;
    }
}
