//! The environment, command and user of a container. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Container, EnvVar, EnvVarSource, Pod, ResourceFieldSelector, SecurityContext, Service,
};
use kube::ResourceExt;

use crate::{
    Image,
    inside::Process,
    net::url_host,
    objects::Look,
    services::cluster_ip,
    volumes::{Addresses, Missing, field},
};

/// The `PATH` of every process that does not set another.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

type Env = BTreeMap<String, String>;

/// The process of a container: command, environment and user.
pub(crate) fn process(
    pod: &Pod,
    container: &Container,
    image: &Image,
    look: &impl Look,
    addresses: &Addresses,
) -> Result<Process, Refused> {
    let own = environment(pod, container, look, addresses)?;
    let identity = identity(pod, container, image)?;
    let mut env = Env::from([("PATH".to_owned(), PATH.to_owned())]);
    env.insert("HOSTNAME".to_owned(), hostname(pod));
    env.insert(
        "HOME".to_owned(),
        if identity.user == 0 {
            "/root".to_owned()
        } else {
            "/".to_owned()
        },
    );
    env.extend(image.env.clone());
    env.extend(own.clone());
    let (command, args) = (container.command.as_deref(), container.args.as_deref());
    let stated = |words: Option<&[String]>| -> Vec<String> {
        words
            .unwrap_or_default()
            .iter()
            .map(|word| expand(word, &own))
            .collect()
    };
    let (command, args) = (stated(command), stated(args));
    let words = match (command.is_empty(), args.is_empty()) {
        (false, _) => [command, args].concat(),
        (true, false) => [image.entrypoint.clone(), args].concat(),
        (true, true) => [image.entrypoint.clone(), image.cmd.clone()].concat(),
    };
    let working_dir = container.working_dir.clone().filter(|dir| !dir.is_empty());
    let working_dir = working_dir
        .or_else(|| image.working_dir.clone())
        .unwrap_or_else(|| "/".to_owned());
    let security = container.security_context.as_ref();
    Ok(Process {
        argv: words,
        env,
        working_dir,
        user: identity.user,
        group: identity.group,
        groups: identity.groups,
        no_new_privileges: security.and_then(|context| context.allow_privilege_escalation)
            == Some(false),
        init: image.init,
    })
}

/// Why a container cannot be created from the spec of its Pod.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    #[error(transparent)]
    Missing(#[from] Missing),
    #[error("container has runAsNonRoot and image will run as root")]
    Root,
}

struct Identity {
    user: u32,
    group: u32,
    groups: Vec<u32>,
}

fn identity(pod: &Pod, container: &Container, image: &Image) -> Result<Identity, Refused> {
    let of_pod = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.security_context.as_ref());
    let of_container: Option<&SecurityContext> = container.security_context.as_ref();
    let number = |id: Option<i64>| id.and_then(|id| u32::try_from(id).ok());
    let user = number(
        of_container
            .and_then(|context| context.run_as_user)
            .or_else(|| of_pod.and_then(|context| context.run_as_user)),
    );
    let group = number(
        of_container
            .and_then(|context| context.run_as_group)
            .or_else(|| of_pod.and_then(|context| context.run_as_group)),
    );
    let must_not_be_root = of_container
        .and_then(|context| context.run_as_non_root)
        .or_else(|| of_pod.and_then(|context| context.run_as_non_root));
    // A user without a group belongs to root's group, as in container runtimes.
    let (user, default_group) = match (user, image.user) {
        (Some(user), _) => (user, 0),
        (None, Some(user)) => (user, user),
        (None, None) => (0, 0),
    };
    if user == 0 && must_not_be_root == Some(true) {
        return Err(Refused::Root);
    }
    let more = of_pod
        .and_then(|context| context.supplemental_groups.as_deref())
        .unwrap_or_default();
    let groups = fs_group(pod)
        .into_iter()
        .chain(more.iter().filter_map(|group| u32::try_from(*group).ok()));
    Ok(Identity {
        user,
        group: group.unwrap_or(default_group),
        groups: groups.collect(),
    })
}

/// The group that the files of volumes belong to.
pub(crate) fn fs_group(pod: &Pod) -> Option<u32> {
    let context = pod.spec.as_ref()?.security_context.as_ref()?;
    u32::try_from(context.fs_group?).ok()
}

/// The host name of a Pod.
pub(crate) fn hostname(pod: &Pod) -> String {
    let stated = pod.spec.as_ref().and_then(|spec| spec.hostname.clone());
    let name = stated.unwrap_or_else(|| pod.name_any());
    // The kernel's limit is 64 bytes with the final zero; a Pod's name may be longer.
    name.chars()
        .take(63)
        .collect::<String>()
        .trim_end_matches(['-', '.'])
        .to_owned()
}

/// The container's environment, in the order in which later variables can use earlier ones.
fn environment(
    pod: &Pod,
    container: &Container,
    look: &impl Look,
    addresses: &Addresses,
) -> Result<Env, Missing> {
    let namespace = pod.namespace().unwrap_or_default();
    let links = pod.spec.as_ref().and_then(|spec| spec.enable_service_links) != Some(false);
    let mut env = Env::new();
    if links && namespace != "default" {
        env.extend(
            look.services(&namespace)
                .iter()
                .flat_map(|service| service_links(service)),
        );
    }
    // The variables of the API server are set even if the Pod disables service links.
    for service in look.services("default") {
        if service.name_any() == "kubernetes" || (links && namespace == "default") {
            env.extend(service_links(&service));
        }
    }
    for from in container.env_from.iter().flatten() {
        let prefix = from.prefix.clone().unwrap_or_default();
        if let Some(source) = &from.config_map_ref {
            let data = look
                .config_map(&namespace, &source.name)
                .map(|object| object.data.clone());
            let data = found(data, "ConfigMap", &source.name, source.optional)?;
            env.extend(
                data.flatten()
                    .unwrap_or_default()
                    .into_iter()
                    .map(|(key, value)| (prefix.clone() + &key, value)),
            );
        }
        if let Some(source) = &from.secret_ref {
            let data = look
                .secret(&namespace, &source.name)
                .map(|object| object.data.clone());
            let data = found(data, "Secret", &source.name, source.optional)?
                .flatten()
                .unwrap_or_default();
            env.extend(
                data.into_iter()
                    .map(|(key, value)| (prefix.clone() + &key, text(&value.0))),
            );
        }
    }
    for EnvVar {
        name,
        value,
        value_from,
    } in container.env.iter().flatten()
    {
        let value = match (value, value_from) {
            (Some(value), _) => Some(expand(value, &env)),
            (None, Some(source)) => select(source, pod, container, look, addresses)?,
            (None, None) => Some(String::new()),
        };
        if let Some(value) = value {
            env.insert(name.clone(), value);
        }
    }
    Ok(env)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The value that was found, or none if it may be missing.
fn found<T>(
    object: Option<T>,
    kind: &'static str,
    name: &str,
    optional: Option<bool>,
) -> Result<Option<T>, Missing> {
    if object.is_none() && optional != Some(true) {
        return Err(Missing::Object {
            kind,
            name: name.to_owned(),
        });
    }
    Ok(object)
}

/// The value of one variable; none if it is optional and its source is missing.
fn select(
    source: &EnvVarSource,
    pod: &Pod,
    container: &Container,
    look: &impl Look,
    addresses: &Addresses,
) -> Result<Option<String>, Missing> {
    let namespace = pod.namespace().unwrap_or_default();
    if let Some(selector) = &source.field_ref {
        return field(selector, pod, addresses).map(Some);
    }
    if let Some(selector) = &source.resource_field_ref {
        return Ok(Some(resource(selector, container)));
    }
    let (kind, name, key, optional, object) = if let Some(source) = &source.config_map_key_ref {
        let object = look.config_map(&namespace, &source.name);
        let value = object.map(|object| {
            object
                .data
                .as_ref()
                .and_then(|data| data.get(&source.key).cloned())
        });
        (
            "ConfigMap",
            &source.name,
            &source.key,
            source.optional,
            value,
        )
    } else if let Some(source) = &source.secret_key_ref {
        let object = look.secret(&namespace, &source.name);
        let value = object.map(|object| {
            object
                .data
                .as_ref()
                .and_then(|data| data.get(&source.key).map(|v| text(&v.0)))
        });
        ("Secret", &source.name, &source.key, source.optional, value)
    } else {
        return Err(Missing::Unknown("the source of a variable".to_owned()));
    };
    let value = found(object, kind, name, optional)?.flatten();
    if value.is_none() && optional != Some(true) {
        return Err(Missing::Key {
            kind,
            name: format!("{namespace}/{name}"),
            key: key.clone(),
        });
    }
    Ok(value)
}

/// A limit or request of the container. Without one, it is the capacity of the node: 64 CPUs, 256 Gi.
fn resource(selector: &ResourceFieldSelector, container: &Container) -> String {
    let (which, name) = selector
        .resource
        .split_once('.')
        .unwrap_or(("", &selector.resource));
    let resources = container.resources.as_ref();
    let limits = resources.and_then(|all| all.limits.as_ref());
    let requests = resources.and_then(|all| all.requests.as_ref());
    let stated = if which == "requests" {
        requests
    } else {
        limits
    };
    let quantity = stated
        .and_then(|all| all.get(name))
        .map(|quantity| quantity.0.as_str());
    let value = quantity
        .and_then(amount)
        .unwrap_or_else(|| match (which, name) {
            ("requests", _) => 0.0,
            (_, "cpu") => 64.0,
            (_, _) => 256.0 * f64::from(1 << 30),
        });
    let divisor = selector
        .divisor
        .as_ref()
        .and_then(|divisor| amount(&divisor.0))
        .filter(|divisor| *divisor > 0.0);
    format!("{:.0}", (value / divisor.unwrap_or(1.0)).ceil())
}

/// The value of a quantity.
fn amount(quantity: &str) -> Option<f64> {
    let split = quantity
        .find(|c: char| c.is_ascii_alphabetic())
        .unwrap_or(quantity.len());
    let (number, unit) = quantity.split_at_checked(split)?;
    let factor = match unit {
        "" => 1.0,
        "m" => 1e-3,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "Ki" => 1024.0,
        "Mi" => f64::from(1 << 20),
        "Gi" => f64::from(1 << 30),
        "Ti" => 1024.0 * f64::from(1 << 30),
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * factor)
}

/// The variables that describe a Service: `REDIS_SERVICE_HOST`, `REDIS_PORT` and their kin.
fn service_links(service: &Service) -> Env {
    let mut env = Env::new();
    let spec = service.spec.as_ref();
    let ports = spec
        .and_then(|spec| spec.ports.as_deref())
        .unwrap_or_default();
    let (Some(ip), Some(first)) = (cluster_ip(service), ports.first()) else {
        return env;
    };
    let name = service.name_any().to_uppercase().replace('-', "_");
    let host = url_host(ip);
    let mut set = |key: String, value: String| env.insert(format!("{name}_{key}"), value);
    set("SERVICE_HOST".into(), ip.to_string());
    set("SERVICE_PORT".into(), first.port.to_string());
    set(
        "PORT".into(),
        format!(
            "{}://{host}:{}",
            protocol(first.protocol.as_deref()),
            first.port
        ),
    );
    for port in ports {
        let (number, protocol) = (port.port, protocol(port.protocol.as_deref()));
        if let Some(port_name) = port.name.as_deref().filter(|name| !name.is_empty()) {
            let port_name = port_name.to_uppercase().replace('-', "_");
            set(format!("SERVICE_PORT_{port_name}"), number.to_string());
        }
        let prefix = format!("PORT_{number}_{}", protocol.to_uppercase());
        set(prefix.clone(), format!("{protocol}://{host}:{number}"));
        set(format!("{prefix}_PROTO"), protocol);
        set(format!("{prefix}_PORT"), number.to_string());
        set(format!("{prefix}_ADDR"), ip.to_string());
    }
    env
}

fn protocol(stated: Option<&str>) -> String {
    stated.unwrap_or("TCP").to_lowercase()
}

/// Replaces `$(NAME)` by values. `$$` is a dollar, and a name without a value stays unchanged.
pub(crate) fn expand(text: &str, env: &Env) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        if let Some(after) = after.strip_prefix('$') {
            out.push('$');
            rest = after;
        } else if let Some((name, after)) = after
            .strip_prefix('(')
            .and_then(|after| after.split_once(')'))
        {
            match env.get(name) {
                Some(value) => out.push_str(value),
                None => out.extend(["$(", name, ")"]),
            }
            rest = after;
        } else {
            out.push('$');
            rest = after;
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests;
