//! The mirror of a spoke's AppProject.
//!
//! On the hub it governs the mirrors of that cluster and nothing else: its only source namespace is the cluster's, its
//! only destination is the cluster by name. (The Go principal also writes server `*`, which lets the project deploy to
//! every cluster of the hub, including the hub.) Its roles apply to those mirrors. The hub owns the tokens.

use serde_json::{Map, Value, json};

use super::{Unusable, checked, metadata};
use crate::glob::{is_deny, matches_or_denies};
use crate::keys;
use crate::name::{LONGEST_NAME, is_name};
use crate::object::{Destination, Meta, list};

/// The name on the hub of a cluster's project.
pub fn project_name(cluster: &str, project: &str) -> Result<String, Unusable> {
    let name = format!("{cluster}-{project}");
    if !is_name(&name) {
        return Err(if name.len() > LONGEST_NAME {
            Unusable::TooLong
        } else {
            Unusable::BadName
        });
    }
    Ok(name)
}

/// The name on the cluster of a mirrored project; none if the mirror is not one of the cluster's projects.
pub fn source_name<'a>(cluster: &str, mirror: &'a str) -> Option<&'a str> {
    let name = mirror.strip_prefix(cluster)?.strip_prefix('-')?;
    (!name.is_empty()).then_some(name)
}

/// The desired mirror of a spoke's AppProject.
pub fn project(source: &Value, cluster: &str, argocd_namespace: &str) -> Result<Value, Unusable> {
    let mut spec = checked(source)?.clone();
    let project = Meta::of(source).name();
    let name = project_name(cluster, project)?;
    spec.insert("sourceNamespaces".to_owned(), json!([cluster]));
    if let Some(destinations) = spec.get("destinations") {
        let destinations = destinations_of(destinations, cluster);
        spec.insert("destinations".to_owned(), destinations);
    }
    // service accounts for impersonation on the cluster have no meaning on the hub
    spec.remove("destinationServiceAccounts");
    if let Some(roles) = spec.get("roles").and_then(Value::as_array) {
        let names = Names {
            project,
            mirror: &name,
            cluster,
        };
        let roles = roles.iter().filter_map(|role| names.role(role)).collect();
        spec.insert("roles".to_owned(), Value::Array(roles));
    }
    Ok(json!({
        "apiVersion": keys::API_VERSION,
        "kind": "AppProject",
        "metadata": metadata(source, cluster, &name, argocd_namespace),
        "spec": spec,
    }))
}

/// Replaces each destination by the cluster's name; drops those that deny other clusters.
fn destinations_of(raw: &Value, cluster: &str) -> Value {
    let mut kept = Vec::new();
    for item in raw.as_array().into_iter().flatten() {
        let Destination {
            name,
            server,
            namespace,
        } = Destination::of(item);
        let denies_itself = (is_deny(name) && !matches_or_denies(name, keys::IN_CLUSTER))
            || (is_deny(server) && !matches_or_denies(server, keys::IN_CLUSTER_SERVER));
        let name = if denies_itself {
            format!("!{cluster}")
        } else if is_deny(name) || is_deny(server) {
            continue;
        } else {
            cluster.to_owned()
        };
        let own = json!({ "name": name, "namespace": namespace });
        if !kept.contains(&own) {
            kept.push(own);
        }
    }
    Value::Array(kept)
}

/// `spec` with the role tokens that `live` has: they are issued and revoked on the hub.
pub(super) fn with_tokens_of(mut spec: Value, live: &Value) -> Value {
    let live = live.get("spec").map_or(&[][..], |spec| list(spec, "roles"));
    let tokens = |name: &Value| {
        let role = live.iter().find(|role| role.get("name") == Some(name));
        role?.get("jwtTokens").cloned()
    };
    let roles = spec.get_mut("roles").and_then(Value::as_array_mut);
    for role in roles.into_iter().flatten().filter_map(Value::as_object_mut) {
        role.remove("jwtTokens");
        if let Some(tokens) = role.get("name").and_then(tokens) {
            role.insert("jwtTokens".to_owned(), tokens);
        }
    }
    spec
}

/// A project's name, its name on the hub, and its cluster.
#[derive(Clone, Copy)]
struct Names<'a> {
    project: &'a str,
    mirror: &'a str,
    cluster: &'a str,
}

impl Names<'_> {
    /// Builds the mirror of a role from the fields that it may have; none if Argo CD would reject its name.
    fn role(&self, role: &Value) -> Option<Value> {
        let name = role.get("name").and_then(Value::as_str)?;
        if !is_role_name(name) {
            return None;
        }
        let mut mirror = Map::from_iter([("name".to_owned(), json!(name))]);
        if let Some(description) = role.get("description").and_then(Value::as_str) {
            mirror.insert("description".to_owned(), json!(description));
        }
        if let Some(groups) = strings(role, "groups") {
            let groups: Vec<&str> = groups.filter(|group| is_group_name(group)).collect();
            mirror.insert("groups".to_owned(), json!(groups));
        }
        if let Some(policies) = strings(role, "policies") {
            let policies: Vec<String> = policies
                .filter_map(|line| self.policy(line, name))
                .collect();
            mirror.insert("policies".to_owned(), json!(policies));
        }
        Some(Value::Object(mirror))
    }

    /// A line about the cluster's Applications, as a line about their mirrors; none if it is about anything else.
    fn policy(&self, line: &str, role: &str) -> Option<String> {
        if line.chars().any(|c| c.is_control() || c == '"') {
            return None;
        }
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let ["p", subject, resource, action, object, effect] = fields[..] else {
            return None;
        };
        let is_mirrored = ["applications", "applicationsets", "logs", "exec"].contains(&resource);
        if !is_mirrored || subject != format!("proj:{}:{role}", self.project) {
            return None;
        }
        let (project, name) = object.split_once('/')?;
        let is_valid = is_action(action) && ["allow", "deny"].contains(&effect);
        if !is_valid || project != self.project || name.contains('/') {
            return None;
        }
        let Self {
            mirror, cluster, ..
        } = self;
        Some(format!(
            "p, proj:{mirror}:{role}, {resource}, {action}, {mirror}/{cluster}/{name}, {effect}"
        ))
    }
}

/// The strings of a list; none if the field is not a list.
fn strings<'a>(role: &'a Value, field: &str) -> Option<impl Iterator<Item = &'a str>> {
    let list = role.get(field)?.as_array()?;
    Some(list.iter().filter_map(Value::as_str))
}

/// Reports whether Argo CD accepts this role name: `validateRoleName` of its API types.
fn is_role_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.ends_with(|c: char| c.is_ascii_alphanumeric())
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

/// Reports whether Argo CD accepts this group name: `validateGroupName` of its API types. Argo CD writes the name into
/// a line of its RBAC policy, so a separator or a line break would add rules.
fn is_group_name(name: &str) -> bool {
    !name.is_empty()
        && name.trim() == name
        && !name.chars().any(|c| c.is_control() || c == ',' || c == '"')
}

/// Reports whether this is an action of Argo CD's RBAC: `isValidAction` of its API types.
fn is_action(action: &str) -> bool {
    ["get", "create", "update", "delete", "sync", "override", "*"].contains(&action)
        || ["action/", "update/", "delete/"]
            .iter()
            .any(|prefix| action.starts_with(prefix))
}
