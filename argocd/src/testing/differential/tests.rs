use serde_json::json;

use super::*;

/// A source of numbers, determined by its seed.
fn numbers(seed: u32) -> impl FnMut(usize) -> usize {
    let mut state = seed;
    move |below| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        usize::try_from(state >> 8).unwrap() % below
    }
}

const APPLICATION: Key = Key {
    kind: Kind::Application,
    name: "a",
};

fn answered(uid: &str, version: &str) -> Answer {
    Answer::Object(json!({
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {
            "name": "a", "uid": uid, "resourceVersion": version, "generation": 1,
            "creationTimestamp": version, "deletionTimestamp": version,
        },
    }))
}

fn created() -> Step {
    Step::Create(APPLICATION, plain(Kind::Application, "a"))
}

#[test]
fn a_seed_determines_the_steps_and_all_kinds_of_steps_occur() {
    let steps = |seed| sequence(500, &mut numbers(seed));
    assert_eq!(steps(1), steps(1));
    assert_ne!(steps(1), steps(2));
    let steps = steps(1);
    let occurs = |fits: fn(&Step) -> bool| steps.iter().any(fits);
    assert!(occurs(|step| matches!(step, Step::Create(..))));
    assert!(occurs(|step| matches!(step, Step::List(_, Some(_)))));
    let deletes = |step: &Step| {
        matches!(
            step,
            Step::Delete {
                uid: Pin::First,
                ..
            }
        )
    };
    assert!(occurs(deletes));
    let merges = |step: &Step| {
        matches!(
            step,
            Step::Patch {
                patch: Patch::Merge(_),
                version: Pin::Last,
                ..
            }
        )
    };
    assert!(occurs(merges));
    let json = |step: &Step| {
        matches!(
            step,
            Step::Patch {
                patch: Patch::Json(_),
                uid: Pin::Last,
                ..
            }
        )
    };
    assert!(occurs(json));
}

#[test]
fn answers_of_two_servers_have_the_same_normal_form() {
    let mut records = [Record::default(), Record::default()];
    let answers = [
        [("x", "10"), ("x", "12"), ("y", "40")],
        [("u", "7"), ("u", "8"), ("w", "9")],
    ];
    let normal: Vec<Vec<Answer>> = records
        .iter_mut()
        .zip(answers)
        .map(|(record, answers)| {
            let all = answers.into_iter();
            all.map(|(uid, version)| record.answer(&created(), answered(uid, version)))
                .collect()
        })
        .collect();
    assert_eq!(normal[0], normal[1]);
    let last = json!({ "metadata": {
        "name": "a", "uid": "uid 1", "resourceVersion": "resourceVersion 2",
        "deletionTimestamp": "set",
    } });
    assert_eq!(normal[0].last(), Some(&Answer::Object(last)));
    let gone = |uid: &str| Event::Deleted {
        name: "a".to_owned(),
        uid: uid.to_owned(),
    };
    let [first, second] = &mut records;
    assert_eq!(first.event(gone("y")), second.event(gone("w")));
    assert_ne!(first.event(gone("y")), second.event(gone("u")));
}

#[test]
fn a_pin_is_resolved_by_the_answers_of_the_server() {
    let mut record = Record::default();
    let delete = |uid, version| Step::Delete {
        key: APPLICATION,
        uid,
        version,
    };
    let request = |uid: Option<&str>, version: Option<&str>| Request::Delete {
        key: APPLICATION,
        uid: uid.map(str::to_owned),
        version: version.map(str::to_owned),
    };
    let unknown = request(Some("none"), Some("1"));
    assert_eq!(record.request(&delete(Pin::Last, Pin::First)), unknown);
    for (uid, version) in [("x", "10"), ("y", "12")] {
        record.answer(&created(), answered(uid, version));
    }
    let known = request(Some("y"), Some("10"));
    assert_eq!(record.request(&delete(Pin::Last, Pin::First)), known);
    let free = request(None, None);
    assert_eq!(record.request(&delete(Pin::Free, Pin::Free)), free);

    let patched = |patch| {
        let (uid, version) = (Pin::First, Pin::Last);
        record.request(&Step::Patch {
            key: APPLICATION,
            patch,
            uid,
            version,
        })
    };
    let merge = json!({ "metadata": { "uid": "x", "resourceVersion": "12" } });
    let expected = Request::Patch(APPLICATION, Patch::Merge(merge));
    assert_eq!(patched(Patch::Merge(json!({}))), expected);
    let operations = json!([
        { "op": "test", "path": "/metadata/uid", "value": "x" },
        { "op": "replace", "path": "/metadata/resourceVersion", "value": "12" },
    ]);
    let expected = Request::Patch(APPLICATION, Patch::Json(operations));
    assert_eq!(patched(Patch::Json(json!([]))), expected);
}

#[test]
fn the_in_memory_server_answers_and_reports_as_an_api_server() {
    let mut memory = Memory::default();
    let mut record = Record::default();
    let refusal = |code, reason: &str| Answer::Refused {
        code,
        reason: reason.to_owned(),
    };
    let mut sends = |step: Step| {
        let answer = memory.answer(&record.request(&step));
        let answer = record.answer(&step, answer);
        let events = memory.events().into_iter();
        let events: Vec<Event> = events.map(|(_, event)| record.event(event)).collect();
        (answer, events)
    };
    let patch = |change: Value| Step::Patch {
        key: APPLICATION,
        patch: Patch::Merge(change),
        uid: Pin::Free,
        version: Pin::First,
    };
    let delete = Step::Delete {
        key: APPLICATION,
        uid: Pin::Last,
        version: Pin::Last,
    };
    let (answer, events) = sends(created());
    let Answer::Object(object) = answer else {
        panic!("{answer:?}");
    };
    assert_eq!(events, [Event::Added(object)]);
    let (answer, events) = sends(created());
    assert_eq!((answer, events), (refusal(409, "AlreadyExists"), vec![]));
    let (answer, events) = sends(patch(json!({ "spec": { "project": "other" } })));
    let Answer::Object(object) = answer else {
        panic!("{answer:?}");
    };
    assert_eq!(events, [Event::Modified(object)]);
    let (answer, events) = sends(patch(json!({ "spec": { "project": "another" } })));
    assert_eq!((answer, events), (refusal(409, "Conflict"), vec![]));
    let listed = |answer| matches!(answer, Answer::Objects(objects) if objects.len() == 1);
    assert!(listed(sends(Step::List(Kind::Application, None)).0));
    assert!(!listed(sends(Step::List(Kind::Application, Some("red"))).0));
    assert!(!listed(sends(Step::List(Kind::Secret, None)).0));
    let (name, uid) = ("a".to_owned(), "uid 0".to_owned());
    let gone = vec![Event::Deleted { name, uid }];
    assert_eq!(sends(delete.clone()), (Answer::Gone, gone));
    assert_eq!(sends(delete), (refusal(404, "NotFound"), vec![]));
}

#[test]
fn deliberate_differences_are_listed_in_the_documentation() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/testing.md");
    let page = std::fs::read_to_string(page).unwrap();
    for (difference, reason) in DIFFERENCES {
        let row = format!("| {difference} | {reason} |");
        assert!(page.contains(&row), "add to docs/testing.md: {row}");
    }
}
