//! Runs the plans for the hub's messages, and remembers and reports their results.

use argocd::{glob, projection::Written};
use protocol::{Event, Kind, Mode, ObjectKey, Verdict};
use runtime::error::{Chain, ErrorClass};

use super::message::{Message, Reader};
use super::plan::{self, Memory, No, Plan};
use super::stale_cache_backoff::Recheck;
use super::{BUSY_PAUSE, PERSON_PAUSE, Replica, TRANSIENT_PAUSE, apply};
use crate::sync::cache::Wanted;

impl Replica {
    pub(super) async fn reconcile(
        &self,
        reader: Reader<'_>,
        event: &Event,
        message: &Message,
    ) -> Verdict {
        let key = &message.key;
        let _only_writer = self.lock(key).await;
        if message.is_deletion()
            && self.store.live(key).is_none()
            && let Some(verdict) = self.confirm_absence(key).await
        {
            return verdict;
        }
        let (planned, wanted) = self.plan(reader, event, message);
        match planned {
            Err(No::Refused(reason)) => Verdict::Refused(reason),
            Err(No::Occupied(reason)) => {
                if let Some(wanted) = wanted {
                    self.store.remember(key.clone(), wanted);
                }
                Verdict::Refused(reason.to_owned())
            }
            Err(No::NotYet(why)) => {
                tracing::debug!(object = %key, why, "cannot run the command yet; retrying");
                Verdict::Retry { after: BUSY_PAUSE }
            }
            Ok(plan) if !plan.steps.is_empty() && !self.sync_status.borrow().serves(key.kind) => {
                tracing::debug!(object = %key, "waits for Argo CD");
                Verdict::Retry {
                    after: TRANSIENT_PAUSE,
                }
            }
            Ok(plan) => {
                let is_new = plan
                    .steps
                    .iter()
                    .any(|step| matches!(step, plan::Step::Create(_)));
                let verdict = self.apply(key, plan, wanted).await;
                if is_new && verdict == Verdict::Done {
                    self.report_unwatched_namespace(key).await;
                }
                verdict
            }
        }
    }

    /// Asks the API whether the object is absent; returns the verdict to answer if it is not, or if the API fails.
    ///
    /// The hub releases its deleted object for good once we report ours gone. The cache cannot prove that: its watch may
    /// be late or broken, as in an agent whose rights ended while its successor already runs.
    async fn confirm_absence(&self, key: &ObjectKey) -> Option<Verdict> {
        match self.writer.finds(key).await {
            Ok(false) => None,
            Ok(true) => {
                tracing::debug!(object = %key, "exists, but the watch has not reported it yet");
                Some(Verdict::Retry { after: BUSY_PAUSE })
            }
            Err(error) => Some(self.judge(key, &error)),
        }
    }

    /// Carries out a plan, and remembers its result only if all steps succeed.
    pub(super) async fn apply(
        &self,
        key: &ObjectKey,
        plan: Plan,
        wanted: Option<Wanted>,
    ) -> Verdict {
        let Plan {
            steps,
            memory,
            gone,
        } = plan;
        let mut wanted = wanted;
        if !steps.is_empty() {
            tracing::debug!(object = %key, steps = steps.len(), ?memory, "applying");
        }
        if memory == Memory::Leaving {
            self.mark_leaving(key, wanted.as_ref());
        }
        if !steps.is_empty() {
            // The watch may report the change before the API answers.
            self.reports.changing(key);
        }
        for step in steps {
            let desired = wanted.as_ref().map(|wanted| &wanted.desired);
            match self.writer.carry_out(key, step, desired).await {
                Ok(Some(written)) => note(&mut wanted, written),
                Ok(None) => {}
                Err(error) => return self.judge(key, &error),
            }
            // The status in the answer may be newer than the next report of the watch.
            self.report(key);
        }
        self.backoff.end(key);
        self.memorise(key, memory, wanted);
        if let Some(source_uid) = gone {
            self.reports.gone(key, &source_uid, None);
        }
        Verdict::Done
    }

    /// Queues the object's current state for the hub.
    fn report(&self, key: &ObjectKey) {
        match self.scope.mode {
            Mode::Managed => self.reports.status(key.clone()),
            Mode::Autonomous => self.reports.owned(key.clone()),
        }
    }

    /// Marks the object as leaving, so that the drift loop does not recreate it.
    ///
    /// Without a digest: until we requested the deletion, the hub must resend it after a lost
    /// connection.
    fn mark_leaving(&self, key: &ObjectKey, wanted: Option<&Wanted>) {
        let known = self.store.get(key).wanted;
        if let Some(wanted) = wanted.or(known.as_deref()) {
            let leaving = Wanted {
                leaving: true,
                digest: String::new(),
                ..wanted.clone()
            };
            self.store.remember(key.clone(), leaving);
        }
    }

    fn memorise(&self, key: &ObjectKey, memory: Memory, wanted: Option<Wanted>) {
        match (memory, wanted) {
            (Memory::Forget, _) => self.store.forget(key),
            (Memory::Want, Some(wanted)) => {
                self.store.remember(key.clone(), wanted);
                // The object may have changed while we wrote.
                self.drift.check(key.clone());
            }
            (Memory::Leaving, Some(wanted)) => {
                let leaving = Wanted {
                    leaving: true,
                    ..wanted
                };
                self.store.remember(key.clone(), leaving);
                if self.store.live(key).is_none() {
                    // The object is gone already, and the observer reported that.
                    self.store.forget(key);
                }
            }
            (Memory::Keep, _) | (Memory::Want | Memory::Leaving, None) => {}
        }
    }

    /// Reports an Application in a namespace that Argo CD does not watch, and so never syncs.
    async fn report_unwatched_namespace(&self, key: &ObjectKey) {
        let argocd_namespace = &self.scope.argocd_namespace;
        if key.kind != Kind::Application || key.namespace == *argocd_namespace {
            return;
        }
        let asked = self.writer.spoke.application_namespaces(argocd_namespace);
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
    pub(super) fn judge(&self, key: &ObjectKey, error: &apply::Error) -> Verdict {
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
        let after = match error.error_class() {
            ErrorClass::Transient => TRANSIENT_PAUSE,
            ErrorClass::User | ErrorClass::Internal => PERSON_PAUSE,
        };
        Verdict::Retry { after }
    }

    fn look_again(&self, key: &ObjectKey, error: &apply::Error) -> Verdict {
        let Recheck {
            pause,
            is_strange,
            is_over,
        } = self.backoff.look(key);
        if is_over && error.is_unclear() {
            self.backoff.end(key);
            return Verdict::Refused(Chain(error).to_string());
        }
        // The watch selects Secrets of repositories only; this is another Secret.
        if is_over && key.kind == Kind::Repository {
            self.backoff.end(key);
            return Verdict::Refused(plan::TAKEN.to_owned());
        }
        if is_strange {
            tracing::warn!(object = %key, error = %Chain(error), "cache is stale; retrying");
        } else {
            tracing::debug!(object = %key, error = %Chain(error), "looking again");
        }
        Verdict::Retry { after: pause }
    }
}

/// Remembers the written form of the desired state.
pub(super) fn note(wanted: &mut Option<Wanted>, written: Written) {
    if let Some(wanted) = wanted {
        wanted.written = Some(written);
    }
}
