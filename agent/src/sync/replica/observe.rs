//! Watches the spoke's objects and updates the store, the reports and the drift loop.

use std::sync::Arc;

use argocd::Meta;
use argocd::name::is_dns_label;
use protocol::payload::ArgoCd;
use protocol::{Kind, Mode, ObjectKey};
use runtime::parts::Spawner;
use serde_json::Value;

use super::refresh_nudger::RefreshNudger;
use super::state::Replica;
use crate::config::Scope;
use crate::sync::api::{Report, Reporter, Target};
use crate::sync::cache::{Change, Entry};
use crate::sync::source;

/// Passes each change of the watches on.
#[derive(Debug, Clone)]
pub(super) struct Observer {
    pub(super) replica: Arc<Replica>,
    pub(super) stuck: Arc<RefreshNudger>,
}

/// Starts one watch per kind and namespace.
pub(super) fn start(observer: &Observer, spawner: &Spawner) {
    let replica = &observer.replica;
    for target in targets(&replica.scope) {
        let (kind, token) = (target.kind, spawner.token().clone());
        let place = target.namespace.as_deref().unwrap_or("all namespaces");
        let name = format!("watch {kind}s in {place}");
        let (observer, watched) = (observer.clone(), target.clone());
        let report: Reporter = Arc::new(move |report| match report {
            Report::Applied(object) => observer.applied(kind, object),
            Report::Gone { key, uid, is_seen } => gone(&observer.replica, &key, &uid, is_seen),
            Report::Synced => {
                observer.sees(&watched, true);
                observer.listed(&watched);
            }
            Report::Rewound => observer.rewound(&watched),
            Report::NotServed => observer.sees(&watched, false),
        });
        spawner.spawn(name, replica.spoke.watch(target, report, token));
    }
}

/// The watches to start: one for all namespaces if any is a pattern, else one per namespace.
pub(super) fn targets(scope: &Scope) -> Vec<Target> {
    let target = |kind, namespace| Target { kind, namespace };
    let of_argocd = |kind| target(kind, Some(scope.argocd_namespace.clone()));
    if scope.mode == Mode::Autonomous {
        // The hub mirrors only these; the agent has no right to read others.
        return [Kind::AppProject, Kind::Application].map(of_argocd).into();
    }
    let others = Kind::ALL.into_iter().filter(|it| *it != Kind::Application);
    let mut targets: Vec<Target> = others.map(of_argocd).collect();
    if scope.further_namespaces.iter().all(|it| is_dns_label(it)) {
        let own = std::iter::once(&scope.argocd_namespace);
        let names = own.chain(&scope.further_namespaces).cloned();
        targets.extend(names.map(|name| target(Kind::Application, Some(name))));
    } else {
        targets.push(target(Kind::Application, None));
    }
    targets
}

impl Observer {
    fn applied(&self, kind: Kind, object: Value) {
        let object = Arc::new(object);
        let meta = Meta::of(&object);
        let key = ObjectKey::new(kind, meta.namespace(), meta.name());
        let replica = &*self.replica;
        if replica.scope.mode == Mode::Autonomous {
            return self.applied_here(key, object);
        }
        // With patterns the watch sees all namespaces.
        if kind == Kind::Application && !replica.scope.admits(&key.namespace) {
            return;
        }
        let change = replica.store.seen(key.clone(), Arc::clone(&object));
        // A project that we created is no change here: the store has it from the answer to our write.
        if kind == Kind::AppProject || change != Change::None {
            self.stuck.saw(&replica.store, &key, &object);
        }
        let Change::Changed { before } = change else {
            return;
        };
        if meta.source_uid().is_some() && is_change(before.as_deref(), &object) {
            replica.reports.status(key.clone());
        }
        if replica.store.get(&key).wanted.is_some() {
            replica.drift.mark(key);
        }
    }

    /// Notes that this target is listed, or that the API does not serve its kind.
    fn sees(&self, target: &Target, is_served: bool) {
        let before = self.replica.sync_status.borrow().argocd();
        self.replica
            .sync_status
            .send_if_modified(|sync_status| sync_status.saw(target, is_served));
        let now = self.replica.sync_status.borrow().argocd();
        if before == now {
            return;
        }
        if now == ArgoCd::Missing {
            tracing::warn!(
                "this cluster has no Argo CD: its API does not serve Applications and AppProjects; waiting for the installation"
            );
            return;
        }
        tracing::info!("Argo CD is installed");
        for (key, entry) in self.replica.store.all() {
            if entry.wanted.is_some() {
                self.replica.drift.mark(key);
            }
        }
    }

    /// Notes that the API was restored to an earlier state. The next list follows at once.
    fn rewound(&self, target: &Target) {
        self.replica.store.outdate(|key| target.covers(key));
        self.replica.sync_status.send_if_modified(|sync_status| {
            sync_status.rewind(target);
            false
        });
    }

    fn listed(&self, target: &Target) {
        for key in self.replica.store.listed(|key| target.covers(key)) {
            self.replica.drift.mark(key);
        }
    }

    /// Takes a change of an object that the spoke owns.
    fn applied_here(&self, key: ObjectKey, object: Arc<Value>) {
        let object = source::with_memory(object, self.replica.store.live(&key).as_deref());
        let is_ignored = Meta::of(&object).is_ignored();
        let Change::Changed { before } = self.replica.store.seen(key.clone(), object) else {
            return;
        };
        if !is_ignored {
            self.replica.reports.owned(key);
        } else if let Some(before) = before.filter(|before| !Meta::of(before).is_ignored()) {
            self.replica.reports.left(&key, &before, true);
        }
    }
}

/// Takes the end of an object.
///
/// `is_seen`: a watch reported the deletion. Otherwise a list lacks the object, as after a restore from a backup.
pub(super) fn gone(replica: &Replica, key: &ObjectKey, uid: &str, is_seen: bool) {
    let Some(Entry { live, wanted }) = replica.store.gone(key, uid) else {
        return;
    };
    if replica.scope.mode == Mode::Autonomous {
        if let Some(live) = live.filter(|live| !Meta::of(live).is_ignored()) {
            replica.reports.left(key, &live, is_seen);
        }
        return;
    }
    let stays_gone = wanted.as_ref().is_none_or(|wanted| wanted.leaving);
    let source = live.as_deref().and_then(|live| Meta::of(live).source_uid());
    let desired = wanted.as_ref().map(|wanted| Meta::of(&wanted.desired));
    let wanted_source = desired.and_then(Meta::source_uid);
    if let Some(source) = source
        && (stays_gone || wanted_source != Some(source))
    {
        replica.reports.gone(key, source, live.as_deref());
    }
    match wanted {
        Some(wanted) if wanted.leaving => replica.store.forget(key),
        Some(_) => replica.drift.mark(key.clone()),
        // Keeps the records of its commands: the hub may want the object again.
        None => {}
    }
}

/// Whether the hub's copy would differ.
fn is_change(before: Option<&Value>, now: &Value) -> bool {
    let Some(before) = before else { return true };
    [
        "/status",
        "/operation",
        "/metadata/annotations",
        "/metadata/uid",
        "/metadata/deletionTimestamp",
    ]
    .into_iter()
    .any(|path| before.pointer(path) != now.pointer(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Adoption, Mismatch, Policy, Recreated};
    use crate::metrics::Metrics;
    use crate::sync::api::Memory;
    use crate::sync::cache::Store;
    use crate::sync::report::Reports;

    fn observer(mode: Mode) -> Observer {
        observer_of(Scope { mode, ..scope(&[]) })
    }

    fn observer_of(scope: Scope) -> Observer {
        let store = Arc::new(Store::default());
        let policy = Policy {
            mismatch: Mismatch::Upsert,
            adoption: Adoption::Always,
            recreated: Recreated::Ignore,
        };
        let replica = Replica::new(
            Arc::new(Memory::new()),
            scope,
            policy,
            Arc::clone(&store),
            Arc::new(Reports::new(store)),
            Metrics::default(),
        );
        Observer {
            replica: Arc::new(replica),
            stuck: Arc::default(),
        }
    }

    fn scope(further: &[&str]) -> Scope {
        Scope {
            argocd_namespace: "argocd".to_owned(),
            further_namespaces: further.iter().map(|name| (*name).to_owned()).collect(),
            keep_namespaces: false,
            create_namespaces: false,
            label_selector: String::new(),
            mode: Mode::Managed,
        }
    }

    /// The answer to our own create reaches the store before the watch reports the project.
    #[test]
    fn application_is_refreshed_when_we_create_its_missing_project() {
        let observer = observer(Mode::Managed);
        let store = &observer.replica.store;
        let project = serde_json::json!({
            "metadata": { "namespace": "argocd", "name": "p", "uid": "p", "resourceVersion": "9" },
        });
        let application = serde_json::json!({
            "metadata": { "namespace": "argocd", "name": "app", "uid": "a", "resourceVersion": "7" },
            "spec": { "project": "p" },
            "status": { "conditions": [{
                "type": "InvalidSpecError",
                "message": "Application referencing project p which does not exist",
            }] },
        });
        store.seen(
            ObjectKey::new(Kind::Application, "argocd", "app"),
            Arc::new(application),
        );
        let key = ObjectKey::new(Kind::AppProject, "argocd", "p");
        store.making(key).made(&Arc::new(project.clone()));
        observer.applied(Kind::AppProject, project);
        assert_eq!(
            observer.stuck.all(),
            [ObjectKey::new(Kind::Application, "argocd", "app")]
        );
    }

    /// An autonomous cluster reports a deletion that a watch saw, and an object that a list lacks.
    #[test]
    fn an_unseen_deletion_is_reported_as_an_answer_and_not_as_an_event() {
        let observer = observer(Mode::Autonomous);
        let key = |name| ObjectKey::new(Kind::Application, "argocd", name);
        for name in ["seen", "missing"] {
            let metadata = serde_json::json!({
                "namespace": "argocd", "name": name, "uid": name, "resourceVersion": "7",
            });
            observer.applied(
                Kind::Application,
                serde_json::json!({ "metadata": metadata }),
            );
            gone(&observer.replica, &key(name), name, name == "seen");
        }
        let stated = observer.replica.reports.take().events;
        assert_eq!(stated[&key("seen")].event_id, "seen_seen_7_delete");
        assert_eq!(stated[&key("missing")].event_id, "missing_missing_");
    }

    /// A pattern makes the agent watch all namespaces.
    #[test]
    fn application_of_a_foreign_namespace_is_not_kept() {
        let observer = observer_of(scope(&["team-*"]));
        let keeps = |namespace: &str| {
            let metadata = serde_json::json!({
                "namespace": namespace, "name": "app", "uid": namespace, "resourceVersion": "7",
            });
            let object = serde_json::json!({ "metadata": metadata });
            observer.applied(Kind::Application, object);
            let key = ObjectKey::new(Kind::Application, namespace, "app");
            observer.replica.store.live(&key).is_some()
        };
        assert!(keeps("argocd") && keeps("team-a"));
        assert!(!keeps("kube-system"));
    }

    #[test]
    fn watches_cover_only_the_needed_namespaces() {
        let target = |kind, namespace: Option<&str>| Target {
            kind,
            namespace: namespace.map(ToOwned::to_owned),
        };
        let applications = |further: &[&str]| -> Vec<Target> {
            let (applications, others): (Vec<_>, Vec<_>) = targets(&scope(further))
                .into_iter()
                .partition(|target| target.kind == Kind::Application);
            assert!(
                others
                    .iter()
                    .all(|it| it.namespace.as_deref() == Some("argocd"))
            );
            applications
        };
        let named = |name| target(Kind::Application, Some(name));
        assert_eq!(
            applications(&["team-a"]),
            [named("argocd"), named("team-a")]
        );
        assert_eq!(applications(&["team-*"]), [target(Kind::Application, None)]);
    }
}
