//! Watches the spoke's objects and tells the store, the reports and the drift loop.

use std::sync::Arc;

use argocd::Meta;
use kube::api::DynamicObject;
use kube::{Api, Client};
use protocol::payload::ArgoCd;
use protocol::{Kind, ObjectKey};
use runtime::kube::{Event, Gone, Sighting, Watch, watch_if_served};
use runtime::parts::Spawner;
use serde_json::Value;
use tokio::sync::watch;

use super::apply::resource;
use super::drift::Drift;
use super::sight::{Sight, Target};
use crate::config::Scope;
use crate::report::Reports;
use crate::store::{Change, Entry, Store};

/// Whom a change concerns.
#[derive(Debug, Clone)]
pub(super) struct Observer {
    pub(super) store: Arc<Store>,
    pub(super) reports: Arc<Reports>,
    pub(super) drift: Arc<Drift>,
}

/// Starts one watch per kind and namespace.
pub(super) fn start(
    client: &Client,
    scope: &Scope,
    observer: &Observer,
    sight: &Arc<watch::Sender<Sight>>,
    spawner: &Spawner,
) {
    for target in targets(scope) {
        let Target { kind, namespace } = &target;
        let api = namespace.as_ref().map_or_else(
            || Api::all_with(client.clone(), &resource(*kind)),
            |namespace| Api::namespaced_with(client.clone(), namespace, &resource(*kind)),
        );
        let watch = Watch::<DynamicObject>::new(api).labels(&scope.label_selector);
        let (observer, token) = (observer.clone(), spawner.token().clone());
        let (sight, kind) = (Arc::clone(sight), *kind);
        let name = format!(
            "watch {kind}s in {}",
            namespace.as_deref().unwrap_or("all namespaces")
        );
        spawner.spawn(name, async move {
            watch_if_served(watch, token, |sighting| match sighting {
                Sighting::Seen(Event::Applied { object, .. }) => observer.applied(kind, *object),
                Sighting::Seen(Event::Deleted(gone)) => observer.gone(kind, gone),
                Sighting::Seen(Event::Synced) => observer.sees(&sight, &target, true),
                Sighting::NotServed => observer.sees(&sight, &target, false),
            })
            .await;
        });
    }
}

/// Only the namespaces that are needed: a pattern needs all, a name needs itself.
pub(super) fn targets(scope: &Scope) -> Vec<Target> {
    let is_name = |pattern: &String| {
        pattern
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    };
    let target = |kind, namespace| Target { kind, namespace };
    let mut targets = vec![target(
        Kind::AppProject,
        Some(scope.argocd_namespace.clone()),
    )];
    if scope.further_namespaces.iter().all(is_name) {
        let own = std::iter::once(&scope.argocd_namespace);
        let names = own.chain(&scope.further_namespaces).cloned();
        targets.extend(names.map(|name| target(Kind::Application, Some(name))));
    } else {
        targets.push(target(Kind::Application, None));
    }
    targets
}

impl Observer {
    /// All of this target is known: it was listed, or its kind does not exist.
    fn sees(&self, sight: &watch::Sender<Sight>, target: &Target, is_served: bool) {
        let before = sight.borrow().argocd();
        sight.send_if_modified(|sight| sight.saw(target, is_served));
        let now = sight.borrow().argocd();
        if before == now {
            return;
        }
        if now == ArgoCd::Missing {
            tracing::warn!(
                "this cluster has no Argo CD: its API does not serve Applications and AppProjects; \
                 going on as soon as it is installed"
            );
            return;
        }
        tracing::info!("Argo CD is installed");
        for (key, _) in self
            .store
            .all()
            .into_iter()
            .filter(|(_, e)| e.wanted.is_some())
        {
            self.drift.check(key);
        }
    }

    fn applied(&self, kind: Kind, object: DynamicObject) {
        let object = match serde_json::to_value(object) {
            Ok(object) => Arc::new(object),
            Err(error) => {
                tracing::warn!(%kind, %error, "skipped an object that cannot be kept");
                return;
            }
        };
        let meta = Meta::of(&object);
        let key = ObjectKey::new(kind, meta.namespace(), meta.name());
        let Change::Changed { before } = self.store.seen(key.clone(), Arc::clone(&object)) else {
            return;
        };
        if meta.source_uid().is_some() && is_news(before.as_deref(), &object) {
            self.reports.status(key.clone());
        }
        if self.store.get(&key).wanted.is_some() {
            self.drift.check(key);
        }
    }

    fn gone(&self, kind: Kind, gone: Gone<DynamicObject>) {
        let Gone {
            namespace,
            name,
            uid,
            object: _,
        } = gone;
        let key = ObjectKey::new(kind, namespace.unwrap_or_default(), name);
        let Some(Entry { live, wanted }) = self.store.gone(&key, &uid) else {
            return;
        };
        let stays_gone = wanted.as_ref().is_none_or(|wanted| wanted.leaving);
        let source = live.as_deref().and_then(|live| Meta::of(live).source_uid());
        let wanted_source = wanted
            .as_ref()
            .and_then(|w| Meta::of(&w.desired).source_uid());
        if let Some(source) = source
            && (stays_gone || wanted_source != Some(source))
        {
            self.reports.gone(&key, source, live.as_deref());
        }
        if stays_gone {
            self.store.forget(&key);
        } else {
            self.drift.check(key);
        }
    }
}

/// Whether the hub would see a difference.
fn is_news(before: Option<&Value>, now: &Value) -> bool {
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

    fn scope(further: &[&str]) -> Scope {
        Scope {
            argocd_namespace: "argocd".to_owned(),
            further_namespaces: further.iter().map(|name| (*name).to_owned()).collect(),
            keep_namespaces: false,
            label_selector: String::new(),
        }
    }

    #[test]
    fn only_namespaces_that_are_needed_are_watched() {
        let target = |kind, namespace: Option<&str>| Target {
            kind,
            namespace: namespace.map(ToOwned::to_owned),
        };
        let named = |kind, name| target(kind, Some(name));
        assert_eq!(
            targets(&scope(&["team-a"])),
            [
                named(Kind::AppProject, "argocd"),
                named(Kind::Application, "argocd"),
                named(Kind::Application, "team-a"),
            ]
        );
        assert_eq!(
            targets(&scope(&["team-*"])),
            [
                named(Kind::AppProject, "argocd"),
                target(Kind::Application, None)
            ]
        );
    }
}
