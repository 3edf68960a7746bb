//! Applies the reports of an autonomous cluster to its mirrors on the hub.

use std::sync::Arc;

use argocd::{
    Meta,
    command::{Judgement, Known, judge},
    mirror,
    projection::release_patch_for_hub,
};
use protocol::{Event, Kind, ObjectKey, Verb, payload};
use runtime::error::Chain;
use serde_json::Value;

use super::super::{
    Hub, Key,
    apply::{Refusable, Sender, again, done, refused},
    encode::operation_id,
    store::WriteError,
};
use super::write::{Live, Step, Written};

/// So many writes may precede the deletion of a mirror.
const STEPS: usize = 4;

/// An object of a cluster, checked.
struct Claimed {
    /// Its name on the hub.
    key: ObjectKey,
    /// The object as the cluster reported it.
    source: Value,
    /// The wanted mirror.
    desired: Value,
}

impl Hub {
    /// Applies one event of a cluster that owns its objects. All of its contents are claims.
    pub(in crate::sync::hub) async fn apply_of_owner(
        &self,
        from: &Sender,
        kind: Kind,
        verb: Verb,
        event: &Event,
    ) -> Refusable {
        let source = match payload::decode_object("object", &event.payload) {
            Ok(source) => source,
            Err(error) => return refused("malformed", Chain(&error).to_string()),
        };
        let name = event.object().map(|object| object.name);
        if name.as_deref() != Some(Meta::of(&source).name()) {
            return refused(
                "malformed",
                "the message and its body name different objects",
            );
        }
        if matches!(verb, Verb::Create | Verb::SpecUpdate) {
            self.show(from, kind, source, event).await
        } else if verb == Verb::Delete {
            self.end(from, kind, &source).await
        } else {
            refused("not_allowed", "an autonomous cluster may not send this")
        }
    }

    async fn show(&self, from: &Sender, kind: Kind, source: Value, event: &Event) -> Refusable {
        let cluster = from.cluster.as_str();
        let desired = match kind {
            Kind::Application => mirror::application(&source, cluster),
            Kind::AppProject => mirror::project(&source, cluster, &self.argocd_namespace),
            Kind::Repository | Kind::GpgKey | Kind::TlsCerts | Kind::SshKnownHosts => {
                return refused("not_allowed", "this is not mirrored");
            }
        };
        let desired = match desired {
            Ok(desired) => desired,
            Err(error) => {
                return self.not_shown(from, kind, &source, "malformed", error.to_string());
            }
        };
        let meta = Meta::of(&desired);
        let key = ObjectKey::new(kind, meta.namespace(), meta.name());
        if let Some(verdict) = self.judge_name(from, &key, &source) {
            return verdict;
        }
        let begun = self.lock().mirrors.begin(
            &key,
            cluster,
            Meta::of(&source).uid(),
            event.payload.len().max(1),
            self.mirror_limits,
        );
        if let Err(why) = begun {
            return self.not_shown(from, kind, &source, "budget", why);
        }
        let stated = Claimed {
            key,
            source,
            desired,
        };
        let written = self
            .write_mirror(&stated.key, |live| step(from, &stated, live))
            .await;
        match written {
            Ok(Written {
                object: Some(live), ..
            }) => {
                self.write_ended(from, &stated.key);
                self.shown(from, &stated, live)
            }
            Err(WriteError::Refused(reason)) => {
                self.write_ended(from, &stated.key);
                tracing::warn!(object = %stated.key, reason, "the hub rejected a mirror");
                self.lock().mirrors.forget(&stated.key);
                self.not_shown(from, kind, &stated.source, "hub", reason)
            }
            Err(error) => self.write_failed(from, &stated.key, &error),
            Ok(Written { object: None, .. }) => again(),
        }
    }

    /// The write succeeded; `live` is the hub's object.
    fn shown(&self, from: &Sender, stated: &Claimed, live: Arc<Value>) -> Refusable {
        let Claimed { key, source, .. } = stated;
        let cluster = from.cluster.as_str();
        if !mirror::is_of(&live, cluster) {
            let why = format!(
                "the hub has a {} {}/{} that is not its mirror; rename or delete one of them",
                key.kind, key.namespace, key.name
            );
            self.lock().mirrors.forget(key);
            return self.not_shown(from, key.kind, source, "not_theirs", why);
        }
        if Meta::of(&live).is_deleting() {
            // The deletion has to end first.
            return again();
        }
        let there = ObjectKey::new(key.kind, cluster, Meta::of(source).name());
        {
            let mut state = self.lock();
            state.mirrors.note(cluster, &there, None);
            let digest = mirror::wire_digest(source);
            state.mirrors.wrote(key, digest, live);
            // A user may have edited it before `wrote`.
            if state.mirrors.is_out_of_sync(key, state.index.object(key)) {
                self.mirrors_to_reconcile.mark(key.clone());
            }
        }
        if let Some(application) = Key::from_object(key) {
            self.follow_up(from, &application, source);
        }
        done()
    }

    pub(super) fn not_shown(
        &self,
        from: &Sender,
        kind: Kind,
        source: &Value,
        reason: &'static str,
        why: String,
    ) -> Refusable {
        let name: String = Meta::of(source).name().chars().take(253).collect();
        let cluster = from.cluster.as_str();
        let key = ObjectKey::new(kind, cluster, name);
        tracing::info!(%cluster, object = %key, reason, why, "not mirrored");
        self.lock().mirrors.note(cluster, &key, Some(why.clone()));
        refused(reason, why)
    }

    /// The cluster deleted its object: deletes the mirror of it.
    async fn end(&self, from: &Sender, kind: Kind, source: &Value) -> Refusable {
        let meta = Meta::of(source);
        let Some(key) = self.mirror_key(&from.cluster, kind, meta.name()) else {
            return refused("malformed", "nothing has this name");
        };
        let cluster = from.cluster.as_str();
        let there = ObjectKey::new(kind, cluster, meta.name());
        {
            let mut state = self.lock();
            state.mirrors.note(cluster, &there, None);
            let live = state.index.object(&key);
            let is_meant = match live {
                Some(live) => mirror::is_of(live, cluster) && super::is_made_of(live, meta.uid()),
                // A user deleted it on the hub, and it is being created again.
                None => state.mirrors.is_pending(&key, cluster, meta.uid()),
            };
            if !is_meant {
                // Deleted already, replaced by a mirror of another object, or never a mirror.
                return done();
            }
            state.mirrors.leave(&key, cluster, meta.uid());
        }
        for _ in 0..STEPS {
            match self.settle_mirror(&key).await {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => return self.write_failed(from, &key, &error),
            }
        }
        self.write_ended(from, &key);
        done()
    }
}

/// The next write towards the wanted mirror.
fn step(from: &Sender, stated: &Claimed, live: Option<&Live>) -> Step {
    let cluster = from.cluster.as_str();
    let Claimed {
        key,
        source,
        desired,
    } = stated;
    let Some(live) = live else {
        return Step::Create(match key.kind {
            Kind::Application => mirror::created(desired, source, cluster),
            Kind::AppProject
            | Kind::Repository
            | Kind::GpgKey
            | Kind::TlsCerts
            | Kind::SshKnownHosts => desired.clone(),
        });
    };
    let object = &live.object;
    if !mirror::is_of(object, cluster) {
        return Step::Nothing;
    }
    let patch = if Meta::of(object).is_deleting() {
        release_patch_for_hub(object)
    } else {
        match (&live.entry, Key::from_object(key)) {
            (Some(entry), Some(place)) => {
                let operation = operation_id(&place, entry);
                let known = Known {
                    operation: operation.as_deref(),
                    refresh: entry.refresh(),
                    names_commands: from.names_commands,
                    taken: entry.is_taken(),
                };
                let judgement = match Meta::of(object).source_uid() {
                    Some(shown) if shown != Meta::of(source).uid() => {
                        Judgement::of_successor(source)
                    }
                    Some(_) | None => judge(object, source, known),
                };
                mirror::application_patch(object, desired, source, &judgement, cluster)
            }
            _ => mirror::healing_patch(object, desired),
        }
    };
    patch.map_or(Step::Nothing, Step::Patch)
}
