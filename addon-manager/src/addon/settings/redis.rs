//! How the agent reaches Argo CD's redis on a spoke, and the permissions that it needs for that. Pure.

use std::net::IpAddr;

use argocd::name::is_name;
use ocm::api::addon::AddOnDeploymentConfigSpec;
use serde_json::{Value, json};

use super::{Error, variable};
use crate::address::Address;

/// The longest key of a Secret.
const LONGEST_KEY: usize = 253;

/// How the agent reaches Argo CD's redis. What is not set the agent finds, or has its own default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RedisOptions {
    /// host:port of redis.
    pub address: Option<String>,
    /// The Secret of the password.
    pub secret: Option<String>,
    /// Its key.
    pub key: Option<String>,
    /// The user.
    pub user: Option<String>,
    /// TLS, and the trusted certificates.
    pub tls: RedisTls,
}

/// Whether redis uses TLS, and the source of the certificates to trust, in Argo CD's namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RedisTls {
    /// No TLS.
    #[default]
    Off,
    /// With a Secret.
    Secret(String),
    /// With a `ConfigMap`.
    ConfigMap(String),
}

impl RedisOptions {
    /// The variables of the agent, with empty values for those that it does not get.
    pub(in crate::addon) fn variables(&self) -> [(&'static str, String); 7] {
        let text = |option: Option<&String>| option.cloned().unwrap_or_default();
        let (is_on, secret, map) = match &self.tls {
            RedisTls::Off => ("", "", ""),
            RedisTls::Secret(name) => ("true", name.as_str(), ""),
            RedisTls::ConfigMap(name) => ("true", "", name.as_str()),
        };
        [
            ("REDIS_ADDR", text(self.address.as_ref())),
            ("REDIS_USERNAME", text(self.user.as_ref())),
            ("ARGOCD_AGENT_REDIS_SECRET_NAME", text(self.secret.as_ref())),
            ("ARGOCD_AGENT_REDIS_SECRET_KEY", text(self.key.as_ref())),
            ("ARGOCD_AGENT_REDIS_TLS_ENABLED", is_on.to_owned()),
            ("ARGOCD_AGENT_REDIS_TLS_CA_SECRET_NAME", secret.to_owned()),
            ("ARGOCD_AGENT_REDIS_TLS_CA_CONFIGMAP_NAME", map.to_owned()),
        ]
    }

    /// Changes the rules of the agent's Role that differ from those of the manifest: the Secrets with the password, and
    /// where the certificates are.
    pub(in crate::addon) fn grant(&self, role: &mut Value) {
        let Some(rules) = role.get_mut("rules").and_then(Value::as_array_mut) else {
            return;
        };
        if let Some(secret) = &self.secret {
            let secrets = json!(["secrets"]);
            let by_name = rules
                .iter_mut()
                .filter(|rule| rule.get("resources") == Some(&secrets));
            for names in by_name.filter_map(|rule| rule.get_mut("resourceNames")) {
                *names = json!([secret]);
            }
        }
        let (resource, name) = match &self.tls {
            RedisTls::Off => return,
            RedisTls::Secret(name) => ("secrets", name),
            RedisTls::ConfigMap(name) => ("configmaps", name),
        };
        rules.push(json!({
            "apiGroups": [""], "resources": [resource], "resourceNames": [name], "verbs": ["list", "watch"],
        }));
    }
}

/// Reads the variables.
pub(super) fn options(config: &AddOnDeploymentConfigSpec) -> Result<RedisOptions, Error> {
    let secret = variable("REDIS_SECRET", config, "the name of a Secret", object)?;
    let key = variable("REDIS_SECRET_KEY", config, "a key of a Secret", key)?;
    if let (None, Some(value)) = (&secret, &key) {
        return Err(Error::Variable {
            name: "REDIS_SECRET_KEY",
            value: value.clone(),
            wanted: "empty where REDIS_SECRET is",
        });
    }
    let wanted = "none, Secret/NAME or ConfigMap/NAME";
    Ok(RedisOptions {
        address: variable("REDIS_ADDR", config, "host:port", address)?,
        secret,
        key,
        user: variable("REDIS_USERNAME", config, "a user name without spaces", user)?,
        tls: variable("REDIS_TLS", config, wanted, tls)?.unwrap_or_default(),
    })
}

/// Unlike other addresses it needs its port, which is not 443. A host whose last label is a number is an IP address, or the
/// agent refuses it.
fn address(text: &str) -> Option<String> {
    let address: Address = text.parse().ok()?;
    let has_port = text.parse::<IpAddr>().is_err() && text.ends_with(&format!(":{}", address.port));
    let last = address.host.rsplit('.').next().unwrap_or_default();
    let is_number = last.bytes().all(|byte| byte.is_ascii_digit());
    let is_host = !is_number || address.host.parse::<IpAddr>().is_ok();
    (has_port && is_host).then(|| address.to_string())
}

pub(crate) fn object(text: &str) -> Option<String> {
    is_name(text).then(|| text.to_owned())
}

pub(crate) fn key(text: &str) -> Option<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    (text.len() <= LONGEST_KEY && text.chars().all(is_part)).then(|| text.to_owned())
}

pub(crate) fn user(text: &str) -> Option<String> {
    let is_printable = text.bytes().all(|byte| byte.is_ascii_graphic());
    (is_printable && text.len() <= LONGEST_KEY).then(|| text.to_owned())
}

pub(crate) fn tls(text: &str) -> Option<RedisTls> {
    match text.split_once('/') {
        None if text == "none" => Some(RedisTls::Off),
        Some(("Secret", name)) => object(name).map(RedisTls::Secret),
        Some(("ConfigMap", name)) => object(name).map(RedisTls::ConfigMap),
        None | Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addon::settings::tests::config;

    fn of(variables: &[(&str, &str)]) -> Result<RedisOptions, Error> {
        options(&config(variables))
    }

    /// The variables of the agent that have values.
    fn passed_on(options: &RedisOptions) -> Vec<(&'static str, String)> {
        let all = options.variables().into_iter();
        all.filter(|(_, value)| !value.is_empty()).collect()
    }

    #[test]
    fn without_variables_the_agent_finds_redis_itself() {
        for nothing in [&[][..], &[("REDIS_ADDR", "")], &[("REDIS_TLS", "none")]] {
            let options = of(nothing).unwrap();
            assert_eq!(options, RedisOptions::default());
            assert_eq!(passed_on(&options), []);
        }
    }

    #[test]
    fn variables_reach_the_agent_under_its_own_names() {
        let all = [
            ("REDIS_ADDR", "Redis.shared.example.com:7000"),
            ("REDIS_SECRET", "team-redis-initial-password"),
            ("REDIS_SECRET_KEY", "admin.password"),
            ("REDIS_USERNAME", "argo"),
            ("REDIS_TLS", "ConfigMap/openshift-service-ca.crt"),
        ];
        let expected = [
            ("REDIS_ADDR", "redis.shared.example.com:7000"),
            ("REDIS_USERNAME", "argo"),
            (
                "ARGOCD_AGENT_REDIS_SECRET_NAME",
                "team-redis-initial-password",
            ),
            ("ARGOCD_AGENT_REDIS_SECRET_KEY", "admin.password"),
            ("ARGOCD_AGENT_REDIS_TLS_ENABLED", "true"),
            (
                "ARGOCD_AGENT_REDIS_TLS_CA_CONFIGMAP_NAME",
                "openshift-service-ca.crt",
            ),
        ];
        let expected = expected.map(|(name, value)| (name, value.to_owned()));
        assert_eq!(passed_on(&of(&all).unwrap()), expected);
        let of_secret = of(&[("REDIS_TLS", "Secret/redis-ca")]).unwrap();
        let name = "ARGOCD_AGENT_REDIS_TLS_CA_SECRET_NAME";
        assert!(passed_on(&of_secret).contains(&(name, "redis-ca".to_owned())));
        for address in [
            "[2001:db8::1]:6379",
            "10.0.0.1:443",
            "redis:6379",
            "1.redis1:6379",
        ] {
            let options = of(&[("REDIS_ADDR", address)]).unwrap();
            assert_eq!(options.address.as_deref(), Some(address));
        }
    }

    #[test]
    fn an_invalid_redis_variable_is_refused() {
        let long = "a".repeat(254);
        for (name, value) in [
            ("REDIS_ADDR", "redis"),
            ("REDIS_ADDR", "redis:0"),
            ("REDIS_ADDR", "redis://redis:6379"),
            ("REDIS_ADDR", "2001:db8::443"),
            ("REDIS_ADDR", "[2001:db8::1]"),
            ("REDIS_ADDR", "10.0.0.300:6379"),
            ("REDIS_ADDR", "redis.1:6379"),
            ("REDIS_ADDR", "6379:6379"),
            ("REDIS_SECRET", "Redis"),
            ("REDIS_SECRET", "../redis"),
            ("REDIS_SECRET", "a b"),
            ("REDIS_SECRET", &long),
            ("REDIS_SECRET_KEY", "auth"),
            ("REDIS_SECRET_KEY", "a/b"),
            ("REDIS_USERNAME", "a b"),
            ("REDIS_USERNAME", "a\nb"),
            ("REDIS_TLS", "true"),
            ("REDIS_TLS", "redis-ca"),
            ("REDIS_TLS", "Secret/"),
            ("REDIS_TLS", "secret/redis-ca"),
            ("REDIS_TLS", "ConfigMap/a/b"),
            ("REDIS_TLS", "none/a"),
        ] {
            let message = of(&[(name, value)]).unwrap_err().to_string();
            assert!(message.contains(name), "{value}: {message}");
        }
        let with_secret = [("REDIS_SECRET", "s"), ("REDIS_SECRET_KEY", "a b")];
        assert!(of(&with_secret).is_err());
    }

    fn granted(variables: &[(&str, &str)], rules: &Value) -> Value {
        let mut role = json!({ "rules": rules });
        of(variables).unwrap().grant(&mut role);
        role["rules"].take()
    }

    #[test]
    fn password_is_granted_in_one_secret_by_name() {
        let all = json!({ "resources": ["secrets"], "verbs": ["list"] });
        let by_name = |name: &str| json!({ "resources": ["secrets"], "resourceNames": [name], "verbs": ["get"] });
        let before = json!([all, by_name("any")]);
        assert_eq!(granted(&[], &before), before);
        let after = json!([all, by_name("s")]);
        assert_eq!(granted(&[("REDIS_SECRET", "s")], &before), after);
    }

    #[test]
    fn certificates_are_granted_by_name() {
        for (kind, resource) in [("Secret", "secrets"), ("ConfigMap", "configmaps")] {
            let value = format!("{kind}/ca");
            let rules = granted(&[("REDIS_TLS", &value)], &json!([]));
            let expected = json!([{
                "apiGroups": [""], "resources": [resource], "resourceNames": ["ca"], "verbs": ["list", "watch"],
            }]);
            assert_eq!(rules, expected);
        }
        assert_eq!(granted(&[], &json!([])), json!([]));
    }
}
