//! The values of add-on templates and charts, with the names that OCM's templates use. Pure.
//!
//! Later sources win: the author's defaults, the configuration, the annotation
//! [`VALUES`](crate::keys::VALUES) of the `ManagedClusterAddOn`, and the fixed values: the names of
//! cluster and namespace and the mode.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{Config, RenderError, RenderInput, Target};
use crate::{
    api::addon::{CustomizedVariable, ManagedClusterAddOn},
    keys,
};

/// How an agent is installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstallMode {
    /// On the managed cluster.
    Default,
    /// On another cluster.
    Hosted,
}

impl InstallMode {
    /// The mode of a `ManagedClusterAddOn`.
    pub fn of(target: Target<'_>) -> Self {
        if target.addon.hosting_cluster().is_some() {
            Self::Hosted
        } else {
            Self::Default
        }
    }

    /// The text for templates.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Default => "Default",
            Self::Hosted => "Hosted",
        }
    }
}

/// The Secret with the agent's kubeconfig for the hub, which OCM creates for a registration with the
/// hub's own signer.
pub fn hub_kubeconfig_secret(addon: &str) -> String {
    format!("{addon}-hub-kubeconfig")
}

/// The Secret with the agent's kubeconfig for the managed cluster in hosted mode; the administrator of
/// the host creates it.
pub fn managed_kubeconfig_secret(addon: &str) -> String {
    format!("{addon}-managed-kubeconfig")
}

/// Values for plain templates: names in upper camel case, and the configuration's variables.
pub fn plain(input: RenderInput<'_>) -> BTreeMap<String, String> {
    let variables = variables(input.config).map(|it| (it.name.clone(), it.value.clone()));
    let fixed = fixed(input).map(|(name, value)| (upper(name), value));
    variables.chain(fixed).collect()
}

/// Values for charts: names in lower camel case and `global`.
///
/// Only the paths in `allowed` are taken from the annotation (`image.tag`, for example; a path includes
/// everything below it): OCM copies it from the ManagedCluster, where the cluster itself may write.
pub fn chart(
    defaults: Value,
    input: RenderInput<'_>,
    allowed: &[&str],
) -> Result<Value, RenderError> {
    let variables = variables(input.config).map(|it| (it.name.clone(), json!(it.value)));
    let annotated = annotated(input.target.addon, allowed)?;
    let fixed = fixed(input).map(|(name, value)| (name.to_owned(), json!(value)));
    let layers = [
        json!({ "global": global(input.config) }),
        Value::Object(variables.collect()),
        annotated,
        Value::Object(fixed.into_iter().collect()),
    ];
    Ok(layers.into_iter().fold(defaults, merged))
}

fn fixed(input: RenderInput<'_>) -> [(&'static str, String); 5] {
    let addon = input.target.addon.metadata.name.as_deref();
    let addon = addon.unwrap_or_default();
    [
        ("clusterName", input.target.name.to_string()),
        ("addonInstallNamespace", input.install_namespace.to_owned()),
        (
            "installMode",
            InstallMode::of(input.target).as_str().to_owned(),
        ),
        ("hubKubeConfigSecret", hub_kubeconfig_secret(addon)),
        ("managedKubeConfigSecret", managed_kubeconfig_secret(addon)),
    ]
}

fn variables(config: &Config) -> impl Iterator<Item = &CustomizedVariable> {
    let deployment = config.deployment.iter();
    deployment.flat_map(|it| &it.customized_variables)
}

fn upper(name: &str) -> String {
    let mut rest = name.chars();
    let first = rest.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(rest).collect()
}

fn global(config: &Config) -> Value {
    let Some(deployment) = &config.deployment else {
        return json!({});
    };
    let mut global = Map::new();
    if let Some(placement) = &deployment.node_placement {
        global.insert("nodeSelector".to_owned(), json!(placement.node_selector));
        global.insert("tolerations".to_owned(), json!(placement.tolerations));
    }
    if let Some(proxy) = &deployment.proxy_config {
        let proxies = json!({
            "HTTP_PROXY": proxy.http_proxy,
            "HTTPS_PROXY": proxy.https_proxy,
            "NO_PROXY": proxy.no_proxy,
        });
        global.insert("proxyConfig".to_owned(), proxies);
    }
    if !deployment.resource_requirements.is_empty() {
        let requirements = json!(deployment.resource_requirements);
        global.insert("resourceRequirements".to_owned(), requirements);
    }
    Value::Object(global)
}

/// The allowed part of the annotation.
fn annotated(addon: &ManagedClusterAddOn, allowed: &[&str]) -> Result<Value, RenderError> {
    let Some(text) = addon.annotation(keys::VALUES) else {
        return Ok(json!({}));
    };
    let values = serde_json::from_str::<Map<String, Value>>(text);
    let values = values.map_err(|error| RenderError {
        message: format!(
            "the annotation {} is not a JSON object: {error}",
            keys::VALUES
        ),
    })?;
    let values = Value::Object(values);
    let picked = allowed.iter().filter_map(|path| pick(&values, path));
    Ok(picked.fold(json!({}), merged))
}

/// The value at a path, wrapped in the objects of the path.
fn pick(values: &Value, path: &str) -> Option<Value> {
    match path.split_once('.') {
        None => Some(json!({ path: values.get(path)? })),
        Some((first, rest)) => Some(json!({ first: pick(values.get(first)?, rest)? })),
    }
}

/// Merges objects; any other later value replaces the earlier one.
fn merged(base: Value, later: Value) -> Value {
    match (base, later) {
        (Value::Object(mut base), Value::Object(later)) => {
            for (name, value) in later {
                let before = base.remove(&name).unwrap_or(Value::Null);
                base.insert(name, merged(before, value));
            }
            Value::Object(base)
        }
        (_, later) => later,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        api::{
            addon::{AddOnDeploymentConfigSpec, CustomizedVariable, NodePlacement, ProxyConfig},
            cluster::ManagedCluster,
        },
        name::ClusterName,
    };

    fn addon(annotation: Option<&str>) -> ManagedClusterAddOn {
        let mut addon = ManagedClusterAddOn::default();
        addon.metadata.name = Some("a".to_owned());
        let annotation = annotation.map(|text| (keys::VALUES.to_owned(), text.to_owned()));
        addon.metadata.annotations = Some(annotation.into_iter().collect());
        addon
    }

    fn config(variables: &[(&str, &str)]) -> Config {
        let variable = |(name, value): &(&str, &str)| CustomizedVariable {
            name: (*name).to_owned(),
            value: (*value).to_owned(),
        };
        let deployment = AddOnDeploymentConfigSpec {
            customized_variables: variables.iter().map(variable).collect(),
            node_placement: Some(NodePlacement {
                node_selector: [("disk".to_owned(), "ssd".to_owned())].into(),
                ..NodePlacement::default()
            }),
            proxy_config: Some(ProxyConfig {
                https_proxy: "http://proxy".to_owned(),
                ..ProxyConfig::default()
            }),
            ..AddOnDeploymentConfigSpec::default()
        };
        Config {
            deployment: Some(deployment),
            ..Config::default()
        }
    }

    fn with<T>(
        addon: &ManagedClusterAddOn,
        config: &Config,
        see: impl Fn(RenderInput<'_>) -> T,
    ) -> T {
        let (name, cluster) = (ClusterName::new("c").unwrap(), ManagedCluster::default());
        let target = Target {
            name: &name,
            cluster: &cluster,
            addon,
        };
        see(RenderInput {
            target,
            install_namespace: "there",
            config,
        })
    }

    #[test]
    fn plain_templates_get_ocms_names() {
        let config = config(&[("IMAGE", "i"), ("ClusterName", "forged")]);
        let values = with(&addon(None), &config, plain);
        let wanted = [
            ("AddonInstallNamespace", "there"),
            ("ClusterName", "c"),
            ("HubKubeConfigSecret", "a-hub-kubeconfig"),
            ("IMAGE", "i"),
            ("InstallMode", "Default"),
            ("ManagedKubeConfigSecret", "a-managed-kubeconfig"),
        ];
        let wanted = wanted.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(values, wanted.into());
    }

    #[test]
    fn later_values_win_and_fixed_values_always_win() {
        let text = r#"{"level":"debug","image":{"tag":"v2","repo":"evil"},"clusterName":"x"}"#;
        let (addon, config) = (
            addon(Some(text)),
            config(&[("level", "info"), ("color", "red")]),
        );
        let defaults = json!({
            "level": "warn", "color": "blue", "image": { "tag": "v1", "repo": "good" },
        });
        let allowed = ["level", "image.tag", "clusterName", "absent.path"];
        let values = with(&addon, &config, |input| {
            chart(defaults.clone(), input, &allowed).unwrap()
        });
        assert_eq!(values["level"], "debug");
        assert_eq!(values["color"], "red");
        assert_eq!(values["image"], json!({ "tag": "v2", "repo": "good" }));
        assert_eq!(values["clusterName"], "c");
        assert_eq!(values["global"]["nodeSelector"]["disk"], "ssd");
        assert_eq!(
            values["global"]["proxyConfig"]["HTTPS_PROXY"],
            "http://proxy"
        );
    }

    #[test]
    fn an_annotation_that_is_not_an_object_is_an_error() {
        let refused = with(&addon(Some("[1]")), &config(&[]), |input| {
            chart(json!({}), input, &[]).unwrap_err()
        });
        assert!(refused.message.contains(keys::VALUES), "{refused}");
    }

    proptest! {
        #[test]
        fn only_allowed_paths_count(name in "[a-z]{1,6}", value in ".{0,8}") {
            let text = json!({ name.clone(): value }).to_string();
            let addon = addon(Some(&text));
            let none = Config::default();
            let refused = with(&addon, &none, |input| chart(json!({}), input, &[]).unwrap());
            prop_assert_eq!(refused.get(&name).filter(|_| name != "global"), None);
            let taken = with(&addon, &none, |input| chart(json!({}), input, &[&name]).unwrap());
            prop_assert_eq!(&taken[&name], &json!(value));
        }
    }
}
