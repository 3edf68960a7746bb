//! The enrolled clusters: the principal's fleet, and the cluster Secrets of Argo CD on the hub.
//!
//! [`Publisher`] keeps the principal's [`Fleet`] equal to the hub's objects, so that a session ends as soon as its cluster
//! is not enrolled any more. [`secrets`] writes the Argo CD cluster Secrets, [`applications`] lists the Applications of a
//! cluster. [`removal`] ends an enrolment in the order that loses nothing: the session is closed first, hub Applications
//! that wait for it are released, and the cluster Secret is deleted last. Without that Secret `ApplicationSets` delete
//! their Applications, and an open session would send those deletions to the spoke.

pub mod applications;
pub mod credential;
pub mod projects;
pub mod removal;
pub mod secrets;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use ocm::{name::AddonName, sdk::View};
use principal::{Certificates, Enrolment, Fleet, Sessions};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::{
    channels::Channels,
    decisions,
    hub::{self, Own, World},
    issuer::rotation::{Agent, Agents},
    publish::publish,
};

/// Changes within this time after a first one are published together, because each publication reads the whole fleet: when
/// all agents reconnect, sessions change thousands of times a second.
const GATHER: Duration = Duration::from_millis(50);

/// Remembers which enrolments are still in their first session.
#[derive(Debug, Default)]
pub struct Freshness {
    known: BTreeMap<String, Known>,
}

/// One enrolment.
#[derive(Debug)]
struct Known {
    /// UID of its `ManagedClusterAddOn`.
    uid: String,
    fresh: bool,
    /// The session that was open at its start: it belongs to an earlier enrolment.
    before: Option<Timestamp>,
    /// Whether this enrolment had a session.
    connected: bool,
}

impl Freshness {
    /// Whether the cluster is in (or before) the first session of this enrolment, as far as that is known.
    fn look(&mut self, world: &World, cluster: &str, sessions: &Sessions) -> bool {
        let Some(addon) = world.addons.get(cluster) else {
            return true;
        };
        let open = sessions.get(cluster).filter(|it| it.connected);
        let open = open.map(|it| it.since);
        let begin = || Known {
            uid: addon.uid.clone(),
            // After a restart, our own condition remembers earlier sessions.
            fresh: !addon.was_connected,
            before: open,
            connected: false,
        };
        let known = self.known.entry(cluster.to_owned()).or_insert_with(begin);
        if known.uid != addon.uid {
            *known = begin();
        }
        // A rejected connection leaves a report, too; only an observed session can have ended.
        known.connected |= open.is_some() && open != known.before;
        known.fresh &= !(known.connected && open.is_none());
        known.fresh
    }
}

/// The enrolled clusters of `world`. `server` returns the URL in a cluster's Secret; `sharing` maps clusters to whether
/// they get the repositories without a project.
pub fn fleet(
    world: &World,
    own: &Own,
    sessions: &Sessions,
    freshness: &mut Freshness,
    sharing: &BTreeMap<String, bool>,
    server: impl Fn(&str) -> String,
) -> Fleet {
    let mut clusters = BTreeMap::new();
    for (name, addon) in &world.addons {
        if let Some(mode) = world.enrolled(name, own) {
            let fresh = freshness.look(world, name, sessions);
            clusters.insert(
                name.clone(),
                Enrolment {
                    mode,
                    server: Some(server(name)),
                    since: addon.created,
                    fresh,
                    confirm_delete: addon.confirm_delete.clone(),
                    certificates: addon.certificates(),
                    shares_unscoped: sharing.get(name).copied(),
                },
            );
        }
    }
    freshness
        .known
        .retain(|name, _| world.addons.contains_key(name));
    Fleet { clusters }
}

/// The agents that a CA rotation waits for. Revoked agents need no certificate.
pub fn agents(world: &World, fleet: &Fleet, sessions: &Sessions) -> Agents {
    let admitted = fleet.clusters.iter();
    let admitted = admitted.filter(|(_, it)| it.certificates != Certificates::Revoked);
    let agent = |name: &String| {
        let report = sessions.get(name);
        let lost = world.clusters.get(name).is_some_and(|cluster| cluster.lost);
        let shown = report.and_then(|it| it.certificate.as_ref());
        Agent {
            lost: lost && !report.is_some_and(|it| it.connected),
            trusts: report.and_then(|it| it.trusts.clone()),
            authority: shown.and_then(|it| it.authority.clone()),
        }
    };
    admitted
        .map(|(name, _)| (name.clone(), agent(name)))
        .collect()
}

/// Keeps the principal's fleet equal to the hub's objects.
#[derive(Debug)]
pub struct Publisher {
    /// The SDK's view of the hub.
    pub view: View,
    /// Our add-on's name.
    pub addon: AddonName,
    /// The identity of this hub.
    pub own: Own,
    /// The address of the resource proxy for Argo CD (host and port).
    pub resource_proxy: String,
    /// The channels. `serving` becomes true with the first fleet: before that no agent is admitted. Until the decisions
    /// are known, nothing is published.
    pub channels: Channels,
}

impl Publisher {
    /// Publishes every change, at most [`GATHER`] late, until the token is cancelled.
    ///
    /// It publishes nothing until the hub's objects are listed; the previous fleet stays.
    pub async fn run(self, token: CancellationToken) {
        let mut freshness = Freshness::default();
        let rebuild = |sessions: &Sessions| self.publish(sessions, &mut freshness);
        self.follow(token, rebuild).await;
        // The next leader has newer facts.
        self.channels.agents.send_replace(None);
    }

    async fn follow(&self, token: CancellationToken, mut rebuild: impl FnMut(&Sessions)) {
        let mut revision = self.view.revision();
        let mut sessions = self.channels.sessions.subscribe();
        let mut sharing = self.channels.sharing.subscribe();
        let mut decisions = self.channels.decisions.subscribe();
        let mut certificates = self.channels.certificates.subscribe();
        // After our leadership ends we must admit no agent any more.
        while !token.is_cancelled() {
            revision.mark_unchanged();
            sharing.mark_unchanged();
            decisions.mark_unchanged();
            certificates.mark_unchanged();
            let now = Arc::clone(&sessions.borrow_and_update());
            rebuild(&now);
            // No error: we have the senders.
            let next = async {
                tokio::select! {
                    _ = revision.changed() => {}
                    _ = sessions.changed() => {}
                    _ = sharing.changed() => {}
                    _ = decisions.changed() => {}
                    _ = certificates.changed() => {}
                }
                sleep(GATHER).await;
            };
            token.run_until_cancelled(next).await;
        }
    }

    fn publish(&self, sessions: &Sessions, freshness: &mut Freshness) {
        let records = self.channels.decisions.borrow().clone();
        let (Some(mut world), Some(records)) = (hub::read(&self.view, &self.addon), records) else {
            return;
        };
        decisions::enforce(&records, &mut world);
        let server = |name: &str| argocd::cluster_secret::server_url(&self.resource_proxy, name);
        let sharing = self.channels.sharing.borrow().clone();
        let fleet = fleet(&world, &self.own, sessions, freshness, &sharing, server);
        let rotates = self.channels.certificates.borrow().rotation.is_some();
        let agents = rotates.then(|| Arc::new(agents(&world, &fleet, sessions)));
        publish(&self.channels.agents, agents);
        publish(&self.channels.fleet, Arc::new(fleet));
        publish(&self.channels.serving, true);
    }
}

#[cfg(test)]
mod tests {
    use principal::{Mode, SessionReport};
    use tokio::time::Instant;

    use super::*;
    use crate::{
        hub::{Addon, Cluster},
        keys,
    };

    fn world(uid: &str, was_connected: bool) -> World {
        let addon = Addon {
            uid: uid.to_owned(),
            adopted: true,
            recorded: Some("managed".to_owned()),
            was_connected,
            ..Addon::default()
        };
        let cluster = Cluster {
            accepted: true,
            ..Cluster::default()
        };
        World {
            clusters: [("c".to_owned(), cluster)].into(),
            addons: [("c".to_owned(), addon)].into(),
            ..World::default()
        }
    }

    fn sessions(connected: bool) -> Sessions {
        let report = SessionReport {
            connected,
            last_seen: Some(Timestamp::UNIX_EPOCH),
            mode: Some(Mode::Managed),
            ..SessionReport::default()
        };
        Arc::new([("c".to_owned(), Arc::new(report))].into())
    }

    fn look(world: &World, sessions: &Sessions, freshness: &mut Freshness) -> Option<bool> {
        let none = BTreeMap::new();
        let fleet = fleet(world, &Own::default(), sessions, freshness, &none, |_| {
            String::new()
        });
        fleet.clusters.get("c").map(|enrolment| enrolment.fresh)
    }

    #[tokio::test(start_paused = true)]
    async fn changes_within_the_window_cause_one_rebuild_of_the_fleet() {
        let publisher = Publisher {
            view: View::new(),
            addon: AddonName::new(keys::ADDON).unwrap(),
            own: Own::default(),
            resource_proxy: String::new(),
            channels: Channels::default(),
        };
        let sharing = &publisher.channels.sharing;
        let (begun, token, mut rebuilt) = (Instant::now(), CancellationToken::new(), vec![]);
        let following = publisher.follow(token.clone(), |_| {
            rebuilt.push(begun.elapsed());
        });
        let changing = async {
            sleep(Duration::from_secs(1)).await;
            for _ in 0..10 {
                sharing.send_modify(|_| {});
                sleep(GATHER / 20).await;
            }
            sleep(Duration::from_secs(1)).await;
            token.cancel();
        };
        tokio::join!(following, changing);
        assert_eq!(rebuilt, [Duration::ZERO, Duration::from_secs(1) + GATHER]);
    }

    #[test]
    fn an_enrolment_is_fresh_until_its_first_session_has_ended() {
        let (mut freshness, new) = (Freshness::default(), world("1", false));
        assert_eq!(look(&new, &Sessions::default(), &mut freshness), Some(true));
        assert_eq!(look(&new, &sessions(true), &mut freshness), Some(true));
        // Our own condition about the session does not end it.
        assert_eq!(
            look(&world("1", true), &sessions(true), &mut freshness),
            Some(true)
        );
        assert_eq!(look(&new, &sessions(false), &mut freshness), Some(false));
        assert_eq!(look(&new, &sessions(true), &mut freshness), Some(false));
        assert_eq!(
            look(&world("2", false), &Sessions::default(), &mut freshness),
            Some(true)
        );
    }

    #[test]
    fn first_session_counts_per_enrolment_and_success() {
        let mut freshness = Freshness::default();
        let refused = sessions(false);
        assert_eq!(
            look(&world("1", false), &refused, &mut freshness),
            Some(true)
        );
        let before = sessions(true);
        assert_eq!(
            look(&world("2", false), &before, &mut freshness),
            Some(true)
        );
        let ended = sessions(false);
        assert_eq!(look(&world("2", false), &ended, &mut freshness), Some(true));
    }

    #[test]
    fn a_rotation_waits_for_agents_that_are_admitted_and_not_lost() {
        let mut world = world("1", true);
        let names = |world: &World, sessions: &Sessions| -> Vec<(String, bool)> {
            let mut freshness = Freshness::default();
            let (own, none) = (Own::default(), BTreeMap::new());
            let fleet = fleet(world, &own, sessions, &mut freshness, &none, |_| {
                String::new()
            });
            let agents = agents(world, &fleet, sessions).into_iter();
            agents.map(|(name, agent)| (name, agent.lost)).collect()
        };
        let silent = Sessions::default();
        assert_eq!(names(&world, &silent), [("c".to_owned(), false)]);
        world.clusters.get_mut("c").unwrap().lost = true;
        assert_eq!(names(&world, &silent), [("c".to_owned(), true)]);
        assert_eq!(names(&world, &sessions(true)), [("c".to_owned(), false)]);
        world.addons.get_mut("c").unwrap().revoked = Some(String::new());
        assert_eq!(names(&world, &silent), []);
    }

    #[test]
    fn confirmations_and_settings_reach_the_fleet() {
        let mut world = world("1", true);
        for addon in world.addons.values_mut() {
            addon.confirm_delete = Some("digest".to_owned());
        }
        let mut freshness = Freshness::default();
        let server = |_: &str| String::new();
        let fleet = fleet(
            &world,
            &Own::default(),
            &Sessions::default(),
            &mut freshness,
            &BTreeMap::from([("c".to_owned(), true)]),
            server,
        );
        assert_eq!(
            fleet.clusters["c"].confirm_delete.as_deref(),
            Some("digest")
        );
        assert_eq!(fleet.clusters["c"].shares_unscoped, Some(true));
    }

    #[test]
    fn after_a_restart_the_condition_proves_an_earlier_session() {
        let known = world("1", true);
        let fresh = look(&known, &Sessions::default(), &mut Freshness::default());
        assert_eq!(fresh, Some(false));
    }

    #[test]
    fn clusters_that_are_not_enrolled_are_not_in_the_fleet() {
        let mut world = world("1", false);
        world
            .addons
            .values_mut()
            .for_each(|addon| addon.deleting = true);
        assert_eq!(
            look(&world, &Sessions::default(), &mut Freshness::default()),
            None
        );
    }
}
