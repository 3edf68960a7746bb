//! Promises of the environment or of the product that the simulation breaks, to check that the oracle notices.

use std::collections::BTreeMap;

use bytes::{BufMut as _, Bytes, BytesMut};
use prost::Message as _;
use protocol::wire::cloudevents::cloud_event::CloudEventAttributeValue;
use protocol::wire::cloudevents::cloud_event::cloud_event_attribute_value::Attr;
use protocol::wire::eventstreamapi;
use protocol::{Event, Kind, Verb};

use crate::witness;

/// Whether managed histories have all faults; a planted fault may need any of them.
pub(crate) fn is_harsh(fault: Fault) -> bool {
    fault != Fault::None || std::env::var_os("SIM_HARSH").is_some()
}

/// A promise that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// An API server sends every event to a watch. Here the hub's omits some for good.
    LossyWatch,
    /// A command has one ID. Here the network repeats some under another ID.
    ForgedCommand,
    /// An agent receives what belongs to its cluster. Here one gets a state of another cluster's Application, once.
    Misdirected,
    /// An acknowledged update arrived. Here the network acknowledges updates in place of the agent and drops them.
    Swallowed,
    /// Only users delete workloads.
    StolenWorkload,
    /// Only users write specs on the hub.
    Overwritten,
    /// Only users delete Applications on the hub.
    Vanished,
    /// A delivered Application has a copy.
    LostCopy,
    /// An object with a source on the hub is wanted.
    LeftCopy,
    /// An ignored Application keeps the copies that it had, and gets no other.
    MisplacedCopy,
    /// A deletion ends.
    StuckDeletion,
    /// A deletion ends on the hub, too.
    StuckOnHub,
    /// Only users create Applications on the hub of managed clusters.
    Invented,
    /// The hub shows the status of the copy.
    FalseStatus,
    /// The copy of a project is equal to the hub's.
    FalseProject,
    /// An operation ends.
    StandingOperation,
    /// A refresh ends.
    StandingRefresh,
    /// Every write of the principal changes something.
    IdleWrites,
    /// A restart of the principal writes nothing.
    WriteAtRestart,
    /// A restart of the agents writes nothing.
    WriteAtAgentRestart,
    /// Sessions are up at the end.
    CutAtEnd,
    /// The copy names its source, and has the labels, the note and the finalizers of the hub.
    FalseSource,
    FalseLabels,
    FalseNote,
    FalseCascade,
    FalseSpec,
    /// A copy of a project is wanted.
    LeftProject,
    /// Changes end.
    Restless,
    /// Every write of an agent changes something.
    IdleWritesOnSpoke,
    /// Messages can be read. Here an agent gets another one, once.
    Garbled,
    /// A sync that a user asks for runs.
    Unasked,
    /// A task ends with its program.
    LeftTask,
    /// A refused object delays no other. Here the API refuses everything.
    RefusesAll,
    /// A refusal is shown.
    SilentRefusal,
    /// The API takes the object again. Here it still refuses it.
    StillRefused,
}

/// What the network does to messages beside its usual faults.
#[derive(Debug, Default)]
pub(crate) struct Tampering {
    /// A state on its way to this cluster, for another one.
    stray: Option<(String, Bytes)>,
    is_done: bool,
    /// Acknowledgements by the network, by the cluster whose agent should have sent them.
    acks: BTreeMap<String, Vec<Bytes>>,
}

impl Tampering {
    /// The messages that take the place of this one.
    pub(crate) fn of(
        &mut self,
        fault: Fault,
        (cluster, to_agent): (&str, bool),
        message: Bytes,
    ) -> Vec<Bytes> {
        match (fault, to_agent) {
            (Fault::Misdirected, true) => self.misdirect(cluster, message),
            (Fault::Garbled, true) if !self.is_done => {
                self.is_done = true;
                vec![message, Bytes::from_static(&[0, 0, 0, 0, 1, 255])]
            }
            (Fault::Swallowed, true) => self.swallow(cluster, message),
            (Fault::Swallowed, false) => {
                let mut all = self.acks.remove(cluster).unwrap_or_default();
                all.push(message);
                all
            }
            _ => vec![message],
        }
    }

    fn misdirect(&mut self, cluster: &str, message: Bytes) -> Vec<Bytes> {
        let verbs = [Verb::Create, Verb::SpecUpdate];
        if self.is_done || application(&message, &verbs).is_none() {
            return vec![message];
        }
        if let Some((from, stray)) = self.stray.take()
            && from != cluster
        {
            self.is_done = true;
            return vec![message, stray];
        }
        self.stray = Some((cluster.to_owned(), message.clone()));
        vec![message]
    }

    /// The first state of an object in a session has another verb, so the next session repairs it.
    fn swallow(&mut self, cluster: &str, message: Bytes) -> Vec<Bytes> {
        let Some(event) = application(&message, &[Verb::SpecUpdate]) else {
            return vec![message];
        };
        let frame = eventstreamapi::Event {
            event: Some(event.ack().into_cloud_event("agent")),
        };
        let acks = self.acks.entry(cluster.to_owned()).or_default();
        acks.extend(framed(&frame));
        vec![]
    }
}

/// The event about an Application with one of these verbs.
fn application(message: &Bytes, verbs: &[Verb]) -> Option<Event> {
    let event = witness::event(message)?;
    let kind = event.object()?.kind;
    (kind == Kind::Application && verbs.contains(&event.verb)).then_some(event)
}

/// A command under another ID; none if the message is not a command.
pub(crate) fn forged(message: &Bytes) -> Option<Bytes> {
    let mut event = eventstreamapi::Event::decode(message.get(witness::HEAD..)?).ok()?;
    let inner = event.event.as_mut()?;
    if !inner.r#type.ends_with(".set-operation") {
        return None;
    }
    let name = CloudEventAttributeValue {
        attr: Some(Attr::CeString("forged_1_1".to_owned())),
    };
    inner.attributes.insert("eventid".to_owned(), name);
    framed(&event)
}

fn framed(event: &eventstreamapi::Event) -> Option<Bytes> {
    let body = event.encode_to_vec();
    let mut framed = BytesMut::new();
    framed.put_u8(0);
    framed.put_u32(u32::try_from(body.len()).ok()?);
    framed.put_slice(&body);
    Some(framed.freeze())
}
