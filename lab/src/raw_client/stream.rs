//! A subscribed stream of a raw client: single events with their answers, and floods.

use anyhow::{Context as _, Result};
use protocol::{
    Target,
    wire::{cloudevents::CloudEvent, eventstreamapi::Event},
};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};
use tonic::{Code, Status, Streaming};

use super::TIME_LIMIT;

/// A subscribed stream of a raw client.
pub struct Stream {
    outgoing: mpsc::Sender<Event>,
    incoming: Streaming<Event>,
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stream").finish_non_exhaustive()
    }
}

/// The principal's answer to an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It was read, without an answer.
    None,
    /// It was acknowledged.
    Taken,
    /// It was acknowledged as refused, with this reason.
    Refused(String),
    /// It ended the stream, with this status.
    Ended(Code, String),
}

impl From<Status> for Answer {
    fn from(status: Status) -> Self {
        Self::Ended(status.code(), status.message().to_owned())
    }
}

/// The result of a flood.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flood {
    /// Events that were sent.
    pub sent: u64,
    /// Events that came back, acknowledgements not counted.
    pub replies: u64,
    /// Why the stream ended, if it did.
    pub end: Option<String>,
}

impl Stream {
    pub(super) const fn new(outgoing: mpsc::Sender<Event>, incoming: Streaming<Event>) -> Self {
        Self { outgoing, incoming }
    }

    /// Sends an event, and waits for the answer: the acknowledgement of the event with this id,
    /// or, without an id, of a heartbeat after it, since the principal has read all earlier events then.
    pub async fn send_event(
        &mut self,
        event: Option<CloudEvent>,
        id: Option<&str>,
    ) -> Result<Answer> {
        let beat = protocol::Event::ping();
        let awaited = id.unwrap_or(&beat.event_id).to_owned();
        let beat = beat.into_cloud_event("agent://stranger");
        for event in [event, Some(beat)] {
            // Reading the stream returns the error if it has ended.
            let _ended = self.outgoing.send(Event { event }).await.is_err();
        }
        loop {
            let received = tokio::time::timeout(TIME_LIMIT, self.incoming.message()).await;
            let event = match received.context("the principal does not answer")? {
                Ok(Some(event)) => event.event.context("an empty event")?,
                Ok(None) => return Ok(Answer::Ended(Code::Ok, String::new())),
                Err(status) => return Ok(status.into()),
            };
            // The principal also sends the first events of a session.
            let event = protocol::Event::try_from(event)?;
            if event.target == Target::Ack && event.event_id == awaited {
                return Ok(match (event.extensions.get("refused"), id) {
                    (Some(why), _) => Answer::Refused(why.clone()),
                    (None, Some(_)) => Answer::Taken,
                    (None, None) => Answer::None,
                });
            }
        }
    }

    /// Sends the events of `next` as fast as the principal takes them, and reads all that comes back, until there are no
    /// more, the time is up or the principal ends the stream. `next` gets the number of events sent so far.
    pub async fn flood(
        &mut self,
        until: Instant,
        mut next: impl FnMut(u64) -> Option<CloudEvent>,
    ) -> Flood {
        let Self { outgoing, incoming } = self;
        let mut flood = Flood::default();
        let mut event = next(0);
        while event.is_some() && flood.end.is_none() {
            tokio::select! {
                () = sleep_until(until) => break,
                room = outgoing.reserve() => match room {
                    Ok(room) => {
                        room.send(Event { event });
                        flood.sent += 1;
                        event = next(flood.sent);
                    }
                    Err(closed) => {
                        // The reason, if there is one.
                        flood.end = Some(closed.to_string());
                        flood.count(incoming.message().await);
                    }
                },
                received = incoming.message() => flood.count(received),
            }
        }
        flood
    }

    /// Sends the events of `next` until there are no more, the time is up or the stream has ended, and never reads.
    /// Returns the number of events that it could send.
    pub async fn stuff(
        &self,
        until: Instant,
        mut next: impl FnMut(u64) -> Option<CloudEvent>,
    ) -> u64 {
        let mut sent = 0;
        while let Some(event) = next(sent) {
            let event = Event { event: Some(event) };
            let sending = tokio::time::timeout_at(until, self.outgoing.send(event));
            if !matches!(sending.await, Ok(Ok(()))) {
                break;
            }
            sent += 1;
        }
        sent
    }

    /// Reads until the time is up or the principal ends the stream.
    pub async fn read(&mut self, until: Instant) -> Flood {
        let mut flood = Flood::default();
        while flood.end.is_none() {
            match tokio::time::timeout_at(until, self.incoming.message()).await {
                Ok(received) => flood.count(received),
                Err(_time_is_up) => break,
            }
        }
        flood
    }
}

impl Flood {
    fn count(&mut self, received: Result<Option<Event>, Status>) {
        match received {
            Ok(Some(Event { event: Some(event) })) => {
                let is_ack =
                    protocol::Event::try_from(event).is_ok_and(|event| event.target == Target::Ack);
                self.replies += u64::from(!is_ack);
            }
            Ok(Some(Event { event: None })) => {}
            Ok(None) => self.end = Some("no error".to_owned()),
            Err(status) => self.end = Some(status.message().to_owned()),
        }
    }
}
