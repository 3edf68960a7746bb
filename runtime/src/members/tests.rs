use super::*;

fn lease(name: &str, renewal: i32) -> Lease {
    Lease {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            holder_identity: Some(format!("{name}_1")),
            lease_transitions: Some(renewal),
            ..LeaseSpec::default()
        }),
    }
}

fn names(members: &Members) -> Vec<&str> {
    members.iter().map(String::as_str).collect()
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_does_not_renew_is_no_member_after_its_duration() {
    let (mut roster, begin) = (Roster::default(), Instant::now());
    for round in 0..8 {
        let now = begin + ROUND * u32::try_from(round).unwrap();
        let seen = roster.observe(&[lease("a", round), lease("b", 0)], now);
        let is_over = now - begin >= DURATION;
        let expected = if is_over { vec!["a"] } else { vec!["a", "b"] };
        assert_eq!(names(&seen), expected, "after {:?}", now - begin);
    }
    let seen = roster.observe(&[lease("a", 9), lease("b", 1)], begin + ROUND * 9);
    assert_eq!(names(&seen), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn after_an_outage_of_the_api_each_replica_has_its_whole_duration() {
    let (mut roster, begin) = (Roster::default(), Instant::now());
    let both = [lease("a", 0), lease("b", 0)];
    roster.observe(&both, begin);
    roster.suspend();
    let back = begin + DURATION * 10;
    assert_eq!(names(&roster.observe(&both, back)), ["a", "b"]);
    assert_eq!(
        names(&roster.observe(&[lease("a", 1), lease("b", 0)], back + DURATION)),
        ["a"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_deleted_lease_is_no_member_at_once() {
    let (mut roster, begin) = (Roster::default(), Instant::now());
    roster.observe(&[lease("a", 0), lease("b", 0)], begin);
    let seen = roster.observe(&[lease("a", 1)], begin + ROUND);
    assert_eq!(names(&seen), ["a"]);
    // A later one of the name has a duration of its own.
    let seen = roster.observe(&[lease("a", 2), lease("b", 0)], begin + DURATION);
    assert_eq!(names(&seen), ["a", "b"]);
}

#[test]
fn renewal_keeps_the_acquire_time_of_its_process() {
    let replica = |identity: &str| Replica {
        namespace: "ns".to_owned(),
        name: "pod-a".to_owned(),
        identity: identity.to_owned(),
        label: ("replica-of", "program"),
        owner: OwnerReference::default(),
        annotations: [("version".to_owned(), "1".to_owned())].into(),
    };
    let at = |second| jiff::Timestamp::from_second(second).unwrap();
    let first = replica("one").record(None, at(10));
    let next = replica("one").record(Some(&first), at(20));
    let spec = next.spec.clone().unwrap();
    assert_eq!(spec.acquire_time, Some(MicroTime(at(10))));
    assert_eq!(spec.renew_time, Some(MicroTime(at(20))));
    assert_eq!(next.metadata.annotations, Some(replica("one").annotations));
    let restarted = replica("two").record(Some(&next), at(30)).spec.unwrap();
    assert_eq!(restarted.acquire_time, Some(MicroTime(at(30))));
    assert_eq!(restarted.holder_identity.as_deref(), Some("two"));
}
