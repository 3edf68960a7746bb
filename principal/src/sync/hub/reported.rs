//! Applies the reports of the watches.
//!
//! A deletion that a watch saw is carried out on the clusters at once. An object that a new list does not have proves
//! no deletion: a restored hub looks the same. So the clusters with a copy are compared instead, as after a connect,
//! under the brake on mass deletion. All missing objects of a list are applied at once, so that no comparison sees a
//! part of them.

use std::{collections::BTreeMap, sync::Arc};

use argocd::Meta;
use protocol::{Kind, ObjectKey};
use serde_json::Value;

use super::{
    Hub, Key, State,
    index::Effect,
    mailbox::Mailbox,
    mirror,
    spans::Cause,
    store::{Report, Watched},
};

/// UIDs of objects that the current list does not have, until the list is complete.
#[derive(Debug, Default)]
pub(super) struct Missing(BTreeMap<Watched, BTreeMap<Key, String>>);

impl Missing {
    fn note(&mut self, kind: Watched, key: Key, uid: String) {
        self.0.entry(kind).or_default().insert(key, uid);
    }

    /// It was found, or its deletion was seen.
    fn forget(&mut self, kind: Watched, key: &Key) {
        if let Some(missing) = self.0.get_mut(&kind) {
            missing.remove(key);
        }
    }

    fn take(&mut self, kind: Watched) -> BTreeMap<Key, String> {
        self.0.remove(&kind).unwrap_or_default()
    }
}

impl Hub {
    /// Applies a report of a watch; true once all kinds have been listed.
    pub(crate) fn report(&self, report: Report) -> bool {
        let mut state = self.lock();
        match report {
            Report::Deleted {
                kind,
                key,
                uid,
                is_seen: false,
            } => state.missing.note(kind, key, uid),
            Report::Synced(kind) => {
                let unreported = state.mirrors.take_unreported(kind).into_iter();
                let unreported = unreported.map(
                    |(
                        ObjectKey {
                            namespace, name, ..
                        },
                        uid,
                    )| {
                        let key = Key { namespace, name };
                        (key, uid)
                    },
                );
                let missing: BTreeMap<_, _> = unreported.chain(state.missing.take(kind)).collect();
                for (key, uid) in missing {
                    let missing = Report::Deleted {
                        kind,
                        key,
                        uid,
                        is_seen: false,
                    };
                    self.apply_report(&mut state, missing);
                }
                state.synced.insert(kind);
                state.rewound.remove(&kind);
            }
            Report::Rewound(kind) => state.rewind(kind),
            report @ (Report::Applied(..) | Report::Deleted { .. }) => {
                if let Some((kind, key)) = about(&report) {
                    state.missing.forget(kind, &key);
                }
                self.apply_report(&mut state, report);
            }
        }
        self.updates.notify();
        state.is_synced()
    }

    fn apply_report(&self, state: &mut State, report: Report) {
        let concerned = mirror::concerned(&report, &self.argocd_namespace);
        let cause = Cause::of(&report, &state.index);
        let is_unseen = matches!(report, Report::Deleted { is_seen: false, .. });
        if let Some(key) = &concerned {
            state.mirrors.reported(key);
            if let Report::Deleted { uid, .. } = &report {
                state.mirrors.went(key, uid);
            }
        }
        let last = final_state(state, &report);
        let mut effects = judge(state, report);
        if is_unseen {
            effects.retain(|effect| match effect {
                Effect::Gone { cluster, .. } => {
                    state.notify(cluster, Mailbox::compare);
                    false
                }
                Effect::State { .. } | Effect::Command { .. } | Effect::Conditions(_) => true,
            });
        }
        for effect in &effects {
            if let (Effect::Gone { cluster, key, .. }, Some(last)) = (effect, &last)
                && key.kind == Kind::Application
            {
                state.notify(cluster, |mailbox| {
                    mailbox.last(key.clone(), Arc::clone(last));
                });
            }
        }
        self.post_for(state, effects, cause);
        if let Some(key) = concerned {
            let State { index, mirrors, .. } = state;
            let live = index.object(&key);
            if live.is_some() {
                mirrors.note_pending(&key, false);
            }
            if mirrors.is_out_of_sync(&key, live) {
                self.mirrors_to_reconcile.mark(key);
            }
        }
    }
}

fn about(report: &Report) -> Option<(Watched, Key)> {
    match report {
        Report::Applied(kind, object) => Some((*kind, Key::of(Meta::of(object)))),
        Report::Deleted { kind, key, .. } => Some((*kind, key.clone())),
        Report::Synced(_) | Report::Rewound(_) => None,
    }
}

/// The last state of a deleted Application, for clusters that need it before the deletion.
fn final_state(state: &State, report: &Report) -> Option<Arc<Value>> {
    let Report::Deleted {
        kind: Watched::Application,
        key,
        uid,
        ..
    } = report
    else {
        return None;
    };
    let entry = state.index.application(key)?;
    (entry.uid() == uid).then(|| entry.final_state()).flatten()
}

fn judge(state: &mut State, report: Report) -> Vec<Effect> {
    match report {
        Report::Applied(Watched::Application, object) => {
            let new = state.synced.contains(&Watched::Application);
            state.index.set_application(object, new)
        }
        Report::Applied(kind, object) => {
            let name = Meta::of(&object).name().to_owned();
            state.index.set_provision(kind, &name, Some(object))
        }
        Report::Deleted {
            kind: Watched::Application,
            key,
            uid,
            ..
        } => state.index.remove_application(&key, &uid),
        Report::Deleted {
            kind: Watched::AppProject,
            key,
            uid,
            ..
        } => state.index.remove_project(&key.name, &uid),
        Report::Deleted { kind, key, .. } => state.index.set_provision(kind, &key.name, None),
        Report::Synced(_) | Report::Rewound(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use runtime::clock::Clock;

    use super::*;
    use crate::{
        metrics::Metrics,
        settings::Settings,
        store::Memory,
        testing::{application, fleet, name, open_project},
    };

    /// A hub with Applications `one` and `two` of cluster `a`, fully listed.
    fn hub() -> Arc<Hub> {
        let settings = Settings::usual(([127, 0, 0, 1], 0).into());
        let store = Arc::new(Memory::new());
        let (clock, metrics) = (Clock::system(), Metrics::default());
        let hub = Arc::new(Hub::new(&settings, store, clock, metrics));
        hub.set_fleet(&fleet(&["a", "ab"]));
        let project = open_project("default");
        hub.report(Report::Applied(Watched::AppProject, project));
        for name in ["one", "two"] {
            applied(&hub, name, name);
        }
        for kind in Watched::ALL {
            hub.report(Report::Synced(kind));
        }
        hub
    }

    fn applied(hub: &Hub, name: &str, uid: &str) {
        let object = application("a", name, uid, 1);
        hub.report(Report::Applied(Watched::Application, object));
    }

    fn key(name: &str) -> Key {
        Key {
            namespace: "a".to_owned(),
            name: name.to_owned(),
        }
    }

    fn went(hub: &Hub, name: &str, is_seen: bool) {
        hub.report(Report::Deleted {
            kind: Watched::Application,
            key: key(name),
            uid: name.to_owned(),
            is_seen,
        });
    }

    fn knows(hub: &Hub, name: &str) -> bool {
        hub.lock().index.application(&key(name)).is_some()
    }

    #[test]
    fn seen_deletion_is_sent_and_missing_object_is_compared() {
        let hub = hub();
        let (subscriber, other) = (hub.subscribe(&name("a")), hub.subscribe(&name("ab")));
        went(&hub, "one", false);
        went(&hub, "two", true);
        let notes = subscriber.mailbox.take();
        let gone = |name: &str| {
            let object: ObjectKey = key(name).object();
            notes.get(&object).and_then(|note| note.gone.clone())
        };
        assert_eq!((gone("one"), gone("two")), (None, Some("two".to_owned())));
        assert!(knows(&hub, "one"), "until the list is complete");
        assert!(!subscriber.mailbox.take_comparison());
        hub.report(Report::Synced(Watched::Application));
        assert!(!knows(&hub, "one"));
        assert!(subscriber.mailbox.take().is_empty());
        assert!(subscriber.mailbox.take_comparison() && !subscriber.mailbox.take_comparison());
        assert!(!other.mailbox.take_comparison(), "it has no copy");
    }

    #[test]
    fn recreated_object_is_not_missing_from_a_list() {
        let hub = hub();
        let subscriber = hub.subscribe(&name("a"));
        for name in ["one", "two"] {
            went(&hub, name, false);
        }
        applied(&hub, "one", "another");
        applied(&hub, "two", "two");
        hub.report(Report::Synced(Watched::Application));
        assert!(knows(&hub, "one") && knows(&hub, "two"));
        assert!(
            subscriber
                .mailbox
                .take()
                .values()
                .all(|note| note.gone.is_none())
        );
        assert!(!subscriber.mailbox.take_comparison());
    }

    #[test]
    fn missing_project_deletes_no_copies() {
        let hub = hub();
        let subscriber = hub.subscribe(&name("a"));
        hub.report(Report::Deleted {
            kind: Watched::AppProject,
            key: Key::of(Meta::of(&open_project("default"))),
            uid: Meta::of(&open_project("default")).uid().to_owned(),
            is_seen: false,
        });
        hub.report(Report::Synced(Watched::AppProject));
        assert!(
            subscriber
                .mailbox
                .take()
                .values()
                .all(|note| note.gone.is_none())
        );
        assert!(subscriber.mailbox.take_comparison());
    }
}
