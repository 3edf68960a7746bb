//! Reconciles one certificate request: checks, approves and signs it, or writes an Event with the reason.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::{
    ByteString,
    api::{
        certificates::v1::{CertificateSigningRequest, CertificateSigningRequestCondition},
        core::v1::ObjectReference,
    },
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::{Api, api::PostParams};
use tracing::{info, warn};

use super::{
    Addon, Error, Refusal, SigningCa, Target,
    csr::{self, Granted, Progress, Situation},
    drive::{Hub, Key},
    event::NewEvent,
    metrics::Written,
    object_cache::Expected,
    queue::Outcome,
    reconcile,
};
use crate::{api::cluster::ManagedCluster, name::ClusterName};

/// The pause before another attempt while no CA is available.
const CA_PAUSE: Duration = Duration::from_secs(10);

/// Reconciles one request.
///
/// A refused request may become valid (the cluster is accepted, the add-on enabled): changes of the
/// cluster and of its add-on wake its requests.
pub(crate) async fn reconcile<A: Addon>(
    hub: &Hub<A>,
    name: &str,
    now: Timestamp,
) -> Result<Outcome, Error> {
    let (sender, judged) = {
        let state = hub.world.lock();
        let Some(request) = state.request(name) else {
            hub.events.forget(&regarding(name, None));
            return Ok(Outcome::Settled(None));
        };
        if !request.is_open() {
            return Ok(Outcome::Settled(None));
        }
        let queue = csr::queue(state.requests(), request.sender.as_ref());
        let judged = queue.iter().take(csr::OPEN_LIMIT).any(|it| *it == name);
        (request.sender.clone(), judged)
    };
    if !judged {
        ignore(hub, sender.as_ref(), now).await;
        return Ok(Outcome::Settled(None));
    }
    let api = Api::<CertificateSigningRequest>::all(hub.client.clone());
    let request = api.get_opt(name).await.map_err(|source| Error::Read {
        object: format!("certificate request {name}"),
        source: Box::new(source),
    })?;
    let Some(request) = request else {
        return Ok(Outcome::Settled(None));
    };
    match advance(hub, &request, now).await {
        Err(Error::Write { source, .. }) if is_not_found(&source) => Ok(Outcome::Settled(None)),
        outcome => outcome,
    }
}

/// Reports once for a sender that its request is too large, or that it has too many.
async fn ignore<A: Addon>(hub: &Hub<A>, sender: Option<&ClusterName>, now: Timestamp) {
    let (limit, size) = (csr::OPEN_LIMIT, csr::SIZE_LIMIT / 1024);
    let note = format!(
        "ignored a certificate request: the {limit} oldest open ones of a cluster are judged, if they have at most \
        {size} KiB; delete those that are not needed"
    );
    let emitting = NewEvent {
        regarding: regarding_sender(hub, sender),
        warning: true,
        reason: "RequestsIgnored",
        note: &note,
    };
    let reporter = hub.addon.name().as_str();
    let events = &hub.events;
    if events
        .emit(&hub.client, reporter, emitting, now, &hub.metrics)
        .await
    {
        let sender = sender.map(ClusterName::as_str);
        warn!(
            cluster = sender,
            "ignoring certificate requests: too many are open, or one is too large"
        );
    }
}

/// The ManagedCluster whose agent sent a request; the `ClusterManagementAddOn` for other requesters.
fn regarding_sender<A: Addon>(hub: &Hub<A>, sender: Option<&ClusterName>) -> ObjectReference {
    let addon = || {
        (
            hub.version.api_version(),
            "ClusterManagementAddOn",
            hub.addon.name().to_string(),
        )
    };
    let cluster = |name: &ClusterName| {
        let api_version = <ManagedCluster as kube::Resource>::api_version(&());
        (api_version.into_owned(), "ManagedCluster", name.to_string())
    };
    let (api_version, kind, name) = sender.map_or_else(addon, cluster);
    ObjectReference {
        api_version: Some(api_version),
        kind: Some(kind.to_owned()),
        name: Some(name),
        ..ObjectReference::default()
    }
}

fn is_not_found(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_not_found())
}

async fn advance<A: Addon>(
    hub: &Hub<A>,
    request: &CertificateSigningRequest,
    now: Timestamp,
) -> Result<Outcome, Error> {
    let progress = csr::progress(request);
    if matches!(progress, Progress::Denied | Progress::Issued) {
        return Ok(Outcome::Settled(None));
    }
    let granted = match judge(hub, request) {
        Ok(granted) => granted,
        Err(refusal) => {
            refuse(hub, request, &refusal, now).await;
            return Ok(Outcome::Settled(None));
        }
    };
    let sender = csr::claimed_cluster(request);
    hub.events.forget(&regarding_sender(hub, sender.as_ref()));
    let approved = match progress {
        Progress::Pending => approve(hub, request, now).await?,
        // Another approver's approval counts, but only for a request that passes our own check.
        Progress::Approved | Progress::Denied | Progress::Issued => request.clone(),
    };
    if !granted.custom {
        return Ok(Outcome::Settled(None));
    }
    let Some(ca) = hub.addon.signing_ca(&approved.spec.signer_name) else {
        let note = "approved; waiting for a CA to sign with";
        emit_event(hub, &approved, true, "NoSigningCa", note, now).await;
        return Ok(Outcome::Settled(Some(CA_PAUSE)));
    };
    issue(hub, approved, &granted, &ca, now).await
}

fn judge<A: Addon>(hub: &Hub<A>, request: &CertificateSigningRequest) -> Result<Granted, Refusal> {
    let cluster = csr::claimed_cluster(request).ok_or(Refusal::ClusterLabel)?;
    let observed = hub.world.observe(&cluster);
    let (managed_cluster, cluster_addon) = (observed.cluster.as_deref(), observed.addon.as_deref());
    let target = managed_cluster
        .zip(cluster_addon)
        .map(|(managed, addon)| Target {
            name: &cluster,
            cluster: managed,
            addon,
        });
    let wanted = target
        .map(|target| hub.addon.registrations(target))
        .unwrap_or_default();
    let addon = hub.addon.name();
    let situation = Situation {
        addon,
        cluster: &cluster,
        managed_cluster,
        cluster_addon,
        wanted: &wanted,
    };
    let granted = csr::check(request, situation)?;
    let blocked =
        target.and_then(|target| reconcile::blocked(hub.addon.as_ref(), target, &observed));
    match blocked {
        Some(verdict) => Err(Refusal::NotServed {
            cluster,
            message: verdict.message,
        }),
        None => Ok(granted),
    }
}

async fn refuse<A: Addon>(
    hub: &Hub<A>,
    request: &CertificateSigningRequest,
    refusal: &Refusal,
    now: Timestamp,
) {
    let note = format!("left pending: {refusal}");
    if emit_event(hub, request, true, refusal.reason(), &note, now).await {
        let name = request.metadata.name.as_deref().unwrap_or_default();
        warn!(request = name, reason = refusal.reason(), %refusal, "certificate request left pending");
        hub.metrics.refused(refusal.reason());
    }
}

async fn emit_event<A: Addon>(
    hub: &Hub<A>,
    request: &CertificateSigningRequest,
    warning: bool,
    reason: &'static str,
    note: &str,
    now: Timestamp,
) -> bool {
    let name = request.metadata.name.as_deref().unwrap_or_default();
    let regarding = regarding(name, request.metadata.uid.clone());
    let emitting = NewEvent {
        regarding,
        warning,
        reason,
        note,
    };
    let reporter = hub.addon.name().as_str();
    hub.events
        .emit(&hub.client, reporter, emitting, now, &hub.metrics)
        .await
}

fn regarding(name: &str, uid: Option<String>) -> ObjectReference {
    ObjectReference {
        api_version: Some("certificates.k8s.io/v1".to_owned()),
        kind: Some("CertificateSigningRequest".to_owned()),
        name: Some(name.to_owned()),
        uid,
        ..ObjectReference::default()
    }
}

/// Approves through the subresource, with the resourceVersion of the check: the spec of a request is
/// immutable, but another approver may have denied it meanwhile.
async fn approve<A: Addon>(
    hub: &Hub<A>,
    request: &CertificateSigningRequest,
    now: Timestamp,
) -> Result<CertificateSigningRequest, Error> {
    let mut approved = request.clone();
    let conditions = &mut approved.status.get_or_insert_default().conditions;
    conditions
        .get_or_insert_default()
        .push(CertificateSigningRequestCondition {
            type_: "Approved".to_owned(),
            status: "True".to_owned(),
            reason: Some("AutoApprovedByHubCSRApprovingController".to_owned()),
            message: Some("Auto approving addon agent certificate.".to_owned()),
            last_update_time: Some(Time(now)),
            last_transition_time: Some(Time(now)),
        });
    let approved = replace(hub, "approval", "approve", &approved).await?;
    info!(
        request = approved.metadata.name,
        "certificate request approved"
    );
    hub.metrics.wrote(Written::Approval);
    Ok(approved)
}

async fn issue<A: Addon>(
    hub: &Hub<A>,
    mut request: CertificateSigningRequest,
    granted: &Granted,
    ca: &SigningCa,
    now: Timestamp,
) -> Result<Outcome, Error> {
    let wish = request.spec.expiration_seconds;
    let wish = wish
        .and_then(|wish| u64::try_from(wish).ok())
        .map(Duration::from_secs);
    let certificate = csr::public_key(&request.spec.request.0)
        .map_err(|_refused| super::SigningCaError::KeyKind)
        .and_then(|key| {
            let validity = ca.validity(hub.addon.certificate_lifetime(), wish, now)?;
            ca.sign(&key, &granted.subject, validity)
        });
    let certificate = match certificate {
        Ok(certificate) => certificate,
        Err(source) => {
            emit_event(
                hub,
                &request,
                true,
                "SigningFailed",
                &source.to_string(),
                now,
            )
            .await;
            let request = request.metadata.name.unwrap_or_default();
            return Err(Error::Sign { request, source });
        }
    };
    let status = request.status.get_or_insert_default();
    status.certificate = Some(ByteString(certificate.into_bytes()));
    let issued = replace(hub, "status", "sign", &request).await?;
    info!(request = issued.metadata.name, "certificate issued");
    hub.metrics.wrote(Written::Certificate);
    Ok(Outcome::Settled(None))
}

async fn replace<A: Addon>(
    hub: &Hub<A>,
    subresource: &str,
    action: &'static str,
    request: &CertificateSigningRequest,
) -> Result<CertificateSigningRequest, Error> {
    let name = request.metadata.name.as_deref().unwrap_or_default();
    let api = Api::<CertificateSigningRequest>::all(hub.client.clone());
    let params = PostParams {
        field_manager: Some(hub.addon.name().to_string()),
        ..PostParams::default()
    };
    let result = api
        .replace_subresource(subresource, name, &params, request)
        .await;
    let replaced = result.map_err(|source| Error::Write {
        action,
        object: format!("certificate request {name}"),
        source: Box::new(source),
    })?;
    let version = replaced
        .metadata
        .resource_version
        .clone()
        .unwrap_or_default();
    hub.world
        .expect(&Key::Request(name.to_owned()), Expected::Version(version));
    Ok(replaced)
}
