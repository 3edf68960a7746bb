//! A spoke in memory, as an agent drives its end.

use std::collections::BTreeMap;
use std::time::Duration;

use protocol::payload::{self, RequestUpdate, SyncedResourceList};
use protocol::{Event, Facet, Kind, ObjectKey, Session, Source, Verb, Verdict};

use crate::link::Dice;
use crate::{Body, key};

#[derive(Clone, Debug, Default)]
pub(crate) struct SpokeObject {
    pub(crate) uid: u64,
    pub(crate) spec: u64,
    pub(crate) status: u64,
    last_command: Option<String>,
}

#[derive(Default)]
pub(crate) struct Spoke {
    pub(crate) objects: BTreeMap<String, SpokeObject>,
    pub(crate) carried_out: Vec<String>,
}

impl Source for Spoke {
    fn encode(&self, key: &ObjectKey, facet: Facet, _: bool) -> Option<Event> {
        let object = self
            .objects
            .get(&key.name)
            .filter(|_| facet == Facet::Status)?;
        let body = Body {
            uid: object.uid,
            status: object.status,
            last_command: object.last_command.clone(),
            ..Body::default()
        };
        let (uid, version) = (object.uid.to_string(), object.status.to_string());
        Some(Event::about(
            key,
            Verb::StatusUpdate,
            &uid,
            &version,
            payload::encode(&body),
        ))
    }
}

impl Spoke {
    /// The spoke's own controller.
    pub(crate) fn controller_acts(&mut self, dice: &mut Dice, session: &mut Session) {
        let name = dice.roll(6).to_string();
        if let Some(object) = self.objects.get_mut(&name) {
            object.status += 1;
            session.mark(key(&name), Facet::Status);
        }
    }

    pub(crate) fn work(&mut self, event: &Event, session: &mut Session) -> Verdict {
        match event.verb {
            Verb::Create | Verb::SpecUpdate => {
                let (key, body) = (event.object().unwrap(), Body::read(event));
                let object = self.objects.entry(key.name.clone()).or_default();
                (object.uid, object.spec) = (body.uid, body.spec);
                object.status += 1;
                session.mark(key, Facet::Status);
            }
            Verb::Delete => {
                // its UID does not matter: our own ends keep the order of events about one name, so this is the
                // owner's newest statement about the name
                let key = event.object().unwrap();
                self.objects.remove(&key.name);
                session.unmark(&key, Facet::Status);
            }
            Verb::SetOperation => {
                let (key, body) = (event.object().unwrap(), Body::read(event));
                // the state of this command has not arrived yet
                let Some(object) = self
                    .objects
                    .get_mut(&key.name)
                    .filter(|object| object.uid == body.uid)
                else {
                    return Verdict::Retry {
                        after: Duration::from_secs(1),
                    };
                };
                if object.last_command.as_deref() != Some(&event.event_id) {
                    object.last_command = Some(event.event_id.clone());
                    object.status += 1;
                    self.carried_out.push(event.event_id.clone());
                }
                session.mark(key, Facet::Status);
            }
            Verb::RequestResourceResync => self.name_all(session),
            other => panic!("the session let {other} through"),
        }
        Verdict::Done
    }

    fn name_all(&self, session: &mut Session) {
        for (name, object) in &self.objects {
            session.emit(Event::request_update(&RequestUpdate {
                name: name.clone(),
                uid: object.uid.to_string(),
                kind: Kind::Application.to_string(),
                digest: Some(format!("{}/{}", object.uid, object.spec)),
                ..RequestUpdate::default()
            }));
            session.mark(key(name), Facet::Status);
        }
        session.emit(Event::request_synced_resource_list(
            &SyncedResourceList::default(),
        ));
    }
}
