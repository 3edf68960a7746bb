//! The people of a history, their intents, and the agents that ask for certificates.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::api::{Api, Key, Write, is_deleting};
use super::fault::Fault;
use super::ledger::{Ledger, OWN};
use super::ocm::{ADD_ONS, ADDON, uid};
use crate::dice::{Dice, Trace};

pub(crate) const CLUSTERS: &str = "managedclusters.cluster.open-cluster-management.io";
pub(crate) const CONFIGS: &str = "addondeploymentconfigs.addon.open-cluster-management.io";
pub(crate) const REQUESTS: &str = "certificatesigningrequests.certificates.k8s.io";
const OURS: &str = "argocd-agent.open-cluster-management.io";
const SIGNER: &str = "open-cluster-management.io/argocd-agent-addon";
const NAME: &str = "people";

/// The intents of people for one cluster.
#[derive(Clone, Debug, Default)]
pub(crate) struct Intent {
    pub(crate) name: String,
    /// The value of the label.
    pub(crate) label: Option<&'static str>,
    /// Whether a user made the `ManagedClusterAddOn` that is there.
    pub(crate) by_hand: bool,
    pub(crate) revoked: bool,
}

impl Intent {
    /// Whether the cluster has the add-on at the end.
    pub(crate) fn wants_it(&self) -> bool {
        self.by_hand || matches!(self.label, Some("managed" | "autonomous"))
    }
}

/// People, and the registration agents of the clusters.
#[derive(Debug)]
pub(crate) struct People {
    pub(crate) api: Api,
    pub(crate) dice: Dice,
    pub(crate) trace: Trace,
    pub(crate) ledger: Ledger,
    pub(crate) fault: Fault,
    pub(crate) intents: Vec<Intent>,
    pub(crate) number: usize,
}

/// How a certificate request is forged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forgery {
    User,
    CommonName,
    Organization,
    Usage,
    Label,
}

impl People {
    pub(crate) fn annotation(name: &str) -> String {
        format!("{OURS}/{name}")
    }

    fn key(kind: &str, namespace: &str, name: &str) -> Key {
        (kind.to_owned(), namespace.to_owned(), name.to_owned())
    }

    fn write(&self, key: &Key, write: Write) -> bool {
        let title = format!("{write:?}");
        let outcome = self.api.write(key, "", NAME, write);
        let code = outcome.as_ref().map_or_else(|it| it.code, |_| 200);
        self.trace.emit(format!("people: {title} {key:?} {code}"));
        outcome.is_ok()
    }

    fn next(&mut self) -> usize {
        self.number += 1;
        self.number
    }

    pub(crate) fn add_on(&self, cluster: &str) -> Option<Arc<Value>> {
        self.api.get(ADD_ONS, cluster, ADDON)
    }

    /// The record of a cluster: the UID of its `ManagedClusterAddOn`, and the details.
    fn record(&self, cluster: &str) -> Option<(String, Value)> {
        let map = self
            .api
            .get("configmaps", OWN, "argocd-agent-addon-modes")?;
        let text = map["data"][cluster].as_str()?;
        let mut parts = text.splitn(4, ", ").skip(2);
        let addon = parts.next()?.to_owned();
        let details = parts.next().unwrap_or("{}");
        Some((addon, serde_json::from_str(details).ok()?))
    }

    /// Whether the manager has recorded the decisions about a cluster that keeps the add-on. Before that, nothing can restore
    /// it.
    fn is_recorded(&self, intent: &Intent) -> bool {
        let add_on = self.add_on(&intent.name).filter(|_| intent.wants_it());
        let Some(add_on) = add_on.filter(|it| !is_deleting(it)) else {
            return false;
        };
        let rekey = &add_on["metadata"]["annotations"][Self::annotation("rekey")];
        self.record(&intent.name)
            .is_some_and(|(recorded, details)| {
                recorded == uid(&add_on)
                    && details["madeForLabel"].as_bool().unwrap_or_default() != intent.by_hand
                    && details["revoked"].is_null() != intent.revoked
                    && (rekey.is_null() || details["rekey"] == *rekey)
            })
    }

    /// One act.
    pub(crate) fn act(&mut self) {
        let at = self.dice.below(self.intents.len());
        let name = self.intents[at].name.clone();
        let recorded = self.is_recorded(&self.intents[at]);
        match self.dice.below(12) {
            0 | 1 => {
                let mode = *self.dice.pick(&["managed", "autonomous"]);
                self.label(at, Some(mode));
            }
            2 if recorded || self.add_on(&name).is_none() => self.label(at, None),
            3 => self.make(at),
            4 if recorded => {
                let key = Self::key(ADD_ONS, &name, ADDON);
                self.write(&key, Write::Delete(None, None));
                self.intents[at].by_hand = false;
            }
            5 => self.configure(),
            6 if recorded => self.configure_alone(&name),
            7 if recorded => self.wipe(&name),
            8 if recorded && !self.intents[at].revoked => {
                self.revoke(at);
            }
            9 if recorded && self.intents[at].revoked => self.restore(at),
            10 => drop(self.ask(&name, None)),
            11 => {
                let all = [
                    Forgery::User,
                    Forgery::CommonName,
                    Forgery::Organization,
                    Forgery::Usage,
                    Forgery::Label,
                ];
                let forgery = *self.dice.pick(&all);
                drop(self.ask(&name, Some(forgery)));
            }
            _ => self.steal_secret(&name),
        }
    }

    fn annotate(&self, cluster: &str, annotations: &Value) -> bool {
        let patch = json!({ "metadata": { "annotations": annotations } });
        self.write(&Self::key(ADD_ONS, cluster, ADDON), Write::Merge(patch))
    }

    /// Sets the label of a cluster, or removes it.
    fn label(&mut self, at: usize, mode: Option<&'static str>) {
        let patch = json!({ "metadata": { "labels": { Self::annotation("mode"): mode } } });
        let key = Self::key(CLUSTERS, "", &self.intents[at].name);
        self.write(&key, Write::Merge(patch));
        self.intents[at].label = mode;
    }

    /// As `clusteradm addon enable` on a cluster without the add-on.
    fn make(&mut self, at: usize) {
        let name = self.intents[at].name.clone();
        let object = json!({
            "apiVersion": "addon.open-cluster-management.io/v1beta1", "kind": "ManagedClusterAddOn",
            "metadata": { "name": ADDON, "namespace": name }, "spec": {},
        });
        if self.write(&Self::key(ADD_ONS, &name, ADDON), Write::Create(object)) {
            self.intents[at].by_hand = true;
        }
    }

    /// As `clusteradm addon enable` on a cluster with the add-on: all annotations are lost.
    fn wipe(&self, cluster: &str) {
        if let Some(add_on) = self.add_on(cluster) {
            let mut object = (*add_on).clone();
            object["metadata"]["annotations"] = Value::Null;
            self.write(&Self::key(ADD_ONS, cluster, ADDON), Write::Replace(object));
        }
    }

    fn revoke(&mut self, at: usize) {
        let revoked = json!({ Self::annotation("revoked"): "stolen" });
        self.intents[at].revoked = self.annotate(&self.intents[at].name, &revoked);
    }

    /// Revokes the first cluster that can be.
    pub(crate) fn revoke_any(&mut self) {
        let can_be = |it: &Intent| !it.revoked && self.is_recorded(it);
        if let Some(at) = self.intents.iter().position(can_be) {
            self.revoke(at);
        }
    }

    /// Opts the first cluster out whose label made the add-on.
    pub(crate) fn leave_any(&mut self) {
        let made = |it: &Intent| !it.by_hand && self.is_recorded(it);
        if let Some(at) = self.intents.iter().position(made) {
            self.label(at, None);
        }
    }

    /// The agent of another cluster asks for the certificate of each one.
    pub(crate) fn forge_all(&mut self) {
        for intent in self.intents.clone() {
            self.ask(&intent.name, Some(Forgery::User));
        }
    }

    /// As `argocd-agentctl agent restore`.
    pub(crate) fn restore(&mut self, at: usize) {
        let number = self.next();
        let key = format!("key {number}");
        let both = json!({ Self::annotation("rekey"): key, Self::annotation("revoked"): null });
        let name = self.intents[at].name.clone();
        self.intents[at].revoked &= !self.annotate(&name, &both);
    }

    /// Another client removes the annotations of the first revoked cluster, if there is one; returns which.
    pub(crate) fn wipe_revoked(&mut self) -> Option<usize> {
        let revoked = |it: &Intent| it.revoked && self.is_recorded(it);
        let at = self.intents.iter().position(revoked)?;
        let name = self.intents[at].name.clone();
        self.wipe(&name);
        Some(at)
    }

    fn pool(&mut self) -> Value {
        let pool = format!("pool-{}", self.next());
        json!({ "spec": { "nodePlacement": { "nodeSelector": { "pool": pool } } } })
    }

    fn configure(&mut self) {
        let patch = self.pool();
        self.write(&Self::key(CONFIGS, OWN, ADDON), Write::Merge(patch));
    }

    /// A configuration of a cluster's own, or of its own no more.
    fn configure_alone(&mut self, cluster: &str) {
        let key = Self::key(CONFIGS, cluster, "own");
        let mut object = self.pool();
        object["apiVersion"] = json!("addon.open-cluster-management.io/v1alpha1");
        object["kind"] = json!("AddOnDeploymentConfig");
        self.write(&key, Write::Apply(object, true));
        let named = json!([{
            "group": "addon.open-cluster-management.io", "resource": "addondeploymentconfigs",
            "namespace": cluster, "name": "own",
        }]);
        let configs = if self.dice.probability(0.3) {
            json!([])
        } else {
            named
        };
        let patch = json!({ "spec": { "configs": configs } });
        self.write(&Self::key(ADD_ONS, cluster, ADDON), Write::Merge(patch));
    }

    /// Someone deletes a cluster Secret, or the serving certificate.
    fn steal_secret(&self, cluster: &str) {
        let key = match self.dice.below(2) {
            0 => Self::key("secrets", "argocd", &format!("cluster-{cluster}")),
            _ => Self::key("secrets", OWN, "argocd-agent-principal-tls"),
        };
        self.write(&key, Write::Delete(None, None));
    }

    /// The subject that the registration agent of a cluster asks for, from the status of its `ManagedClusterAddOn`.
    fn subject(&self, cluster: &str) -> (String, Vec<String>, Vec<String>) {
        let add_on = self.add_on(cluster);
        let registrations = add_on.as_ref().map(|it| &it["status"]["registrations"]);
        let subject = registrations
            .and_then(|it| it.as_array()?.first())
            .map(|it| &it["customSigner"]["subject"]);
        let texts = |value: &Value| -> Vec<String> {
            let all = value.as_array().into_iter().flatten();
            all.filter_map(|it| it.as_str().map(str::to_owned))
                .collect()
        };
        if let Some(subject) = subject.filter(|it| it["user"].is_string()) {
            let user = subject["user"].as_str().unwrap_or_default().to_owned();
            return (
                user,
                texts(&subject["groups"]),
                texts(&subject["organizationUnits"]),
            );
        }
        let base = "system:open-cluster-management";
        let user = format!("{base}:cluster:{cluster}:addon:{ADDON}:agent:{ADDON}");
        let groups = vec![
            format!("{base}:cluster:{cluster}:addon:{ADDON}"),
            format!("{base}:addon:{ADDON}"),
            "system:authenticated".to_owned(),
        ];
        (user, groups, vec![])
    }

    /// Asks for a certificate; returns the name of the request.
    pub(crate) fn ask(&mut self, cluster: &str, forgery: Option<Forgery>) -> String {
        let (mut user, mut groups, units) = self.subject(cluster);
        let (mut sender, mut label) = (cluster.to_owned(), cluster.to_owned());
        let mut usages = vec!["digital signature", "key encipherment", "client auth"];
        let other = self.intents.iter().find(|it| it.name != cluster);
        let other = other.map_or("none", |it| it.name.as_str()).to_owned();
        match forgery {
            None => {}
            Some(Forgery::User) if self.fault == Fault::WrongUser => {}
            Some(Forgery::User) => sender.clone_from(&other),
            Some(Forgery::CommonName) => user = user.replace(cluster, &other),
            Some(Forgery::Organization) => groups.push("system:masters".to_owned()),
            Some(Forgery::Usage) => usages.push("server auth"),
            Some(Forgery::Label) => label.clone_from(&other),
        }
        let (_, pem) = lab_ocm_stand_in::certificate_request(&user, &groups, &units, &[])
            .expect("a certificate request");
        let name = format!("request-{}", self.next());
        let object = json!({
            "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
            "metadata": { "labels": {
                "open-cluster-management.io/cluster-name": label,
                "open-cluster-management.io/addon-name": ADDON,
            }},
            "spec": {
                "request": STANDARD.encode(pem), "signerName": SIGNER, "usages": usages,
                "username": format!("system:open-cluster-management:{sender}:agent"),
                "groups": [format!("system:open-cluster-management:{sender}"), "system:authenticated"],
            },
        });
        self.trace
            .emit(format!("{cluster} asks: {name} {forgery:?}"));
        let key = Self::key(REQUESTS, "", &name);
        drop(self.api.write(&key, "", NAME, Write::Create(object)));
        if let Some(forgery) = forgery {
            let how = match forgery {
                Forgery::User => "of the agent of another cluster",
                Forgery::CommonName => "for the name of another cluster",
                Forgery::Organization => "for another group",
                Forgery::Usage => "for a server",
                Forgery::Label => "under the label of another cluster",
            };
            self.ledger.forged(&name, how);
        }
        name
    }
}
