//! Turns failed writes into verdicts, and asks the API where the cache cannot decide.

use std::time::Duration;

use argocd::glob;
use protocol::{Kind, ObjectKey, Verdict};
use runtime::error::{Chain, ErrorClass};

use super::super::plan;
use super::super::stale_cache_backoff::{LOOKS, PAUSES};
use super::super::state::Replica;
use super::{BUSY_PAUSE, Error, TRANSIENT_PAUSE};
use crate::sync::api;

/// The pause when an administrator has to act first, such as grant a right or install Argo CD.
const PERSON_PAUSE: Duration = Duration::from_secs(15);

impl Replica {
    /// Asks the API whether the object is absent; returns the verdict to answer if it is not, or if the API fails.
    ///
    /// The hub releases its deleted object for good once we report ours gone. The cache cannot prove that: its watch may
    /// be late or broken, as in an agent whose rights ended while its successor already runs.
    pub(crate) async fn confirm_absence(&self, key: &ObjectKey) -> Option<Verdict> {
        match self.finds(key).await {
            Ok(false) => None,
            Ok(true) => {
                tracing::debug!(object = %key, "exists, but the watch has not reported it yet");
                Some(Verdict::Retry { after: BUSY_PAUSE })
            }
            Err(error) => Some(self.verdict(key, &error)),
        }
    }

    /// Reports an Application in a namespace that Argo CD does not watch, and so never syncs.
    pub(super) async fn report_unwatched_namespace(&self, key: &ObjectKey) {
        let argocd_namespace = &self.scope.argocd_namespace;
        if key.kind != Kind::Application || key.namespace == *argocd_namespace {
            return;
        }
        let asked = self.spoke.application_namespaces(argocd_namespace);
        let patterns = match asked.await {
            Ok(patterns) => patterns.unwrap_or_default(),
            Err(error) => {
                tracing::debug!(error = %Chain(&error), "cannot read the namespaces that Argo CD watches");
                return;
            }
        };
        let mut patterns = patterns.split(',').map(str::trim);
        if !patterns.any(|pattern| glob::matches_entry(pattern, &key.namespace)) {
            let namespace = &key.namespace;
            // The name on the hub is the same: other namespaces are kept.
            self.reports.error(
                key,
                key,
                format!(
                    "Argo CD on the cluster does not watch namespace {namespace:?}: add it to application.namespaces \
                     of its ConfigMap argocd-cmd-params-cm and restart its application controller"
                ),
            );
        }
    }

    /// The verdict for a message whose write failed.
    pub(in crate::sync::replica) fn verdict(&self, key: &ObjectKey, error: &Error) -> Verdict {
        let error_class = match &error.source {
            api::Error::Refused(_) => {
                self.backoff.end(key);
                return Verdict::Refused(Chain(error).to_string());
            }
            api::Error::Stale | api::Error::Misfit(_) => return self.look_again(key, error),
            api::Error::NoNamespace(_) => ErrorClass::User,
            api::Error::Failed { error_class, .. } => *error_class,
        };
        tracing::warn!(object = %key, error = %Chain(error), "write failed; retrying");
        if matches!(error.source, api::Error::NoNamespace(_)) && key.kind == Kind::Application {
            let namespace = &key.namespace;
            let message = format!(
                "namespace {namespace:?} does not exist on the cluster: create it, or let the agent do so \
                 (--create-namespace)"
            );
            self.reports.error(key, key, message);
        }
        let after = match error_class {
            ErrorClass::Transient => TRANSIENT_PAUSE,
            ErrorClass::User | ErrorClass::Internal => PERSON_PAUSE,
        };
        Verdict::Retry { after }
    }

    fn look_again(&self, key: &ObjectKey, error: &Error) -> Verdict {
        let looks = self.backoff.look(key);
        // The API server does not report whether the object is another one or the value invalid.
        let is_unclear = matches!(error.source, api::Error::Misfit(_));
        // The watch selects Secrets of repositories only; this is another Secret.
        let is_taken = key.kind == Kind::Repository;
        if looks >= LOOKS && (is_unclear || is_taken) {
            self.backoff.end(key);
            return Verdict::Refused(if is_unclear {
                Chain(error).to_string()
            } else {
                plan::TAKEN.to_owned()
            });
        }
        if looks == LOOKS {
            tracing::warn!(object = %key, error = %Chain(error), "cache is stale; retrying");
        } else {
            tracing::debug!(object = %key, error = %Chain(error), "looking again");
        }
        let after = PAUSES.after(looks);
        Verdict::Retry { after }
    }
}
