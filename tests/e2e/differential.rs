//! The in-memory API server of the simulation beside a real one: both get the same random requests.

use std::{collections::BTreeMap, pin::pin, sync::Arc};

use ::argocd::{
    Patch,
    testing::differential::{
        Answer, Event, Key, Kind, LABEL, Memory, NAMESPACE, Record, Request, Step, plain, sequence,
    },
};
use anyhow::{Context as _, Result, bail, ensure};
use futures::TryStreamExt as _;
use kube::{
    Api,
    api::{
        DeleteParams, DynamicObject, ListParams, Patch as Body, PatchParams, PostParams,
        Preconditions, WatchEvent, WatchParams,
    },
};
use lab::{Cluster, Lab, argocd::prepare_hub, wait};
use rand::{Rng as _, SeedableRng as _, rngs::SmallRng};
use serde_json::{Value, json};
use tokio::time::timeout;

/// Sequences of a run, unless `DIFFERENTIAL_SEQUENCES` has another number.
const SEQUENCES: u64 = 40;
/// Requests of a sequence. All their events fit into the history that an API server keeps for watches.
const STEPS: usize = 30;
/// The object whose event is the last of a watch.
const END: &str = "end";

/// Random creates, patches, deletions and lists have the same answers, and watches from several versions the same events.
pub(crate) async fn in_memory_api_answers_like_a_kube_apiserver(lab: Arc<Lab>) -> Result<()> {
    let hub = lab.hub();
    prepare_hub(hub, lab.tools()).await?;
    let namespace = format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: {NAMESPACE}}}}}");
    hub.apply(&namespace).await?;
    let server = Server::of(hub).await?;
    let first = variable("DIFFERENTIAL_SEED", 0)?;
    let count = variable("DIFFERENTIAL_SEQUENCES", SEQUENCES)?;
    for seed in first..first.saturating_add(count) {
        compare(&server, seed).await.with_context(|| {
            format!("repeat it with DIFFERENTIAL_SEED={seed} DIFFERENTIAL_SEQUENCES=1")
        })?;
    }
    hub.delete(&namespace).await
}

/// A number from the environment, or its default.
fn variable(name: &str, unless_set: u64) -> Result<u64> {
    match std::env::var(name) {
        Ok(text) => text.parse().with_context(|| format!("{name}={text}")),
        Err(_not_set) => Ok(unless_set),
    }
}

/// The start of a watch.
struct Mark {
    kind: Kind,
    /// The version on the real server.
    version: String,
    /// The number of earlier events.
    earlier: usize,
}

async fn compare(server: &Server, seed: u64) -> Result<()> {
    let mut random = SmallRng::seed_from_u64(seed);
    let steps = sequence(STEPS, &mut |below: usize| random.random_range(0..below));
    let mut memory = Memory::default();
    let (mut in_memory, mut real) = (Record::default(), Record::default());
    let mut events: BTreeMap<Kind, Vec<Event>> = BTreeMap::new();
    let mut marks = Vec::new();
    for kind in Kind::ALL {
        marks.push(server.mark(kind, 0).await?);
    }
    for (number, step) in steps.iter().enumerate() {
        let expected = server.answer(&real.request(step)).await?;
        let expected = real.answer(step, expected);
        let found = memory.answer(&in_memory.request(step));
        let found = in_memory.answer(step, found);
        ensure!(
            found == expected,
            "step {number}: {step:?}\nin memory:      {found:?}\nkube-apiserver: {expected:?}"
        );
        for (kind, event) in memory.events() {
            let event = in_memory.event(event);
            events.entry(kind).or_default().push(event);
        }
        if let Step::List(kind, _) = step {
            let earlier = events.get(kind).map_or(0, Vec::len);
            marks.push(server.mark(*kind, earlier).await?);
        }
    }
    server.end().await?;
    for mark in marks {
        let observed = server.events(&mark).await?.into_iter();
        let expected: Vec<Event> = observed.map(|event| real.event(event)).collect();
        let found = events.get(&mark.kind).into_iter().flatten();
        let found: Vec<Event> = found.skip(mark.earlier).cloned().collect();
        ensure!(
            found == expected,
            "events of {:?} after the first {}\nin memory:      {found:?}\nkube-apiserver: {expected:?}\nsteps: {steps:#?}",
            mark.kind,
            mark.earlier
        );
    }
    server.clear().await
}

/// The namespace of the test on a kube-apiserver.
struct Server {
    apis: BTreeMap<Kind, Api<DynamicObject>>,
}

impl Server {
    async fn of(cluster: &Cluster) -> Result<Self> {
        let mut apis = BTreeMap::new();
        for kind in Kind::ALL {
            let (api_version, name) = kind.names();
            let api = cluster.api(api_version, name, Some(NAMESPACE)).await?;
            apis.insert(kind, api);
        }
        Ok(Self { apis })
    }

    fn api(&self, kind: Kind) -> Result<&Api<DynamicObject>> {
        self.apis.get(&kind).context("an API of each kind")
    }

    async fn answer(&self, request: &Request) -> Result<Answer> {
        let answered = match request {
            Request::Create(key, object) => {
                let object = serde_json::from_value(object.clone())?;
                let api = self.api(key.kind)?;
                api.create(&PostParams::default(), &object).await.map(Some)
            }
            Request::Patch(key, patch) => self.patch(*key, patch).await?.map(Some),
            Request::Delete { key, uid, version } => {
                let params = DeleteParams::background().preconditions(Preconditions {
                    uid: uid.clone(),
                    resource_version: version.clone(),
                });
                let api = self.api(key.kind)?;
                // The server answers with a Status if the object is gone.
                match api.delete(key.name, &params).await {
                    Ok(deleted) => Ok(deleted.left()),
                    Err(error) => Err(error),
                }
            }
            Request::List(kind, team) => return self.list(*kind, *team).await,
        };
        match answered {
            Ok(Some(object)) => Ok(Answer::Object(serde_json::to_value(object)?)),
            Ok(None) => Ok(Answer::Gone),
            Err(kube::Error::Api(status)) => Ok(Answer::Refused {
                code: status.code,
                reason: status.reason.clone(),
            }),
            Err(error) => Err(error.into()),
        }
    }

    /// The inner error is that of the server.
    async fn patch(&self, key: Key, patch: &Patch) -> Result<Result<DynamicObject, kube::Error>> {
        let api = self.api(key.kind)?;
        let params = PatchParams::default();
        Ok(match patch {
            Patch::Merge(body) => api.patch(key.name, &params, &Body::Merge(body)).await,
            Patch::Json(operations) => {
                let operations = serde_json::from_value(operations.clone())?;
                let body = Body::<Value>::Json(operations);
                api.patch(key.name, &params, &body).await
            }
        })
    }

    async fn list(&self, kind: Kind, team: Option<&str>) -> Result<Answer> {
        let params = match team {
            Some(team) => ListParams::default().labels(&format!("{LABEL}={team}")),
            None => ListParams::default(),
        };
        let listed = self.api(kind)?.list(&params).await?;
        let objects = listed.items.into_iter().map(serde_json::to_value);
        Ok(Answer::Objects(objects.collect::<Result<_, _>>()?))
    }

    async fn mark(&self, kind: Kind, earlier: usize) -> Result<Mark> {
        let listed = self.api(kind)?.list(&ListParams::default()).await?;
        let version = listed.metadata.resource_version;
        Ok(Mark {
            kind,
            version: version.context("the version of a list")?,
            earlier,
        })
    }

    /// Creates the object of each kind that ends its watches.
    async fn end(&self) -> Result<()> {
        for (kind, api) in &self.apis {
            let last = serde_json::from_value(plain(*kind, END))?;
            api.create(&PostParams::default(), &last).await?;
        }
        Ok(())
    }

    /// The events from a mark to the end.
    async fn events(&self, mark: &Mark) -> Result<Vec<Event>> {
        let watching = self.watch(mark);
        timeout(wait::BOUND, watching)
            .await
            .context("the last event of a watch")?
    }

    async fn watch(&self, mark: &Mark) -> Result<Vec<Event>> {
        let api = self.api(mark.kind)?;
        let watch = api.watch(&WatchParams::default(), &mark.version).await?;
        let mut watch = pin!(watch);
        let mut events = Vec::new();
        while let Some(event) = watch.try_next().await? {
            let event = match event {
                WatchEvent::Added(object) if object.metadata.name.as_deref() == Some(END) => {
                    return Ok(events);
                }
                WatchEvent::Added(object) => Event::Added(serde_json::to_value(object)?),
                WatchEvent::Modified(object) => Event::Modified(serde_json::to_value(object)?),
                WatchEvent::Deleted(object) => Event::Deleted {
                    name: object.metadata.name.unwrap_or_default(),
                    uid: object.metadata.uid.unwrap_or_default(),
                },
                WatchEvent::Bookmark(_) => continue,
                WatchEvent::Error(status) => bail!("the watch failed: {status:?}"),
            };
            events.push(event);
        }
        bail!("the watch ended after {} events", events.len())
    }

    /// Deletes everything, for the next sequence.
    async fn clear(&self) -> Result<()> {
        let released = json!({ "metadata": { "finalizers": null } });
        for api in self.apis.values() {
            for object in api.list(&ListParams::default()).await?.items {
                let name = object.metadata.name.unwrap_or_default();
                api.patch(&name, &PatchParams::default(), &Body::Merge(&released))
                    .await?;
                match api.delete(&name, &DeleteParams::default()).await {
                    Ok(_) => {}
                    // It was being deleted, and waited for its finalizers.
                    Err(kube::Error::Api(status)) if status.is_not_found() => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }
}
