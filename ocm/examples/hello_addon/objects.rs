//! The objects for a cluster.

use ocm::{
    keys,
    name::AddonName,
    sdk::{
        RenderError, RenderInput,
        values::{InstallMode, hub_kubeconfig_secret},
    },
};
use serde_json::{Value, json};

/// The image of this program, unless the configuration names another.
const IMAGE: &str = "example.com/hello:v1";

/// The objects of one cluster. For an error in its configuration the SDK sets `ManifestApplied` to False
/// and keeps the deployed objects.
pub(crate) fn of_cluster(
    addon: &AddonName,
    input: RenderInput<'_>,
) -> Result<Vec<Value>, RenderError> {
    let namespace = input.install_namespace;
    let mut objects = vec![
        namespace_object(namespace),
        service_account(namespace),
        role(namespace),
        role_binding(namespace),
        agent(addon, input)?,
        goodbye(input),
    ];
    objects.extend(phrase_books(input)?);
    Ok(objects)
}

fn wrong(message: impl Into<String>) -> RenderError {
    RenderError {
        message: message.into(),
    }
}

/// A variable that has to be a number.
fn number(input: RenderInput<'_>, variable: &str, otherwise: usize) -> Result<usize, RenderError> {
    let text = input.config.variable(variable);
    let number = text.map(str::parse).transpose();
    let number = number.map_err(|_no| wrong(format!("{variable} has to be a number")))?;
    Ok(number.unwrap_or(otherwise))
}

/// Add-ons often share a namespace, so it stays when the add-on is removed. OCM copies its image pull
/// secret to namespaces with this label.
fn namespace_object(namespace: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {
            "name": namespace,
            "labels": { (keys::SPOKE_NAMESPACE): "true" },
            "annotations": { (keys::DELETION_ORPHAN): "", (keys::HOSTED_LOCATION): "hosting" },
        },
    })
}

/// In hosted mode all objects of the agent go to the host. Without hosted mode the annotation has no
/// effect.
fn metadata(namespace: &str) -> Value {
    json!({
        "namespace": namespace, "name": "hello",
        "annotations": { (keys::HOSTED_LOCATION): "hosting" },
    })
}

fn service_account(namespace: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata(namespace) })
}

/// The permissions that the agent needs for its lease, and the hook for its `ConfigMap`.
fn role(namespace: &str) -> Value {
    let rule = |group: &str, resource: &str| json!({ "apiGroups": [group], "resources": [resource], "verbs": ["create", "patch"] });
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": metadata(namespace),
        "rules": [rule("coordination.k8s.io", "leases"), rule("", "configmaps")],
    })
}

fn role_binding(namespace: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": metadata(namespace),
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "hello" },
        "subjects": [{ "kind": "ServiceAccount", "namespace": namespace, "name": "hello" }],
    })
}

/// A container of this program.
fn container(input: RenderInput<'_>, part: &str, variables: &[(&str, &str)]) -> Value {
    let image = input.config.variable("IMAGE").unwrap_or(IMAGE);
    let mut env = vec![
        json!({ "name": "CLUSTER", "value": input.target.name }),
        json!({ "name": "NAMESPACE", "value": input.install_namespace }),
    ];
    let variables = variables.iter();
    env.extend(variables.map(|(name, value)| json!({ "name": name, "value": value })));
    json!({ "name": part, "image": image, "args": [part], "env": env })
}

/// The agent. Its Pod waits until OCM has created the Secret with the kubeconfig of the hub.
fn agent(addon: &AddonName, input: RenderInput<'_>) -> Result<Value, RenderError> {
    let greeting = input.config.variable("GREETING").unwrap_or("hello");
    if greeting.len() > 40 {
        let message = "GREETING may have 40 characters; shorten it in the configuration";
        return Err(wrong(message));
    }
    let seconds = number(input, "RENEW_SECONDS", 60)?.to_string();
    let mode = InstallMode::of(input.target).as_str();
    let variables = [
        ("GREETING", greeting),
        ("RENEW_SECONDS", seconds.as_str()),
        ("MODE", mode),
    ];
    let mut container = container(input, "agent", &variables);
    if let Some(container) = container.as_object_mut() {
        let mounts = json!([{ "name": "hub", "mountPath": "/var/run/hub" }]);
        container.insert("volumeMounts".to_owned(), mounts);
    }
    let labels = json!({ "app": "hello" });
    Ok(json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": metadata(input.install_namespace),
        "spec": {
            "replicas": 1,
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": {
                    "serviceAccountName": "hello",
                    "containers": [container],
                    "volumes": [{
                        "name": "hub",
                        "secret": { "secretName": hub_kubeconfig_secret(addon.as_str()) },
                    }],
                },
            },
        },
    }))
}

/// A hook: it is not deployed with the other objects but runs before they are deleted.
fn goodbye(input: RenderInput<'_>) -> Value {
    let words = input.config.variable("GOODBYE").unwrap_or("goodbye");
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {
            "namespace": input.install_namespace, "name": "hello-goodbye",
            "annotations": { (keys::PRE_DELETE): "", (keys::HOSTED_LOCATION): "hosting" },
        },
        "spec": {
            "backoffLimit": 3,
            "template": { "spec": {
                "serviceAccountName": "hello",
                "restartPolicy": "Never",
                "containers": [container(input, "goodbye", &[("GOODBYE", words)])],
            } },
        },
    })
}

/// Objects for the greeted cluster itself, in hosted mode too: without the annotation an object goes
/// to the managed cluster. The SDK distributes many objects over several works.
fn phrase_books(input: RenderInput<'_>) -> Result<Vec<Value>, RenderError> {
    let (count, kib) = (number(input, "BOOKS", 0)?, number(input, "BOOK_KIB", 1)?);
    if count > 20 || kib > 900 {
        return Err(wrong(
            "at most 20 BOOKS of 900 KIB: the hub has to keep them",
        ));
    }
    let book = |number: usize| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "namespace": "default", "name": format!("hello-book-{number}") },
            "data": { "phrases": "hello, ".repeat(kib * 1024 / 7) },
        })
    };
    Ok((1..=count).map(book).collect())
}
