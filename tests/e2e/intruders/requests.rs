//! CSRs that the signer must not approve.

use anyhow::{Result, ensure};
use base64::Engine as _;
use lab::{
    raw_client::agent_name,
    steps::{ADDON, At, Objects, enrol},
};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use serde_json::{Value, json};

use crate::{programs::Program, stage::Stage};

/// A CSR that must stay pending.
struct Request {
    name: &'static str,
    /// Who asks: `system:open-cluster-management:<this>:agent`.
    requester: &'static str,
    signer: &'static str,
    common_name: String,
    organizations: [&'static str; 2],
    alternative: &'static str,
    usages: &'static [&'static str],
    /// The reason of the Event and of the metric, and a part of the Event's message.
    why: (&'static str, &'static str),
}

impl Request {
    /// What OCM's agent on spoke1 asks for.
    fn good(name: &'static str, why: (&'static str, &'static str)) -> Self {
        Self {
            name,
            requester: "spoke1",
            signer: SIGNER,
            common_name: agent_name("spoke1"),
            organizations: [
                "system:open-cluster-management:cluster:spoke1:addon:argocd-agent-addon",
                ALL_AGENTS,
            ],
            alternative: "argocd-agent-addon.addon.open-cluster-management.io",
            usages: &["digital signature", "key encipherment", "client auth"],
            why,
        }
    }
}

/// The signer of our add-on's certificates.
const SIGNER: &str = "open-cluster-management.io/argocd-agent-addon";

/// The group of this add-on's agents on all clusters.
const ALL_AGENTS: &str = "system:open-cluster-management:addon:argocd-agent-addon";

fn wrong_requests() -> Vec<Request> {
    vec![
        Request {
            requester: "spoke2",
            ..Request::good("of-another-cluster", ("WrongRequester", "spoke2:agent"))
        },
        Request {
            requester: "spoke11",
            ..Request::good("of-a-longer-name", ("WrongRequester", "spoke11:agent"))
        },
        Request {
            common_name: agent_name("spoke2"),
            ..Request::good(
                "for-another-name",
                ("WrongCommonName", "cluster:spoke2:addon"),
            )
        },
        Request {
            organizations: ["system:masters", ALL_AGENTS],
            ..Request::good(
                "for-another-group",
                ("WrongOrganizations", "system:masters"),
            )
        },
        Request {
            alternative: "hub.example.com",
            ..Request::good(
                "for-another-host",
                ("WrongAlternativeName", "argocd-agent-addon.addon"),
            )
        },
        Request {
            usages: &["digital signature", "server auth"],
            ..Request::good("to-serve", ("WrongUsages", "client auth"))
        },
        // They carry our add-on's labels, so our manager explains them, whichever signer they name.
        Request {
            signer: "kubernetes.io/kube-apiserver-client",
            ..Request::good(
                "by-the-hubs-signer",
                ("WrongSigner", "kube-apiserver-client"),
            )
        },
        Request {
            signer: "example.com/other",
            ..Request::good("by-another-signer", ("WrongSigner", "example.com/other"))
        },
    ]
}

/// Requests with a wrong requester, signer, subject, SAN or usage stay pending, each with an Event that says why.
pub(crate) async fn an_invalid_csr_stays_pending_and_is_explained(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    let manager = Program::Manager.running(stage).await?;
    let units = enrol::registered_units(&stage.hub, "spoke1").await?;
    for request in wrong_requests() {
        let (reason, part) = request.why;
        let counted = format!("addon_requests_refused_total{{reason=\"{reason}\"}}");
        let before = manager.metrics().await?.value(&counted);
        let at = ask(stage, &request, &units).await?;
        explained(&stage.hub, request.name, reason, part).await?;
        manager.until_counts(&counted, before + 1.0).await?;
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

async fn ask(stage: &Stage, request: &Request, units: &[String]) -> Result<At> {
    let group = format!("system:open-cluster-management:{}", request.requester);
    let user = format!("{group}:agent");
    // This does not test rights: every spoke may create requests.
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
            "signerName": request.signer,
            "usages": request.usages,
            "request": request_body(request, units)?,
        },
    });
    asking.apply(&at, body).await?;
    Ok(at)
}

fn request_body(request: &Request, units: &[String]) -> Result<String> {
    let mut params = CertificateParams::new(vec![request.alternative.to_owned()])?;
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, request.common_name.as_str());
    let [first, second] = request.organizations;
    name.push(DnType::OrganizationName, first);
    // The organization attribute by its OID: by its name it would replace the first.
    name.push(DnType::CustomDnType(vec![2, 5, 4, 10]), second);
    for unit in units {
        name.push(DnType::OrganizationalUnitName, unit.as_str());
    }
    params.distinguished_name = name;
    let pem = params.serialize_request(&KeyPair::generate()?)?.pem()?;
    Ok(base64::engine::general_purpose::STANDARD.encode(pem))
}

/// Waits for the Event that says why a request stays pending.
pub(crate) async fn explained(
    hub: &Objects,
    request: &str,
    reason: &str,
    part: &str,
) -> Result<()> {
    let events = At::event("default");
    let look = || hub.list(&events, "");
    let about = |events: &Vec<Value>| {
        events.iter().any(|event| {
            event["involvedObject"]["name"] == request
                && event["type"] == "Warning"
                && event["reason"] == reason
                && event["message"]
                    .as_str()
                    .is_some_and(|m| m.contains("left pending") && m.contains(part))
        })
    };
    let what = format!("an Event that says why {request} stays pending: {reason}, {part}");
    lab::wait::until(&what, look, about).await.map(drop)
}
