//! An agent without a cluster: it sends an agent's messages over real TLS, and only remembers the objects to write.
//!
//! It shares only the session rules of the `protocol` crate with our agent, so one process can run a thousand of
//! them, and a Go principal accepts it like any agent.

use std::{collections::BTreeMap, pin::pin, sync::Arc, time::Duration};

use anyhow::{Context as _, Result, bail};
use protocol::{
    Event, Facet, Kind, Limits, Mode, ObjectKey, Peer, Role, Session, Source, Target, Verb,
    Verdict,
    payload::SyncedResourceList,
    version::{self, Capabilities, Capability},
    wire::{
        authapi::{AuthRequest, authentication_client::AuthenticationClient},
        eventstreamapi::{Event as Frame, event_stream_client::EventStreamClient},
        versionapi::{VersionRequest, version_client::VersionClient},
    },
};
use serde_json::{Value, json};
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::task::AbortOnDropHandle;
use tonic::{
    Request, Streaming,
    metadata::{Ascii, MetadataValue},
    transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity},
};

use super::applications;
use crate::certs::Pair;

/// Frames between the session and the socket.
const OUTGOING: usize = 64;
/// The interval of our heartbeats, if the principal supports them.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// The annotation of every replica with the UID of the hub's object.
const SOURCE_UID: &str = "argocd.argoproj.io/source-uid";

/// The endpoint of the principal.
#[derive(Debug)]
pub(super) struct Principal {
    /// Its `host:port`.
    pub(super) address: String,
    /// The authority of its certificate, PEM.
    pub(super) authority: String,
}

/// The state of an agent: the revisions of its Applications by name.
pub(super) type Received = BTreeMap<String, String>;

/// An agent with a session, until it is dropped.
#[derive(Debug)]
pub(super) struct Simulated {
    /// Its name, which is its namespace on the hub.
    pub(super) name: String,
    received: watch::Receiver<Received>,
    reports: mpsc::Sender<String>,
    task: AbortOnDropHandle<String>,
}

impl Simulated {
    /// Connects, authenticates and subscribes, and returns when the principal has acknowledged a first heartbeat.
    pub(super) async fn connect(
        endpoint: Arc<Principal>,
        name: String,
        pair: Pair,
    ) -> Result<Self> {
        let channel = endpoint.open(&pair).await.context("connect")?;
        let (token, capabilities) = authenticate(channel.clone()).await?;
        let stream = Stream::open(channel, token).await?;
        let (emits, received) = watch::channel(Received::new());
        let (reports, orders) = mpsc::channel(1);
        let peer = Peer::new(Mode::Managed, capabilities);
        let life = Life::new(peer, stream, emits);
        #[expect(
            clippy::disallowed_methods,
            reason = "ends with its handle, which the agent has"
        )]
        let task = AbortOnDropHandle::new(tokio::spawn(life.run(orders)));
        Ok(Self {
            name,
            received,
            reports,
            task,
        })
    }

    /// Whether the session still runs.
    pub(super) fn is_alive(&self) -> bool {
        !self.task.is_finished()
    }

    /// Waits until the received state matches; none if that takes longer.
    pub(super) async fn until(
        &self,
        bound: Duration,
        like: impl FnMut(&Received) -> bool,
    ) -> Option<Instant> {
        let mut received = self.received.clone();
        let found = tokio::time::timeout(bound, received.wait_for(like)).await;
        matches!(found, Ok(Ok(_received))).then(Instant::now)
    }

    /// Sets the revision of all its Applications, and reports it.
    pub(super) async fn report(&self, revision: &str) -> Result<()> {
        let ordered = self.reports.send(revision.to_owned()).await;
        ordered.ok().context("the session has ended")
    }
}

impl Principal {
    async fn open(&self, credentials: &Pair) -> Result<Channel> {
        let tls = ClientTlsConfig::new()
            .ca_certificate(Certificate::from_pem(&self.authority))
            .domain_name("127.0.0.1")
            .identity(Identity::from_pem(&credentials.cert, &credentials.key));
        let endpoint = Endpoint::from_shared(format!("https://{}", self.address))?;
        Ok(endpoint.tls_config(tls)?.connect().await?)
    }
}

async fn authenticate(channel: Channel) -> Result<(MetadataValue<Ascii>, Capabilities)> {
    let answer = VersionClient::new(channel.clone())
        .version(VersionRequest {})
        .await
        .context("ask for the version")?
        .into_inner();
    let request = AuthRequest {
        method: "mtls".to_owned(),
        mode: Mode::Managed.as_str().to_owned(),
        version: version::bare(&answer.version).to_owned(),
        agent_namespace: "argocd".to_owned(),
        capabilities: Capabilities::ours().to_words(),
        ..AuthRequest::default()
    };
    let answer = AuthenticationClient::new(channel)
        .authenticate(request)
        .await
        .context("authenticate")?
        .into_inner();
    let token = answer
        .access_token
        .parse()
        .context("a token is plain text")?;
    let theirs = Capabilities::read(&answer.capabilities);
    Ok((token, Capabilities::ours().negotiate(&theirs)))
}

/// A subscribed stream.
struct Stream {
    outgoing: mpsc::Sender<Frame>,
    incoming: Streaming<Frame>,
    /// The frames that arrived before the first acknowledgement.
    before: Vec<Frame>,
}

impl Stream {
    async fn open(channel: Channel, token: MetadataValue<Ascii>) -> Result<Self> {
        let (outgoing, queued) = mpsc::channel(OUTGOING);
        let beat = Event::ping();
        let awaited = beat.event_id.clone();
        let event = Some(beat.into_cloud_event("agent://agent-managed"));
        // A Go principal sends its headers with its first message, which answers the first message of the client.
        outgoing
            .try_send(Frame { event })
            .context("send the first event")?;
        let mut request = Request::new(ReceiverStream::new(queued));
        request.metadata_mut().insert("authorization", token);
        let mut client = EventStreamClient::new(channel);
        let subscribed = client.subscribe(request).await.context("subscribe")?;
        let mut incoming = subscribed.into_inner();
        let mut before = Vec::new();
        loop {
            let Some(frame) = incoming.message().await.context("receive an event")? else {
                bail!("the principal closed the stream")
            };
            let event = frame.event.clone().map(Event::try_from);
            let is_answer =
                |event: &Event| event.target == Target::Ack && event.event_id == awaited;
            if matches!(&event, Some(Ok(event)) if is_answer(event)) {
                return Ok(Self {
                    outgoing,
                    incoming,
                    before,
                });
            }
            before.push(frame);
        }
    }
}

/// The objects of one agent as desired by the hub.
#[derive(Default)]
struct Objects {
    wanted: BTreeMap<ObjectKey, Value>,
    /// The deployed revision of all of them, and how often it changed.
    deployed: String,
    version: u64,
}

impl Source for Objects {
    fn encode(&self, key: &ObjectKey, facet: Facet, _stated_before: bool) -> Option<Event> {
        if facet != Facet::Status {
            return None;
        }
        let wanted = self.wanted.get(key)?;
        let uid = wanted["metadata"]["uid"].as_str()?;
        let version = self.version.to_string();
        let report = json!({
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "Application",
            "metadata": {
                "name": key.name,
                "namespace": key.namespace,
                "uid": uid,
                "resourceVersion": version,
                "annotations": { SOURCE_UID: uid },
            },
            "spec": wanted["spec"],
            "status": applications::status(&self.deployed),
        });
        let body = serde_json::to_vec(&report).ok()?;
        let stated = Event::about(key, Verb::StatusUpdate, uid, &version, body.into());
        Some(stated)
    }
}

impl Objects {
    /// Applies an event.
    fn take(&mut self, event: &Event) -> Verdict {
        let Some(key) = event.object() else {
            return Verdict::Done;
        };
        match event.facet() {
            Some(Facet::State) if event.verb == Verb::Delete => {
                self.wanted.remove(&key);
                Verdict::Done
            }
            Some(Facet::State) => match serde_json::from_slice(&event.payload) {
                Ok(body) => {
                    self.wanted.insert(key, body);
                    Verdict::Done
                }
                Err(error) => Verdict::Refused(error.to_string()),
            },
            Some(Facet::Status | Facet::Command) | None => Verdict::Done,
        }
    }

    fn applications(&self) -> impl Iterator<Item = (&ObjectKey, &Value)> {
        let wanted = self.wanted.iter();
        wanted.filter(|(key, _)| key.kind == Kind::Application)
    }

    fn received(&self) -> Received {
        let revision = |body: &Value| {
            let revision = body["spec"]["source"]["targetRevision"].as_str();
            revision.unwrap_or_default().to_owned()
        };
        self.applications()
            .map(|(key, body)| (key.name.clone(), revision(body)))
            .collect()
    }
}

/// One session from its begin to its end.
struct Life {
    session: Session,
    objects: Objects,
    begun: Instant,
    stream: Stream,
    emits: watch::Sender<Received>,
}

impl Life {
    fn new(peer: Peer, stream: Stream, emits: watch::Sender<Received>) -> Self {
        let beats = peer.capabilities.has(Capability::Heartbeat);
        let limits = Limits {
            heartbeat: beats.then_some(HEARTBEAT),
            ..Limits::default()
        };
        Self {
            session: Session::new(Role::Agent, peer, limits),
            objects: Objects::default(),
            begun: Instant::now(),
            stream,
            emits,
        }
    }

    /// Runs until the session ends, and returns the reason.
    async fn run(mut self, mut orders: mpsc::Receiver<String>) -> String {
        if !self.session.peer().capabilities.is_ours() {
            self.report_inventory();
        }
        for frame in std::mem::take(&mut self.stream.before) {
            if let Err(end) = self.receive(frame) {
                return end;
            }
        }
        loop {
            self.work();
            let full = self.send();
            let wait = self.wait(full);
            let outgoing = self.stream.outgoing.clone();
            let mut room = pin!(outgoing.reserve());
            let received = tokio::select! {
                frame = self.stream.incoming.message() => Some(frame),
                Some(revision) = orders.recv() => {
                    self.report(revision);
                    None
                }
                Ok(_room) = &mut room, if full => None,
                () = tokio::time::sleep(wait) => None,
            };
            let handled = match received {
                None => Ok(()),
                Some(Ok(Some(frame))) => self.receive(frame),
                Some(Ok(None)) => Err("the principal closed the stream".to_owned()),
                Some(Err(status)) => Err(status.to_string()),
            };
            if let Err(end) = handled {
                return end;
            }
        }
    }

    fn receive(&mut self, frame: Frame) -> Result<(), String> {
        let Some(event) = frame.event else {
            return Ok(());
        };
        let received = self.session.receive(event, self.begun.elapsed());
        received.map_err(|violation| violation.to_string())
    }

    /// Applies all pending work; nothing here blocks.
    fn work(&mut self) {
        let mut changed = false;
        while let Some(work) = self.session.next_work(self.begun.elapsed()) {
            let asks = work.event.target == Target::Resync
                && work.event.verb == Verb::RequestResourceResync;
            let verdict = self.objects.take(&work.event);
            self.session
                .finished(work.id, verdict, self.begun.elapsed());
            if asks {
                self.report_inventory();
            }
            changed = true;
        }
        if changed {
            let received = self.objects.received();
            self.emits.send_if_modified(|before| {
                let differs = *before != received;
                *before = received;
                differs
            });
        }
    }

    /// Reports an empty inventory, as at the begin of a session.
    fn report_inventory(&mut self) {
        let end = SyncedResourceList::default();
        self.session.emit(Event::request_synced_resource_list(&end));
    }

    fn report(&mut self, revision: String) {
        self.objects.deployed = revision;
        self.objects.version += 1;
        for (key, _) in self.objects.applications() {
            self.session.mark(key, Facet::Status);
        }
    }

    /// Sends until the queue is full; true if more was pending.
    fn send(&mut self) -> bool {
        loop {
            let now = self.begun.elapsed();
            let Ok(permit) = self.stream.outgoing.try_reserve() else {
                return true;
            };
            let Some(event) = self.session.next_outgoing(&self.objects, now) else {
                return false;
            };
            permit.send(Frame { event: Some(event) });
        }
    }

    fn wait(&self, full: bool) -> Duration {
        let least = Duration::from_millis(if full { 50 } else { 1 });
        let due = self.session.next_timeout(self.begun.elapsed());
        due.unwrap_or(Duration::from_mins(1)).max(least)
    }
}
