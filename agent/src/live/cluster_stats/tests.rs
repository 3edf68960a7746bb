use super::*;

fn census(applications: u64, resources: u64) -> Census {
    Census {
        applications,
        apis: 50,
        resources,
        server_version: Some("1.36".to_owned()),
    }
}

#[test]
fn cluster_stats_are_reported_on_change_and_throttled() {
    let stated = census(1, 100);
    let soon = Duration::from_secs(10);
    assert!(is_change(None, &stated, Duration::ZERO));
    assert!(!is_change(Some(&stated), &stated, REPORT_INTERVAL));
    assert!(is_change(Some(&stated), &census(2, 100), Duration::ZERO));
    assert!(!is_change(Some(&stated), &census(1, 101), soon));
    assert!(is_change(Some(&stated), &census(1, 101), REPORT_INTERVAL));
    let upgraded = Census {
        server_version: Some("1.37".to_owned()),
        ..stated.clone()
    };
    assert!(is_change(Some(&stated), &upgraded, soon));
}

#[test]
fn a_lasting_error_is_logged_once_until_it_changes() {
    let fails = |why: &str| -> Result<Option<Census>, Error> { Err(why.into()) };
    let mut log = ReadLog::default();
    let mut logged = |read: &Result<Option<Census>, Error>| {
        let before = log.complaint.clone();
        log.take(read);
        log.complaint
            .clone()
            .filter(|now| before.as_ref() != Some(now))
    };
    assert_eq!(logged(&fails("no password yet")), None);
    assert_eq!(logged(&Ok(None)), None);
    assert_eq!(logged(&fails("a")), None);
    assert_eq!(logged(&fails("a")).as_deref(), Some("a"));
    assert_eq!(logged(&fails("a")), None);
    assert_eq!(logged(&fails("b")).as_deref(), Some("b"));
    assert_eq!(logged(&Ok(None)), None);
    assert_eq!(logged(&fails("b")), None);
    assert_eq!(logged(&fails("b")).as_deref(), Some("b"));
}
