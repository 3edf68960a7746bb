//! What a user or a program may have to do, as an access review asks for it. Pure.

use serde_json::{Value, json};

/// Where a right is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In all namespaces.
    Everywhere,
    /// In that of Argo CD.
    ArgoCd,
    /// In that of the add-on's program: the hub program's on the hub, the agent's on a cluster.
    Own,
}

impl Place {
    /// Its namespace; empty for all.
    pub const fn namespace<'a>(self, argocd: &'a str, own: &'a str) -> &'a str {
        match self {
            Self::Everywhere => "",
            Self::ArgoCd => argocd,
            Self::Own => own,
        }
    }
}

/// What an access review asks about; `resource` is API group and plural name, `group/plural`, and an empty name any.
pub fn asked(verb: &str, resource: &str, name: &str, namespace: &str) -> Value {
    let (group, plural) = resource.split_once('/').unwrap_or(("", resource));
    json!({
        "verb": verb, "group": group, "resource": plural, "name": name, "namespace": namespace,
    })
}

/// Plural name of a resource.
pub(super) fn plural(resource: &str) -> &str {
    resource.rsplit('/').next().unwrap_or_default()
}
