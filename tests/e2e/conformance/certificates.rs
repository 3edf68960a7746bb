//! Which CSRs are approved, and the contents of the issued certificates.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use base64::Engine as _;
use kube::{
    Client,
    api::{DynamicObject, PostParams},
};
use lab::{
    product,
    raw_client::agent_name,
    steps::{ADDON, At, Objects, enrol, objects::has_condition},
    wait,
};
use lab_ocm_stand_in::certificate_request;
use serde_json::{Value, json};
use x509_parser::{pem::parse_x509_pem, prelude::*};

use crate::stage::{SOON, Stage};

const SIGNER: &str = "open-cluster-management.io/argocd-agent-addon";
const ADDON_LABEL: &str = "open-cluster-management.io/addon-name";
const CLUSTER_LABEL: &str = "open-cluster-management.io/cluster-name";
/// The annotation in which OCM's gRPC server names the user for whom it requests.
const ANNOTATED_USER: &str = "open-cluster-management.io/csr-user";
const SAN: &str = "argocd-agent-addon.addon.open-cluster-management.io";

/// A CSR that is valid except for the change of a case.
#[derive(Clone)]
pub(super) struct Request<'a> {
    pub(super) name: &'a str,
    cluster: &'a str,
    pub(super) requester: String,
    /// The groups of the requester.
    pub(super) member_of: Vec<String>,
    signer: &'a str,
    groups: Vec<String>,
    alternatives: Vec<&'a str>,
    /// The user in the annotation of OCM's gRPC server.
    pub(super) annotated: Option<String>,
    /// Labels that it lacks.
    is_missing: Vec<&'a str>,
}

impl<'a> Request<'a> {
    pub(super) fn good(name: &'a str, cluster: &'a str) -> Self {
        let group = format!("system:open-cluster-management:cluster:{cluster}:addon:{ADDON}");
        Self {
            name,
            cluster,
            requester: format!("system:open-cluster-management:{cluster}:agent"),
            // This does not test rights: every spoke may create requests.
            member_of: vec![
                format!("system:open-cluster-management:{cluster}"),
                "system:masters".to_owned(),
            ],
            signer: SIGNER,
            groups: vec![
                group,
                format!("system:open-cluster-management:addon:{ADDON}"),
            ],
            alternatives: vec![SAN],
            annotated: None,
            is_missing: Vec::new(),
        }
    }

    /// Makes it, in the name of its requester.
    pub(super) async fn ask(&self, stage: &Stage) -> Result<At> {
        let groups: Vec<_> = self.member_of.iter().map(String::as_str).collect();
        let asking = stage.lab.hub().client_as(&self.requester, &groups).await?;
        let (at, _key) = self.ask_with(stage, asking).await?;
        Ok(at)
    }

    /// Makes it with this client, and returns the key, too.
    pub(super) async fn ask_with(&self, stage: &Stage, asking: Client) -> Result<(At, String)> {
        let units = enrol::registered_units(&stage.hub, self.cluster).await?;
        let name = agent_name(self.cluster);
        let (key, pem) = certificate_request(&name, &self.groups, &units, &self.alternatives)?;
        let mut labels = BTreeMap::from([(ADDON_LABEL, ADDON), (CLUSTER_LABEL, self.cluster)]);
        labels.retain(|label, _| !self.is_missing.contains(label));
        let annotated = self
            .annotated
            .as_ref()
            .map(|user| json!({ ANNOTATED_USER: user }));
        let at = At::csr(self.name);
        let (api_version, kind) = at.kind();
        let body = json!({
            "apiVersion": api_version,
            "kind": kind,
            "metadata": { "name": self.name, "labels": labels, "annotations": annotated },
            "spec": {
                "signerName": self.signer,
                "usages": ["digital signature", "key encipherment", "client auth"],
                "request": base64::engine::general_purpose::STANDARD.encode(pem),
            },
        });
        let body: DynamicObject = serde_json::from_value(body)?;
        stage.hub.delete(&at).await?;
        // A spoke may create requests, but not apply them.
        let asking = Objects::new(asking).api(&at);
        let created = asking.create(&PostParams::default(), &body).await;
        created.with_context(|| format!("create {at}"))?;
        Ok((at, key))
    }
}

/// Waits for the Event of this reason about a request.
async fn until_event(hub: &Objects, request: &str, reason: &str) -> Result<()> {
    let events = At::event("default");
    let look = || hub.list(&events, "");
    let is_reported = |events: &Vec<Value>| {
        events
            .iter()
            .any(|it| it["involvedObject"]["name"] == request && it["reason"] == reason)
    };
    let what = format!("an Event {reason} about {request}");
    wait::until(&what, look, is_reported).await.map(drop)
}

/// CSRs that are wrong in one respect, each with the reason of its Event.
fn wrong_requests() -> Vec<(Request<'static>, &'static str)> {
    let good = |name: &'static str| Request::good(name, "spoke1");
    let with = |mut request: Request<'static>, change: fn(&mut Request<'static>)| {
        change(&mut request);
        request
    };
    vec![
        (Request::good("not-enabled", "spoke2"), "AddonNotEnabled"),
        (
            with(good("one-group-more"), |it| {
                it.groups.push("system:masters".to_owned());
            }),
            "WrongOrganizations",
        ),
        (
            with(good("one-group-less"), |it| it.groups.truncate(1)),
            "WrongOrganizations",
        ),
        (
            with(good("of-the-hubs-signer"), |it| {
                it.signer = "kubernetes.io/kube-apiserver-client";
            }),
            "WrongSigner",
        ),
        (
            with(good("one-name-more"), |it| {
                it.alternatives.push("hub.example.com");
            }),
            "WrongAlternativeName",
        ),
        (
            with(good("of-a-name-that-begins-so"), |it| {
                "system:open-cluster-management:spoke11:agent".clone_into(&mut it.requester);
            }),
            "WrongRequester",
        ),
        (
            with(good("without-the-addons-name"), |it| {
                it.is_missing = vec![ADDON_LABEL];
            }),
            "WrongAddonLabel",
        ),
        (
            with(good("without-labels"), |it| {
                it.is_missing = vec![ADDON_LABEL, CLUSTER_LABEL];
            }),
            "WrongClusterLabel",
        ),
        (
            with(good("through-grpc-without-a-word"), |it| {
                "system:serviceaccount:open-cluster-management-hub:grpc-server-sa"
                    .clone_into(&mut it.requester);
            }),
            "WrongRequester",
        ),
    ]
}

/// Requester, cluster, signer and subject of a CSR all have to match. A requester whose name only begins like the
/// cluster's does not match.
pub(crate) async fn an_unexpected_csr_stays_pending(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    stage.not_enrolled(2).await?;
    for (request, reason) in wrong_requests() {
        let at = request.ask(stage).await?;
        until_event(&stage.hub, request.name, reason).await?;
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

/// The chain ends at our CA, the certificate is good for clients only and not for longer than the manager allows, and
/// its subject is the registered one.
pub(crate) async fn certificate_contains_only_the_registered_subject(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    let secret = At::secret(enrol::AGENT_NAMESPACE, enrol::CERTIFICATE);
    let certificate = pem(&stage.spoke(1).read(&secret).await?)?;
    let authority = pem(&stage
        .hub
        .read(&At::secret(product::NAMESPACE, "argocd-agent-ca"))
        .await?)?;
    let (certificate, authority) = (certificate.parse_x509()?, authority.parse_x509()?);
    ensure!(
        certificate.issuer() == authority.subject(),
        "{}",
        certificate.issuer()
    );
    certificate.verify_signature(Some(authority.public_key()))?;
    let texts = |parts: Vec<&AttributeTypeAndValue<'_>>| -> Vec<String> {
        parts
            .into_iter()
            .filter_map(|it| it.as_str().ok().map(str::to_owned))
            .collect()
    };
    let subject = certificate.subject();
    ensure!(
        texts(subject.iter_common_name().collect()) == [agent_name("spoke1")],
        "{subject}"
    );
    let mut groups = texts(subject.iter_organization().collect());
    groups.sort();
    let mut wanted = Request::good("any", "spoke1").groups;
    wanted.sort();
    ensure!(groups == wanted, "{groups:?}");
    let usage = certificate.extended_key_usage()?.context("usages")?.value;
    ensure!(
        usage.client_auth && !usage.server_auth && !usage.any && usage.other.is_empty(),
        "{usage:?}"
    );
    ensure!(!certificate.is_ca());
    let validity = certificate.validity();
    let life = validity.not_after.timestamp() - validity.not_before.timestamp();
    // Thirty days, and some minutes in which a clock that is behind takes it for good already.
    ensure!(life <= 30 * 24 * 3600 + 3600, "{validity:?}");
    ensure!(validity.is_valid(), "{validity:?}");
    Ok(())
}

fn pem(secret: &Value) -> Result<Pem> {
    let encoded = secret["data"]["tls.crt"]
        .as_str()
        .context("a certificate")?;
    let bytes = base64::engine::general_purpose::STANDARD.decode(encoded)?;
    Ok(parse_x509_pem(&bytes)?.1)
}

/// A cluster with the longest name there is gets its work and its certificate, and leaves nothing behind. There is no
/// cluster behind it: the test asks in its name.
pub(crate) async fn a_cluster_of_the_longest_name_is_enrolled(stage: &Stage) -> Result<()> {
    let longest = "l".repeat(63);
    let cluster = At::cluster(&longest);
    stage
        .hub
        .apply(&cluster, json!({ "spec": { "hubAcceptsClient": true } }))
        .await?;
    stage
        .hub
        .until_there(&At::namespace(&longest), SOON)
        .await?;
    enrol::by_label(&stage.hub, &longest).await?;
    let addon = At::addon(&longest);
    let registered = |it: &Value| has_condition(it, "RegistrationApplied", "True", "");
    stage
        .hub
        .until(&addon, "is registered", SOON, registered)
        .await?;
    let work = At::work(&longest, "addon-argocd-agent-addon-deploy-0");
    stage.hub.until_there(&work, SOON).await?;
    let request = Request::good("of-the-longest-name", &longest)
        .ask(stage)
        .await?;
    let issued = |it: &Value| it["status"]["certificate"].is_string();
    stage
        .hub
        .until(&request, "has a certificate", SOON, issued)
        .await?;
    stage.hub.delete(&request).await?;
    stage
        .hub
        .until_there(&enrol::cluster_secret(&longest), SOON)
        .await?;
    stage.hub.delete(&cluster).await?;
    stage.hub.until_gone(&cluster, wait::BOUND).await?;
    for at in [addon, work, enrol::cluster_secret(&longest)] {
        stage.hub.until_gone(&at, SOON).await?;
    }
    Ok(())
}
