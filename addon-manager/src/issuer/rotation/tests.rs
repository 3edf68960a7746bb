use proptest::prelude::*;

use super::*;
use crate::issuer::{Authority, facts::StoredAuthority, make};

fn now() -> Timestamp {
    "2026-11-20T12:00:00Z".parse().unwrap()
}

fn settled() -> StoredAuthority {
    StoredAuthority {
        ca: make::authority(now()).unwrap(),
        next: None,
        ours: true,
        version: "1".to_owned(),
        asked: None,
        taken: None,
        since: None,
    }
}

fn introduced() -> StoredAuthority {
    StoredAuthority {
        next: Some(make::authority(now()).unwrap()),
        since: Some(now()),
        ..settled()
    }
}

fn retiring() -> StoredAuthority {
    StoredAuthority {
        since: Some(now()),
        ..settled()
    }
}

fn agent(trusts: &[&Authority], leaf: Option<&Authority>) -> Agent {
    Agent {
        lost: false,
        trusts: Some(trusts.iter().map(|ca| ca.fingerprint.clone()).collect()),
        authority: leaf.and_then(|ca| ca.key_id.clone()),
    }
}

fn step(stored: &StoredAuthority, agents: &Agents) -> Move {
    decide(stored, Some(agents), &[], now()).step
}

#[test]
fn each_request_starts_one_rotation() {
    let mut stored = settled();
    assert_eq!(step(&stored, &Agents::new()), Move::Stay);
    stored.asked = Some("1".to_owned());
    assert_eq!(step(&stored, &Agents::new()), Move::Introduce);
    stored.taken = Some("1".to_owned());
    assert_eq!(step(&stored, &Agents::new()), Move::Stay);
    stored.asked = Some("2".to_owned());
    assert_eq!(step(&stored, &Agents::new()), Move::Introduce);
}

#[test]
fn a_rotation_requested_during_another_follows_it() {
    let mut stored = introduced();
    stored.asked = Some("2".to_owned());
    stored.taken = Some("1".to_owned());
    assert_eq!(step(&stored, &Agents::new()), Move::Switch);
    (stored.next, stored.since) = (None, None);
    assert_eq!(step(&stored, &Agents::new()), Move::Introduce);
}

#[test]
fn a_ca_of_ours_is_replaced_in_the_last_fifth_of_its_life() {
    let stored = settled();
    let years = |years: i64| now() + SignedDuration::from_hours(24 * 365 * years);
    let at = |now| decide(&stored, Some(&Agents::new()), &[], now).step;
    assert_eq!(at(years(7)), Move::Stay);
    assert_eq!(at(years(9)), Move::Introduce);
    let foreign = StoredAuthority {
        ours: false,
        ..settled()
    };
    let decision = decide(&foreign, Some(&Agents::new()), &[], years(9));
    assert_eq!(decision.step, Move::Stay);
}

#[test]
fn a_foreign_ca_is_never_replaced() {
    let stored = StoredAuthority {
        ours: false,
        asked: Some("1".to_owned()),
        ..settled()
    };
    let decision = decide(&stored, Some(&Agents::new()), &[], now());
    assert_eq!(decision.step, Move::Stay);
    assert!(decision.problem.unwrap().contains("did not create the CA"));
}

#[test]
fn the_next_ca_signs_after_every_agent_reports_trust() {
    let stored = introduced();
    let next = stored.next.clone().unwrap();
    let both = agent(&[&stored.ca, &next], Some(&stored.ca));
    let old = agent(&[&stored.ca], Some(&stored.ca));
    let silent = Agent::default();
    for behind in [&old, &silent] {
        let agents = [
            ("a".to_owned(), both.clone()),
            ("b".to_owned(), behind.clone()),
        ]
        .into();
        let decision = decide(&stored, Some(&agents), &[], now());
        assert_eq!(decision.step, Move::Stay);
        assert_eq!(decision.waits_for, ["b".to_owned()].into());
    }
    let agents = [("a".to_owned(), both.clone()), ("b".to_owned(), both)].into();
    assert_eq!(step(&stored, &agents), Move::Switch);
}

#[test]
fn old_ca_is_removed_after_all_agents_moved() {
    let (stored, old) = (retiring(), make::authority(now()).unwrap());
    let (new, stays) = (agent(&[], Some(&stored.ca)), agent(&[], Some(&old)));
    let agents = [("a".to_owned(), new.clone()), ("b".to_owned(), stays)].into();
    let decision = decide(&stored, Some(&agents), &[], now());
    assert_eq!(
        (decision.step, decision.waits_for),
        (Move::Stay, ["b".to_owned()].into())
    );
    let agents = [("a".to_owned(), new)].into();
    assert_eq!(step(&stored, &agents), Move::Retire);
    let decision = decide(&stored, Some(&agents), &["a-secret"], now());
    assert_eq!(
        decision.step,
        Move::Stay,
        "our serving certificates come first"
    );
}

#[test]
fn a_rotation_does_not_wait_for_a_lost_cluster() {
    let lost = Agent {
        lost: true,
        ..Agent::default()
    };
    let agents = [("a".to_owned(), lost)].into();
    assert_eq!(step(&introduced(), &agents), Move::Switch);
    assert_eq!(step(&retiring(), &agents), Move::Retire);
}

#[test]
fn a_rotation_stops_while_the_fleet_is_unknown() {
    for stored in [introduced(), retiring()] {
        assert_eq!(decide(&stored, None, &[], now()).step, Move::Stay);
    }
}

proptest! {
    #[test]
    fn no_step_cuts_off_an_agent_that_is_there(
        retires: bool,
        states in proptest::collection::vec((any::<bool>(), any::<bool>(), any::<bool>()), 0..6),
    ) {
        let old = make::authority(now()).unwrap();
        let stored = if retires { retiring() } else { introduced() };
        let next = stored.next.clone().unwrap_or_else(|| stored.ca.clone());
        let agents: Agents = states
            .iter()
            .enumerate()
            .map(|(at, (lost, trusts, renewed))| {
                let trusted: &[&Authority] = if *trusts { &[&old, &next] } else { &[&old] };
                let leaf = if *renewed { &stored.ca } else { &old };
                (at.to_string(), Agent { lost: *lost, ..agent(trusted, Some(leaf)) })
            })
            .collect();
        let there = || states.iter().filter(|(lost, ..)| !lost);
        match step(&stored, &agents) {
            Move::Switch => prop_assert!(there().all(|(_, trusts, _)| *trusts)),
            Move::Retire => prop_assert!(there().all(|(.., renewed)| *renewed)),
            Move::Stay | Move::Introduce => {}
        }
    }

    #[test]
    fn a_last_part_is_never_the_whole(life in 1i64..100_000, left in 0i64..100_000, parts in 2i32..9) {
        let span = |hours: i64| SignedDuration::from_hours(hours);
        prop_assert_eq!(
            is_in_last_part(span(life), span(left), parts),
            left * i64::from(parts) < life
        );
    }
}
