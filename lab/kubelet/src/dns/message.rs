//! DNS messages, as much of RFC 1035 as a resolver in a Pod needs. Pure, and safe with any bytes.

use std::net::IpAddr;

/// The result of looking up a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found {
    /// Addresses, perhaps none.
    Addresses(Vec<IpAddr>),
    /// There is no such name.
    Nothing,
}

const TYPE_A: u16 = 1;
const TYPE_AAAA: u16 = 28;
const TYPE_ANY: u16 = 255;
const CLASS_IN: u16 = 1;
/// How many seconds a client may cache an answer: few, because Services of a lab come and go.
const TTL: u32 = 2;
const HEADER: usize = 12;
/// Bytes of the longest answer: pointer to the name, type, class, time, length, IPv6 address.
const ANSWER: usize = 28;

const RESPONSE: u16 = 0x8000;
const OPCODE: u16 = 0x7800;
const AUTHORITATIVE: u16 = 0x0400;
const TRUNCATED: u16 = 0x0200;
const RECURSION_DESIRED: u16 = 0x0100;
const RECURSION_AVAILABLE: u16 = 0x0080;
const NO_SUCH_NAME: u16 = 3;
const NOT_IMPLEMENTED: u16 = 4;

/// A question as encoded in a message.
#[derive(Debug, PartialEq, Eq)]
struct Question<'a> {
    id: u16,
    flags: u16,
    /// Lower case, without the final dot.
    name: String,
    kind: u16,
    class: u16,
    /// The bytes of the question, which the answer repeats.
    raw: &'a [u8],
}

/// Answers a message, in at most `limit` bytes. None when it is no question that could be answered
/// at all.
pub(super) fn answer(
    message: &[u8],
    limit: usize,
    resolve: impl FnOnce(&str) -> Found,
) -> Option<Vec<u8>> {
    let question = parse(message)?;
    if question.flags & OPCODE != 0 {
        return Some(compose(&question, NOT_IMPLEMENTED, &[]));
    }
    match resolve(&question.name) {
        Found::Nothing => Some(compose(&question, NO_SUCH_NAME, &[])),
        Found::Addresses(mut addresses) => {
            // None is an answer, too: the name exists without records of this type.
            addresses.retain(|address| question.wants(*address));
            let room = limit.saturating_sub(HEADER + question.raw.len()) / ANSWER;
            let truncated = if addresses.len() > room { TRUNCATED } else { 0 };
            addresses.truncate(room);
            Some(compose(&question, truncated, &addresses))
        }
    }
}

impl Question<'_> {
    fn wants(&self, address: IpAddr) -> bool {
        self.class == CLASS_IN && (self.kind == TYPE_ANY || self.kind == kind(address))
    }
}

/// The type of an address's record.
const fn kind(address: IpAddr) -> u16 {
    match address {
        IpAddr::V4(_) => TYPE_A,
        IpAddr::V6(_) => TYPE_AAAA,
    }
}

fn parse(message: &[u8]) -> Option<Question<'_>> {
    let (header, body) = message.split_at_checked(HEADER)?;
    let &[id_a, id_b, flags_a, flags_b, count_a, count_b, ..] = header else {
        return None;
    };
    let flags = u16::from_be_bytes([flags_a, flags_b]);
    if flags & RESPONSE != 0 || u16::from_be_bytes([count_a, count_b]) != 1 {
        return None;
    }
    let mut labels: Vec<String> = Vec::new();
    let mut rest = body;
    loop {
        let (&length, after) = rest.split_first()?;
        if length == 0 {
            rest = after;
            break;
        }
        // A pointer (two high bits) has nothing to point at in a first name.
        if length > 63 {
            return None;
        }
        let (label, after) = after.split_at_checked(length.into())?;
        labels.push(String::from_utf8_lossy(label).to_lowercase());
        rest = after;
    }
    let &[kind_a, kind_b, class_a, class_b, ..] = rest else {
        return None;
    };
    let length = body.len() - rest.len() + 4;
    Some(Question {
        id: u16::from_be_bytes([id_a, id_b]),
        flags,
        name: labels.join("."),
        kind: u16::from_be_bytes([kind_a, kind_b]),
        class: u16::from_be_bytes([class_a, class_b]),
        raw: body.get(..length)?,
    })
}

fn compose(question: &Question<'_>, code: u16, addresses: &[IpAddr]) -> Vec<u8> {
    let repeated = question.flags & (OPCODE | RECURSION_DESIRED);
    let flags = RESPONSE | AUTHORITATIVE | RECURSION_AVAILABLE | repeated | code;
    let count = u16::try_from(addresses.len()).unwrap_or(u16::MAX);
    let mut out = Vec::with_capacity(HEADER + question.raw.len() + addresses.len() * ANSWER);
    for word in [question.id, flags, 1, count, 0, 0] {
        out.extend(word.to_be_bytes());
    }
    out.extend(question.raw);
    for address in addresses {
        out.extend([0xc0, 12]); // the name of the question
        out.extend(kind(*address).to_be_bytes());
        out.extend(CLASS_IN.to_be_bytes());
        out.extend(TTL.to_be_bytes());
        match address {
            IpAddr::V4(address) => {
                out.extend(4_u16.to_be_bytes());
                out.extend(address.octets());
            }
            IpAddr::V6(address) => {
                out.extend(16_u16.to_be_bytes());
                out.extend(address.octets());
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(name: &str, kind: u16) -> Vec<u8> {
        let mut out = vec![0xab, 0xcd, 0x01, 0x00, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in name.split('.') {
            out.push(u8::try_from(label.len()).unwrap());
            out.extend(label.as_bytes());
        }
        out.push(0);
        out.extend(kind.to_be_bytes());
        out.extend(CLASS_IN.to_be_bytes());
        out
    }

    fn code(answer: &[u8]) -> u8 {
        answer[3] & 0x0f
    }

    #[test]
    fn a_name_is_answered_with_its_addresses() {
        let asked = question("A.b", TYPE_A);
        let answered = answer(&asked, 512, |name| {
            assert_eq!(name, "a.b");
            Found::Addresses(vec![[10, 1, 2, 3].into()])
        });
        let answered = answered.unwrap();
        assert_eq!(answered[..2], [0xab, 0xcd]);
        assert_eq!(answered[6..8], [0, 1]);
        assert_eq!(answered[12..asked.len()], asked[12..]);
        assert!(answered.ends_with(&[0, 4, 10, 1, 2, 3]));
    }

    #[test]
    fn an_unknown_name_does_not_exist_and_a_known_one_has_no_ipv6_address() {
        let none = answer(&question("a.b", TYPE_A), 512, |_| Found::Nothing).unwrap();
        assert_eq!(code(&none), 3);
        let found = || Found::Addresses(vec![[10, 1, 2, 3].into()]);
        let ipv6 = answer(&question("a.b", TYPE_AAAA), 512, |_| found()).unwrap();
        assert_eq!((code(&ipv6), &ipv6[6..8]), (0, &[0_u8, 0][..]));
    }

    #[test]
    fn records_of_the_requested_family_are_answered() {
        let address: IpAddr = "fd00::a60:101".parse().unwrap();
        let both = || Found::Addresses(vec![[10, 1, 2, 3].into(), address]);
        let ipv6 = answer(&question("a.b", TYPE_AAAA), 512, |_| both()).unwrap();
        assert_eq!((code(&ipv6), &ipv6[6..8]), (0, &[0_u8, 1][..]));
        let mut record = vec![0, 16, 0xfd];
        record.extend([0; 11]);
        record.extend([0x0a, 0x60, 1, 1]);
        assert!(ipv6.ends_with(&record));
        let ipv4 = answer(&question("a.b", TYPE_A), 512, |_| both()).unwrap();
        assert!(ipv4.ends_with(&[0, 4, 10, 1, 2, 3]));
        let any = answer(&question("a.b", TYPE_ANY), 512, |_| both()).unwrap();
        assert_eq!(any[6..8], [0, 2]);
    }

    #[test]
    fn too_many_addresses_set_the_truncated_flag() {
        let many = (0..100)
            .map(|byte| IpAddr::from([10, 0, 0, byte]))
            .collect();
        let cut = answer(&question("a.b", TYPE_A), 512, |_| Found::Addresses(many)).unwrap();
        assert!(cut.len() <= 512);
        assert_eq!(cut[2] & 0x02, 0x02);
    }

    #[test]
    fn arbitrary_bytes_do_not_panic() {
        let asked = question("some.name", TYPE_A);
        for cut in 0..asked.len() {
            assert_eq!(answer(&asked[..cut], 512, |_| Found::Nothing), None);
        }
        for at in 0..asked.len() {
            for byte in [0, 1, 63, 64, 0xc0, 0xff] {
                let mut garbled = asked.clone();
                garbled[at] = byte;
                let _any = answer(&garbled, 512, |_| Found::Nothing);
            }
        }
    }
}
