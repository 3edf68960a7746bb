//! OCM's webhooks: the conversion of the add-on API, and the admission of works, clusters and bindings of cluster sets.

use std::{path::Path, time::Duration};

use anyhow::{Context, Result};
use base64::Engine as _;
use kube::{
    Client,
    api::{DynamicObject, PostParams},
};
use serde_json::{Value, json};

use super::{Program, free_port, program};
use crate::{
    crds,
    help::Help,
    hub::HubConfig,
    kinds::{
        Kind, MANAGED_CLUSTER, MANIFEST_WORK, MUTATING_WEBHOOK_CONFIGURATION,
        VALIDATING_WEBHOOK_CONFIGURATION,
    },
    klusterlet, stand_in,
    tasks::Tasks,
};

/// The command that serves, of three of OCM's programs.
const SERVE: &str = "webhook-server";
/// The flag that frees a webhook of its fixed port for metrics, since OCM 1.3.
const METRICS_PORT: &str = "metrics-port";
/// The flag that frees it of the one for probes.
const PROBE_PORT: &str = "health-probe-port";
/// A webhook serves in a second, and the API server asks it soon after, later on a busy machine.
const ASKED_WITHIN: Duration = Duration::from_mins(1);
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The label that the webhook puts on a cluster without one.
const CLUSTER_SET: &str = "cluster.open-cluster-management.io/clusterset";
const CLUSTERS: &str = "cluster.open-cluster-management.io";
const WORKS: &str = "work.open-cluster-management.io";

/// One webhook of OCM's operator.
struct Admission {
    /// The name of its configuration, and of itself.
    name: &'static str,
    /// The kind of the configuration.
    kind: Kind,
    /// The program that serves it.
    program: &'static str,
    path: &'static str,
    /// The objects that it checks: group, version and resource.
    checks: [&'static str; 3],
}

/// Those that OCM's operator installs on a hub.
const ADMISSIONS: [Admission; 4] = [
    Admission {
        name: "manifestworkvalidators.admission.work.open-cluster-management.io",
        kind: VALIDATING_WEBHOOK_CONFIGURATION,
        program: "work",
        path: "validate-work-open-cluster-management-io-v1-manifestwork",
        checks: [WORKS, "*", "manifestworks"],
    },
    Admission {
        name: "managedclustervalidators.admission.cluster.open-cluster-management.io",
        kind: VALIDATING_WEBHOOK_CONFIGURATION,
        program: "registration",
        path: "validate-cluster-open-cluster-management-io-v1-managedcluster",
        checks: [CLUSTERS, "*", "managedclusters"],
    },
    Admission {
        name: "managedclustermutators.admission.cluster.open-cluster-management.io",
        kind: MUTATING_WEBHOOK_CONFIGURATION,
        program: "registration",
        path: "mutate-cluster-open-cluster-management-io-v1-managedcluster",
        checks: [CLUSTERS, "*", "managedclusters"],
    },
    Admission {
        name: "managedclustersetbindingvalidators.admission.cluster.open-cluster-management.io",
        kind: VALIDATING_WEBHOOK_CONFIGURATION,
        program: "registration",
        path: "validate-cluster-open-cluster-management-io-v1beta2-managedclustersetbinding",
        checks: [CLUSTERS, "v1beta2", "managedclustersetbindings"],
    },
];

impl Admission {
    /// Its configuration, for a server at this port.
    fn configuration(&self, port: u16, ca_pem: &str) -> Value {
        let Self {
            name, path, checks, ..
        } = self;
        let [group, version, resource] = checks;
        json!({
            "metadata": { "name": name },
            "webhooks": [{
                "name": name,
                "failurePolicy": "Fail",
                "clientConfig": {
                    "url": format!("https://127.0.0.1:{port}/{path}"),
                    "caBundle": base64::engine::general_purpose::STANDARD.encode(ca_pem),
                },
                "rules": [{
                    "operations": ["CREATE", "UPDATE"],
                    "apiGroups": [group],
                    "apiVersions": [version],
                    "resources": [resource],
                }],
                "admissionReviewVersions": ["v1beta1", "v1"],
                "sideEffects": "None",
                "timeoutSeconds": 10,
            }],
        })
    }
}

/// Whether this OCM has the conversion webhook, and so both versions of the add-on API: since 1.2.
pub(crate) fn converts(binaries: &Path) -> Result<bool> {
    let help = Help::ask(&program(binaries, "addon")?, &[])?;
    Ok(help.has_command(SERVE))
}

/// Whether this OCM's admission webhooks run in a lab: since 1.3.
pub(crate) fn admits(binaries: &Path) -> Result<bool> {
    let work = program(binaries, "work")?;
    let serves = Help::ask(&work, &[])?.has_command(SERVE);
    Ok(serves && runs_beside_others(&Help::ask(&work, &[SERVE])?))
}

/// Whether the webhooks of this program can run beside others in the network of a lab: before 1.3, each listens on 8000 and
/// 8080.
fn runs_beside_others(help: &Help) -> bool {
    help.has_flag(METRICS_PORT) && help.has_flag(PROBE_PORT)
}

/// The flags that keep a webhook from listening on more than its port. Without them, before 1.3, it listens on 8000 and 8080
/// of the lab too.
fn quiet(help: &Help) -> Vec<String> {
    let flags = [METRICS_PORT, PROBE_PORT].into_iter();
    let known = flags.filter(|flag| help.has_flag(flag));
    known.map(|flag| format!("--{flag}=0")).collect()
}

/// A serving certificate for the loopback, in a directory, and its CA.
struct Certificates<'a> {
    hub: &'a HubConfig,
    ca_pem: String,
}

impl<'a> Certificates<'a> {
    async fn make(hub: &'a HubConfig) -> Result<Self> {
        let made = stand_in::serving()?;
        let folder = hub.dir.join("webhook");
        tokio::fs::create_dir_all(&folder).await?;
        tokio::fs::write(folder.join("tls.crt"), &made.certificate).await?;
        tokio::fs::write(folder.join("tls.key"), &made.key).await?;
        let ca_pem = made.ca;
        Ok(Self { hub, ca_pem })
    }

    /// Starts the webhooks of one of OCM's programs, and returns their port.
    fn serve(&self, program: Program, help: &Help, tasks: &mut Tasks) -> Result<u16> {
        let HubConfig { kubeconfig, dir } = self.hub;
        let port = free_port()?;
        let mut webhook = program
            .with(format!("--kubeconfig={}", kubeconfig.display()))
            .with(format!("--port={port}"))
            .with(format!("--certdir={}", dir.join("webhook").display()));
        for argument in quiet(help) {
            webhook = webhook.with(argument);
        }
        tasks.spawn(webhook.keep());
        Ok(port)
    }
}

/// Starts the webhooks that this OCM has, and waits until the API server asks them.
pub(crate) async fn start(
    binaries: &Path,
    config: &HubConfig,
    admin: &Client,
    tasks: &mut Tasks,
) -> Result<()> {
    let certificates = Certificates::make(config).await?;
    if converts(binaries)? {
        let webhook = Program::new(binaries, &config.dir, "addon-webhook", &["addon", SERVE])?;
        let help = Help::ask(&webhook.binary, &[SERVE])?;
        let port = certificates.serve(webhook, &help, tasks)?;
        let url = format!("https://127.0.0.1:{port}/convert");
        crds::convert_through(admin, &url, &certificates.ca_pem).await?;
    }
    if !admits(binaries)? {
        return Ok(());
    }
    for (name, binary) in [
        ("work-webhook", "work"),
        ("registration-webhook", "registration"),
    ] {
        let webhook = Program::new(binaries, &config.dir, name, &[binary, SERVE])?;
        let help = Help::ask(&webhook.binary, &[SERVE])?;
        let port = certificates.serve(webhook, &help, tasks)?;
        let served = ADMISSIONS.iter().filter(|it| it.program == binary);
        let configurations = served
            .map(|it| (it.kind, None, it.configuration(port, &certificates.ca_pem)))
            .collect();
        klusterlet::apply(admin, configurations).await?;
    }
    let asked = tokio::time::timeout(ASKED_WITHIN, until_asked(admin)).await;
    asked.with_context(|| format!("OCM's webhooks did not answer within {ASKED_WITHIN:?}"))
}

/// Waits until the API server refuses a work as only the webhook does, and gives a cluster the set that only the webhook
/// gives. Nothing is stored.
async fn until_asked(admin: &Client) {
    let works = MANIFEST_WORK.within(admin, "default");
    let clusters = MANAGED_CLUSTER.all(admin);
    let params = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let empty = probe(MANIFEST_WORK, &json!({ "workload": { "manifests": [] } }));
    let cluster = probe(MANAGED_CLUSTER, &json!({}));
    loop {
        let refused = works.create(&params, &empty).await;
        let is_refused = matches!(&refused, Err(kube::Error::Api(status))
            if status.message.contains("manifests should not be empty"));
        let in_a_set = clusters.create(&params, &cluster).await;
        let is_in_a_set = in_a_set.is_ok_and(|it| {
            let labels = it.metadata.labels.unwrap_or_default();
            labels.get(CLUSTER_SET).is_some_and(|set| set == "default")
        });
        if is_refused && is_in_a_set {
            return;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn probe(kind: Kind, spec: &Value) -> DynamicObject {
    let mut object = DynamicObject::new("probe-of-the-lab", &kind.resource());
    object.data = json!({ "spec": spec });
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    fn help(flags: &[&str]) -> Help {
        let lines: Vec<_> = flags
            .iter()
            .map(|flag| format!("      --{flag}   Explained here."))
            .collect();
        Help::of(&format!("Flags:\n{}\n", lines.join("\n")))
    }

    #[test]
    fn webhooks_get_only_the_flags_of_their_version() {
        let before = help(&["certdir string", "port int"]);
        assert!(quiet(&before).is_empty() && !runs_beside_others(&before));
        let since = help(&["health-probe-port int", "metrics-port int", "port int"]);
        let wanted = ["--metrics-port=0", "--health-probe-port=0"];
        assert_eq!(quiet(&since), wanted);
        assert!(runs_beside_others(&since));
    }

    #[test]
    fn a_webhook_that_fails_refuses_its_objects() {
        for admission in &ADMISSIONS {
            let configuration = admission.configuration(1234, "PEM");
            let webhook = &configuration["webhooks"][0];
            assert_eq!(webhook["failurePolicy"], "Fail");
            let url = webhook["clientConfig"]["url"].as_str().unwrap();
            assert_eq!(url, format!("https://127.0.0.1:1234/{}", admission.path));
            let kind = admission.checks[2].trim_end_matches('s');
            assert!(url.ends_with(kind), "{url}");
        }
    }
}
