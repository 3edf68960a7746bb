//! Turns failed writes into verdicts, and asks the API where the cache cannot decide.

use argocd::glob;
use protocol::{Kind, ObjectKey, Verdict};
use runtime::error::Chain;

use super::super::plan;
use super::super::stale_cache_backoff::Recheck;
use super::Applier;
use super::error::{BUSY_PAUSE, Error};

impl Applier {
    /// Asks the API whether the object is absent; returns the verdict to answer if it is not, or if the API fails.
    ///
    /// The hub releases its deleted object for good once we report ours gone. The cache cannot prove that: its watch may
    /// be late or broken, as in an agent whose rights ended while its successor already runs.
    pub(in crate::sync::replica) async fn confirm_absence(
        &self,
        key: &ObjectKey,
    ) -> Option<Verdict> {
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
        if error.is_final() {
            self.backoff.end(key);
            return Verdict::Refused(Chain(error).to_string());
        }
        if error.is_stale() {
            return self.look_again(key, error);
        }
        tracing::warn!(object = %key, error = %Chain(error), "write failed; retrying");
        if error.misses_namespace() && key.kind == Kind::Application {
            let namespace = &key.namespace;
            let message = format!(
                "namespace {namespace:?} does not exist on the cluster: create it, or let the agent do so \
                 (--create-namespace)"
            );
            self.reports.error(key, key, message);
        }
        Verdict::Retry {
            after: error.pause(),
        }
    }

    fn look_again(&self, key: &ObjectKey, error: &Error) -> Verdict {
        let Recheck {
            pause,
            is_strange,
            is_over,
        } = self.backoff.look(key);
        // The watch selects Secrets of repositories only; this is another Secret.
        let is_taken = key.kind == Kind::Repository;
        if is_over && (error.is_unclear() || is_taken) {
            self.backoff.end(key);
            return Verdict::Refused(if error.is_unclear() {
                Chain(error).to_string()
            } else {
                plan::TAKEN.to_owned()
            });
        }
        if is_strange {
            tracing::warn!(object = %key, error = %Chain(error), "cache is stale; retrying");
        } else {
            tracing::debug!(object = %key, error = %Chain(error), "looking again");
        }
        Verdict::Retry { after: pause }
    }
}
