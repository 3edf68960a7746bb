//! A hub in memory, as a principal drives its end.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use protocol::payload::{self, RequestUpdate};
use protocol::{Event, Facet, ObjectKey, Session, Source, Verb};

use crate::link::Dice;
use crate::{Body, key};

#[derive(Clone, Debug, Default)]
pub(crate) struct HubObject {
    pub(crate) uid: u64,
    version: u64,
    pub(crate) spec: u64,
    pub(crate) status: u64,
    /// The version that introduced the command that is set.
    pub(crate) command: Option<u64>,
}

impl HubObject {
    fn event(&self, key: &ObjectKey, verb: Verb, version: u64) -> Event {
        let body = Body {
            uid: self.uid,
            spec: self.spec,
            ..Body::default()
        };
        Event::about(
            key,
            verb,
            &self.uid.to_string(),
            &version.to_string(),
            payload::encode(&body),
        )
    }

    fn digest(&self) -> String {
        format!("{}/{}", self.uid, self.spec)
    }
}

#[derive(Default)]
pub(crate) struct Hub {
    pub(crate) objects: BTreeMap<String, HubObject>,
    version: u64,
    pub(crate) asked: BTreeSet<String>,
    unconfirmed: BTreeSet<ObjectKey>,
}

impl Source for Hub {
    fn encode(&self, key: &ObjectKey, facet: Facet, stated_before: bool) -> Option<Event> {
        let object = self.objects.get(&key.name)?;
        match facet {
            Facet::State if stated_before => {
                Some(object.event(key, Verb::SpecUpdate, object.version))
            }
            Facet::State => Some(object.event(key, Verb::Create, object.version)),
            Facet::Command => Some(object.event(key, Verb::SetOperation, object.command?)),
            Facet::Status => None,
        }
    }
}

impl Hub {
    pub(crate) fn user_acts(&mut self, dice: &mut Dice, session: &mut Session) {
        let name = dice.roll(6).to_string();
        self.version += 1;
        let version = self.version;
        match dice.roll(10) {
            0 => {
                if let Some(object) = self.objects.remove(&name) {
                    session.emit(object.event(&key(&name), Verb::Delete, version));
                }
            }
            1 | 2 => {
                if let Some(object) = self.objects.get_mut(&name)
                    && object.command.is_none()
                {
                    (object.command, object.version) = (Some(version), version);
                    let event = object.event(&key(&name), Verb::SetOperation, version);
                    self.asked.insert(event.event_id);
                    session.mark(key(&name), Facet::Command);
                }
            }
            _ => {
                let object = self
                    .objects
                    .entry(name.clone())
                    .or_insert_with(|| HubObject {
                        uid: version,
                        ..HubObject::default()
                    });
                (object.spec, object.version) = (version, version);
                session.mark(key(&name), Facet::State);
            }
        }
    }

    pub(crate) fn connected(&mut self, session: &mut Session) {
        self.unconfirmed = self.objects.keys().map(|name| key(name)).collect();
        session.emit(Event::request_resource_resync());
    }

    pub(crate) fn work(&mut self, event: &Event, session: &mut Session) {
        match event.verb {
            Verb::StatusUpdate => self.take_status(event, session),
            Verb::RequestUpdate => self.compare(event, session),
            Verb::RequestSyncedResourceList => {
                for key in std::mem::take(&mut self.unconfirmed) {
                    session.mark(key, Facet::State);
                }
                let commanded = self
                    .objects
                    .iter()
                    .filter(|(_, object)| object.command.is_some());
                for (name, _) in commanded {
                    session.mark(key(name), Facet::Command);
                }
            }
            other => panic!("the session let {other} through"),
        }
    }

    fn take_status(&mut self, event: &Event, session: &mut Session) {
        let (key, body) = (event.object().unwrap(), Body::read(event));
        let Some(object) = self.objects.get_mut(&key.name) else {
            return;
        };
        if object.uid != body.uid {
            return;
        }
        object.status = body.status;
        if let Some(version) = object.command {
            let id = object.event(&key, Verb::SetOperation, version).event_id;
            if body.last_command.as_deref() == Some(&id) {
                object.command = None;
                session.unmark(&key, Facet::Command);
            }
        }
    }

    fn compare(&mut self, event: &Event, session: &mut Session) {
        let body: RequestUpdate = payload::decode("request-update", &event.payload).unwrap();
        let key = key(&body.name);
        match self.objects.get(&body.name) {
            None => session.emit(Event::about(
                &key,
                Verb::Delete,
                &body.uid,
                "",
                stub(&body.uid),
            )),
            Some(object) if body.digest == Some(object.digest()) => {
                self.unconfirmed.remove(&key);
            }
            Some(_) => {
                self.unconfirmed.remove(&key);
                session.mark(key, Facet::State);
            }
        }
    }
}

fn stub(uid: &str) -> Bytes {
    payload::encode(&Body {
        uid: uid.parse().unwrap(),
        ..Body::default()
    })
}
