//! Identities and objects of others.

use std::time::Duration;

use anyhow::{Context as _, Result};
use protocol::{Event, Kind, Mode, ObjectKey, Target, Verb, event::Method, payload::ErrorReport};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::Observed;
use crate::{
    bench::hostile::attacker::{Attacker, MARK, Named, about, neighbour, raw, report},
    raw_client::{Answer, Stream},
    steps::At,
};

/// How often an attack asks again for a result that a watch of the principal delays. The principal rejects an identity
/// after 30 refusals without looking.
const PAUSE: Duration = Duration::from_millis(250);

pub(super) async fn status(attacker: &Attacker, _until: Instant) -> Result<Observed> {
    let stolen = about(
        &attacker.victim,
        Verb::StatusUpdate,
        1,
        &report(&attacker.victim, 1),
    );
    Ok(Observed::Answers(attacker.answers([stolen]).await?))
}

pub(super) async fn invented(attacker: &Attacker, _until: Instant) -> Result<Observed> {
    let uids = ["", "*", "00000000-0000-0000-0000-000000000000", "../own"];
    let mut events = Vec::new();
    for (version, uid) in (0..).zip(uids) {
        let of = Named {
            uid: uid.to_owned(),
            ..attacker.victim.clone()
        };
        let report = report(&of, version);
        events.push(about(&of, Verb::StatusUpdate, version, &report));
    }
    Ok(Observed::Answers(attacker.answers(events).await?))
}

pub(super) async fn error(attacker: &Attacker, _until: Instant) -> Result<Observed> {
    let about_victim = ErrorReport {
        resource_name: attacker.victim.name.clone(),
        resource_namespace: attacker.victim.namespace.clone(),
        message: MARK.to_owned(),
        contest: None,
    };
    let event = Event::error(Kind::Application, &about_victim);
    Ok(Observed::Answers(attacker.answers([event]).await?))
}

pub(super) async fn deletion(attacker: &Attacker, _until: Instant) -> Result<Observed> {
    let mut stream = attacker.session().await?;
    for version in 0..10 {
        let stub = report(&attacker.victim, version);
        let event = about(&attacker.victim, Verb::Delete, version, &stub);
        until_applied(&mut stream, event).await?;
    }
    Ok(Observed::effort(10))
}

pub(super) async fn upstream_objects(attacker: &Attacker, _until: Instant) -> Result<Observed> {
    let kinds = [
        Kind::Application,
        Kind::AppProject,
        Kind::Repository,
        Kind::GpgKey,
        Kind::TlsCerts,
        Kind::SshKnownHosts,
    ];
    let events = kinds.into_iter().flat_map(|kind| {
        let key = ObjectKey::new(kind, &attacker.argocd, MARK);
        let body = json!({"metadata": {"name": MARK, "namespace": attacker.argocd}, "spec": {}});
        let body = body.to_string();
        [Verb::Create, Verb::SpecUpdate].map(|verb| {
            let version = format!("{kind:?}-{verb}");
            Event::about(&key, verb, MARK, &version, body.clone().into())
        })
    });
    Ok(Observed::Answers(attacker.answers(events).await?))
}

pub(super) async fn upstream_commands(attacker: &Attacker, _until: Instant) -> Result<Observed> {
    let mut command = report(&attacker.victim, 1);
    command["operation"] = json!({"sync": {"prune": true, "manifests": ["{}"]}});
    let verbs = [Verb::SetOperation, Verb::TerminateOperation];
    let events = verbs.map(|verb| about(&attacker.victim, verb, 1, &command));
    Ok(Observed::Answers(attacker.answers(events).await?))
}

pub(super) async fn live_requests(attacker: &Attacker, _until: Instant) -> Result<Observed> {
    let key = format!("app|managed-resources|{}|1.8.3", attacker.victim.name);
    let events = [
        (
            Target::Resource,
            Verb::Http(Method::Get),
            json!({"name": "argocd-secret", "resource": "secrets", "version": "v1"}),
        ),
        (
            Target::Resource,
            Verb::Http(Method::Delete),
            json!({"name": "argocd", "resource": "namespaces", "version": "v1"}),
        ),
        (
            Target::Redis,
            Verb::RedisRequest,
            json!({"body": {"get": {"key": key}}}),
        ),
        (
            Target::ContainerLog,
            Verb::Http(Method::Get),
            json!({"namespace": "kube-system"}),
        ),
        (
            Target::Terminal,
            Verb::TerminalRequest,
            json!({"namespace": "kube-system"}),
        ),
    ];
    let events = events.map(|(target, verb, mut body)| {
        body["uuid"] = MARK.into();
        Event::control(target, verb, body.to_string().into())
    });
    Ok(Observed::Answers(attacker.answers(events).await?))
}

/// Values for the cache entries of another cluster's Application, and answers of its API.
pub(super) async fn live_responses(attacker: &Attacker, until: Instant) -> Result<Observed> {
    let key = format!(
        "app|resources-tree|{}_{}|1.8.3.gz",
        attacker.victim.namespace, attacker.victim.name
    );
    let mut stream = attacker.session().await?;
    let value = "AAAA".repeat(16 << 10);
    let next = |number: u64| {
        let (target, verb) = if number.is_multiple_of(2) {
            (Target::Redis, Verb::RedisResponse)
        } else {
            (Target::Resource, Verb::Response)
        };
        let body = json!({
            "uuid": format!("{MARK}-{number}"), "connectionUuid": MARK, "status": 200,
            "resource": value,
            "body": {"get": {"cacheHit": true, "bytes": value},
                     "pushFromSubscribe": {"channelName": key}},
        });
        let event = Event::control(target, verb, body.to_string().into());
        Some(raw(event))
    };
    Ok(stream.flood(until, next).await.into())
}

pub(super) async fn stolen_token(attacker: &Attacker, _until: Instant) -> Result<Observed> {
    let stolen = attacker
        .authenticate(&attacker.victims_credentials, Mode::Managed)
        .await?
        .context("the other cluster authenticates")?;
    let token_parts = stolen.rsplit_once('.').map_or("", |(head, _)| head);
    let mut answers = Vec::new();
    for token in [
        stolen.as_str(),
        &format!("{token_parts}."),
        "eyJhbGciOiJub25lIn0.e30.",
        "",
    ] {
        let opened = attacker
            .client
            .subscribe(&attacker.credentials, token)
            .await?;
        answers.push(match opened {
            Ok(_stream) => Answer::Taken,
            Err(status) => status.into(),
        });
    }
    Ok(Observed::Answers(answers))
}

pub(super) async fn other_mode(attacker: &Attacker, _until: Instant) -> Result<Observed> {
    let refused = attacker
        .authenticate(&attacker.credentials, Mode::Autonomous)
        .await?;
    Ok(Observed::Answers(vec![answer(refused)]))
}

fn answer(authenticated: Result<String, tonic::Status>) -> Answer {
    authenticated.map_or_else(Into::into, |_token| Answer::Taken)
}

/// The session ends, and neither a new token nor the old one opens another.
pub(super) async fn revoked(attacker: &Attacker, until: Instant) -> Result<Observed> {
    let list = At::config_map(&attacker.argocd, "argocd-agent-tls-blocklist");
    let token = attacker.token().await?;
    let entry = format!("cluster.{}", attacker.name);
    attacker
        .hub
        .apply(&list, json!({"data": { entry: "" }}))
        .await?;
    let answers = after_the_end(attacker, &token, until).await;
    attacker.hub.delete(&list).await?;
    answers.map(Observed::Answers)
}

pub(super) async fn removed(attacker: &Attacker, until: Instant) -> Result<Observed> {
    let token = attacker.token().await?;
    let secret = At::secret(&attacker.argocd, &format!("cluster-{}", attacker.name));
    attacker.hub.delete(&secret).await?;
    let answers = after_the_end(attacker, &token, until).await;
    answers.map(Observed::Answers)
}

/// Waits until the principal knows the end of a cluster, then tries a new token and the old one.
async fn after_the_end(attacker: &Attacker, token: &str, until: Instant) -> Result<Vec<Answer>> {
    let credentials = &attacker.credentials;
    let mut fresh = attacker.authenticate(credentials, attacker.mode).await?;
    while fresh.is_ok() && Instant::now() < until {
        sleep(PAUSE).await;
        fresh = attacker.authenticate(credentials, attacker.mode).await?;
    }
    let opened = attacker.client.subscribe(credentials, token).await?;
    let opened = match opened {
        Ok(_stream) => Answer::Taken,
        Err(status) => status.into(),
    };
    Ok(vec![answer(fresh), opened])
}

pub(super) async fn mirrors_elsewhere(attacker: &Attacker, _until: Instant) -> Result<Observed> {
    let mut stream = attacker.session().await?;
    let places = [
        ("kube-system", "forged"),
        (&attacker.argocd, "forged"),
        (&attacker.victim.namespace, "forged"),
        (&attacker.victim.namespace, attacker.victim.name.as_str()),
        ("argocd", "../forged"),
    ];
    for (namespace, name) in places {
        let body = json!({
            "metadata": {"namespace": namespace, "name": name, "uid": MARK, "resourceVersion": "1"},
            "spec": {"project": "default", "destination": {"name": attacker.victim.namespace}},
        });
        let key = ObjectKey::new(Kind::Application, namespace, name);
        let event = Event::about(&key, Verb::Create, MARK, "1", body.to_string().into());
        until_applied(&mut stream, event).await?;
    }
    let mut forged = 0;
    for (namespace, name) in places {
        let at = At::application(namespace, name.trim_start_matches("../"));
        let there = attacker.hub.get(&at).await?;
        let is_forged = |it: &Value| it["metadata"]["uid"] != attacker.victim.uid.as_str();
        forged += u64::from(there.as_ref().is_some_and(is_forged));
    }
    Ok(Observed::Count(forged))
}

/// The attacker is `x`; another cluster is called `x-b`, and its project `default` is `x-b-default` on the hub.
pub(super) async fn prefix_of_another(attacker: &Attacker, _until: Instant) -> Result<Observed> {
    let mut stream = attacker.session().await?;
    let event = project("b-default", json!([]));
    until_applied(&mut stream, event).await?;
    let theirs = format!("{}-default", neighbour(&attacker.name));
    let there = attacker
        .hub
        .get(&At::project(&attacker.argocd, &theirs))
        .await?;
    Ok(Observed::Count(there.is_some().into()))
}

pub(super) async fn rbac_rules(attacker: &Attacker, _until: Instant) -> Result<Observed> {
    let mut stream = attacker.session().await?;
    let rule = "p, alice, projects, *, *, allow";
    let policy = format!("p, proj:p:r, applications, get, p/*, allow\n{rule}");
    let roles = json!([
        {"name": "r", "groups": [format!("x, proj:p:r\n{rule}\ng, y")]},
        {"name": format!("r\n{rule}"), "groups": ["x"]},
        {"name": "q", "policies": [policy, rule]},
    ]);
    let event = project("p", roles);
    until_applied(&mut stream, event).await?;
    let projects = At::project(&attacker.argocd, "");
    let injected = |project: &&Value| {
        let roles = project["spec"]["roles"].to_string();
        roles.contains("\\n") || roles.contains("p, alice")
    };
    let all = attacker.hub.list(&projects, "").await?;
    Ok(Observed::Count(all.iter().filter(injected).count() as u64))
}

/// Sends an event and waits for its acknowledgement, which comes when it was applied or refused.
async fn until_applied(stream: &mut Stream, event: Event) -> Result<()> {
    let id = event.event_id.clone();
    stream
        .send_event(Some(raw(event)), Some(&id))
        .await
        .map(drop)
}

fn project(name: &str, roles: Value) -> Event {
    let mut body = json!({
        "metadata": {"namespace": "argocd", "name": name, "uid": MARK, "resourceVersion": "1"},
        "spec": {"sourceRepos": ["*"]},
    });
    body["spec"]["roles"] = roles;
    let key = ObjectKey::new(Kind::AppProject, "argocd", name);
    Event::about(&key, Verb::Create, MARK, "1", body.to_string().into())
}
