use std::io::Cursor;

use proptest::prelude::*;

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn shown(view: View, entries: &[u8]) -> String {
    let mut entries = entries.to_vec();
    String::from_utf8(Shown::new(view).take(&mut entries)).unwrap()
}

fn three() -> Vec<u8> {
    let mut recorder = Recorder::default();
    let mut entries = recorder.take(b"one\ntw", at(0));
    entries.extend(recorder.take(b"o\n", at(1)));
    entries.extend(recorder.take(b"three", at(2)));
    entries.extend(recorder.finish(at(3)));
    entries
}

#[test]
fn each_line_is_kept_with_the_time_of_its_end() {
    let kept = String::from_utf8(three()).unwrap();
    let times = [at(0), at(1), at(3)].map(|time| format!("{time:.9}"));
    let [one, two, three] = times;
    assert_eq!(kept, format!("{one} F one\n{two} F two\n{three} P three\n"));
    assert!([one, two, three].iter().all(|time| time.len() == TIME));
}

#[test]
fn a_view_applies_the_requested_options() {
    let entries = three();
    assert_eq!(shown(View::default(), &entries), "one\ntwo\nthree");
    let since = View {
        since: Some(at(1)),
        ..View::default()
    };
    assert_eq!(shown(since, &entries), "two\nthree");
    let timestamps = View {
        timestamps: true,
        since: Some(at(3)),
        limit: None,
    };
    assert_eq!(shown(timestamps, &entries), format!("{:.9} three", at(3)));
    let limit = View {
        limit: Some(5),
        ..View::default()
    };
    assert_eq!(shown(limit, &entries), "one\nt");
}

#[test]
fn an_entry_that_is_half_written_waits_for_its_rest() {
    let entries = three();
    for cut in 0..entries.len() {
        let (begin, rest) = entries.split_at(cut);
        let (mut view, mut retained) = (Shown::new(View::default()), begin.to_vec());
        let mut text = view.take(&mut retained);
        retained.extend_from_slice(rest);
        text.extend(view.take(&mut retained));
        assert_eq!(text, b"one\ntwo\nthree", "cut at {cut}");
        assert!(retained.is_empty());
    }
}

#[test]
fn the_tail_begins_with_an_entry() {
    let entries = three();
    for (wanted, text) in [
        (0, ""),
        (1, "three"),
        (2, "two\nthree"),
        (9, "one\ntwo\nthree"),
    ] {
        let begin = tail(&mut Cursor::new(&entries), wanted).unwrap();
        let rest = &entries[usize::try_from(begin).unwrap()..];
        assert_eq!(shown(View::default(), rest), text, "the last {wanted}");
    }
}

#[test]
fn a_tail_is_found_beyond_a_block() {
    let mut recorder = Recorder::default();
    let lines: Vec<String> = (0..5000).map(|number| format!("line {number}\n")).collect();
    let printed = lines.concat();
    let entries = recorder.take(printed.as_bytes(), at(0));
    assert!(entries.len() > 3 * BLOCK);
    let begin = tail(&mut Cursor::new(&entries), 4321).unwrap();
    let rest = &entries[usize::try_from(begin).unwrap()..];
    let text = shown(View::default(), rest);
    assert_eq!(text.lines().next(), Some("line 679"));
    assert_eq!(text.lines().count(), 4321);
}

proptest! {
    #[test]
    fn a_log_shows_exactly_the_printed_output(
        pieces in prop::collection::vec(prop::collection::vec(prop::sample::select(b"ab\n".to_vec()), 0..50), 0..20),
        long in 0..3 * LONGEST,
    ) {
        let mut recorder = Recorder::default();
        let long = vec![b'x'; long];
        let pieces: Vec<_> = pieces.iter().chain([&long]).collect();
        let mut entries: Vec<u8> = pieces.iter().flat_map(|piece| recorder.take(piece, at(0))).collect();
        entries.extend(recorder.finish(at(1)));
        let longest = entries.split(|byte| *byte == b'\n').map(<[u8]>::len).max();
        prop_assert!(longest.unwrap_or_default() <= LONGEST + TIME + PART.len());
        let printed: Vec<u8> = pieces.into_iter().flatten().copied().collect();
        prop_assert_eq!(text(entries), printed);
    }
}
