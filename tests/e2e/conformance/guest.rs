//! The SDK's example add-on, driven by a test.

use std::time::Duration;

use anyhow::{Context as _, Result};
use base64::Engine as _;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use lab::{
    hello,
    steps::{
        At, Objects,
        enrol::AGENT_NAMESPACE,
        objects::{has_condition, is_rolled_out},
    },
    wait,
};
use serde_json::{Value, json};

use crate::stage::Stage;

/// Real OCM looks at leases every half minute, and an agent starts only when its Secret is there.
const WELL: Duration = Duration::from_mins(2);

/// The example add-on, installed on the hub.
pub(crate) struct Guest<'a> {
    pub(crate) stage: &'a Stage,
    pub(crate) hub: &'a Objects,
}

impl<'a> Guest<'a> {
    /// Installs it, if it is not there, and waits until its manager runs.
    pub(crate) async fn of(stage: &'a Stage) -> Result<Self> {
        hello::provide_image(stage.lab.images())?;
        hello::apply(stage.lab.hub()).await?;
        let guest = Self {
            stage,
            hub: &stage.hub,
        };
        guest.until_managed().await?;
        Ok(guest)
    }

    /// Waits until the manager runs.
    pub(crate) async fn until_managed(&self) -> Result<()> {
        let manager = At::deployment(hello::NAMESPACE, hello::MANAGER);
        let runs = self.hub.until(&manager, "runs", wait::BOUND, is_rolled_out);
        runs.await.map(drop)
    }

    /// Kills the manager, and waits until another one runs.
    pub(crate) async fn kill_manager(&self) -> Result<()> {
        let pods = At::pod(hello::NAMESPACE, "");
        let pods = self.hub.list(&pods, "app=hello-manager").await?;
        for pod in &pods {
            let name = pod["metadata"]["name"].as_str().context("a name")?;
            self.hub.kill(&At::pod(hello::NAMESPACE, name)).await?;
        }
        self.until_managed().await
    }

    /// Sets a variable of the manager's environment, and waits until it runs with that.
    pub(crate) async fn set_manager_variable(&self, name: &str, value: &str) -> Result<()> {
        let manager = At::deployment(hello::NAMESPACE, hello::MANAGER);
        let now = self.hub.read(&manager).await?;
        let mut containers = now["spec"]["template"]["spec"]["containers"].clone();
        let variables = containers[0]["env"].as_array_mut().context("variables")?;
        variables.retain(|it| it["name"] != name);
        variables.push(json!({ "name": name, "value": value }));
        let spec = json!({"spec": {"template": {"spec": {"containers": containers}}}});
        self.hub.merge(&manager, spec).await?;
        self.until_managed().await
    }

    /// Switches it on for a spoke, with these variables.
    pub(crate) async fn enable(&self, number: usize, variables: &[(&str, &str)]) -> Result<()> {
        let cluster = format!("spoke{number}");
        self.configure(number, variables).await?;
        self.hub
            .apply(&hello::addon(&cluster), json!({ "spec": own(&cluster) }))
            .await
            .map(drop)
    }

    /// Changes the variables of a spoke.
    pub(crate) async fn configure(&self, number: usize, variables: &[(&str, &str)]) -> Result<()> {
        let spec = json!({ "customizedVariables": listed(variables) });
        self.configure_with(number, spec).await
    }

    /// Changes the configuration of a spoke.
    pub(crate) async fn configure_with(&self, number: usize, spec: Value) -> Result<()> {
        let config = At::addon_config(&format!("spoke{number}"), hello::ADDON);
        let config = self.hub.apply(&config, json!({ "spec": spec })).await;
        config.map(drop)
    }

    /// Waits until a condition of the add-on on a spoke has this status and reason.
    pub(crate) async fn until(
        &self,
        number: usize,
        [kind, status, reason]: [&str; 3],
    ) -> Result<Value> {
        let has_it = |it: &Value| has_condition(it, kind, status, reason);
        let what = format!("says {kind}={status} {reason}");
        let addon = hello::addon(&format!("spoke{number}"));
        self.hub.until(&addon, &what, WELL, has_it).await
    }

    /// Waits until all conditions of the add-on are healthy.
    pub(crate) async fn until_well(&self, number: usize) -> Result<Value> {
        for wanted in [
            ["Available", "True", "ManagedClusterAddOnLeaseUpdated"],
            ["ManifestApplied", "True", ""],
            ["RegistrationApplied", "True", ""],
        ] {
            self.until(number, wanted).await?;
        }
        self.until(number, ["Progressing", "False", "Completed"])
            .await
    }

    /// Switches it off, without waiting.
    pub(crate) async fn leave(&self, number: usize) -> Result<()> {
        self.hub
            .delete(&hello::addon(&format!("spoke{number}")))
            .await
    }

    /// Switches it off, and waits until nothing of it is left on the hub.
    pub(crate) async fn disable(&self, number: usize) -> Result<()> {
        let cluster = format!("spoke{number}");
        self.leave(number).await?;
        self.until_gone(number).await?;
        // OCM's agent asks for no more certificates when there are ten requests of an add-on.
        let labels = format!(
            "open-cluster-management.io/addon-name={},open-cluster-management.io/cluster-name={cluster}",
            hello::ADDON
        );
        for csr in self.hub.list(&At::csr(""), &labels).await? {
            let name = csr["metadata"]["name"].as_str().unwrap_or_default();
            self.hub.delete(&At::csr(name)).await?;
        }
        let config = At::addon_config(&cluster, hello::ADDON);
        self.hub.delete(&config).await
    }

    /// Waits until nothing of it is left on the hub.
    pub(crate) async fn until_gone(&self, number: usize) -> Result<()> {
        let cluster = format!("spoke{number}");
        self.hub.until_gone(&hello::addon(&cluster), WELL).await?;
        self.until_works(number, "none is left", Vec::is_empty)
            .await?;
        for at in [
            At::role(&cluster, RIGHTS),
            binding(&cluster),
            At::config_map(&cluster, hello::ADDON),
        ] {
            self.hub.until_gone(&at, WELL).await?;
        }
        Ok(())
    }

    /// Waits until the works of a spoke fit.
    pub(crate) async fn until_works(
        &self,
        number: usize,
        what: &str,
        fits: impl Fn(&Vec<Value>) -> bool,
    ) -> Result<Vec<Value>> {
        let cluster = format!("spoke{number}");
        let at = At::work(&cluster, "");
        let labels = format!("open-cluster-management.io/addon-name={}", hello::ADDON);
        let look = || self.hub.list(&at, &labels);
        let what = format!("works of {} for {cluster}: {what}", hello::ADDON);
        wait::until_within(WELL, &what, look, fits).await
    }

    /// A client of the hub as the agent on a spoke, from the Secret that OCM made for it there.
    pub(crate) async fn agent(&self, number: usize) -> Result<Objects> {
        let secret = At::secret(AGENT_NAMESPACE, "hello-hub-kubeconfig");
        let secret = self.stage.spoke(number).until_there(&secret, WELL).await?;
        client_of(&secret).await.map(Objects::new)
    }
}

/// The name of an agent's Role and `RoleBinding` on the hub.
pub(crate) const RIGHTS: &str = "open-cluster-management:hello:agent";

/// The `RoleBinding` of a cluster's agent.
pub(crate) fn binding(cluster: &str) -> At {
    let kind = ("RoleBinding", "rolebindings");
    At::of("rbac.authorization.k8s.io/v1", kind, Some(cluster), RIGHTS)
}

/// Variables as an `AddOnDeploymentConfig` has them.
pub(crate) fn listed(variables: &[(&str, &str)]) -> Value {
    let variables = variables.iter();
    variables
        .map(|(name, value)| json!({ "name": name, "value": value }))
        .collect()
}

/// A spec that names the cluster's own configuration.
fn own(cluster: &str) -> Value {
    json!({ "configs": [{
        "group": "addon.open-cluster-management.io",
        "resource": "addondeploymentconfigs",
        "namespace": cluster,
        "name": hello::ADDON,
    }]})
}

/// The client that an agent creates from its Secret: the kubeconfig names files beside it.
async fn client_of(secret: &Value) -> Result<Client> {
    let text = |key: &str| -> Result<Option<String>> {
        let Some(encoded) = secret["data"][key].as_str() else {
            return Ok(None);
        };
        let bytes = base64::engine::general_purpose::STANDARD.decode(encoded)?;
        Ok(Some(String::from_utf8(bytes)?))
    };
    let encoded = |key: &str| secret["data"][key].as_str().map(str::to_owned);
    let kubeconfig = text("kubeconfig")?.context("the Secret has a kubeconfig")?;
    let mut kubeconfig = Kubeconfig::from_yaml(&kubeconfig)?;
    let user = kubeconfig.auth_infos.first_mut();
    let user = user.and_then(|user| user.auth_info.as_mut());
    let user = user.context("the kubeconfig has a user")?;
    user.token_file = None;
    user.token = text("token")?.map(Into::into);
    (user.client_certificate, user.client_key) = (None, None);
    user.client_certificate_data = encoded("tls.crt");
    user.client_key_data = encoded("tls.key").map(Into::into);
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}
