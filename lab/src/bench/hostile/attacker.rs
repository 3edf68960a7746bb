//! A hostile agent: the credentials of one cluster, and what it knows about another one.

use std::fmt;

use anyhow::{Context as _, Result};
use protocol::{Event, Kind, Mode, ObjectKey, Verb, wire::cloudevents::CloudEvent};
use serde_json::{Value, json};

use crate::{
    bench::applications,
    raw_client::{Answer, Credentials, RawClient, Stream},
    steps::{At, Objects},
};

/// The source of all events of hostile agents.
const SOURCE: &str = "agent://hostile";
/// The annotation of every replica with the UID of the hub's object.
pub(super) const SOURCE_UID: &str = "argocd.argoproj.io/source-uid";
/// A text in everything that hostile agents report: it must not appear at another cluster.
pub(super) const MARK: &str = "hostile-mark";

/// The name of the Application that each managed attacker has.
pub(super) const OWN: &str = "own";

/// An object of the hub.
#[derive(Clone, Debug)]
pub(super) struct Named {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
}

/// The name of the autonomous cluster that is enrolled beside an autonomous attacker.
pub(super) fn neighbour(attacker: &str) -> String {
    format!("{attacker}-b")
}

/// A hostile agent of one cluster.
pub(super) struct Attacker {
    /// Its cluster, which is its namespace on the hub.
    pub(super) name: String,
    pub(super) mode: Mode,
    pub(super) client: RawClient,
    pub(super) credentials: Credentials,
    /// The version that the principal accepts.
    pub(super) version: String,
    /// The hub as its administrator sees it: to find UIDs, and to count what an attack left.
    pub(super) hub: Objects,
    /// Argo CD's namespace on the hub.
    pub(super) argocd: String,
    /// An Application of another cluster, and the credentials of that cluster to steal a token.
    pub(super) victim: Named,
    pub(super) victims_credentials: Credentials,
}

impl fmt::Debug for Attacker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attacker")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Attacker {
    /// A token; an error that the principal returns is the inner one.
    pub(super) async fn authenticate(
        &self,
        credentials: &Credentials,
        mode: Mode,
    ) -> Result<Result<String, tonic::Status>> {
        let answer = self
            .client
            .authenticate(Some(credentials), mode.as_str(), &self.version)
            .await?;
        Ok(answer.map(|answer| answer.access_token))
    }

    /// Its own token.
    pub(super) async fn token(&self) -> Result<String> {
        let token = self.authenticate(&self.credentials, self.mode).await?;
        token.context("authenticate")
    }

    /// A session.
    pub(super) async fn session(&self) -> Result<Stream> {
        let token = self.token().await?;
        let stream = self.client.subscribe(&self.credentials, &token).await?;
        stream.context("subscribe")
    }

    /// Sends these events one after the other, and returns the answers.
    pub(super) async fn answers(
        &self,
        events: impl IntoIterator<Item = Event>,
    ) -> Result<Vec<Answer>> {
        let mut stream = self.session().await?;
        let mut answers = Vec::new();
        for event in events {
            let id = event.event_id.clone();
            answers.push(stream.send_event(Some(raw(event)), Some(&id)).await?);
        }
        Ok(answers)
    }

    /// Its own Application on the hub.
    pub(super) async fn own(&self) -> Result<Named> {
        let own = self.hub.read(&At::application(&self.name, OWN)).await?;
        self.named(&own)
    }

    /// All Applications of its own on the hub.
    pub(super) async fn all(&self) -> Result<Vec<Named>> {
        let listed = self.hub.list(&At::application(&self.name, ""), "").await?;
        listed.iter().map(|own| self.named(own)).collect()
    }

    fn named(&self, own: &Value) -> Result<Named> {
        let text = |field: &str| own["metadata"][field].as_str().context("a field");
        Ok(Named {
            namespace: self.name.clone(),
            name: text("name")?.to_owned(),
            uid: text("uid")?.to_owned(),
        })
    }
}

/// The names of the Applications of an attacking cluster.
pub(super) fn own_names(count: usize) -> Vec<String> {
    let more = (1..count).map(|number| format!("{OWN}-{number}"));
    std::iter::once(OWN.to_owned()).chain(more).collect()
}

/// An event as it is sent.
pub(super) fn raw(event: Event) -> CloudEvent {
    event.into_cloud_event(SOURCE)
}

/// An event about an Application, with this body.
pub(super) fn about(of: &Named, verb: Verb, version: u64, body: &Value) -> Event {
    let key = ObjectKey::new(Kind::Application, "argocd", &of.name);
    let body = body.to_string().into_bytes();
    Event::about(&key, verb, MARK, &version.to_string(), body.into())
}

/// The report of a copy of an Application; the version makes it differ from others.
pub(super) fn report(of: &Named, version: u64) -> Value {
    let mut status = applications::status(&format!("{MARK}-{version}"));
    status["health"] = json!({"status": "Degraded", "message": MARK});
    json!({
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {
            "name": of.name, "namespace": "argocd", "uid": MARK,
            "resourceVersion": version.to_string(),
            "annotations": { SOURCE_UID: of.uid },
        },
        "spec": {},
        "status": status,
    })
}
