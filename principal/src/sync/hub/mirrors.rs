//! Mirrors: the objects of autonomous clusters, shown on the hub and kept there as the cluster wants them.
//!
//! The namespace and the prefix of a project come from the session's certificate, the rest of the name from the spoke,
//! checked. An object without the cluster's mark is never touched.
//!
//! Here: the reports of a cluster, and the queries of its session. `names` gives each name to one cluster, `revert`
//! reverts edits on the hub.

use std::sync::Arc;

use argocd::{Meta, mirror, projection::release_patch_for_hub};
use protocol::{
    Event, Kind, ObjectKey, Verb,
    payload::{self, RequestUpdate},
};
use serde_json::Value;

use super::{
    commands::Judged,
    failing_writes::{Outcome, Unapplied},
    known_mirrors::{Size, is_made_of},
    objects::Objects,
    writer::{Live, Writer, Written},
};
use crate::{
    domain::{ClusterName, Key, Sender},
    report::Unmirrored,
    store::{Packed, Step},
};

mod names;
mod revert;
#[cfg(test)]
mod tests;

/// So many writes may precede the deletion of a mirror.
const STEPS: usize = 4;

/// Mirrors on the hub.
#[derive(Debug)]
pub(crate) struct Mirrors {
    pub(super) objects: Arc<Objects>,
    pub(super) writer: Arc<Writer>,
}

/// An object of a cluster, checked.
struct Claimed {
    /// Its name on the hub.
    key: ObjectKey,
    /// The object as the cluster reported it.
    source: Value,
    /// The wanted mirror.
    desired: Value,
}

/// Reports of a cluster.
impl Mirrors {
    /// Applies one event of a cluster that owns its objects. All of its contents are claims.
    pub(super) async fn apply(
        &self,
        from: &Sender,
        kind: Kind,
        verb: Verb,
        event: &Event,
    ) -> Outcome {
        let header = payload::decode_metadata("object", &event.payload)?;
        let name = event.object().map(|object| object.name);
        if name.as_deref() != Some(Meta::of(&header).name()) {
            let why = "the message and its body name different objects";
            return Err(Unapplied::refused("malformed", why));
        }
        if matches!(verb, Verb::Create | Verb::SpecUpdate) {
            self.show(from, kind, event).await
        } else if verb == Verb::Delete {
            self.end(from, kind, &header).await
        } else {
            let why = "an autonomous cluster may not send this";
            Err(Unapplied::refused("not_allowed", why))
        }
    }

    async fn show(&self, from: &Sender, kind: Kind, event: &Event) -> Outcome {
        let source = payload::decode_object("object", &event.payload)?;
        let cluster = from.cluster.as_str();
        let desired = match kind {
            Kind::Application => mirror::application(&source, cluster),
            Kind::AppProject => mirror::project(&source, cluster, &self.objects.argocd_namespace),
            Kind::Repository | Kind::GpgKey | Kind::TlsCerts | Kind::SshKnownHosts => {
                return Err(Unapplied::refused("not_allowed", "this is not mirrored"));
            }
        };
        let not_shown = |reason, why| self.not_shown(from, kind, &source, reason, why);
        let desired = desired.map_err(|error| not_shown("malformed", error.to_string()))?;
        let meta = Meta::of(&desired);
        let key = ObjectKey::new(kind, meta.namespace(), meta.name());
        self.judge_name(from, &key, &source)?;
        let source_uid = Meta::of(&source).uid();
        let text = event.payload.len();
        // The status stays text, everything else is a tree.
        let memory = payload::memory_of(&desired).saturating_add(text);
        let size = Size { text, memory };
        let begun = (self.objects.lock().mirrors).begin(&key, &from.cluster, source_uid, size);
        begun.map_err(|why| not_shown("budget", why))?;
        let claimed = Claimed {
            key,
            source,
            desired,
        };
        let mut judged = None;
        let written = self
            .writer
            .write(&claimed.key, |live| step(from, &claimed, live, &mut judged))
            .await;
        let failing_writes = &self.objects.failing_writes;
        match written {
            Ok(Written {
                object: Some(live), ..
            }) => {
                failing_writes.outcome(&from.cluster, &claimed.key, Ok(()))?;
                self.shown(from, &claimed, live, judged)
            }
            Ok(Written { object: None, .. }) => Err(Unapplied::again()),
            Err(error) => {
                let outcome =
                    failing_writes.outcome(&from.cluster, &claimed.key, Err::<(), _>(error));
                let Err(Unapplied::Refused { reason, message }) = outcome else {
                    return outcome;
                };
                // Unlocked again with this statement: the next one locks, too.
                (self.objects.lock().mirrors).give_up(&claimed.key, &from.cluster);
                Err(self.not_shown(from, kind, &claimed.source, reason, message))
            }
        }
    }

    /// The write succeeded; `live` is the hub's object.
    fn shown(
        &self,
        from: &Sender,
        claimed: &Claimed,
        live: Arc<Packed>,
        judged: Option<Judged>,
    ) -> Outcome {
        let Claimed { key, source, .. } = claimed;
        let cluster = &from.cluster;
        if !mirror::is_of(live.head(), cluster.as_str()) {
            let why = format!(
                "the hub has a {} {}/{} that is not its mirror; rename or delete one of them",
                key.kind, key.namespace, key.name
            );
            let mut state = self.objects.lock();
            state.mirrors.give_up(key, cluster);
            // The earlier owner of the name may have created its mirror at the same time.
            if self.leave_name(&mut state, key) {
                return Err(Unapplied::again());
            }
            drop(state);
            return Err(self.not_shown(from, key.kind, source, "not_theirs", why));
        }
        if live.meta().is_deleting() {
            // The deletion has to end first.
            return Err(Unapplied::again());
        }
        let there = ObjectKey::new(key.kind, cluster.as_str(), Meta::of(source).name());
        {
            let mut state = self.objects.lock();
            state.mirrors.note(cluster, &there, None);
            let digest = mirror::wire_digest(source);
            state.mirrors.wrote(key, cluster, digest, live);
            // A user may have edited it before `wrote`.
            if state.mirrors.is_out_of_sync(key, state.index.object(key)) {
                self.objects.mirrors.mark(key.clone());
            }
        }
        if let (Some(application), Some(judged)) = (Key::from_object(key), judged) {
            judged.follow_up(&self.objects, from, &application, source);
        }
        Ok(())
    }

    fn not_shown(
        &self,
        from: &Sender,
        kind: Kind,
        source: &Value,
        reason: &'static str,
        why: String,
    ) -> Unapplied {
        let name: String = Meta::of(source).name().chars().take(253).collect();
        let cluster = &from.cluster;
        let key = ObjectKey::new(kind, cluster.as_str(), name);
        tracing::info!(%cluster, object = %key, reason, why, "not mirrored");
        let mut state = self.objects.lock();
        state.mirrors.note(cluster, &key, Some(why.clone()));
        Unapplied::refused(reason, why)
    }

    /// The cluster deleted its object: deletes the mirror of it.
    async fn end(&self, from: &Sender, kind: Kind, source: &Value) -> Outcome {
        let (meta, cluster) = (Meta::of(source), &from.cluster);
        let key = self.mirror_key(cluster, kind, meta.name());
        let key = key.ok_or_else(|| Unapplied::refused("malformed", "nothing has this name"))?;
        let there = ObjectKey::new(kind, cluster.as_str(), meta.name());
        {
            let mut state = self.objects.lock();
            state.mirrors.note(cluster, &there, None);
            let is_meant = match state.index.object(&key) {
                Some(live) => {
                    mirror::is_of(live.head(), cluster.as_str()) && is_made_of(live, meta.uid())
                }
                // A user deleted it on the hub, and it is being created again.
                None => state.mirrors.is_pending(&key, cluster, meta.uid()),
            };
            if !is_meant {
                // Deleted already, replaced by a mirror of another object, or never a mirror.
                return Ok(());
            }
            state.mirrors.leave(&key, cluster, meta.uid());
        }
        let mut written = Ok(true);
        for _ in 0..STEPS {
            if matches!(written, Ok(true)) {
                written = self.settle(&key).await;
            }
        }
        let failing_writes = &self.objects.failing_writes;
        failing_writes.outcome(cluster, &key, written)
    }
}

/// Queries of a session.
impl Mirrors {
    /// The mirrors of a cluster for a resync, with those that a user deleted on the hub and that will be created again.
    /// For a Go agent, no digest is known to be right.
    pub(crate) fn claims(&self, cluster: &ClusterName) -> Vec<RequestUpdate> {
        let state = self.objects.lock();
        let shown = state.index.mirrors_of(cluster);
        let shown = shown.into_iter().map(|(key, object)| {
            let digest = state.mirrors.digest(&key, &object).map(str::to_owned);
            let uid = object.meta().source_uid().unwrap_or_default();
            claim(key, uid, digest)
        });
        let awaited = state.mirrors.kept_of(cluster);
        let awaited = awaited
            .filter(|(key, _)| state.index.object(key).is_none())
            .map(|(key, uid)| claim(key.clone(), uid, None));
        shown.chain(awaited).collect()
    }

    /// Whether the hub has, or will have again, a mirror of the object with this UID.
    pub(crate) fn shows(&self, cluster: &ClusterName, key: &ObjectKey, source_uid: &str) -> bool {
        let state = self.objects.lock();
        match state.index.object(key) {
            Some(live) => {
                mirror::is_of(live.head(), cluster.as_str()) && is_made_of(live, source_uid)
            }
            None => state.mirrors.keeps(key, cluster, source_uid),
        }
    }

    /// Deletes the mirror of an object that the cluster does not have; retried until it is done.
    pub(crate) fn end_mirror(&self, cluster: &ClusterName, key: &ObjectKey, source_uid: &str) {
        self.objects.lock().mirrors.leave(key, cluster, source_uid);
        self.objects.mirrors.mark(key.clone());
    }

    /// The name on the hub of an object of a cluster; none if no mirror can have it.
    pub(crate) fn mirror_key(
        &self,
        cluster: &ClusterName,
        kind: Kind,
        name: &str,
    ) -> Option<ObjectKey> {
        match kind {
            Kind::Application => Some(ObjectKey::new(kind, cluster.as_str(), name)),
            Kind::AppProject => {
                let name = mirror::project_name(cluster.as_str(), name).ok()?;
                Some(ObjectKey::new(kind, &self.objects.argocd_namespace, name))
            }
            Kind::Repository | Kind::GpgKey | Kind::TlsCerts | Kind::SshKnownHosts => None,
        }
    }

    /// The objects of a cluster that cannot be mirrored, if there are any.
    pub(crate) fn unmirrored(&self, cluster: &ClusterName) -> Option<Unmirrored> {
        self.objects.lock().mirrors.unmirrored(cluster)
    }

    /// A new session reports again which objects cannot be mirrored.
    pub(crate) fn forget_unmirrored(&self, cluster: &ClusterName) {
        self.objects.lock().mirrors.clear_refused(cluster);
    }
}

/// The resync request for one object.
fn claim(key: ObjectKey, uid: &str, digest: Option<String>) -> RequestUpdate {
    RequestUpdate {
        digest,
        uid: uid.to_owned(),
        kind: key.kind.to_string(),
        name: key.name,
        namespace: key.namespace,
        checksum: None,
    }
}

/// The next write towards the wanted mirror; of an Application, with the judgement of the report.
fn step(
    from: &Sender,
    claimed: &Claimed,
    live: Option<&Live>,
    judged: &mut Option<Judged>,
) -> Step {
    let cluster = from.cluster.as_str();
    let Claimed {
        key,
        source,
        desired,
    } = claimed;
    *judged = None;
    let Some(Live { object, entry }) = live else {
        return Step::Create(match key.kind {
            Kind::Application => mirror::created(desired, source, cluster),
            Kind::AppProject
            | Kind::Repository
            | Kind::GpgKey
            | Kind::TlsCerts
            | Kind::SshKnownHosts => desired.clone(),
        });
    };
    if !mirror::is_of(object.head(), cluster) {
        return Step::Nothing;
    }
    let patch = match entry {
        _ if object.meta().is_deleting() => release_patch_for_hub(object.head()),
        Some(entry) => {
            let (hub, shown) = (object.whole(), object.meta().source_uid());
            let judged = judged.insert(if shown.is_none_or(|it| it == Meta::of(source).uid()) {
                Judged::of(from, &key.into(), (entry, &hub), source)
            } else {
                Judged::of_successor(entry, source)
            });
            mirror::application_patch(&hub, desired, source, &judged.judgement, cluster)
        }
        None => mirror::healing_patch(object.head(), desired),
    };
    patch.map_or(Step::Nothing, Step::Patch)
}
