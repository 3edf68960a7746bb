//! The end of a history of an autonomous cluster: the required mirrors, computed independently of the product.

use std::time::Duration;

use argocd::{Meta, keys};
use principal::store::Watched;
use protocol::{Kind, ObjectKey};
use serde_json::{Value, json};

use super::{CLUSTER, NAMES, World, own};
use crate::fault::Fault;
use crate::network::Conditions;
use crate::process::ARGOCD;
use crate::slow::Manners;

/// How long nothing must change before it counts as quiet.
const QUIET: Duration = Duration::from_mins(6);

impl World {
    /// Everything works again; when nothing changes any more, both sides are compared.
    pub(super) async fn end(&mut self) -> Vec<String> {
        self.trace.emit("everything works again");
        self.network.set_conditions(CLUSTER, Conditions::FINE);
        self.hub.behave(Manners::GOOD);
        self.spoke.behave(Manners::GOOD);
        self.hub.inner.break_watches(false);
        self.spoke.inner.break_watches(false);
        self.hub.refusals.set(None);
        self.spoke.refusals.set(None);
        self.start();
        self.plant_before_quiet();
        let mut is_quiet = self.settle().await;
        if self.refused {
            self.network.break_lines(CLUSTER);
            is_quiet &= self.settle().await;
        }
        if !is_quiet {
            return vec!["never quiet".to_owned()];
        }
        self.plant_before_the_look();
        self.findings()
    }

    /// Waits until nothing changes any more; false if that does not happen.
    async fn settle(&self) -> bool {
        let signature = || (self.hub.inner.version(), self.spoke.inner.version());
        if self.fault == Fault::Restless {
            let (spoke, stop) = (self.spoke.inner.clone(), self.stop.clone());
            self.nature.spawn("restless", async move {
                let pause = || tokio::time::sleep(QUIET / 2);
                let mut number = 0_u32;
                while stop.run_until_cancelled(pause()).await.is_some() {
                    number += 1;
                    let meta = json!({ "namespace": ARGOCD, "name": "restless" });
                    let spec = json!({ "project": "default", "number": number });
                    spoke.put(Kind::Application, json!({ "metadata": meta, "spec": spec }));
                }
            });
        }
        let mut before = signature();
        for _ in 0..20 {
            tokio::time::sleep(QUIET).await;
            let now = signature();
            if now == before {
                return true;
            }
            before = now;
        }
        false
    }

    /// The spoke loses the workloads of Applications that no user deleted.
    fn plant_before_quiet(&self) {
        if self.fault == Fault::StolenWorkload {
            for name in NAMES {
                self.spoke.inner.delete(&own(name));
            }
        }
    }

    /// No program reacts to these.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "few faults are about mirrors"
    )]
    fn plant_before_the_look(&self) {
        let hub = &self.hub.inner;
        let Some(name) = hub
            .all(Watched::Application)
            .into_keys()
            .map(|key| key.name)
            .next()
        else {
            return;
        };
        let patch = match self.fault {
            Fault::LostCopy => return hub.delete(Watched::Application, CLUSTER, &name),
            Fault::LeftCopy => {
                let left = json!({ "metadata": { "namespace": CLUSTER, "name": "left" } });
                return hub.put(Watched::Application, left);
            }
            Fault::FalseStatus => json!({ "status": { "health": { "status": "Unknown" } } }),
            Fault::Overwritten => json!({ "spec": { "source": { "path": "overwritten" } } }),
            Fault::StandingRefresh => {
                let refresh = json!({ keys::REFRESH: "normal" });
                json!({ "metadata": { "annotations": refresh } })
            }
            Fault::StandingOperation => json!({ "operation": { "sync": {} } }),
            _ => return,
        };
        hub.edit(Watched::Application, CLUSTER, &name, patch);
    }

    fn findings(&self) -> Vec<String> {
        let mut findings = vec![];
        for (key, source) in self.spoke.inner.all() {
            let is_application = key.kind == Kind::Application;
            let mirror = if is_application {
                self.hub.inner.application(CLUSTER, &key.name)
            } else {
                self.hub.inner.project(ARGOCD, &mirror_name(&key.name))
            };
            let Some(mirror) = mirror else {
                findings.push(format!("{key} is not shown"));
                continue;
            };
            let (found, wanted) = (shown(&mirror), wanted(&source, is_application));
            if found != wanted {
                findings.push(format!(
                    "{key} is shown as {found:#}, and wanted {wanted:#}"
                ));
            }
            if is_application && without_conditions(&mirror) != without_conditions(&source) {
                findings.push(format!(
                    "{key} is shown with {:#}, and has {:#}",
                    mirror["status"], source["status"]
                ));
            }
            for left in [
                "/operation",
                "/metadata/annotations/argocd.argoproj.io~1refresh",
            ] {
                if mirror.pointer(left).is_some_and(|value| !value.is_null()) {
                    findings.push(format!("{key}: {left} is never done"));
                }
            }
        }
        findings.extend(self.strays());
        findings.extend(self.ledger.findings(CLUSTER, &self.deeds.removed()));
        let syncs = self.deeds.syncs().into_iter();
        let twice = syncs.filter(|(_, times)| *times > 1);
        findings.extend(twice.map(|(name, times)| format!("{name} ran {times} times")));
        findings
    }

    /// Mirrors of nothing.
    fn strays(&self) -> Vec<String> {
        let spoke = &self.spoke.inner;
        let apps = self.hub.inner.all(Watched::Application).into_keys();
        let apps = apps.filter(|key| spoke.get(&own(&key.name)).is_none());
        let sources = spoke.all().into_iter();
        let projects = sources.filter(|(key, _)| key.kind == Kind::AppProject);
        let names: Vec<String> = projects.map(|(key, _)| mirror_name(&key.name)).collect();
        let projects = self.hub.inner.all(Watched::AppProject).into_keys();
        let projects = projects.filter(|key| !names.contains(&key.name));
        let strays = apps
            .map(|key| ObjectKey::new(Kind::Application, key.namespace, key.name))
            .chain(projects.map(|key| ObjectKey::new(Kind::AppProject, key.namespace, key.name)));
        strays.map(|key| format!("{key} mirrors nothing")).collect()
    }
}

/// The projects of all clusters are in one namespace of the hub.
fn mirror_name(project: &str) -> String {
    format!("{CLUSTER}-{project}")
}

/// The mirror of a source, as far as it is compared.
fn wanted(source: &Value, is_application: bool) -> Value {
    let mut spec = source["spec"].clone();
    if is_application {
        spec["project"] = json!(mirror_name("default"));
        spec["destination"]["name"] = json!(CLUSTER);
    } else {
        spec["sourceNamespaces"] = json!([CLUSTER]);
    }
    let meta = Meta::of(source);
    json!({ "spec": spec, "labels": meta.labels(), "source": meta.uid(), "cluster": CLUSTER, "finalizers": [] })
}

fn shown(mirror: &Value) -> Value {
    let meta = Meta::of(mirror);
    json!({
        "spec": mirror["spec"],
        "labels": meta.labels(),
        "source": meta.source_uid(),
        "cluster": meta.annotation(keys::MIRRORED_FROM),
        "finalizers": meta.finalizers(),
    })
}

/// The hub's own conditions leave an empty list behind when they are removed.
fn without_conditions(object: &Value) -> Value {
    let mut status = object["status"].clone();
    if let Some(fields) = status.as_object_mut() {
        fields.remove("conditions");
    }
    status
}
