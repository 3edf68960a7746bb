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
fn after_the_spoke_went_back_the_next_version_counts_whatever_its_number() {
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
fn an_answer_that_comes_after_the_deletion_brings_nothing_back() {
    let store = Store::default();
    store.seen(key(), object("a", "1"));
    assert!(store.gone(&key(), "a").is_some());
    store.written(&key(), &object("a", "2"));
    assert!(store.live(&key()).is_none());
    assert!(store.all().is_empty());
}

#[test]
fn what_was_made_is_known_before_a_watch_tells_of_it() {
    let store = Store::default();
    store.making(key()).made(&object("a", "1"));
    assert_eq!(store.live(&key()), Some(object("a", "1")));
    assert_eq!(store.seen(key(), object("a", "1")), Change::None);
}

#[test]
fn what_was_made_and_went_before_the_answer_came_is_not_brought_back() {
    let store = Store::default();
    let making = store.making(key());
    store.seen(key(), object("a", "1"));
    store.gone(&key(), "a");
    making.made(&object("a", "1"));
    assert!(store.all().is_empty() && store.lock().making.is_empty());
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
fn what_was_made_and_is_in_no_list_is_asked_for_once_for_each_list() {
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
fn a_namesake_is_not_taken_for_the_one_that_went() {
    let store = Store::default();
    store.seen(key(), object("b", "1"));
    assert!(store.gone(&key(), "a").is_none());
    assert!(store.live(&key()).is_some());
}
