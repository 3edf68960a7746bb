//! Frames of a peer, decoded and received by a session of either role, between other steps of its driver.

use std::time::Duration;

use bytes::Bytes;
use prost::Message as _;
use protocol::payload::{ClusterInfo, ErrorReport, RequestUpdate, ResourceResponse};
use protocol::version::Capabilities;
use protocol::wire::eventstreamapi::Event as Frame;
use protocol::{
    Event, Facet, Kind, Limits, Mode, ObjectKey, Peer, Role, Session, Source, Target, Verb, Verdict,
};

/// Small enough for an input to reach them.
const ENTRIES: usize = 8;
const ACKS: usize = 8;
const WINDOW: usize = 4;
/// Bytes of an outgoing frame here: identifiers, extensions and a reason are bounded, and bodies are small.
const LONGEST_FRAME: usize = 32 << 10;
/// With so many extensions a repeated event may exceed the limit, as the attribute of the body's type counts too.
const FEW_EXTENSIONS: usize = 24;

struct Values;

impl Source for Values {
    fn encode(&self, key: &ObjectKey, facet: Facet, _stated_before: bool) -> Option<Event> {
        let verb = match facet {
            Facet::State => Verb::SpecUpdate,
            Facet::Status => Verb::StatusUpdate,
            Facet::Command => Verb::SetOperation,
        };
        Some(Event::about(
            key,
            verb,
            "uid",
            "1",
            Bytes::from_static(b"{}"),
        ))
    }
}

fn session(kind: u8) -> Session {
    let is_principal = kind & 1 == 0;
    let mode = if kind & 2 == 0 {
        Mode::Managed
    } else {
        Mode::Autonomous
    };
    let capabilities = if kind & 4 == 0 {
        Capabilities::ours()
    } else {
        Capabilities::default()
    };
    let peer = Peer::new(mode, capabilities);
    let limits = Limits {
        window: WINDOW,
        inbox_entries: ENTRIES,
        inbox_bytes: 16 << 10,
        acks: ACKS,
        heartbeat: (!is_principal).then(|| Duration::from_secs(10)),
        ..Limits::default()
    };
    let role = if is_principal {
        Role::Principal
    } else {
        Role::Agent
    };
    Session::new(role, peer, limits)
}

pub(crate) fn check(input: &[u8]) {
    let Some((kind, mut steps)) = input.split_first() else {
        return;
    };
    let (mut session, mut now, mut finished) = (session(*kind), Duration::ZERO, 0);
    while let Some((step, rest)) = steps.split_first() {
        steps = rest;
        match step % 8 {
            0..=3 => {
                let frame = Frame::decode(taken(&mut steps));
                if let Some(event) = frame.ok().and_then(|frame| frame.event)
                    && session.receive(event, now).is_err()
                {
                    return;
                }
            }
            4 => now += Duration::from_secs(u64::from(step / 8)),
            5 => {
                write_all(&mut session, now, finished);
                finished = 0;
            }
            6 => {
                if let Some(work) = session.next_work(now) {
                    repeats(*kind, &work.event);
                    session.finished(work.id, verdict(step / 8), now);
                    finished += 1;
                }
            }
            _ => mark(&mut session, step / 8),
        }
        let stats = session.stats(now);
        assert!(stats.inbox_objects <= 2 * ENTRIES, "{stats:?}");
        assert!(stats.in_flight <= WINDOW, "{stats:?}");
        session.next_timeout(now);
    }
    write_all(&mut session, now, finished);
}

/// A length in two bytes, and so many bytes.
fn taken<'a>(steps: &mut &'a [u8]) -> &'a [u8] {
    let (length, rest) = steps.split_at(steps.len().min(2));
    let length = length
        .iter()
        .fold(0, |sum, byte| sum << 8 | usize::from(*byte));
    let (taken, rest) = rest.split_at(rest.len().min(length));
    *steps = rest;
    taken
}

fn verdict(kind: u8) -> Verdict {
    match kind % 3 {
        0 => Verdict::Done,
        1 => Verdict::Refused("it does not fit".to_owned()),
        _ => Verdict::Retry {
            after: Duration::from_secs(u64::from(kind)),
        },
    }
}

fn mark(session: &mut Session, kind: u8) {
    let facet = [Facet::State, Facet::Status, Facet::Command][usize::from(kind % 3)];
    session.mark(
        ObjectKey::new(Kind::Application, "argocd", format!("app-{kind}")),
        facet,
    );
}

/// Writes until nothing is left. A peer that only sends makes no more acknowledgements wait than the limits admit.
fn write_all(session: &mut Session, now: Duration, finished: usize) {
    let mut acks = 0;
    while let Some(event) = session.next_outgoing(&Values, now) {
        acks += usize::from(event.r#type.ends_with("processed"));
        assert!(event.encoded_len() <= LONGEST_FRAME, "{event:?}");
    }
    assert!(acks <= 2 * ACKS + finished, "{acks} acknowledgements");
}

/// An accepted event is the same after it has been encoded and received again.
fn repeats(kind: u8, event: &Event) {
    if event.extensions.len() > FEW_EXTENSIONS {
        return;
    }
    let mut other = session(kind);
    let received = other.receive(event.clone().into_cloud_event("test"), Duration::ZERO);
    assert_eq!(received, Ok(()));
    let work = other.next_work(Duration::ZERO);
    assert_eq!(work.map(|work| work.event).as_ref(), Some(event));
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut sent = Vec::new();
    for (number, event) in events().into_iter().enumerate() {
        let event = Some(event.into_cloud_event("test"));
        let frame = Frame { event }.encode_to_vec();
        let length = u16::try_from(frame.len()).unwrap_or_default();
        sent.extend([&[0][..], &length.to_be_bytes(), &frame].concat());
        if number % 3 == 2 {
            // a second, three work items with each verdict, a mark, and a write
            sent.extend([12, 6, 14, 22, 7, 5]);
        }
    }
    (0..8).map(|kind| [&[kind][..], &sent].concat()).collect()
}

fn events() -> Vec<Event> {
    let application = ObjectKey::new(Kind::Application, "argocd", "guestbook");
    let project = ObjectKey::new(Kind::AppProject, "argocd", "default");
    let verbs = [
        Verb::Create,
        Verb::SpecUpdate,
        Verb::StatusUpdate,
        Verb::SetOperation,
        Verb::TerminateOperation,
        Verb::Delete,
    ];
    let about = |key| {
        let body = Bytes::from_static(br#"{"metadata":{"name":"guestbook"}}"#);
        verbs.map(|verb| Event::about(key, verb, "3ae0", "17", body.clone()))
    };
    let live = |target, verb| Event::live_request(target, verb, "5d1c", Bytes::from_static(b"{}"));
    let control = [
        Event::control(Target::Ack, Verb::Processed, Bytes::new()),
        Event::ping(),
        Event::request_resource_resync(),
        Event::request_update(&RequestUpdate::default()),
        Event::error(Kind::Application, &ErrorReport::default()),
        Event::cluster_info(&ClusterInfo::default()),
        Event::resource_response(&ResourceResponse::default()),
        live(Target::Redis, Verb::RedisRequest),
        live(Target::Terminal, Verb::TerminalRequest),
    ];
    [about(&application), about(&project)]
        .into_iter()
        .flatten()
        .chain(control)
        .collect()
}
