use super::*;

fn beat(session: &mut Session, now: Duration) {
    take(session, Event::ping(), now);
    drop(sent(session, &Store::default(), now));
}

/// Whether the unread peer gets a sign of life at this time.
fn gets_sign(session: &mut Session, now: Duration) -> bool {
    session.skip_read(now);
    !sent(session, &Store::default(), now).is_empty()
}

#[test]
fn heartbeat_timeout_follows_the_interval_of_the_peer() {
    let limits = Limits {
        silence: at(60),
        ..Limits::default()
    };
    let mut session = Session::new(Role::Principal, session(Role::Principal).peer, limits);
    assert_eq!(session.silence_left(at(0)), None);
    beat(&mut session, at(1));
    assert_eq!(session.silence_left(at(1)), None, "one beat is no measure");
    beat(&mut session, at(31));
    assert_eq!(session.silence_left(at(31)), Some(at(120)));
    beat(&mut session, at(32));
    assert_eq!(session.silence_left(at(32)), Some(at(60)));
}

#[test]
fn unread_peer_does_not_time_out_and_gets_signs_of_life() {
    let limits = Limits {
        silence: at(25),
        inbox_entries: 0,
        ..Limits::default()
    };
    let mut session = Session::new(Role::Principal, session(Role::Principal).peer, limits);
    assert!(!gets_sign(&mut session, at(0)), "it has no beat");
    beat(&mut session, at(0));
    beat(&mut session, at(10));
    assert_eq!(session.silence_left(at(49)), Some(at(1)));
    session.skip_read(at(15));
    assert_eq!(session.next_timeout(at(15)), Some(at(5)));
    assert_eq!(session.silence_left(at(49)), Some(at(6)));
    assert_eq!(session.silence_left(at(55)), Some(Duration::ZERO));
    let signs = (16..60).filter(|now| gets_sign(&mut session, at(*now)));
    assert_eq!(signs.collect::<Vec<_>>(), [20, 30, 40, 50]);
    beat(&mut session, at(60));
    beat(&mut session, at(60));
    let half = Duration::from_millis(500);
    assert!(!gets_sign(&mut session, at(60) + half));
    assert!(gets_sign(&mut session, at(61)));
}

#[test]
fn agent_times_out_a_principal_by_its_own_heartbeat() {
    let limits = Limits {
        heartbeat: Some(at(10)),
        ..Limits::default()
    };
    let mut agent = Session::new(Role::Agent, session(Role::Agent).peer, limits);
    assert_eq!(agent.silence_left(at(0)), Some(at(25)));
    take(&mut agent, state("x", "1"), at(5));
    assert_eq!(agent.silence_left(at(30)), Some(Duration::ZERO));
    agent.skip_read(at(20));
    assert_eq!(agent.silence_left(at(30)), Some(at(15)));
}
