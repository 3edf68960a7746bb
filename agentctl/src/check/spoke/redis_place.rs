//! The redis that the agent of a cluster, or the hub program, uses: a configured one, or the one that it finds. Pure.

use diagnosis::object::{list, text};
use live::redis_service::{Doubt, PASSWORD, Service, choose, is_instance};
use serde_json::Value;

use super::{
    places::{Configured, agent, variable_of},
    redis::{NAME, REDIS},
};

/// The redis beside an Argo CD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisPlace {
    /// host:port, if it is configured.
    pub address: Option<String>,
    /// The Service that is found, and its port.
    pub service: (String, u16),
    /// The label `app.kubernetes.io/name` of the Pods behind that Service.
    pub pods: String,
    /// The Secret of the password and its key, if they are known.
    pub password: Option<(String, String)>,
    /// Why it may not be found.
    pub doubt: Option<Doubt>,
}

impl RedisPlace {
    /// host:port, in this namespace.
    pub fn target(&self, namespace: &str) -> String {
        let (service, port) = &self.service;
        let found = || format!("{service}.{namespace}.svc:{port}");
        self.address.clone().unwrap_or_else(found)
    }
}

/// The settings that replace what is found.
#[derive(Clone, Debug, Default)]
pub(crate) struct RedisSettings {
    /// host:port.
    pub(crate) address: Option<String>,
    /// The Secret of the password.
    pub(crate) secret: Option<String>,
    /// Its key.
    pub(crate) key: Option<String>,
}

/// Decides as the agent does, by its variables or by the configuration that it gets.
pub fn redis_place(configured: &Configured, programs: &[Value], services: &[Value]) -> RedisPlace {
    let agent = agent(programs.iter());
    let setting = |of_agent: &str, of_addon: &str| {
        let found = variable_of(agent, of_agent).or_else(|| configured.variable(of_addon));
        found.map(str::to_owned)
    };
    let settings = RedisSettings {
        address: setting("REDIS_ADDR", "REDIS_ADDR"),
        secret: setting("ARGOCD_AGENT_REDIS_SECRET_NAME", "REDIS_SECRET"),
        key: setting("ARGOCD_AGENT_REDIS_SECRET_KEY", "REDIS_SECRET_KEY"),
    };
    decide(settings, services)
}

/// Decides as both programs do.
pub(crate) fn decide(settings: RedisSettings, services: &[Value]) -> RedisPlace {
    let RedisSettings {
        address,
        secret,
        key,
    } = settings;
    let known: Vec<_> = services.iter().map(service).collect();
    let choice = choose(&known);
    let found = address.as_ref().map_or(choice.password, |_| Some(PASSWORD));
    let found = found.map(|it| (it.secret.to_owned(), it.key.to_owned()));
    let key = key.unwrap_or_else(|| PASSWORD.key.to_owned());
    let password = secret.map(|secret| (secret, key));
    let is_moot = |doubt: &Doubt| match doubt {
        Doubt::Password(_) => password.is_some(),
        Doubt::NotFound | Doubt::Several(_) => false,
    };
    let doubt = choice.doubt.filter(|it| address.is_none() && !is_moot(it));
    let is_it = |it: &&Value| argocd::Meta::of(it).name() == choice.service;
    let selector = services.iter().find(is_it);
    let selector = selector.and_then(|it| it.pointer("/spec/selector")?.get(NAME)?.as_str());
    RedisPlace {
        address,
        pods: selector.unwrap_or(REDIS).to_owned(),
        service: (choice.service, choice.port),
        password: password.or(found),
        doubt,
    }
}

fn service(object: &Value) -> Service {
    let meta = argocd::Meta::of(object);
    let labels = object
        .pointer("/metadata/labels")
        .and_then(Value::as_object);
    let labels = labels.into_iter().flatten();
    let ports = list(object, "/spec/ports").iter();
    let ports = ports.filter_map(|it| it.get("port")?.as_u64());
    let mut owners = list(object, "/metadata/ownerReferences").iter();
    Service {
        name: meta.name().to_owned(),
        labels: labels
            .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
            .collect(),
        is_operated: owners.any(|it| is_instance(text(it, "/kind"))),
        ports: ports.filter_map(|port| u16::try_from(port).ok()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn operated(instance: &str) -> Value {
        json!({
            "metadata": { "name": format!("{instance}-redis"), "labels": {
                "app.kubernetes.io/part-of": "argocd", "app.kubernetes.io/managed-by": instance,
            }, "ownerReferences": [{ "kind": "ArgoCD", "name": instance }]},
            "spec": { "ports": [{ "port": 6379 }] },
        })
    }

    fn configured(variables: &[(&str, &str)]) -> Configured {
        let variables = variables.iter();
        let variables: Vec<_> = variables
            .map(|(name, value)| json!({ "name": name, "value": value }))
            .collect();
        Configured::read(&json!({ "spec": { "customizedVariables": variables } }))
    }

    fn secret(place: &RedisPlace) -> Option<(&str, &str)> {
        let password = place.password.as_ref()?;
        Some((&password.0, &password.1))
    }

    #[test]
    fn configuration_goes_before_found_services() {
        let services = [operated("team")];
        let place =
            |variables: &[(&str, &str)]| redis_place(&configured(variables), &[], &services);
        let found = place(&[]);
        assert!(matches!(found.doubt, Some(Doubt::Password(_))), "{found:?}");
        assert_eq!(secret(&found), None);
        let named = place(&[("REDIS_SECRET", "s"), ("REDIS_SECRET_KEY", "k")]);
        assert_eq!((secret(&named), &named.doubt), (Some(("s", "k")), &None));
        let other = place(&[("REDIS_ADDR", "redis:1")]);
        assert_eq!(other.address.as_deref(), Some("redis:1"));
        let usual = Some(("argocd-redis", "auth"));
        assert_eq!((secret(&other), &other.doubt), (usual, &None));
        let gitops = redis_place(&configured(&[]), &[], &[operated("openshift-gitops")]);
        let expected = ("openshift-gitops-redis-initial-password", "admin.password");
        assert_eq!((secret(&gitops), &gitops.doubt), (Some(expected), &None));
        let mut labelled = operated("argocd");
        labelled["metadata"]["ownerReferences"] = json!([{ "kind": "Application" }]);
        let labelled = redis_place(&configured(&[]), &[], &[labelled]);
        assert_eq!((secret(&labelled), &labelled.doubt), (usual, &None));
    }

    #[test]
    fn a_running_agent_counts_more_than_its_configuration() {
        let agent = json!({
            "metadata": { "name": argocd::keys::addon::AGENT },
            "spec": { "template": { "spec": { "containers": [{ "name": "agent", "env": [
                { "name": "REDIS_ADDR", "value": "running:1" },
                { "name": "ARGOCD_AGENT_REDIS_SECRET_NAME", "value": "running" },
            ]}]}}},
        });
        let configured = configured(&[("REDIS_ADDR", "configured:1")]);
        let place = redis_place(&configured, &[agent], &[]);
        assert_eq!(place.address.as_deref(), Some("running:1"));
        assert_eq!(secret(&place), Some(("running", "auth")));
    }
}
