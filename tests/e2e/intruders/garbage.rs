//! A peer with valid credentials that violates the protocol.

use anyhow::{Context as _, Result, ensure};
use lab::{
    raw_client::{Answer, RawClient, Stream, agent_name},
    steps::{deliver, enrol},
};
use protocol::wire::cloudevents::{
    CloudEvent,
    cloud_event::{CloudEventAttributeValue, Data, cloud_event_attribute_value::Attr},
};
use serde_json::json;
use time::Duration;
use tonic::Code;

use crate::{
    programs::{Program, Running},
    stage::Stage,
};

/// A message that no agent sends.
struct Garbage {
    what: &'static str,
    event: Option<CloudEvent>,
    /// Whether it can be acknowledged, having a name.
    named: bool,
    /// The outcome: a part of the reason, nothing, or the end of its stream.
    fate: Answer,
    /// The reason label of the principal's counter.
    counted: &'static str,
}

/// Garbage, oversized and unreadable messages end at most the stream they came on, and are counted.
pub(crate) async fn malformed_messages_do_not_disturb_other_clusters(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    stage.enrolled(2).await?;
    let mut bystander = stage.greeter("undisturbed", 2).await?;
    bystander.apply(&stage.hub).await?;
    deliver::until_healthy(&stage.hub, &bystander.at, "").await?;
    let manager = Program::Manager.running(stage).await?;
    let (agent1, agent2) = (
        Program::Agent(1).running(stage).await?,
        Program::Agent(2).running(stage).await?,
    );
    let sessions = agent2.metrics().await?.value(CONNECTIONS);

    let (door, forger) = stage.door().await?;
    knock(&door, &manager).await?;
    // The test has the credentials of spoke1. The connection of its agent is cut: the two would take the session from
    // each other all the time.
    stage.lab.faults().cut("spoke1");
    manager
        .until_counts("argocd_principal_connected_agents", 1.0)
        .await?;
    let credentials = forger.issue(&agent_name("spoke1"), &[], Duration::days(1))?;
    let version = door.version(&credentials).await?;
    let session = door
        .authenticate(Some(&credentials), "managed", &version)
        .await??;
    let repository = stage.lab.git().repository("undisturbed")?;
    let next = crate::stage::commit(&repository, "still-here", "v2")?;
    "v2".clone_into(&mut bystander.revision);
    bystander.apply(&stage.hub).await?;
    for garbage in all_garbage() {
        let mut stream = door
            .subscribe(&credentials, &session.access_token)
            .await??;
        garbage.emit(&mut stream, &manager).await?;
    }
    deliver::until_healthy(&stage.hub, &bystander.at, &next).await?;
    stage.lab.faults().heal("spoke1");

    enrol::until_available(&stage.hub, "spoke1").await?;
    manager.still_runs(stage).await?;
    agent1.still_runs(stage).await?;
    agent2.still_runs(stage).await?;
    let after = agent2.metrics().await?.value(CONNECTIONS);
    ensure!(
        (after - sessions).abs() < f64::EPSILON,
        "spoke2 had to connect {after} times, not {sessions}"
    );
    stage.clear(&bystander).await?;
    stage.not_enrolled(2).await
}

/// Bytes that are no TLS.
async fn knock(door: &RawClient, manager: &Running) -> Result<()> {
    for (outcome, bytes) in [
        ("plain_http", &b"GET / HTTP/1.0\r\n\r\n"[..]),
        ("garbage", &vec![0; 70_000]),
        ("garbage", &[0x16, 3, 1, 0xff, 0xff, 1]),
    ] {
        let counted = format!("argocd_principal_handshakes_total{{outcome=\"{outcome}\"}}");
        let before = manager.metrics().await?.value(&counted);
        door.send_bytes(bytes).await?;
        manager.until_counts(&counted, before + 1.0).await?;
    }
    Ok(())
}

impl Garbage {
    /// Sends it, and checks the answer and the counter.
    async fn emit(self, stream: &mut Stream, manager: &Running) -> Result<()> {
        let Self {
            what,
            event,
            named,
            fate,
            counted,
        } = self;
        let counted = format!("argocd_principal_events_refused_total{{reason=\"{counted}\"}}");
        let before = manager.metrics().await?.value(&counted);
        let answer = stream.send_event(event, named.then_some(GARBAGE_ID)).await;
        let answer = answer.with_context(|| what.to_owned())?;
        ensure!(is_like(&answer, &fate), "{what}: {answer:?}, not {fate:?}");
        manager
            .until_counts(&counted, before + 1.0)
            .await
            .with_context(|| what.to_owned())
    }
}

/// Whether something ended as it should; of a text only a part is given.
fn is_like(seen: &Answer, wanted: &Answer) -> bool {
    match (seen, wanted) {
        (Answer::Refused(seen), Answer::Refused(part)) => seen.contains(part),
        (Answer::Ended(code, seen), Answer::Ended(wanted, part)) => {
            code == wanted && seen.contains(part)
        }
        (seen, wanted) => seen == wanted,
    }
}

const APP: &str = "application";
const STATUS: &str = "io.argoproj.argocd-agent.event.status-update";
const SPEC: &str = "io.argoproj.argocd-agent.event.spec-update";

fn all_garbage() -> Vec<Garbage> {
    let ignored = |what, event| Garbage {
        what,
        event,
        named: false,
        fate: Answer::None,
        counted: "malformed",
    };
    let refused = |what, event, reason: &str, counted| Garbage {
        what,
        event: Some(event),
        named: true,
        fate: Answer::Refused(reason.to_owned()),
        counted,
    };
    let unread = |what, event, reason| refused(what, event, reason, "malformed");
    let unknown = json!({"metadata": {"name": "x", "namespace": "argocd", "uid": "unknown"}});
    let unknown = event(APP, STATUS, unknown.to_string().as_bytes());
    let larger = "protocol violation: a message above the size limit";
    vec![
        ignored("no event at all", None),
        ignored("an event with nothing in it", Some(CloudEvent::default())),
        unread("half a JSON", event(APP, STATUS, b"{"), "EOF"),
        unread(
            "no UTF-8",
            event(APP, STATUS, b"{\"metadata\": \"\xff\"}"),
            "unicode",
        ),
        unread(
            "no end",
            event(APP, STATUS, &vec![b'['; 300_000]),
            "EOF while parsing",
        ),
        unread(
            "an unknown target",
            event("nonsense", STATUS, b"{}"),
            "nonsense",
        ),
        unread("an unknown verb", event(APP, "nonsense", b"[]"), "nonsense"),
        refused("an unknown object", unknown, "no Application", "not_theirs"),
        refused(
            "an event of a hub",
            event(APP, SPEC, b"{}"),
            "not accepted here",
            "not_allowed",
        ),
        Garbage {
            what: "a message of 210 MB",
            event: Some(event(APP, STATUS, &vec![b' '; 210 << 20])),
            named: true,
            fate: Answer::Ended(Code::Unavailable, larger.to_owned()),
            counted: "too_large",
        },
    ]
}

/// The event ID of all named garbage.
const GARBAGE_ID: &str = "unknown_1_1";
/// How often an agent has connected.
const CONNECTIONS: &str = "argocd_agent_connections_total";

fn event(target: &str, kind: &str, body: &[u8]) -> CloudEvent {
    let text = |text: &str| CloudEventAttributeValue {
        attr: Some(Attr::CeString(text.to_owned())),
    };
    let schema = CloudEventAttributeValue {
        attr: Some(Attr::CeUri(target.to_owned())),
    };
    let attributes = [
        ("dataschema", schema),
        ("resourceid", text("unknown_1")),
        ("eventid", text(GARBAGE_ID)),
        ("subject", text("argocd/unknown")),
    ];
    CloudEvent {
        spec_version: "1.0".to_owned(),
        r#type: kind.to_owned(),
        attributes: attributes
            .map(|(name, value)| (name.to_owned(), value))
            .into(),
        data: Some(Data::BinaryData(body.to_vec().into())),
        ..CloudEvent::default()
    }
}
