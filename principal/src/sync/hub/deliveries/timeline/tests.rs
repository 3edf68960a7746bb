use super::*;
use crate::testing::name;
use proptest::prelude::*;
use protocol::{Kind, ObjectKey};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

fn key(name: &str) -> Key {
    Key {
        namespace: "argocd".to_owned(),
        name: name.to_owned(),
    }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn progress(facet: Facet, version: &str, milestone: Milestone) -> Progress {
    Progress {
        key: ObjectKey::new(Kind::Application, "argocd", "app"),
        facet,
        version: version.to_owned(),
        milestone,
    }
}

const fn sent() -> Milestone {
    Milestone::Sent { traceparent: None }
}

/// The Application `app` of cluster `a`.
#[derive(Default)]
struct App(Timeline);

impl App {
    fn written(&mut self, version: &str, facet: Facet, second: i64) {
        let written = Written {
            version: version.to_owned(),
            facet,
            cluster: name("a"),
            at: at(second),
        };
        self.0.written(&key("app"), written);
    }

    fn progressed(&mut self, facet: Facet, version: &str, milestone: Milestone, second: i64) {
        let progress = progress(facet, version, milestone);
        let key = key("app");
        self.0.progressed(&key, &name("a"), &progress, at(second));
    }

    fn state(&mut self, version: &str, milestone: Milestone, second: i64) {
        self.progressed(Facet::State, version, milestone, second);
    }

    fn reported(&mut self, second: i64) {
        self.0
            .reported(&key("app"), &name("a"), |_| true, at(second));
    }

    /// Version, and the seconds of the four steps; newest first.
    fn shown(&self) -> Vec<(String, [Option<i64>; 4])> {
        let second = |at: Timestamp| at.as_second();
        let shown = |it: Delivery| {
            let steps = [Some(it.written), it.sent, it.acknowledged, it.reported];
            (it.version, steps.map(|step| step.map(second)))
        };
        self.0.of(&key("app")).into_iter().map(shown).collect()
    }

    fn newest(&self) -> [Option<i64>; 4] {
        self.shown()[0].1
    }
}

#[test]
fn each_step_of_a_change_gets_its_time() {
    let mut app = App::default();
    app.written("7", Facet::State, 1);
    app.reported(2);
    app.state("7", sent(), 3);
    app.reported(4);
    app.state("7", sent(), 5);
    app.state("7", Milestone::Acknowledged, 6);
    assert!(app.0.awaits_report(&key("app"), &name("a")));
    app.0.reported(&key("app"), &name("a"), |_| false, at(7));
    app.reported(8);
    app.reported(9);
    let steps = [Some(1), Some(3), Some(6), Some(8)];
    assert_eq!(app.shown(), [("7".to_owned(), steps)]);
    assert!(!app.0.awaits_report(&key("app"), &name("a")));
}

#[test]
fn event_of_a_newer_version_counts_for_the_older_changes() {
    let mut app = App::default();
    app.written("9", Facet::State, 1);
    app.written("10", Facet::State, 2);
    app.written("12", Facet::State, 3);
    app.state("11", sent(), 4);
    app.state("11", Milestone::Acknowledged, 5);
    let all = app.shown();
    assert_eq!(all[0], ("12".to_owned(), [Some(3), None, None, None]));
    assert_eq!(all[1].1, [Some(2), Some(4), Some(5), None]);
    assert_eq!(all[2].1, [Some(1), Some(4), Some(5), None]);
}

#[test]
fn acknowledgement_of_an_older_event_counts_for_no_newer_change() {
    let mut app = App::default();
    app.written("1", Facet::State, 1);
    app.state("1", sent(), 2);
    app.written("2", Facet::State, 3);
    app.state("2", sent(), 4);
    app.state("1", Milestone::Acknowledged, 5);
    assert_eq!(app.newest(), [Some(3), Some(4), None, None]);
}

#[test]
fn change_that_was_not_sent_is_not_acknowledged() {
    let mut app = App::default();
    app.written("1", Facet::State, 1);
    app.state("1", Milestone::Acknowledged, 2);
    app.reported(3);
    assert_eq!(app.newest(), [Some(1), None, None, None]);
}

#[test]
fn refusal_takes_back_the_acknowledgement_of_its_event_only() {
    let mut app = App::default();
    for (version, second) in [("1", 10), ("2", 20)] {
        app.written(version, Facet::State, second);
        app.state(version, sent(), second + 1);
        app.state(version, Milestone::Acknowledged, second + 2);
    }
    app.state("3", Milestone::Refused, 30);
    assert_eq!(app.newest(), [Some(20), Some(21), Some(22), None]);
    app.reported(31);
    app.state("2", Milestone::Refused, 32);
    let all = app.shown();
    assert_eq!(all[0].1, [Some(20), Some(21), None, None]);
    assert_eq!(all[1].1, [Some(10), Some(11), Some(12), Some(31)]);
}

#[test]
fn operation_and_state_progress_separately() {
    let mut app = App::default();
    app.written("1", Facet::State, 1);
    app.written("2", Facet::Command, 2);
    app.progressed(Facet::Command, "2", sent(), 3);
    app.progressed(Facet::Command, "2", Milestone::Acknowledged, 4);
    app.0.reported(
        &key("app"),
        &name("a"),
        |facet| facet == Facet::State,
        at(5),
    );
    assert_eq!(app.newest(), [Some(2), Some(3), Some(4), None]);
    app.reported(6);
    let all = app.0.of(&key("app"));
    assert_eq!((all[0].is_operation, all[0].reported), (true, Some(at(6))));
    assert_eq!((all[1].is_operation, all[1].sent), (false, None));
}

#[test]
fn version_with_state_and_operation_counts_as_a_state() {
    let mut app = App::default();
    app.written("1", Facet::Command, 1);
    app.written("1", Facet::State, 2);
    app.written("1", Facet::Command, 3);
    let all = app.0.of(&key("app"));
    assert_eq!(all.len(), 1);
    assert!(!all[0].is_operation);
    assert_eq!(all[0].written, at(1));
}

#[test]
fn another_cluster_moves_nothing() {
    let mut app = App::default();
    app.written("1", Facet::State, 1);
    let other = name("b");
    for milestone in [sent(), Milestone::Acknowledged] {
        let progress = progress(Facet::State, "1", milestone);
        app.0.progressed(&key("app"), &other, &progress, at(2));
    }
    assert_eq!(app.newest(), [Some(1), None, None, None]);
    app.state("1", sent(), 3);
    app.state("1", Milestone::Acknowledged, 4);
    assert!(!app.0.awaits_report(&key("app"), &other));
    app.0.reported(&key("app"), &other, |_| true, at(5));
    let refused = progress(Facet::State, "1", Milestone::Refused);
    app.0.progressed(&key("app"), &other, &refused, at(6));
    assert_eq!(app.newest(), [Some(1), Some(3), Some(4), None]);
}

#[test]
fn trace_belongs_to_the_newest_change_of_its_event() {
    let mut app = App::default();
    app.written("1", Facet::State, 1);
    app.written("2", Facet::State, 2);
    let traceparent = Some(format!("00-{TRACE}-00f067aa0ba902b7-01"));
    app.state("2", Milestone::Sent { traceparent }, 3);
    let all = app.0.of(&key("app"));
    assert_eq!(all[0].trace.as_deref(), Some(TRACE));
    assert_eq!(all[1].trace, None);
}

#[test]
fn deliveries_of_one_application_are_bounded() {
    let mut app = App::default();
    for number in 0..20 {
        app.written(&number.to_string(), Facet::State, number);
    }
    let versions: Vec<String> = app
        .shown()
        .into_iter()
        .map(|(version, _)| version)
        .collect();
    assert_eq!(versions, ["19", "18", "17", "16", "15"]);
}

#[test]
fn applications_without_a_change_for_long_are_forgotten() {
    let mut timeline = Timeline::with(2);
    let mut version = 0;
    let mut write = |timeline: &mut Timeline, app: &str| {
        version += 1;
        let written = Written {
            version: version.to_string(),
            facet: Facet::State,
            cluster: name("a"),
            at: at(1),
        };
        timeline.written(&key(app), written);
    };
    for app in ["one", "two", "one", "three"] {
        write(&mut timeline, app);
    }
    let counts =
        |timeline: &Timeline| ["one", "two", "three"].map(|app| timeline.of(&key(app)).len());
    assert_eq!(counts(&timeline), [2, 0, 1]);
    timeline.forget(&key("one"));
    timeline.forget(&key("unknown"));
    write(&mut timeline, "two");
    assert_eq!(counts(&timeline), [0, 1, 1]);
    assert_eq!(timeline.order.len(), timeline.tracks.len());
}

proptest! {
    #[test]
    fn no_step_is_earlier_than_the_one_before(
        acts in prop::collection::vec((0..5_u8, 1..6_u8, -50..50_i64), 0..60),
    ) {
        let mut app = App::default();
        for (act, version, second) in acts {
            let version = version.to_string();
            match act {
                0 => app.written(&version, Facet::State, second),
                1 => app.state(&version, sent(), second),
                2 => app.state(&version, Milestone::Acknowledged, second),
                3 => app.state(&version, Milestone::Refused, second),
                _ => app.reported(second),
            }
            for (_, steps) in app.shown() {
                for (earlier, later) in steps.iter().zip(&steps[1..]) {
                    prop_assert!(later.is_none() || (earlier.is_some() && earlier <= later));
                }
            }
        }
    }
}

#[test]
fn trace_is_shown_only_if_it_is_sampled() {
    let id = "4bf92f3577b34da6a3ce929d0e0e4736";
    let parent = |flags: &str| format!("00-{id}-00f067aa0ba902b7-{flags}");
    assert_eq!(trace_id(&parent("01")).as_deref(), Some(id));
    assert_eq!(trace_id(&parent("00")), None);
    assert_eq!(trace_id("<script>"), None);
}
