use std::collections::BTreeMap;

use super::*;
use proptest::prelude::*;

fn key(name: &str) -> Key {
    Key {
        namespace: "argocd".to_owned(),
        name: name.to_owned(),
    }
}

fn log(names: &[&str]) -> ChangeLog {
    let keys: Vec<Key> = names.iter().map(|name| key(name)).collect();
    ChangeLog::with(7, 2, keys.iter())
}

/// The names on a page, removed ones with a dash.
fn names(page: &Page) -> Vec<String> {
    let name = |change: &Change| {
        let dash = if change.is_removal { "-" } else { "" };
        format!("{dash}{}", change.key.name)
    };
    page.changes.iter().map(name).collect()
}

#[test]
fn first_page_has_everything_and_the_next_one_only_changes() {
    let mut log = log(&["a", "b", "c"]);
    let all = log.after(Cursor::default(), 10);
    assert!(all.from_start && !all.more);
    assert_eq!(names(&all), ["a", "b", "c"]);
    let none = log.after(all.cursor, 10);
    assert!(!none.from_start && !none.more);
    assert!(names(&none).is_empty());
    for _ in 0..3 {
        log.note(&key("b"), false);
    }
    log.note(&key("a"), true);
    log.note(&key("d"), false);
    let page = log.after(none.cursor, 10);
    assert!(!page.from_start);
    assert_eq!(names(&page), ["b", "-a", "d"]);
}

#[test]
fn pages_follow_each_other_up_to_the_limit() {
    let mut log = log(&["a", "b", "c"]);
    let first = log.after(Cursor::default(), 2);
    assert!(first.more);
    assert_eq!(names(&first), ["a", "b"]);
    log.note(&key("a"), false);
    let second = log.after(first.cursor, 1);
    assert!(second.more && !second.from_start);
    assert_eq!(names(&second), ["c"]);
    let third = log.after(second.cursor, 1);
    assert!(!third.more);
    assert_eq!(names(&third), ["a"]);
    let nothing = log.after(first.cursor, 0);
    assert!(nothing.more && names(&nothing).is_empty());
    assert_eq!(nothing.cursor, first.cursor);
}

#[test]
fn new_reader_gets_no_old_removals() {
    let mut log = log(&["a", "b"]);
    log.note(&key("a"), true);
    let page = log.after(Cursor::default(), 10);
    assert_eq!(names(&page), ["b"]);
    log.note(&key("a"), false);
    log.note(&key("a"), true);
    assert_eq!(names(&log.after(page.cursor, 10)), ["-a"]);
}

#[test]
fn cursor_of_another_log_starts_over() {
    let ours = log(&["a"]);
    let mut other = ChangeLog::with(8, 2, std::iter::once(&key("a")));
    let foreign = other.after(Cursor::default(), 10).cursor;
    assert!(ours.after(foreign, 10).from_start);
    other.note(&key("a"), false);
    assert!(!other.after(foreign, 10).from_start);
    let zero = ChangeLog::with(0, 2, std::iter::empty());
    assert!(zero.after(Cursor::default(), 10).from_start);
}

#[test]
fn reader_that_misses_a_removal_starts_over() {
    let mut log = log(&["a", "b", "c", "d"]);
    let before = log.after(Cursor::default(), 10).cursor;
    for name in ["a", "b"] {
        log.note(&key(name), true);
    }
    assert!(!log.after(before, 10).from_start);
    log.note(&key("c"), true);
    let late = log.after(before, 10);
    assert!(late.from_start);
    assert_eq!(names(&late), ["d"]);
    assert_eq!((log.positions.len(), log.order.len()), (3, 3));
}

#[test]
fn removals_before_the_first_page_restart_no_reader() {
    let mut log = log(&["a", "b", "c", "d", "e"]);
    for name in ["a", "b", "c"] {
        log.note(&key(name), true);
    }
    let first = log.after(Cursor::default(), 1);
    assert!(first.more);
    let second = log.after(first.cursor, 1);
    assert!(!second.from_start && !second.more);
    assert_eq!(names(&second), ["e"]);
}

#[derive(Clone, Debug)]
enum Act {
    /// Sets an Application to the next version.
    Change(u8),
    Remove(u8),
    /// The reader reads one page.
    Read(usize),
    /// The hub's objects are read again.
    Restart,
}

fn acts() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => (0..12_u8).prop_map(Act::Change),
        4 => (0..12_u8).prop_map(Act::Remove),
        4 => (0..4_usize).prop_map(Act::Read),
        1 => Just(Act::Restart),
    ]
}

/// The hub's Applications with their versions, and those that a reader knows.
struct Model {
    live: BTreeMap<Key, u64>,
    known: BTreeMap<Key, u64>,
    log: ChangeLog,
    cursor: Cursor,
}

impl Model {
    fn read(&mut self, limit: usize) -> bool {
        let page = self.log.after(self.cursor, limit);
        assert!(page.changes.len() <= limit);
        self.cursor = page.cursor;
        if page.from_start {
            self.known.clear();
        }
        for change in page.changes {
            // A page is read together with the objects of the hub.
            let version = self.live.get(&*change.key);
            assert_eq!(change.is_removal, version.is_none());
            if let Some(version) = version {
                self.known.insert(Key::clone(&change.key), *version);
            } else {
                self.known.remove(&*change.key);
            }
        }
        page.more
    }
}

proptest! {
    #[test]
    fn reader_misses_no_change(acts in prop::collection::vec(acts(), 0..80), most in 0..4_usize) {
        let mut model = Model {
            live: BTreeMap::new(),
            known: BTreeMap::new(),
            log: ChangeLog::with(1, most, std::iter::empty()),
            cursor: Cursor::default(),
        };
        for (number, act) in (2_u64..).zip(acts) {
            match act {
                Act::Change(app) => {
                    let key = key(&app.to_string());
                    model.log.note(&key, false);
                    model.live.insert(key, number);
                }
                Act::Remove(app) => {
                    let key = key(&app.to_string());
                    if model.live.remove(&key).is_some() {
                        model.log.note(&key, true);
                    }
                }
                Act::Read(limit) => {
                    model.read(limit);
                }
                Act::Restart => {
                    model.log = ChangeLog::with(number, most, model.live.keys());
                }
            }
            prop_assert!(model.log.order.len() <= model.live.len() + most);
            prop_assert_eq!(model.log.order.len(), model.log.positions.len());
        }
        let mut pages = 0;
        while model.read(2) {
            pages += 1;
            prop_assert!(pages < 40, "the reader never comes to the end");
        }
        prop_assert_eq!(model.known, model.live);
    }
}
