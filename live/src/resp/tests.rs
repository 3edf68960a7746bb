use proptest::prelude::*;

use super::{Event, Kind, Limits, Malformed, Scanner, Step, Value, command, decode};

const LIMITS: Limits = Limits {
    depth: 6,
    elements: 200,
    line: 64,
    bytes: 16 << 10,
};

fn one_line() -> impl Strategy<Value = Value> {
    prop_oneof![
        "[ -~]{0,20}".prop_map(|text| Value::simple(&text)),
        "[A-Z]{1,8} [ -~]{0,20}".prop_map(|text| Value::error(&text)),
        any::<i64>().prop_map(Value::integer),
        Just(Value::Line(Kind::Null, vec![])),
        any::<bool>().prop_map(|yes| Value::Line(Kind::Boolean, vec![b"ft"[usize::from(yes)]])),
        any::<f64>().prop_map(|number| Value::Line(Kind::Double, format!("{number:e}").into())),
        "-?[0-9]{1,40}".prop_map(|text| Value::Line(Kind::BigNumber, text.into())),
    ]
}

fn any_value() -> impl Strategy<Value = Value> {
    let bytes = proptest::collection::vec(any::<u8>(), 0..60);
    let kinds = prop_oneof![
        Just(Kind::Bulk),
        Just(Kind::BulkError),
        Just(Kind::Verbatim)
    ];
    let leaf = prop_oneof![
        one_line(),
        (kinds, bytes).prop_map(|(kind, bytes)| Value::Bytes(kind, bytes)),
        prop_oneof![Just(Kind::Bulk), Just(Kind::Array)].prop_map(Value::Nothing),
    ];
    leaf.prop_recursive(4, 60, 5, |inner| {
        let lists = prop_oneof![Just(Kind::Array), Just(Kind::Set), Just(Kind::Push)];
        let elements = proptest::collection::vec(inner.clone(), 0..5);
        let pairs = proptest::collection::vec((inner.clone(), inner.clone()), 0..3);
        let flat = |pairs: Vec<(Value, Value)>| pairs.into_iter().flat_map(|(k, v)| [k, v]);
        prop_oneof![
            (lists, elements).prop_map(|(kind, elements)| Value::Group(kind, elements)),
            pairs
                .clone()
                .prop_map(move |pairs| Value::Group(Kind::Map, flat(pairs).collect())),
            (pairs, inner).prop_map(move |(pairs, about)| {
                Value::Group(Kind::Attribute, flat(pairs).chain([about]).collect())
            }),
        ]
    })
}

/// The scanner's events for bytes in pieces, with adjacent data joined; and the number of whole values.
fn scanned(pieces: &[&[u8]]) -> Result<(Vec<String>, usize), Malformed> {
    let (mut scanner, mut events, mut whole) = (Scanner::new(LIMITS), vec![], 0);
    let mut data: Vec<u8> = vec![];
    for piece in pieces {
        let mut rest = *piece;
        loop {
            let step = scanner.step(&mut rest)?;
            if let Step::Event(Event::Data(more)) = step {
                data.extend_from_slice(more);
                continue;
            }
            if !data.is_empty() && step != Step::More {
                events.push(format!("{:?}", std::mem::take(&mut data)));
            }
            match step {
                Step::Event(Event::Line(kind)) => {
                    events.push(format!("{kind:?} {}", scanner.text().escape_ascii()));
                }
                Step::Event(event) => events.push(format!("{event:?}")),
                Step::Done => whole += 1,
                Step::More => break,
            }
        }
    }
    Ok((events, whole))
}

proptest! {
    #[test]
    fn values_round_trip(value in any_value()) {
        let bytes = value.to_bytes();
        prop_assert_eq!(decode(&bytes, LIMITS), Ok(Some((value, bytes.len()))));
    }

    #[test]
    fn any_split_of_the_bytes_is_read_alike(
        values in proptest::collection::vec(any_value(), 1..4),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let mut bytes = vec![];
        for value in &values {
            value.encode(&mut bytes);
        }
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]).collect();
        let whole = scanned(&[&bytes]).unwrap();
        prop_assert_eq!(whole.1, values.len());
        prop_assert_eq!(scanned(&pieces).unwrap(), whole);
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        prop_assert_eq!(scanned(&single).unwrap().1, values.len());
    }

    #[test]
    fn truncated_value_is_incomplete(value in any_value(), cut in any::<prop::sample::Index>()) {
        let bytes = value.to_bytes();
        let begun = &bytes[..cut.index(bytes.len())];
        prop_assert_eq!(decode(begun, LIMITS), Ok(None));
    }

    /// Neither a panic nor a value larger than its input.
    #[test]
    fn garbage_is_refused_or_costs_no_more_than_it_is(
        bytes in prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..300),
            // More often a valid beginning.
            "([*>%~|$=!:+,#_(-][0-9tf]{0,3}\r\n){1,60}".prop_map(String::into_bytes),
        ],
    ) {
        if let Ok(Some((value, used))) = decode(&bytes, LIMITS) {
            prop_assert!(used <= bytes.len());
            prop_assert!(value.to_bytes().len() <= used);
        }
        if let Ok((_, whole)) = scanned(&bytes.chunks(7).collect::<Vec<_>>()) {
            prop_assert!(whole <= bytes.len());
        }
    }
}

#[test]
fn responses_of_redis_are_parsed() {
    let hello = b"%2\r\n$6\r\nserver\r\n$5\r\nredis\r\n$5\r\nproto\r\n:3\r\n+OK\r\n";
    let (value, used) = decode(hello, LIMITS).unwrap().unwrap();
    assert_eq!(&hello[used..], b"+OK\r\n");
    let elements = value.elements();
    assert_eq!(elements[1].as_bytes(), Some(&b"redis"[..]));
    assert_eq!(elements[3].as_integer(), Some(3));
    let (error, _) = decode(b"-NOAUTH first\r\n", LIMITS).unwrap().unwrap();
    assert_eq!(error.as_error(), Some(&b"NOAUTH first"[..]));
    assert_eq!(
        command(&[b"get", b"a|b"]),
        b"*2\r\n$3\r\nget\r\n$3\r\na|b\r\n"
    );
}

#[test]
fn bombs_are_refused_at_their_first_bytes() {
    let deep = "*1\r\n".repeat(100_000);
    assert_eq!(decode(deep.as_bytes(), LIMITS), Err(Malformed::Depth(6)));
    for wide in [
        "*4294967295\r\n",
        "%9223372036854775807\r\n",
        "*18446744073709551615\r\n",
    ] {
        assert_eq!(
            decode(wide.as_bytes(), LIMITS),
            Err(Malformed::Elements(200)),
            "{wide:?}"
        );
    }
    let long = decode(b"$536870912\r\n", LIMITS);
    assert_eq!(long, Err(Malformed::Bytes(16 << 10)));
    let line = decode(&[b'+'; 65], LIMITS);
    assert_eq!(line, Err(Malformed::Line(64)));
    // Many small ones that together exceed the limit.
    let many = format!(
        "*30\r\n{}",
        "$1024\r\n".to_owned() + &"x".repeat(1024) + "\r\n"
    )
    .repeat(30);
    assert!(decode(many.as_bytes(), LIMITS).is_err());
}

#[test]
fn invalid_values_are_rejected() {
    for (bytes, why) in [
        (&b"GET a\r\n"[..], Malformed::Kind(b'G')),
        (b"\r\n", Malformed::Kind(b'\r')),
        (b"$+1\r\n", Malformed::Number),
        (b"$-2\r\n", Malformed::Number),
        (b"%-1\r\n", Malformed::Number),
        (b"$ 1\r\n", Malformed::Number),
        (b"*\r\n", Malformed::Number),
        (b":1.5\r\n", Malformed::Number),
        (b"#x\r\n", Malformed::Number),
        (b"_0\r\n", Malformed::Number),
        (b"+a\n", Malformed::End),
        (b"$1\r\nab\r\n", Malformed::End),
        (b"$1\r\na\n\n", Malformed::End),
    ] {
        assert_eq!(
            decode(bytes, LIMITS),
            Err(why),
            "{:?}",
            bytes.escape_ascii().to_string()
        );
    }
}

#[test]
fn a_value_is_passed_on_before_it_is_whole() {
    let mut scanner = Scanner::new(LIMITS);
    let mut input = &b"$10\r\nabc"[..];
    let step = scanner.step(&mut input).unwrap();
    assert_eq!(step, Step::Event(Event::Bytes(Kind::Bulk, Some(10))));
    let step = scanner.step(&mut input).unwrap();
    assert_eq!(step, Step::Event(Event::Data(b"abc")));
    assert_eq!(scanner.step(&mut input).unwrap(), Step::More);
    assert!(!scanner.is_between());
}
