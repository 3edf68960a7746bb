use proptest::prelude::*;

use super::*;
use argocd::patch;

const NOW: &str = "2026-03-01T12:00:00Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

fn observed() -> Observed {
    Observed {
        namespace: "spoke1".to_owned(),
        name: "guestbook".to_owned(),
        uid: "hub-uid".to_owned(),
        cluster: "spoke1".to_owned(),
        namespace_there: "argocd".to_owned(),
        uid_there: None,
    }
}

/// As Argo CD's application controller writes one.
fn event(uid: &str, change: &Value) -> Value {
    let mut event = json!({
        "metadata": {
            "name": format!("guestbook.{uid}"), "namespace": "argocd", "uid": uid,
            "labels": { "a": "b" }, "annotations": { "user": "x" },
        },
        "involvedObject": {
            "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
            "namespace": "argocd", "name": "guestbook", "uid": "theirs", "resourceVersion": "7",
        },
        "reason": "OperationCompleted",
        "message": "Sync operation to v1 succeeded",
        "source": { "component": "argocd-application-controller" },
        "firstTimestamp": "2026-03-01T11:59:00Z",
        "lastTimestamp": "2026-03-01T11:59:00Z",
        "count": 1,
        "type": "Normal",
        "eventTime": null,
        "reportingComponent": "",
    });
    patch::merge(&mut event, change);
    event
}

fn noted(events: &[Value]) -> Noted {
    let list = json!({ "kind": "EventList", "apiVersion": "v1", "metadata": {}, "items": events });
    Noted::read(list.to_string().as_bytes()).unwrap()
}

fn plan(events: &[Value], known: &[Value]) -> Vec<Write> {
    observed().plan(noted(events), known, now())
}

/// The Event that the hub gets for this one, if any.
fn made(change: &Value) -> Option<Value> {
    let mut writes = plan(&[event("e", change)], &[]);
    assert!(writes.len() < 2);
    match writes.pop()? {
        Write::Create(event) => Some(event),
        Write::Patch { .. } => panic!("nothing is known"),
    }
}

/// Applies the writes to the hub's Events.
fn carried_out(writes: Vec<Write>, known: &mut Vec<Value>) {
    for write in writes {
        match write {
            Write::Create(event) => {
                let name = Meta::of(&event).name();
                assert!(known.iter().all(|it| Meta::of(it).name() != name), "{name}");
                known.push(event);
            }
            Write::Patch { name, body } => {
                let mut of_name = known.iter_mut().filter(|it| Meta::of(it).name() == name);
                patch::merge(of_name.next().unwrap(), &body);
            }
        }
    }
}

#[test]
fn an_event_of_the_cluster_is_one_of_the_hubs_application() {
    let made = made(&json!({})).unwrap();
    let name = Meta::of(&made).name().to_owned();
    assert!(name.starts_with("guestbook."), "{name}");
    assert_eq!(
        made,
        json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "namespace": "spoke1", "name": name, "labels": { keys::NOTED_ON: "spoke1" },
            },
            "involvedObject": {
                "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
                "namespace": "spoke1", "name": "guestbook", "uid": "hub-uid",
            },
            "type": "Normal",
            "reason": "OperationCompleted",
            "message": "Sync operation to v1 succeeded",
            "source": { "component": "argocd-application-controller", "host": "spoke1" },
            "reportingComponent": "argocd-application-controller",
            "reportingInstance": "spoke1",
            "count": 1,
            "firstTimestamp": "2026-03-01T11:59:00Z",
            "lastTimestamp": "2026-03-01T11:59:00Z",
        })
    );
    assert!(observed().is_of(&made));
}

#[test]
fn the_question_is_one_that_the_agent_reads() {
    let mut observed = observed();
    let asked = Request::parse("GET", &observed.question()).unwrap();
    assert_eq!(asked.subject.to_string(), "events argocd/");
    let fields = "involvedObject.kind=Application,involvedObject.name=guestbook";
    assert_eq!(asked.query.get("fieldSelector"), Some(fields));
    assert_eq!(asked.query.get("limit"), Some("500"));
    observed.uid_there = Some("theirs".to_owned());
    let asked = Request::parse("GET", &observed.question()).unwrap();
    let fields = format!("{fields},involvedObject.uid=theirs");
    assert_eq!(asked.query.get("fieldSelector"), Some(&*fields));
}

#[test]
fn known_event_is_patched_only_when_it_is_newer() {
    let mut known = vec![];
    carried_out(plan(&[event("e", &json!({}))], &known), &mut known);
    assert_eq!(plan(&[event("e", &json!({}))], &known), []);
    // A newer time is written, and an older response changes nothing.
    let again = json!({ "count": 3, "lastTimestamp": "2026-03-01T11:59:30Z" });
    let writes = plan(&[event("e", &again)], &known);
    let body = json!({ "count": 3, "lastTimestamp": "2026-03-01T11:59:30Z" });
    let name = Meta::of(&known[0]).name().to_owned();
    assert_eq!(writes, [Write::Patch { name, body }]);
    carried_out(writes, &mut known);
    assert_eq!(plan(&[event("e", &json!({}))], &known), []);
    assert_eq!(known.len(), 1);
}

#[test]
fn names_are_kept_apart_by_event_application_and_cluster() {
    let first = event("e", &json!({}));
    let name = |observed: &Observed, event: &Value| match &*observed.plan(
        noted(std::slice::from_ref(event)),
        &[],
        now(),
    ) {
        [Write::Create(made)] => Meta::of(made).name().to_owned(),
        other => panic!("{other:?}"),
    };
    let (here, mut elsewhere, mut later) = (observed(), observed(), observed());
    "spoke2".clone_into(&mut elsewhere.cluster);
    "another".clone_into(&mut later.uid);
    let mut names = vec![
        name(&here, &first),
        name(&here, &event("f", &json!({}))),
        name(&elsewhere, &first),
        name(&later, &first),
    ];
    assert_eq!(names[0], name(&observed(), &first), "the same every time");
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 4);
}

#[test]
fn event_fields_are_truncated_and_filtered() {
    let long = json!({ "message": format!("a\u{1b}[31m\n{}", "ä".repeat(2000)) });
    let reply = made(&long).unwrap()["message"].as_str().unwrap().to_owned();
    assert!(
        reply.starts_with("a [31m ä") && reply.len() <= 1024,
        "{reply}"
    );
    let (longest, longer) = ("r".repeat(128), "r".repeat(129));
    assert_eq!(
        made(&json!({ "reason": longest })).unwrap()["reason"],
        longest
    );
    for none in [
        json!({ "reason": longer }),
        json!({ "reason": "two words" }),
        json!({ "reason": "" }),
        json!({ "reason": null }),
        json!({ "type": "Error" }),
        json!({ "type": null }),
        json!({ "metadata": { "uid": "" } }),
        json!({ "metadata": { "uid": "u".repeat(129) } }),
        json!({ "involvedObject": { "kind": "Secret" } }),
        json!({ "involvedObject": { "name": "other" } }),
        json!({ "involvedObject": { "namespace": "spoke1" } }),
        json!({ "involvedObject": { "uid": null } }),
        json!({ "lastTimestamp": "2026-03-01T10:59:59Z" }),
        json!({ "lastTimestamp": "2026-03-01T13:00:01Z" }),
        json!({ "lastTimestamp": "soon", "firstTimestamp": null }),
    ] {
        assert_eq!(made(&none), None, "{none}");
    }
    let odd = json!({ "action": "a\nb", "source": { "component": "<b>" }, "count": -5 });
    let odd = made(&odd).unwrap();
    assert_eq!(odd.get("action"), None);
    assert_eq!(
        (&odd["source"]["component"], &odd["count"]),
        (&json!(""), &json!(1))
    );
    let warns = json!({ "type": "Warning", "action": "Sync", "count": i64::MAX });
    let warns = made(&warns).unwrap();
    assert_eq!(
        (&warns["type"], &warns["action"]),
        (&json!("Warning"), &json!("Sync"))
    );
    assert_eq!(warns["count"], i32::MAX);
}

#[test]
fn an_event_of_the_newer_kind_has_its_times_elsewhere() {
    let series = json!({
        "firstTimestamp": null, "lastTimestamp": null, "count": null, "source": null,
        "eventTime": "2026-03-01T11:50:00.123456Z", "reportingComponent": "controller",
        "series": { "count": 4, "lastObservedTime": "2026-03-01T11:55:00.5Z" },
    });
    let mut series = event("e", &series);
    series["source"] = json!({});
    let writes = plan(&[series], &[]);
    let [Write::Create(made)] = &*writes else {
        panic!("{writes:?}");
    };
    assert_eq!(made["firstTimestamp"], "2026-03-01T11:50:00Z");
    assert_eq!(made["lastTimestamp"], "2026-03-01T11:55:00Z");
    assert_eq!(
        (&made["count"], &made["reportingComponent"]),
        (&json!(4), &json!("controller"))
    );
}

#[test]
fn events_of_a_former_application_of_the_name_are_ignored() {
    let before = json!({
        "involvedObject": { "uid": "before" }, "lastTimestamp": "2026-03-01T11:58:00Z",
    });
    let events = [event("old", &before), event("new", &json!({}))];
    assert_eq!(plan(&events, &[]).len(), 1);
    let mut known_there = observed();
    known_there.uid_there = Some("before".to_owned());
    let writes = known_there.plan(noted(&events), &[], now());
    let [Write::Create(made)] = &*writes else {
        panic!("{writes:?}");
    };
    assert_eq!(made["lastTimestamp"], "2026-03-01T11:58:00Z");
}

#[test]
fn the_fifty_newest_are_shown_and_never_more_than_five_hundred_are_kept() {
    let at = |number: i64| {
        let last = now().as_second() - 1000 + number;
        event(
            &format!("e{number}"),
            &json!({ "lastTimestamp": seconds(last) }),
        )
    };
    let events: Vec<_> = (0..200).map(at).collect();
    let writes = plan(&events, &[]);
    assert_eq!(writes.len(), 50);
    let is_late = |write: &Write| match write {
        Write::Create(event) => event["lastTimestamp"].as_str() >= Some("2026-03-01T11:45:50Z"),
        Write::Patch { .. } => false,
    };
    assert!(writes.iter().all(is_late), "{writes:?}");
    // A cluster that invents new Events again and again.
    let mut known = vec![];
    for round in 0..20 {
        let others: Vec<_> = (0..50)
            .map(|it| event(&format!("{round}-{it}"), &json!({})))
            .collect();
        carried_out(plan(&others, &known), &mut known);
    }
    assert_eq!(known.len(), 500);
}

#[test]
fn invalid_or_longer_lists_of_events_are_rejected() {
    for answer in [
        "",
        "[]x",
        "{\"items\":5}",
        "{\"items\":[5]}",
        "{\"items\":[{\"count\":\"1\"}]}",
    ] {
        assert!(Noted::read(answer.as_bytes()).is_err(), "{answer}");
    }
    for empty in ["{}", "{\"items\":null}", "{\"items\":[]}"] {
        assert!(Noted::read(empty.as_bytes()).unwrap().is_empty(), "{empty}");
    }
    let many = |count: usize| format!("{{\"items\":[{}]}}", vec!["{}"; count].join(","));
    assert!(Noted::read(many(500).as_bytes()).is_ok());
    assert!(Noted::read(many(501).as_bytes()).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_second_plan_of_the_same_events_is_empty(
        rounds in prop::collection::vec(
            prop::collection::vec((0..60u8, -4000..4000i64, -2..9i64, "\\PC{0,40}", any::<bool>()), 0..120),
            1..4,
        ),
    ) {
        let mut known = vec![];
        for round in rounds {
            let events: Vec<_> = round
                .iter()
                .map(|(id, age, count, text, warns)| {
                    event(&format!("e{id}"), &json!({
                        "lastTimestamp": seconds(now().as_second() - age),
                        "count": count,
                        "message": text,
                        "reason": if *warns { text.as_str() } else { "Fine" },
                        "type": if *warns { "Warning" } else { "Normal" },
                    }))
                })
                .chain([event("sure", &json!({ "count": round.len() }))])
                .collect();
            let writes = plan(&events, &known);
            prop_assert!(writes.len() <= 50);
            for write in &writes {
                if let Write::Create(made) = write {
                    prop_assert!(observed().is_of(made));
                    prop_assert!(made["message"].as_str().unwrap().len() <= 1024);
                    prop_assert_eq!(&made["metadata"]["namespace"], "spoke1");
                }
            }
            carried_out(writes, &mut known);
            prop_assert_eq!(plan(&events, &known), vec![]);
        }
    }
}
