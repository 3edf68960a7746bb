//! Requeues clusters for the SDK after changes that its watches do not cover.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};

use futures::{StreamExt as _, stream, stream::BoxStream};
use ocm::name::ClusterName;
use principal::{SessionReport, Sessions};
use tokio::sync::Notify;

use crate::{issuer::Certificates, lock::lock};

/// The work queue of clusters to reconcile, each at most once: bounded by the number of clusters.
#[derive(Clone, Debug, Default)]
pub struct Requeue {
    // Locked for an insertion, never across an await.
    waiting: Arc<Mutex<BTreeSet<ClusterName>>>,
    more: Arc<Notify>,
}

impl Requeue {
    /// Adds one cluster.
    pub fn wake(&self, cluster: ClusterName) {
        lock(&self.waiting).insert(cluster);
        self.more.notify_one();
    }

    /// The names in the queue; never ends.
    pub fn stream(&self) -> BoxStream<'static, ClusterName> {
        let wakes = self.clone();
        stream::unfold(wakes, async |wakes| {
            let cluster = wakes.next().await;
            Some((cluster, wakes))
        })
        .boxed()
    }

    async fn next(&self) -> ClusterName {
        loop {
            // `Notify` keeps one permit while no task waits, so we miss no name that arrives in between.
            let first = lock(&self.waiting).pop_first();
            if let Some(cluster) = first {
                return cluster;
            }
            self.more.notified().await;
        }
    }
}

/// The clusters whose session changes may change their conditions. The time at which the agent of an open session was
/// last seen does not matter.
pub fn changed(before: &Sessions, now: &Sessions) -> BTreeSet<String> {
    differing_by(before, now, |before, now| {
        condition_inputs(before) == condition_inputs(now)
    })
}

/// The keys whose values differ.
pub fn differing<V: PartialEq>(
    before: &BTreeMap<String, V>,
    now: &BTreeMap<String, V>,
) -> BTreeSet<String> {
    differing_by(before, now, V::eq)
}

fn differing_by<V>(
    before: &BTreeMap<String, V>,
    now: &BTreeMap<String, V>,
    is_same: impl Fn(&V, &V) -> bool,
) -> BTreeSet<String> {
    let names = before.keys().chain(now.keys());
    let differs = |name: &&String| {
        let both = before.get(*name).zip(now.get(*name));
        !both.is_some_and(|(before, now)| is_same(before, now))
    };
    names.filter(differs).cloned().collect()
}

/// The clusters that a rotation waits for in only one of both; none if more than that changed, which affects all
/// clusters.
pub fn waited_for(before: &Certificates, now: &Certificates) -> Option<BTreeSet<String>> {
    let plain = |it: &Certificates| {
        let stage = it.rotation.as_ref().map(|it| (it.stage, it.since));
        (stage, it.troubles.clone(), it.overdue.clone())
    };
    if plain(before) != plain(now) {
        return None;
    }
    let names = |it: &Certificates| {
        let rotation = it.rotation.as_ref();
        rotation.map(|it| it.waits_for.clone()).unwrap_or_default()
    };
    let (before, now) = (names(before), names(now));
    Some(before.symmetric_difference(&now).cloned().collect())
}

/// The fields that conditions use, without copies: the fleet is compared at every heartbeat.
fn condition_inputs(report: &SessionReport) -> impl PartialEq {
    // Every field, no `..`: a new field needs a decision here.
    let SessionReport {
        connected,
        since,
        last_seen: _,
        last_error,
        agent_version: _,
        mode,
        blocked_deletion,
        stuck,
        misconduct,
        shed,
        refused,
        argocd,
        argocd_runs,
        argocd_kinds_installed,
        argocd_ails,
        unmirrored,
        certificate,
        // `waited_for` covers changes of it.
        trusts: _,
    } = report;
    let session = (
        connected,
        since,
        last_error,
        mode,
        certificate,
        misconduct,
        shed,
    );
    let objects = (blocked_deletion, stuck, refused, unmirrored);
    let argocd = (argocd, argocd_runs, argocd_kinds_installed, argocd_ails);
    (session, objects, argocd)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use principal::Unmirrored;

    use super::*;

    fn sessions(connected: bool, seen: i64) -> Sessions {
        let report = SessionReport {
            connected,
            last_seen: Timestamp::from_second(seen).ok(),
            ..SessionReport::default()
        };
        Arc::new([("c".to_owned(), Arc::new(report))].into())
    }

    #[test]
    fn an_unmirrored_object_requeues_its_cluster() {
        let before = sessions(true, 1);
        let mut now = BTreeMap::clone(&before);
        Arc::make_mut(now.get_mut("c").unwrap()).unmirrored = Some(Unmirrored {
            count: 1,
            names: vec!["a".to_owned()],
        });
        assert_eq!(changed(&before, &Arc::new(now)), ["c".to_owned()].into());
    }

    #[test]
    fn a_heartbeat_requeues_no_cluster_and_a_change_does() {
        assert!(changed(&sessions(true, 1), &sessions(true, 2)).is_empty());
        assert_eq!(
            changed(&sessions(true, 1), &sessions(false, 1)),
            ["c".to_owned()].into()
        );
        assert_eq!(
            changed(&Sessions::default(), &sessions(true, 1)),
            ["c".to_owned()].into()
        );
        assert_eq!(
            changed(&sessions(true, 1), &Sessions::default()),
            ["c".to_owned()].into()
        );
    }

    #[test]
    fn added_removed_and_changed_entries_differ() {
        let map = |entries: &[(&str, u8)]| -> BTreeMap<String, u8> {
            let entries = entries.iter();
            entries
                .map(|(name, value)| ((*name).to_owned(), *value))
                .collect()
        };
        let (before, now) = (
            map(&[("same", 1), ("went", 1), ("changed", 1)]),
            map(&[("same", 1), ("came", 1), ("changed", 2)]),
        );
        let expected = ["came", "changed", "went"].map(str::to_owned).into();
        assert_eq!(differing(&before, &now), expected);
    }

    #[test]
    fn a_waiting_rotation_requeues_only_changed_clusters() {
        use crate::issuer::rotation::{Progress, Stage};
        let waiting = |stage, names: &[&str]| Certificates {
            rotation: Some(Progress {
                stage,
                since: Timestamp::UNIX_EPOCH,
                waits_for: names.iter().map(|name| (*name).to_owned()).collect(),
            }),
            ..Certificates::default()
        };
        let (before, now) = (
            waiting(Stage::Introduced, &["a", "b"]),
            waiting(Stage::Introduced, &["b"]),
        );
        assert_eq!(waited_for(&before, &now), Some(["a".to_owned()].into()));
        assert_eq!(waited_for(&before, &before), Some(BTreeSet::new()));
        let next = waiting(Stage::Retiring, &["b"]);
        assert_eq!(waited_for(&before, &next), None);
        assert_eq!(waited_for(&Certificates::default(), &now), None);
    }

    #[tokio::test]
    async fn a_queued_cluster_is_returned_once() {
        let wakes = Requeue::default();
        let name = |text: &str| ClusterName::new(text).unwrap();
        for text in ["b", "a", "b"] {
            wakes.wake(name(text));
        }
        let mut stream = wakes.stream();
        assert_eq!(stream.next().await, Some(name("a")));
        assert_eq!(stream.next().await, Some(name("b")));
        let later = wakes.clone();
        let (next, ()) = tokio::join!(stream.next(), async move { later.wake(name("c")) });
        assert_eq!(next, Some(name("c")));
    }
}
