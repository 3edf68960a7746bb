//! Whoever should not come in stays outside, is told why, and disturbs nobody.

use anyhow::{Context as _, Result, ensure};
use base64::Engine as _;
use lab::{
    steps::{At, Objects, deliver, objects::ADDON},
    stranger::{Papers, agent_name},
};
use protocol::wire::cloudevents::{
    CloudEvent,
    cloud_event::{CloudEventAttributeValue, Data, cloud_event_attribute_value::Attr},
};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use serde_json::{Value, json};
use time::Duration;
use tonic::Code;

use crate::stage::Stage;

/// A request for a certificate that our signer does not grant.
struct Request {
    name: &'static str,
    /// Who asks: `system:open-cluster-management:<this>:agent`.
    requester: &'static str,
    common_name: String,
    alternative: &'static str,
    usages: &'static [&'static str],
}

/// Requests with a wrong requester, subject, SAN or usage stay pending, each with an Event that says why.
pub(crate) async fn a_wrong_certificate_request_stays_pending_and_is_explained(
    stage: &Stage,
) -> Result<()> {
    stage.enrolled(1).await?;
    let good = ["digital signature", "key encipherment", "client auth"].as_slice();
    let san = "argocd-agent-addon.addon.open-cluster-management.io";
    let spoke1 = agent_name("spoke1");
    for request in [
        Request {
            name: "of-another-cluster",
            requester: "spoke2",
            common_name: spoke1.clone(),
            alternative: san,
            usages: good,
        },
        Request {
            name: "of-a-longer-name",
            requester: "spoke11",
            common_name: spoke1.clone(),
            alternative: san,
            usages: good,
        },
        Request {
            name: "for-another-name",
            requester: "spoke1",
            common_name: agent_name("spoke2"),
            alternative: san,
            usages: good,
        },
        Request {
            name: "for-another-host",
            requester: "spoke1",
            common_name: spoke1.clone(),
            alternative: "hub.example.com",
            usages: good,
        },
        Request {
            name: "to-serve",
            requester: "spoke1",
            common_name: spoke1.clone(),
            alternative: san,
            usages: &["digital signature", "server auth"],
        },
    ] {
        let at = ask(stage, &request).await?;
        explained(&stage.hub, request.name).await?;
        let csr = stage.hub.read(&at).await?;
        ensure!(
            csr["status"]["conditions"].is_null(),
            "{}: {}",
            request.name,
            csr["status"]
        );
        ensure!(
            csr["status"]["certificate"].is_null(),
            "{} got a certificate",
            request.name
        );
        stage.hub.delete(&at).await?;
    }
    Ok(())
}

async fn ask(stage: &Stage, request: &Request) -> Result<At> {
    let group = format!("system:open-cluster-management:{}", request.requester);
    let user = format!("{group}:agent");
    // Rights to ask are not what is tested: every spoke may create requests.
    let groups = [
        group.as_str(),
        "system:open-cluster-management:managed-clusters",
        "system:masters",
    ];
    let asking = Objects::new(stage.lab.hub().client_as(&user, &groups).await?);
    let at = At::csr(request.name);
    asking.delete(&at).await?;
    let body = json!({
        "metadata": {"labels": {
            "open-cluster-management.io/addon-name": ADDON,
            "open-cluster-management.io/cluster-name": "spoke1",
        }},
        "spec": {
            "signerName": "open-cluster-management.io/argocd-agent-addon",
            "usages": request.usages,
            "request": request_body(request)?,
        },
    });
    asking.apply(&at, body).await?;
    Ok(at)
}

fn request_body(request: &Request) -> Result<String> {
    let mut params = CertificateParams::new(vec![request.alternative.to_owned()])?;
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, request.common_name.as_str());
    name.push(
        DnType::OrganizationName,
        "system:open-cluster-management:cluster:spoke1:addon:argocd-agent-addon",
    );
    params.distinguished_name = name;
    let pem = params.serialize_request(&KeyPair::generate()?)?.pem()?;
    Ok(base64::engine::general_purpose::STANDARD.encode(pem))
}

/// Waits for an Event about a request.
async fn explained(hub: &Objects, request: &str) -> Result<()> {
    let events = At::event("default");
    let look = || hub.list(&events, "");
    let about = |events: &Vec<Value>| {
        events.iter().any(|event| {
            event["involvedObject"]["name"] == request
                && event["message"].as_str().is_some_and(|m| m.len() > 20)
        })
    };
    let what = format!("an Event that says why {request} stays pending");
    lab::wait::until(&what, look, about).await.map(drop)
}

/// A peer of another authority, of a cluster that is not enrolled, with an old certificate or with none gets nowhere.
pub(crate) async fn a_peer_with_wrong_papers_is_refused(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    stage.not_enrolled(2).await?;
    let (door, forger) = stage.door().await?;
    let year = Duration::days(365);
    let good = forger.papers(&agent_name("spoke1"), &[], year)?;
    let version = door.version(&good).await?;
    let unknown = lab::stranger::Forger::unknown()?;

    let cases: [(&str, Option<Papers>); 3] = [
        ("no certificate", None),
        (
            "another authority",
            Some(unknown.papers(&agent_name("spoke1"), &[], year)?),
        ),
        (
            "an expired certificate",
            Some(forger.papers(&agent_name("spoke1"), &[], -Duration::days(1))?),
        ),
    ];
    for (what, papers) in cases {
        let answer = door
            .authenticate(papers.as_ref(), "managed", &version)
            .await?;
        ensure!(answer.is_err(), "{what}: was let in");
    }
    for (what, common_name) in [
        ("a cluster that is not enrolled", agent_name("spoke2")),
        ("a longer name", agent_name("spoke11")),
        ("a bare name", "spoke1".to_owned()),
        (
            "another form",
            "x,CN=system:open-cluster-management:cluster:spoke1".to_owned(),
        ),
    ] {
        let papers = forger.papers(&common_name, &[], year)?;
        let answer = door
            .authenticate(Some(&papers), "managed", &version)
            .await?;
        let code = answer.as_ref().err().map(tonic::Status::code);
        ensure!(code == Some(Code::Unauthenticated), "{what}: {answer:?}");
    }
    let wrong_mode = door
        .authenticate(Some(&good), "autonomous", &version)
        .await?;
    ensure!(
        wrong_mode.is_err(),
        "another mode than the recorded one was let in"
    );
    Ok(())
}

/// Garbage, oversized and unreadable messages end at most the stream they came on.
pub(crate) async fn garbage_disturbs_nobody(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    let app = stage.greeter("undisturbed", 1).await?;
    app.apply(&stage.hub).await?;
    deliver::until_healthy(&stage.hub, &app.at, "").await?;
    let manager = manager_pod(stage).await?;

    let (door, forger) = stage.door().await?;
    let papers = forger.papers(&agent_name("spoke1"), &[], Duration::days(1))?;
    let version = door.version(&papers).await?;
    for bytes in [
        &b"GET / HTTP/1.0\r\n\r\n"[..],
        &vec![0; 70_000],
        &[0x16, 3, 1, 0xff, 0xff, 1][..],
    ] {
        door.knock_with(bytes).await?;
    }
    let session = door
        .authenticate(Some(&papers), "managed", &version)
        .await??;
    for event in [
        None,
        Some(CloudEvent::default()),
        Some(event(
            "application",
            "io.argoproj.argocd-agent.event.status-update",
            b"{",
        )),
        Some(event(
            "nonsense",
            "io.argoproj.argocd-agent.event.create",
            b"{}",
        )),
        Some(event("application", "nonsense", b"[]")),
        Some(event(
            "application",
            "io.argoproj.argocd-agent.event.status-update",
            &vec![b'['; 300_000],
        )),
        Some(event(
            "application",
            "io.argoproj.argocd-agent.event.status-update",
            &vec![b' '; 210 << 20],
        )),
    ] {
        let stream = door.subscribe(&papers, &session.access_token).await??;
        stream.say(event).await;
    }
    let mut app = app;
    let repository = stage.lab.git().repository("undisturbed")?;
    let next = crate::stage::commit(&repository, "still-here", "v2")?;
    "v2".clone_into(&mut app.revision);
    app.apply(&stage.hub).await?;
    deliver::until_healthy(&stage.hub, &app.at, &next).await?;
    ensure!(
        manager_pod(stage).await? == manager,
        "the manager did not restart"
    );
    stage.clear(&app).await
}

/// The manager's pod and how often it was started.
async fn manager_pod(stage: &Stage) -> Result<(Value, Value)> {
    let labels = format!("app.kubernetes.io/name={}", lab::product::MANAGER);
    let pods = stage
        .hub
        .list(&At::pod(lab::product::NAMESPACE, ""), &labels)
        .await?;
    let pod = pods.first().context("the manager has a pod")?;
    Ok((
        pod["metadata"]["uid"].clone(),
        pod["status"]["containerStatuses"][0]["restartCount"].clone(),
    ))
}

fn event(target: &str, kind: &str, body: &[u8]) -> CloudEvent {
    let text = |text: &str| CloudEventAttributeValue {
        attr: Some(Attr::CeString(text.to_owned())),
    };
    let schema = CloudEventAttributeValue {
        attr: Some(Attr::CeUri(target.to_owned())),
    };
    let attributes = [
        ("dataschema", schema),
        ("resourceid", text("nobody_1")),
        ("eventid", text("nobody_1_1")),
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
