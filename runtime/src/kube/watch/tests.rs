use super::*;
use k8s_openapi::api::core::v1::ConfigMap;

fn config_map(name: &str, uid: &str) -> DeserializeGuard<ConfigMap> {
    DeserializeGuard(Ok(ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some("ns".to_owned()),
            uid: Some(uid.to_owned()),
            annotations: Some([(LAST_APPLIED.to_owned(), "{}".to_owned())].into()),
            managed_fields: Some(vec![]),
            ..Default::default()
        },
        ..Default::default()
    }))
}

fn unreadable() -> DeserializeGuard<ConfigMap> {
    serde_json::from_value(serde_json::json!({
        "metadata": { "name": "bad", "namespace": "ns", "uid": "u" },
        "data": "not a map",
    }))
    .unwrap()
}

fn reported(events: Vec<watcher::Event<DeserializeGuard<ConfigMap>>>) -> Vec<String> {
    let mut seen = Seen::default();
    let mut reported = vec![];
    for event in events {
        seen.take(event, &mut |event| {
            reported.push(match event {
                Event::Applied { object, listed } => {
                    assert_eq!(object.metadata.managed_fields, None);
                    assert_eq!(object.metadata.annotations, Some([].into()));
                    format!(
                        "{}{}",
                        if listed { "=" } else { "+" },
                        key(&object.metadata).1
                    )
                }
                Event::Deleted(gone) => {
                    let how = if gone.is_seen { "-" } else { "?" };
                    format!("{how}{}/{}", gone.name, gone.uid)
                }
                Event::Synced => "synced".to_owned(),
                Event::Rewound => "rewound".to_owned(),
            });
        });
    }
    reported
}

#[test]
fn missed_deletion_is_found_by_the_next_list() {
    let reported = reported(vec![
        watcher::Event::Init,
        watcher::Event::InitApply(config_map("a", "1")),
        watcher::Event::InitApply(config_map("b", "2")),
        watcher::Event::InitDone,
        watcher::Event::Apply(config_map("c", "3")),
        watcher::Event::Init,
        watcher::Event::InitApply(config_map("b", "2")),
        watcher::Event::InitApply(config_map("c", "3")),
        watcher::Event::InitDone,
        watcher::Event::Delete(config_map("c", "3")),
    ]);
    assert_eq!(
        reported,
        [
            "=a", "=b", "synced", "+c", "=b", "=c", "?a/1", "synced", "-c/3"
        ]
    );
}

#[test]
fn recreated_object_is_reported_as_deleted_first() {
    let reported = reported(vec![
        watcher::Event::Apply(config_map("a", "1")),
        watcher::Event::Apply(config_map("a", "2")),
    ]);
    assert_eq!(reported, ["+a", "?a/1", "+a"]);
}

#[test]
fn unreadable_object_is_skipped_and_others_are_reported() {
    let reported = reported(vec![
        watcher::Event::Init,
        watcher::Event::InitApply(unreadable()),
        watcher::Event::InitApply(config_map("a", "1")),
        watcher::Event::InitDone,
        watcher::Event::Delete(unreadable()),
    ]);
    assert_eq!(reported, ["=a", "synced"]);
}
