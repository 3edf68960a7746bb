use super::*;

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

#[test]
fn trace_context_round_trips() {
    let context = Context::read(PARENT, Some("vendor=a:b,other=1")).unwrap();
    assert!(context.is_sampled());
    assert_eq!(context.parent(), PARENT);
    assert_eq!(context.state().as_deref(), Some("vendor=a:b,other=1"));
    let unsampled = Context::read(&PARENT.replace("-01", "-00"), None).unwrap();
    assert!(!unsampled.is_sampled());
    assert_eq!(unsampled.state(), None);
}

#[test]
fn a_later_version_is_read_as_far_as_it_is_known() {
    let later = format!("{}-what-ever", PARENT.replacen("00", "01", 1));
    let context = Context::read(&later, None).unwrap();
    assert_eq!(context.parent(), PARENT);
    // Unknown flags are not passed on.
    let random = Context::read(&PARENT.replace("-01", "-03"), None).unwrap();
    assert_eq!(random.parent(), PARENT);
}

#[test]
fn invalid_trace_context_is_ignored() {
    let long = format!("{}-{}", PARENT.replacen("00", "01", 1), "a".repeat(100));
    for bad in [
        "",
        "00",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
        "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01x",
        "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        "00-0af7651916cd43dd8448eb211c80319-cb7ad6b7169203331-01",
        "+0-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-+1",
        " 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c8031éé-b7ad6b7169203331-01",
        &long,
    ] {
        assert_eq!(Context::read(bad, None), None, "{bad:?}");
    }
}

#[test]
fn invalid_trace_state_is_dropped_and_the_parent_is_kept() {
    let long = format!("a={}", "x".repeat(600));
    for bad in ["no pair", "A=1", "a=b\u{7}", "a=ä", &long] {
        let context = Context::read(PARENT, Some(bad)).unwrap();
        assert_eq!(context.state(), None, "{bad:?}");
    }
}

#[test]
fn newest_trace_context_wins_within_a_bound() {
    let of = |number: u64| {
        let parent = format!("00-0af7651916cd43dd8448eb211c80319c-{number:016x}-01");
        Context::read(&parent, None).unwrap()
    };
    let notes = Notes::default();
    for number in 1..=1000 {
        notes.note("app", of(number));
    }
    let note = notes.take(&"app").unwrap();
    let printed = format!("{note:?}");
    assert!(printed.contains("changes: 1000"), "{printed}");
    assert!(printed.contains("newest: Context(SpanContext"), "{printed}");
    // The newest, and eight of those before.
    assert_eq!(printed.matches("SpanContext").count(), 9, "{printed}");
    assert!(notes.take(&"app").is_none());

    let notes = Notes::default();
    for key in 0..10_000_u64 {
        notes.note(key, of(1));
    }
    assert_eq!(notes.len(), 1000);
}

proptest::proptest! {
    #[test]
    fn accepted_trace_context_round_trips(parent in "\\PC{0,140}", state in "\\PC{0,600}") {
        if let Some(context) = Context::read(&parent, Some(&state)) {
            let again = Context::read(&context.parent(), context.state().as_deref());
            proptest::prop_assert_eq!(again, Some(context));
        }
    }

    #[test]
    fn malformed_trace_context_never_panics(parent in "[0-9a-f]{2}-[0-9a-f]{31,33}-[0-9a-f]{15,17}-[0-9a-f]{1,3}(-.{0,9})?") {
        let read = Context::read(&parent, None);
        proptest::prop_assert!(read.is_none_or(|it| it.parent().len() == 55));
    }
}
