//! The state of the world, for diagnosing a failure.

use std::{
    fmt::Write,
    fs::{self, File},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result};
use kube::{
    Api, Client,
    api::{DynamicObject, ListParams},
    discovery::{Discovery, Scope, verbs},
};
use serde_json::Value;
use tokio::time::timeout;
use tracing_subscriber::EnvFilter;

use crate::{Cluster, Lab, namespaces, tools::workspace};

/// How long one cluster may take to return its state; its API may be broken.
const TIME_LIMIT: Duration = Duration::from_secs(15);

/// How many events of a cluster the summary has.
const EVENTS: usize = 15;

/// The directory for the world of a failure.
pub fn directory(name: &str) -> PathBuf {
    workspace().join("target/lab/worlds").join(name)
}

/// Writes the log of this process to a file, filtered by `LAB_LOG` (default: `info` of all crates, `debug` of the lab).
pub fn log_to(path: &Path) -> Result<()> {
    let filter = EnvFilter::try_from_env("LAB_LOG").unwrap_or_else(|_| {
        EnvFilter::new("info,kube_client::client::builder=off,lab=debug,lab_kubelet=debug,lab_ocm_stand_in=debug")
    });
    let file = File::create(path).with_context(|| format!("create {}", path.display()))?;
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false);
    // Fails only when another subscriber is set already, which then stays.
    let _set_before = subscriber.with_writer(file).try_init();
    Ok(())
}

/// Writes all objects of all clusters and all logs to `dir`, and returns a summary of the abnormal ones.
pub async fn keep(lab: &Lab, dir: &Path) -> Result<String> {
    if dir.exists() {
        fs::remove_dir_all(dir).with_context(|| format!("clear {}", dir.display()))?;
    }
    copy(lab.dir(), dir)?;
    let log = namespaces::scratch().join("lab.log");
    if log.exists() {
        fs::copy(&log, dir.join("lab.log")).context("copy the lab's log")?;
    }
    let mut account = String::new();
    for cluster in lab.clusters() {
        let into = dir.join(cluster.name()).join("objects");
        let kept = timeout(TIME_LIMIT, keep_objects(cluster, &into)).await;
        let reply = match kept {
            Ok(Ok(reply)) => reply,
            Ok(Err(error)) => format!("  {error:#}\n"),
            Err(_) => format!("  no answer within {TIME_LIMIT:?}\n"),
        };
        write!(account, "{}:\n{reply}", cluster.name())?;
    }
    Ok(account)
}

/// Copies logs, but no keys and no sockets.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("make {}", to.display()))?;
    let entries = fs::read_dir(from).with_context(|| format!("list {}", from.display()))?;
    for entry in entries {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        let target = to.join(entry.file_name());
        if kind.is_dir() {
            copy(&path, &target)?;
        } else if kind.is_file() && path.extension().is_some_and(|ext| ext == "log") {
            fs::copy(&path, &target).with_context(|| format!("copy {}", path.display()))?;
        }
    }
    Ok(())
}

async fn keep_objects(cluster: &Cluster, dir: &Path) -> Result<String> {
    fs::create_dir_all(dir).with_context(|| format!("make {}", dir.display()))?;
    let client = cluster.client();
    let served = Discovery::new(client.clone())
        .run()
        .await
        .context("ask what is served")?;
    let mut account = String::new();
    for group in served.groups() {
        for (resource, capabilities) in group.recommended_resources() {
            if !capabilities.supports_operation(verbs::LIST) {
                continue;
            }
            let objects = list(&client, &resource).await;
            let namespaced = capabilities.scope == Scope::Namespaced;
            let file = if resource.group.is_empty() {
                resource.plural.clone()
            } else {
                format!("{}.{}", resource.plural, resource.group)
            };
            let text = match objects {
                Ok(objects) if objects.is_empty() => continue,
                Ok(objects) if resource.group == "events.k8s.io" => {
                    // The same events as in the core group, in another format.
                    serde_saphyr::to_string(&objects)?
                }
                Ok(objects) => {
                    stands_out(&resource.kind, namespaced, &objects, &mut account)?;
                    serde_saphyr::to_string(&objects)?
                }
                Err(error) => format!("# {error:#}\n"),
            };
            fs::write(dir.join(format!("{file}.yaml")), text)?;
        }
    }
    Ok(account)
}

async fn list(client: &Client, resource: &kube::core::ApiResource) -> Result<Vec<Value>> {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), resource);
    let mut values = Vec::new();
    for mut object in api.list(&ListParams::default()).await? {
        object.metadata.managed_fields = None;
        let mut value = serde_json::to_value(&object)?;
        if resource.kind == "Secret" {
            hide(&mut value);
        }
        values.push(value);
    }
    Ok(values)
}

/// Removes the values of a Secret.
fn hide(secret: &mut Value) {
    if let Some(data) = secret.get_mut("data").and_then(Value::as_object_mut) {
        for value in data.values_mut() {
            *value = Value::from(value.as_str().map_or(0, str::len));
        }
    }
}

/// Adds the objects that usually explain a failure to the summary.
fn stands_out(kind: &str, namespaced: bool, objects: &[Value], account: &mut String) -> Result<()> {
    let shown: Vec<&Value> = match kind {
        "Pod" => objects.iter().filter(|pod| !is_ready(pod)).collect(),
        "Event" => {
            let warnings = objects
                .iter()
                .filter(|event| text(event, "/type") == "Warning");
            let warnings: Vec<_> = warnings.collect();
            warnings.into_iter().rev().take(EVENTS).collect()
        }
        "ManagedClusterAddOn"
        | "ManifestWork"
        | "ManagedCluster"
        | "Application"
        | "CertificateSigningRequest" => objects.iter().collect(),
        _ => return Ok(()),
    };
    for object in shown {
        let namespace = if namespaced {
            text(object, "/metadata/namespace")
        } else {
            ""
        };
        let slash = if namespace.is_empty() { "" } else { "/" };
        let name = text(object, "/metadata/name");
        writeln!(
            account,
            "  {kind} {namespace}{slash}{name}: {}",
            summary(kind, object)
        )?;
    }
    Ok(())
}

fn summary(kind: &str, object: &Value) -> String {
    match kind {
        "Event" => format!(
            "{} {}: {}",
            text(object, "/involvedObject/name"),
            text(object, "/reason"),
            text(object, "/message")
        ),
        "Application" => {
            format!(
                "{}, {}; {}",
                text(object, "/status/sync/status"),
                text(object, "/status/health/status"),
                conditions(object)
            )
        }
        _ => format!("{} {}", text(object, "/status/phase"), conditions(object)),
    }
}

fn conditions(object: &Value) -> String {
    let conditions = object
        .pointer("/status/conditions")
        .and_then(Value::as_array);
    let reply = conditions.into_iter().flatten().map(|condition| {
        format!(
            "{}={} ({} {})",
            text(condition, "/type"),
            text(condition, "/status"),
            text(condition, "/reason"),
            text(condition, "/message")
        )
    });
    reply.collect::<Vec<_>>().join("; ")
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|condition| {
        text(condition, "/type") == "Ready" && text(condition, "/status") == "True"
    })
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}
