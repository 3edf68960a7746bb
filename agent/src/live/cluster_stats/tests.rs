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
