use protocol::Kind;
use serde_json::json;

use super::*;

fn key() -> ObjectKey {
    ObjectKey::new(Kind::Application, "argocd", "app")
}

fn object(uid: &str, version: &str) -> Arc<Value> {
    Arc::new(json!({ "metadata": { "uid": uid, "resourceVersion": version } }))
}

#[test]
fn after_a_restore_of_the_spoke_older_versions_replace_the_cache() {
    let store = Store::default();
    store.seen(key(), object("a", "20"));
    assert!(store.seen(key(), object("a", "10")) == Change::None);
    store.outdate(|_| true);
    assert!(store.seen(key(), object("a", "10")) != Change::None);
    assert_eq!(store.live(&key()), Some(object("a", "10")));
    assert!(store.seen(key(), object("a", "9")) == Change::None, "once");
}

#[test]
fn an_echo_of_our_own_write_is_no_change() {
    let store = Store::default();
    assert_eq!(
        store.seen(key(), object("a", "9")),
        Change::Changed { before: None }
    );
    store.written(&key(), &object("a", "10"));
    assert_eq!(store.seen(key(), object("a", "9")), Change::None);
    assert_eq!(store.seen(key(), object("a", "10")), Change::None);
    let before = Some(object("a", "10"));
    assert_eq!(
        store.seen(key(), object("a", "11")),
        Change::Changed { before }
    );
}

#[test]
fn a_patch_answer_after_the_deletion_does_not_restore_the_object() {
    let store = Store::default();
    store.seen(key(), object("a", "1"));
    assert!(store.gone(&key(), "a").is_some());
    store.written(&key(), &object("a", "2"));
    assert!(store.live(&key()).is_none());
    assert!(store.all().is_empty());
}

#[test]
fn a_created_object_is_cached_before_the_watch_reports_it() {
    let store = Store::default();
    store.making(key()).made(&object("a", "1"));
    assert_eq!(store.live(&key()), Some(object("a", "1")));
    assert_eq!(store.seen(key(), object("a", "1")), Change::None);
}

#[test]
fn a_create_answer_after_the_deletion_does_not_restore_the_object() {
    let store = Store::default();
    let making = store.making(key());
    store.seen(key(), object("a", "1"));
    store.gone(&key(), "a");
    making.made(&object("a", "1"));
    assert!(store.all().is_empty() && lock(&store.inner).making.is_empty());
}

#[test]
fn taken_command_is_remembered_until_the_copy_returns() {
    let store = Store::default();
    let live = json!({ "metadata": { "uid": "a", "resourceVersion": "1", "annotations": {
        keys::SOURCE_UID: "s1", keys::LAST_COMMAND: "sync-1",
    } } });
    store.seen(key(), Arc::new(live));
    store.remember(
        key(),
        Wanted {
            desired: json!({}),
            digest: String::new(),
            written: None,
            leaving: false,
        },
    );
    store.gone(&key(), "a");
    assert_eq!(
        store.taken(&key(), "s1"),
        [(keys::LAST_COMMAND, "sync-1".to_owned())]
    );
    assert!(store.taken(&key(), "s2").is_empty());
    store.making(key()).made(&object("b", "2"));
    assert!(store.taken(&key(), "s1").is_empty());
}

#[test]
fn a_created_object_missing_in_a_list_is_looked_up_once_per_list() {
    let store = Store::default();
    store.making(key()).made(&object("a", "1"));
    assert_eq!(store.take_missed(&key()), None, "no list lacks it");
    assert!(store.listed(|_| false).is_empty(), "of another target");
    assert_eq!(store.listed(|_| true), [key()]);
    assert_eq!(store.take_missed(&key()).as_deref(), Some("a"));
    assert_eq!(store.take_missed(&key()), None);
    store.still_missed(&key());
    assert_eq!(store.take_missed(&key()).as_deref(), Some("a"));
    assert!(store.gone(&key(), "a").is_some());
    assert!(store.listed(|_| true).is_empty() && store.all().is_empty());
    store.making(key()).made(&object("b", "2"));
    store.seen(key(), object("b", "2"));
    store.listed(|_| true);
    assert!(store.listed(|_| true).is_empty(), "a watch knows it");
}

#[test]
fn deletion_of_another_uid_keeps_the_cached_object() {
    let store = Store::default();
    store.seen(key(), object("b", "1"));
    assert!(store.gone(&key(), "a").is_none());
    assert!(store.live(&key()).is_some());
}
