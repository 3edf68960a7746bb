use std::sync::Arc;

use protocol::{Kind, Mode, Peer, Role, Verdict, session::Limits, version::Capabilities};

use super::*;
use crate::{settings, store::Memory, sync::session::driver::tests::sessions_on, testing::name};

const SECOND: Duration = Duration::from_secs(1);

/// The resync of a session with cluster `a`, to which the hub delivers nothing.
struct Resyncing {
    hub: Arc<Hub>,
    machine: Session,
    resync: Resync,
}

impl Resyncing {
    fn begin() -> Self {
        let limits = settings::Limits::default();
        let hub = Arc::clone(&sessions_on(Arc::new(Memory::new()), limits).hub);
        let peer = Peer::new(Mode::Managed, Capabilities::of_level(1));
        let mut machine = Session::new(Role::Principal, peer, Limits::default());
        let every = Duration::from_mins(30);
        let resync = Resync::begin(&mut machine, &name("a"), "argocd", false, Vec::new(), every);
        Self {
            hub,
            machine,
            resync,
        }
    }

    fn take(&mut self, event: &Event, now: Duration) -> Verdict {
        let mut step = Step {
            session: &mut self.machine,
            hub: &self.hub,
            now,
        };
        let taken = self.resync.take(&mut step, event);
        taken.map_or_else(Verdict::Refused, |()| Verdict::Done)
    }

    fn claim(&mut self, kind: &str, number: usize, now: Duration) -> Verdict {
        let claim = RequestUpdate {
            kind: kind.to_owned(),
            namespace: "argocd".to_owned(),
            name: format!("app-{number}"),
            uid: format!("uid-{number}"),
            ..RequestUpdate::default()
        };
        self.take(&Event::request_update(&claim), now)
    }

    /// Closes the list with the checksum over so many Applications.
    fn end(&mut self, count: usize, now: Duration) {
        let names: Vec<_> = (0..count)
            .map(|number| (format!("app-{number}"), format!("uid-{number}")))
            .collect();
        let entries = names.iter();
        let entries = entries.map(|(name, uid)| ("Application", name.as_str(), uid.as_str()));
        let list = SyncedResourceList {
            checksum: argocd::digest::list_checksum(entries),
            ..SyncedResourceList::default()
        };
        self.take(&Event::request_synced_resource_list(&list), now);
    }

    fn advance(&mut self, now: Duration) {
        let mut step = Step {
            session: &mut self.machine,
            hub: &self.hub,
            now,
        };
        self.resync.advance(&mut step);
    }
}

#[test]
fn claim_of_an_unknown_kind_is_refused_at_once() {
    let mut resyncing = Resyncing::begin();
    for number in 0..1_000 {
        let verdict = resyncing.claim(&format!("Kind{number}"), number, SECOND);
        assert!(matches!(verdict, Verdict::Refused(why) if why.contains("not replicated")));
    }
    assert_eq!(resyncing.resync.inventory.named.len(), 0);
    assert_eq!(resyncing.claim("Application", 0, SECOND), Verdict::Done);
    let kinds = resyncing.resync.inventory.counts;
    assert_eq!(
        kinds.into_iter().collect::<Vec<_>>(),
        [(Kind::Application, 1)]
    );
}

#[test]
fn list_is_checked_at_its_first_end_and_after_silence() {
    let mut resyncing = Resyncing::begin();
    resyncing.claim("Application", 0, SECOND);
    resyncing.end(2, SECOND);
    assert!(!resyncing.resync.waiting().is_blocking(), "one is missing");
    resyncing.claim("Application", 1, 2 * SECOND);
    resyncing.end(2, 2 * SECOND);
    assert!(!resyncing.resync.waiting().is_blocking());
    assert_eq!(resyncing.resync.next_timeout(3 * SECOND), Some(4 * SECOND));
    resyncing.advance(7 * SECOND);
    assert!(resyncing.resync.waiting().is_due(7 * SECOND));
}

#[test]
fn spoke_with_too_many_objects_is_reported_and_loses_none() {
    let mut resyncing = Resyncing::begin();
    for number in 0..20_001 {
        assert_eq!(
            resyncing.claim("Application", number, SECOND),
            Verdict::Done
        );
    }
    assert!(resyncing.resync.has_too_many());
    resyncing.end(20_001, SECOND);
    resyncing.advance(10 * SECOND);
    assert!(!resyncing.resync.waiting().is_blocking());
    assert!(resyncing.resync.agreed().is_some(), "it ends all the same");
}
