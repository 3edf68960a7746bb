//! The label by which the cluster backup of Red Hat Advanced Cluster Management saves the objects that a restored hub needs.
//!
//! Without them each agent needs another certificate, and the decisions about clusters are lost (`docs/runbooks.md`).

use std::{fmt, time::Duration};

use k8s_openapi::{
    api::core::v1::{ConfigMap, Secret},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use runtime::error::Chain;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::time::sleep;
use tracing::{info, warn};

use crate::{
    api::{ApiError, failed},
    decisions::store,
    issuer::{CA_SECRET, JWT_SECRET},
    keys::{BACKUP, FIELD_MANAGER, IDENTITY},
};

/// The pause between rounds: an object that was created later, or that lost its label, has it after this time.
const PAUSE: Duration = Duration::from_mins(1);

/// Labels the objects.
#[derive(Clone, Debug)]
pub struct Labeller {
    secrets: Api<Secret>,
    decisions: Api<ConfigMap>,
    identity: Api<ConfigMap>,
    value: String,
}

impl Labeller {
    /// Labels the Secrets and decisions in the manager's namespace, and the principal's identity in Argo CD's, with this value.
    pub fn new(client: &Client, own: &str, argocd: &str, value: &str) -> Self {
        Self {
            secrets: Api::namespaced(client.clone(), own),
            decisions: Api::namespaced(client.clone(), own),
            identity: Api::namespaced(client.clone(), argocd),
            value: value.to_owned(),
        }
    }

    /// Labels them, and again where the label is missing. Never returns. Cancel safe.
    pub async fn run(self) {
        // The last logged problem, so that each problem is logged once.
        let mut logged: Option<String> = None;
        loop {
            let problem = self.round().await.err();
            let problem = problem.map(|error| Chain(&error).to_string());
            if let Some(problem) = problem.as_ref().filter(|_| problem != logged) {
                warn!(error = problem, "cannot label an object for backups");
            }
            logged = problem;
            sleep(PAUSE).await;
        }
    }

    /// Labels all of them, also those after one that failed.
    async fn round(&self) -> Result<(), ApiError> {
        let all = [
            self.label(&self.secrets, CA_SECRET).await,
            self.label(&self.secrets, JWT_SECRET).await,
            self.label(&self.decisions, store::NAME).await,
            self.label(&self.identity, IDENTITY).await,
        ];
        all.into_iter().collect()
    }

    async fn label<K>(&self, api: &Api<K>, name: &str) -> Result<(), ApiError>
    where
        K: Clone + DeserializeOwned + fmt::Debug,
    {
        let found = api.get_metadata_opt(name).await;
        let found = found.map_err(failed("read", name))?;
        if found.is_none_or(|found| is_labelled(&found.metadata, &self.value)) {
            return Ok(());
        }
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let patch = json!({"metadata": {"labels": {BACKUP: self.value}}});
        let written = api
            .patch_metadata(name, &params, &Patch::Merge(&patch))
            .await;
        written.map_err(failed("label", name))?;
        info!(object = name, "labelled for backups");
        Ok(())
    }
}

fn is_labelled(metadata: &ObjectMeta, value: &str) -> bool {
    let labels = metadata.labels.as_ref();
    labels.and_then(|labels| labels.get(BACKUP)) == Some(&value.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn an_object_with_another_label_value_is_labelled_again() {
        let is_labelled = |labels: Value| {
            let metadata = serde_json::from_value(json!({ "labels": labels })).unwrap();
            is_labelled(&metadata, "cluster")
        };
        assert!(is_labelled(json!({BACKUP: "cluster", "other": "x"})));
        for labels in [
            Value::Null,
            json!({}),
            json!({BACKUP: ""}),
            json!({BACKUP: "cluster-activation"}),
            json!({"other": "cluster"}),
        ] {
            assert!(!is_labelled(labels.clone()), "{labels}");
        }
    }
}
