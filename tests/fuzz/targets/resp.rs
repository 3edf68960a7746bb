//! RESP, of clients of the redis proxy and of a redis.

use live::resp::{Event, Limits, Malformed, Scanner, Step, Value, command, decode};

const LIMITS: Limits = Limits {
    depth: 4,
    elements: 64,
    line: 64,
    bytes: 2 << 10,
};

/// The output of a scanner: pieces of values, with adjacent data joined, and the error that ended it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Scanned {
    events: Vec<String>,
    data: Vec<u8>,
    whole: usize,
    error: Option<Malformed>,
}

pub(crate) fn check(input: &[u8]) {
    let (first, input) = input.split_first().unwrap_or((&0, &[]));
    let whole = scanned(&[input]);
    let size = usize::from(*first).max(1);
    let pieces: Vec<&[u8]> = input.chunks(size).collect();
    let in_pieces = scanned(&pieces);
    if whole.error.is_none() {
        assert_eq!(in_pieces, whole, "in pieces of {size}");
    }
    assert_eq!(in_pieces.error.is_some(), whole.error.is_some());
    assert!(
        in_pieces.data.starts_with(&whole.data),
        "in pieces of {size}"
    );
    decodes(input);
}

fn scanned(pieces: &[&[u8]]) -> Scanned {
    let (mut scanner, mut out, mut value) = (Scanner::new(LIMITS), Scanned::default(), 0);
    for piece in pieces {
        let mut rest = *piece;
        loop {
            match scanner.step(&mut rest) {
                Ok(Step::Event(Event::Data(data))) => {
                    value += data.len() as u64;
                    out.data.extend_from_slice(data);
                }
                Ok(Step::Event(event)) => {
                    assert!(scanner.text().len() <= LIMITS.line);
                    out.events.push(format!("{event:?} {:?}", scanner.text()));
                }
                Ok(Step::Done) => {
                    assert!(value <= LIMITS.bytes, "{value} bytes");
                    (value, out.whole) = (0, out.whole + 1);
                }
                Ok(Step::More) => break,
                Err(error) => {
                    out.error = Some(error);
                    return out;
                }
            }
        }
    }
    out
}

/// A decoded value is within the limits, round-trips, and needs all of its bytes.
fn decodes(input: &[u8]) {
    let Ok(Some((value, used))) = decode(input, LIMITS) else {
        return;
    };
    assert!(used as u64 <= LIMITS.bytes);
    let bytes = value.to_bytes();
    assert!(bytes.len() <= used, "{value:?} has become longer");
    assert_eq!(
        decode(&bytes, LIMITS),
        Ok(Some((value.clone(), bytes.len())))
    );
    assert_eq!(decode(&input[..used - 1], LIMITS), Ok(None));
    assert!(depth(&value) <= LIMITS.depth, "{value:?}");
}

fn depth(value: &Value) -> usize {
    let inner = value.elements().iter().map(depth).max();
    inner.map_or(0, |inner| inner + 1)
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let values: [&[u8]; 9] = [
        b"+OK\r\n-ERR no\r\n:-12\r\n",
        b"$5\r\nhello\r\n$-1\r\n$0\r\n\r\n",
        b"*2\r\n*1\r\n+a\r\n*-1\r\n*0\r\n",
        b"%1\r\n+server\r\n$5\r\nredis\r\n",
        b"|1\r\n+ttl\r\n:3\r\n#t\r\n",
        b">3\r\n+message\r\n+channel\r\n$2\r\nhi\r\n",
        b"~2\r\n,1.5e3\r\n(123456789012345678901234567890\r\n",
        b"=7\r\ntxt:abc\r\n!3\r\nERR\r\n_\r\n",
        b"$18446744073709551615\r\n*4294967295\r\n*9223372036854775807\r\n",
    ];
    let commands = [
        command(&[b"HELLO", b"3", b"AUTH", b"default", b"secret"]),
        command(&[b"GET", b"app|managed-resources|spoke1_guestbook|1.8.3"]),
        command(&[b"SUBSCRIBE", b"app|resources-tree|spoke1_guestbook"]),
    ];
    let values = values.into_iter().map(<[u8]>::to_vec);
    values
        .chain(commands)
        .map(|value| [vec![3], value].concat())
        .collect()
}
