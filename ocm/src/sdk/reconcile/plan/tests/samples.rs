//! An add-on, observed states and the effect of steps on them, for tests.

use std::{collections::BTreeMap, sync::Mutex};

use kube::{Client, api::DynamicObject};
use serde_json::Value;

use super::super::*;
use crate::{
    api::{addon::ManagedClusterAddOn, cluster::ManagedCluster},
    name::AddonName,
    sdk::{
        Health, HealthInput, Metrics, Registration, RenderError, RenderInput, Rendered, SigningCa,
        View, event::Events, hosting, hub::Hub, object_cache::Work, queue::PendingWork,
    },
};

/// An add-on with configurable return values.
pub(crate) struct Author {
    pub(crate) name: AddonName,
    pub(crate) manifests: Mutex<Vec<Value>>,
    pub(crate) error: Option<RenderError>,
    pub(crate) admission: Admission,
    pub(crate) hosts: Hosts,
    pub(crate) health: Mutex<Health>,
}

impl Addon for Author {
    fn name(&self) -> &AddonName {
        &self.name
    }

    fn hosts(&self) -> Hosts {
        self.hosts.clone()
    }

    fn admit(&self, _: Target<'_>) -> Admission {
        self.admission.clone()
    }

    fn registrations(&self, target: Target<'_>) -> Vec<Registration> {
        vec![Registration::custom_signer(
            "ocm.io/a",
            &self.name,
            target.name,
        )]
    }

    fn signing_ca(&self, _: &str) -> Option<Arc<SigningCa>> {
        None
    }

    fn render(&self, _: RenderInput<'_>) -> Result<Rendered, RenderError> {
        let manifests = self.manifests.lock().map(|manifests| manifests.clone());
        let rendered = Rendered::from(manifests.unwrap_or_default());
        self.error.clone().map_or(Ok(rendered), Err)
    }

    fn conditions(&self, _: HealthInput<'_>) -> Health {
        self.health
            .lock()
            .map(|health| health.clone())
            .unwrap_or_default()
    }
}

pub(crate) fn author(manifests: Vec<Value>) -> Author {
    Author {
        name: AddonName::new("a").unwrap(),
        manifests: Mutex::new(manifests),
        error: None,
        admission: Admission::Serve,
        hosts: Hosts::None,
        health: Mutex::default(),
    }
}

pub(crate) fn config_map(name: &str, size: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "namespace": "n", "name": name },
        "data": { "text": "x".repeat(size) },
    })
}

/// A hub whose API is this client, with empty caches.
pub(crate) fn hub_of(client: Client) -> Hub<Author> {
    let addon = Arc::new(author(Vec::new()));
    Hub {
        events: Events::new(client.clone(), addon.name(), Metrics::default()),
        addon,
        client,
        version: Version::V1Beta1,
        world: Arc::clone(View::new().world()),
        metrics: Metrics::default(),
        pending: PendingWork::default(),
        lists: tokio::sync::Mutex::default(),
    }
}

pub(crate) fn cluster_name() -> ClusterName {
    ClusterName::new("c").unwrap()
}

/// A cluster with a settled configuration and no works yet.
pub(crate) fn observed() -> Observed {
    let mut cluster = ManagedCluster::default();
    cluster.spec.hub_accepts_client = true;
    let addon = json!({
        "apiVersion": "addon.open-cluster-management.io/v1beta1",
        "kind": "ManagedClusterAddOn",
        "metadata": {
            "name": "a", "namespace": "c", "uid": "u",
            "ownerReferences": [{
                "apiVersion": "addon.open-cluster-management.io/v1beta1",
                "kind": "ClusterManagementAddOn", "name": "a", "uid": "o", "controller": true,
            }],
        },
        "spec": {},
        "status": { "conditions": [{
            "type": "Configured", "status": "True", "reason": "R", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }] },
    });
    Observed {
        cluster: Some(Arc::new(cluster)),
        addon: Some(Arc::new(read_addon(addon))),
        offer: Some(Arc::default()),
        ..Observed::default()
    }
}

pub(crate) fn read_addon(value: Value) -> ManagedClusterAddOn {
    Version::V1Beta1.read_addon(serde_json::from_value(value).unwrap())
}

pub(crate) fn decide(author: &Author, observed: &Observed) -> Plan {
    let name = cluster_name();
    let Stage::Served(target) = stage(author, &name, observed) else {
        panic!("not served")
    };
    let input = PlanInput {
        version: Version::V1Beta1,
        cluster: &name,
        observed,
        now: Timestamp::UNIX_EPOCH,
    };
    let host = observed.host.as_deref();
    let hosting = hosting::hosting(author, target.addon, host);
    plan(author, input, target, None, &hosting, &|_| None)
}

pub(crate) fn steps(author: &Author, observed: &Observed) -> Vec<Step> {
    match decide(author, observed).works {
        Works::Change(steps) => steps,
        other @ (Works::Keep(_) | Works::Refused(_)) => panic!("{other:?}"),
    }
}

/// The observed state after these steps.
pub(crate) fn carry_out(observed: &Observed, steps: &[Step]) -> Observed {
    let key = |work: &Work| (work.report.namespace.clone(), work.report.name.clone());
    let works = observed
        .works
        .iter()
        .map(|work| (key(work), Arc::clone(work)));
    let mut works: BTreeMap<_, _> = works.collect();
    for step in steps {
        match step {
            Step::Apply { body, .. } => {
                let object: DynamicObject = serde_json::from_value(body.clone()).unwrap();
                let work = Work::read(object);
                works.insert(key(&work), Arc::new(work));
            }
            Step::Delete { namespace, name } => {
                works.remove(&(namespace.clone(), name.clone()));
            }
        }
    }
    Observed {
        works: works.into_values().collect(),
        ..observed.clone()
    }
}

pub(crate) fn names(steps: &[Step]) -> Vec<String> {
    let name = |step: &Step| match step {
        Step::Apply { name, .. } => format!("apply {name}"),
        Step::Delete { name, .. } => format!("delete {name}"),
    };
    steps.iter().map(name).collect()
}
