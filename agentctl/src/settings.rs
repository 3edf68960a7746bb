//! The hub program's settings of namespaces: from its Deployment, unless flags override them. Pure.

use argocd::routing::RoutingSettings;
use diagnosis::{
    object::{argument, container, entries, option, present},
    settings::Settings,
};
use serde_json::Value;

use crate::args::Given;

/// The flag of the hub program for the namespace of the hub's Argo CD, and its variable.
pub const NAMESPACE: (&str, &str) = ("--namespace", "ARGOCD_PRINCIPAL_NAMESPACE");
/// The same for the namespaces whose Applications go by destination.
pub const ALLOWED_NAMESPACES: (&str, &str) = (
    "--allowed-namespaces",
    "ARGOCD_PRINCIPAL_ALLOWED_NAMESPACES",
);

/// The flag of the hub program for the port of the redis proxy; it has no variable.
pub const REDIS_PROXY_PORT: &str = "--redis-proxy-port";
/// The same for the data of the pages in Argo CD's UI.
pub const UI_API_PORT: &str = "--ui-api-port";
/// The same for TLS at the redis proxy.
pub const REDIS_PROXY_TLS: &str = "--redis-proxy-tls";
/// The same for the address of the hub's own redis.
pub const REDIS_ADDRESS: &str = "--redis-address";
/// The same for the Secret with its password.
pub const REDIS_SECRET: &str = "--redis-secret";
/// The same for the key of the password.
pub const REDIS_SECRET_KEY: &str = "--redis-secret-key";
/// The same for TLS to it.
pub const REDIS_TLS: &str = "--redis-tls";

/// Whether the hub program listens on the port of this flag, by its Deployment; 0 is none.
pub(crate) fn has_port(manager: Option<&Value>, flag: &str) -> bool {
    let port = manager.and_then(|it| argument(container(it)?, flag));
    port.is_some_and(|port| port != "0")
}

/// Whether the hub program runs, by its Deployment; `place` is where that is. What cannot be read says nothing.
fn silent(manager: &Result<Option<Value>, String>, place: &str) -> Option<String> {
    let why = match manager {
        Err(_unread) => return None,
        Ok(None) => format!("Deployment {place} not found; see --own-namespace"),
        Ok(Some(manager)) => {
            let available = manager.pointer("/status/availableReplicas");
            if available.and_then(Value::as_u64).is_some_and(|it| it > 0) {
                return None;
            }
            format!("the Deployment {place} has no available Pod")
        }
    };
    Some(format!(
        "the hub program does not run ({why}), so this state is old; run argocd-agentctl check"
    ))
}

/// The settings; `manager` is the hub program's Deployment, if it is there, or why it could not be read, and `place` where
/// it is.
pub fn settings(manager: &Result<Option<Value>, String>, place: &str, given: &Given) -> Settings {
    let container = present(manager).and_then(container);
    let namespace = given.argocd_namespace.as_deref();
    let namespace = namespace.or_else(|| option(container?, NAMESPACE));
    let allowed = given.allowed_namespaces.clone();
    let allowed = allowed.or_else(|| Some(entries(option(container?, ALLOWED_NAMESPACES)?)));
    let known = given.argocd_namespace.is_some() && given.allowed_namespaces.is_some();
    let unread = match manager {
        Ok(Some(_)) => None,
        Ok(None) => Some(format!("Deployment {place} not found")),
        Err(reason) => Some(reason.clone()),
    };
    let doubt = unread.filter(|_| !known).map(|reason| {
        format!(
            "cannot read the hub program's settings ({reason}); assuming defaults. See --own-namespace, \
            --argocd-namespace and --allowed-namespaces"
        )
    });
    Settings {
        routing: RoutingSettings {
            argocd_namespace: namespace.unwrap_or("argocd").to_owned(),
            allowed_namespaces: allowed.unwrap_or_default(),
        },
        doubt,
        silent: silent(manager, place),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn stopped_hub_program_is_reported_but_unreadable_is_not() {
        let of = |read: Result<Option<Value>, String>| silent(&read, "ns/manager");
        let runs = json!({"status": {"availableReplicas": 1}});
        assert_eq!(of(Ok(Some(runs))), None);
        assert_eq!(of(Err("you may not".to_owned())), None);
        let gone = of(Ok(None)).unwrap();
        assert!(gone.contains("Deployment ns/manager not found"), "{gone}");
        let down = of(Ok(Some(json!({"status": {}})))).unwrap();
        assert!(down.contains("has no available Pod"), "{down}");
    }

    fn manager(args: &Value, env: &Value) -> Value {
        json!({"spec": {"template": {"spec": {"containers": [{"args": args, "env": env}]}}}})
    }

    #[test]
    fn the_hub_programs_own_flags_count_and_the_callers_before_them() {
        let deployment = manager(
            &json!(["--namespace=cd", "--allowed-namespaces=team-*,b"]),
            &json!([{"name": "ARGOCD_PRINCIPAL_NAMESPACE", "value": "other"}]),
        );
        let deployment = Ok(Some(deployment));
        let found = settings(&deployment, "ns/manager", &Given::default());
        assert_eq!(found.routing.argocd_namespace, "cd");
        assert_eq!(found.routing.allowed_namespaces, ["team-*", "b"]);
        assert_eq!(found.doubt, None);

        let given = Given {
            argocd_namespace: Some("mine".to_owned()),
            allowed_namespaces: Some(Vec::new()),
        };
        let found = settings(&deployment, "ns/manager", &given);
        assert_eq!(found.routing.argocd_namespace, "mine");
        assert!(found.routing.allowed_namespaces.is_empty());
    }

    #[test]
    fn a_variable_stands_in_for_a_flag() {
        let env = json!([{"name": "ARGOCD_PRINCIPAL_ALLOWED_NAMESPACES", "value": "a, b"}]);
        let found = settings(
            &Ok(Some(manager(&json!([]), &env))),
            "ns/manager",
            &Given::default(),
        );
        assert_eq!(found.routing.argocd_namespace, "argocd");
        assert_eq!(found.routing.allowed_namespaces, ["a", "b"]);
    }

    #[test]
    fn assumed_defaults_are_reported() {
        let found = settings(
            &Err("you may not".to_owned()),
            "ns/manager",
            &Given::default(),
        );
        assert_eq!(found.routing.argocd_namespace, "argocd");
        assert!(found.doubt.unwrap().contains("you may not"));
    }
}
