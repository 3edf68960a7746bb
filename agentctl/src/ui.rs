//! The pages of the add-on in Argo CD's UI: the settings of argocd-server that they need. Pure.
//!
//! argocd-server serves the JavaScript of the pages from a mounted `ConfigMap`. It forwards their requests to the hub program,
//! as *proxy extensions*: after it has authorised them by its RBAC, and with a token.

mod extensions;
mod policies;

use argocd::keys::addon::UI_EXTENSION;
use diagnosis::object::{container, list, text, time, variable, words};
use jiff::Timestamp;
use serde_json::Value;

use crate::settings::{UI_API_PORT, has_port};
pub(crate) use extensions::{
    APPLICATION_KEY, CONFIG_KEYS, Configured, FLEET_KEY, LIST_KEY, config, configured,
};
pub(crate) use policies::{POLICY, POLICY_KEY, is_decided, may_invoke};

/// The flag of argocd-server that turns proxy extensions on, and its variable.
pub(crate) const FORWARDING: (&str, &str) = (
    "--enable-proxy-extension",
    "ARGOCD_SERVER_ENABLE_PROXY_EXTENSION",
);
/// The parameter of Argo CD for the same.
pub(crate) const FORWARDING_KEY: &str = "server.enable.proxy.extension";
/// argocd-server serves JavaScript in files below this directory.
pub(crate) const EXTENSIONS_DIRECTORY: &str = "/tmp/extensions";

/// Both extensions of argocd-server: that for single Applications, and that for the fleet.
pub(crate) const EXTENSIONS: [&str; 2] = [
    argocd::keys::addon::APPLICATION_EXTENSION,
    argocd::keys::addon::FLEET_GUARD,
];

/// Whether the hub program serves the data of the pages, by its Deployment.
pub(crate) fn is_on(manager: Option<&Value>) -> bool {
    has_port(manager, UI_API_PORT)
}

/// Whether proxy extensions are on by a flag or a variable of argocd-server, which wins over Argo CD's parameters; none if it
/// has neither.
pub(crate) fn own_forwarding(server: Option<&Value>) -> Option<bool> {
    let container = server.and_then(container)?;
    let (flag, name) = FORWARDING;
    let values = words(container).filter_map(|it| it.strip_prefix(flag));
    let given = values.filter_map(|rest| match rest {
        "" => Some("true"),
        rest => rest.strip_prefix('='),
    });
    let given = given.last().or_else(|| variable(container, name));
    given.map(|it| matches!(it, "1" | "t" | "T" | "true" | "TRUE" | "True"))
}

/// Whether argocd-server has proxy extensions on.
pub(crate) fn is_forwarding(parameters: Option<&Value>, server: Option<&Value>) -> bool {
    let data = parameters.and_then(|it| it.get("data"));
    let shared = data.and_then(|it| it.get(FORWARDING_KEY)?.as_str());
    own_forwarding(server).unwrap_or_else(|| shared == Some("true"))
}

/// Whether argocd-server serves the JavaScript of the pages, by its Deployment: our `ConfigMap` is a volume of its Pods, and
/// mounted below the directory of extensions.
pub(crate) fn is_mounted(server: &Value) -> bool {
    let volumes = list(server, "/spec/template/spec/volumes").iter();
    let ours = volumes.filter(|it| is_ours(it));
    let ours: Vec<_> = ours.map(|it| text(it, "/name")).collect();
    let mounts = container(server).map_or(&[][..], |it| list(it, "/volumeMounts"));
    mounts.iter().any(|it| {
        let below = text(it, "/mountPath").strip_prefix(EXTENSIONS_DIRECTORY);
        let is_below = below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        is_below && ours.contains(&text(it, "/name"))
    })
}

/// When an object was last written, as its metadata has it.
pub(crate) fn written(object: &Value) -> Option<Timestamp> {
    let writes = list(object, "/metadata/managedFields").iter();
    let writes = writes.filter_map(|it| time(it, "/time"));
    writes
        .chain(time(object, "/metadata/creationTimestamp"))
        .max()
}

/// When argocd-server last started, by its Deployment.
pub(crate) fn started(server: &Value) -> Option<Timestamp> {
    let restarted = "/spec/template/metadata/annotations/kubectl.kubernetes.io~1restartedAt";
    time(server, restarted).max(time(server, "/metadata/creationTimestamp"))
}

/// Whether a volume is our `ConfigMap`.
pub(crate) fn is_ours(volume: &Value) -> bool {
    let projected = list(volume, "/projected/sources").iter();
    let mut names = projected
        .chain([volume])
        .map(|it| text(it, "/configMap/name"));
    names.any(|name| name == UI_EXTENSION)
}

#[cfg(test)]
mod tests;
