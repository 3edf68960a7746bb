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
    Addon, Error, SigningCa,
    csr::{self, Granted, Progress, Refusal, Situation},
    error::unless_gone,
    event::reference,
    hub::Hub,
    key::Key,
    metrics::Written,
    object_cache::Expected,
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
) -> Result<Option<Duration>, Error> {
    let (sender, judged) = {
        let state = hub.world.lock();
        let Some(request) = state.request(name) else {
            hub.events.forget(&regarding(name, None));
            return Ok(None);
        };
        if !request.is_open() {
            return Ok(None);
        }
        let queue = csr::queue(state.requests(), request.sender.as_ref());
        let judged = queue.iter().take(csr::OPEN_LIMIT).any(|it| *it == name);
        (request.sender.clone(), judged)
    };
    if !judged {
        ignore(hub, sender.as_ref()).await;
        return Ok(None);
    }
    let api = Api::<CertificateSigningRequest>::all(hub.client.clone());
    let request = api.get_opt(name).await;
    let request = request.map_err(Error::read(format!("certificate request {name}")))?;
    match request {
        Some(request) => advance(hub, &request, now).await,
        None => Ok(None),
    }
}

/// Reports once for a sender that its request is too large, or that it has too many.
async fn ignore<A: Addon>(hub: &Hub<A>, sender: Option<&ClusterName>) {
    let (limit, size) = (csr::OPEN_LIMIT, csr::SIZE_LIMIT / 1024);
    let note = format!(
        "ignored a certificate request: the {limit} oldest open ones of a cluster are judged, if they have at most \
        {size} KiB; delete those that are not needed"
    );
    let about = regarding_sender(hub, sender);
    if hub
        .events
        .warn(sender, about, "RequestsIgnored", &note)
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
    let Some(cluster) = sender else {
        let kind = (hub.version.api_version(), "ClusterManagementAddOn");
        return reference(kind, None, hub.addon.name().as_str(), None);
    };
    let api_version = <ManagedCluster as kube::Resource>::api_version(&());
    let kind = (api_version.into_owned(), "ManagedCluster");
    reference(kind, None, cluster.as_str(), None)
}

async fn advance<A: Addon>(
    hub: &Hub<A>,
    request: &CertificateSigningRequest,
    now: Timestamp,
) -> Result<Option<Duration>, Error> {
    let progress = csr::progress(request);
    if matches!(progress, Progress::Denied | Progress::Issued) {
        return Ok(None);
    }
    let granted = match judge(hub, request) {
        Ok(granted) => granted,
        Err(refusal) => {
            refuse(hub, request, &refusal).await;
            return Ok(None);
        }
    };
    let sender = csr::claimed_cluster(request);
    hub.events.forget(&regarding_sender(hub, sender.as_ref()));
    // Another approver's approval counts, but only for a request that passes our own check.
    let approved = match progress {
        Progress::Pending => approve(hub, request, now).await?,
        Progress::Approved | Progress::Denied | Progress::Issued => Some(request.clone()),
    };
    let Some(approved) = approved.filter(|_| granted.custom) else {
        return Ok(None);
    };
    let Some(ca) = hub.addon.signing_ca(&approved.spec.signer_name) else {
        let note = "approved; waiting for a CA to sign with";
        warn_about(hub, &approved, "NoSigningCa", note).await;
        return Ok(Some(CA_PAUSE));
    };
    issue(hub, approved, &granted, &ca, now).await
}

fn judge<A: Addon>(hub: &Hub<A>, request: &CertificateSigningRequest) -> Result<Granted, Refusal> {
    let cluster = csr::claimed_cluster(request).ok_or_else(Refusal::cluster_label)?;
    let observed = hub.world.observe(&cluster);
    let target = observed.target(&cluster);
    let wanted = target
        .map(|target| hub.addon.registrations(target))
        .unwrap_or_default();
    let addon = hub.addon.name();
    let situation = Situation {
        addon,
        cluster: &cluster,
        managed_cluster: observed.cluster.as_deref(),
        cluster_addon: observed.addon.as_deref(),
        wanted: &wanted,
        accepts_awsirsa: hub.addon.accepts_awsirsa(),
    };
    let granted = csr::check(request, situation)?;
    let blocked =
        target.and_then(|target| reconcile::blocked(hub.addon.as_ref(), target, &observed));
    match blocked {
        Some(verdict) => Err(Refusal::not_served(&cluster, &verdict.message)),
        None => Ok(granted),
    }
}

async fn refuse<A: Addon>(hub: &Hub<A>, request: &CertificateSigningRequest, refusal: &Refusal) {
    let note = format!("left pending: {refusal}");
    if warn_about(hub, request, refusal.reason, &note).await {
        let name = request.metadata.name.as_deref().unwrap_or_default();
        warn!(request = name, reason = refusal.reason, %refusal, "certificate request left pending");
        hub.metrics.refused(refusal.reason);
    }
}

async fn warn_about<A: Addon>(
    hub: &Hub<A>,
    request: &CertificateSigningRequest,
    reason: &'static str,
    note: &str,
) -> bool {
    let name = request.metadata.name.as_deref().unwrap_or_default();
    let about = regarding(name, request.metadata.uid.clone());
    let sender = csr::sender(request, hub.addon.accepts_awsirsa());
    hub.events.warn(sender.as_ref(), about, reason, note).await
}

fn regarding(name: &str, uid: Option<String>) -> ObjectReference {
    let kind = (
        "certificates.k8s.io/v1".to_owned(),
        "CertificateSigningRequest",
    );
    reference(kind, None, name, uid)
}

/// Approves through the subresource, with the resourceVersion of the check: the spec of a request is
/// immutable, but another approver may have denied it meanwhile.
async fn approve<A: Addon>(
    hub: &Hub<A>,
    request: &CertificateSigningRequest,
    now: Timestamp,
) -> Result<Option<CertificateSigningRequest>, Error> {
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
    let approved = replace(hub, ("approval", "approve"), &approved, Written::Approval).await?;
    if approved.is_some() {
        info!(
            request = request.metadata.name,
            "certificate request approved"
        );
    }
    Ok(approved)
}

async fn issue<A: Addon>(
    hub: &Hub<A>,
    mut request: CertificateSigningRequest,
    granted: &Granted,
    ca: &SigningCa,
    now: Timestamp,
) -> Result<Option<Duration>, Error> {
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
            warn_about(hub, &request, "SigningFailed", &source.to_string()).await;
            let request = request.metadata.name.unwrap_or_default();
            return Err(Error::Sign { request, source });
        }
    };
    let status = request.status.get_or_insert_default();
    status.certificate = Some(ByteString(certificate.into_bytes()));
    if let Some(issued) = replace(hub, ("status", "sign"), &request, Written::Certificate).await? {
        info!(request = issued.metadata.name, "certificate issued");
    }
    Ok(None)
}

/// Writes a subresource; `None` if the request is gone.
async fn replace<A: Addon>(
    hub: &Hub<A>,
    (subresource, action): (&str, &'static str),
    request: &CertificateSigningRequest,
    written: Written,
) -> Result<Option<CertificateSigningRequest>, Error> {
    let name = request.metadata.name.as_deref().unwrap_or_default();
    let api = Api::<CertificateSigningRequest>::all(hub.client.clone());
    let params = PostParams {
        field_manager: Some(hub.addon.name().to_string()),
        ..PostParams::default()
    };
    let result = api
        .replace_subresource(subresource, name, &params, request)
        .await;
    let object = format!("certificate request {name}");
    let replaced = unless_gone(result).map_err(Error::write(action, object))?;
    if let Some(replaced) = &replaced {
        let version = replaced.metadata.resource_version.clone();
        let expected = Expected::Version(version.unwrap_or_default());
        hub.wrote(Key::Request(name.to_owned()), written, expected);
    }
    Ok(replaced)
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::{Arc, Mutex},
    };

    use http::{Request, Response};
    use kube::{Client, client::Body};
    use serde_json::json;

    use super::*;
    use crate::sdk::{
        cache::{Change, Update},
        csr::{OPEN_LIMIT, SIZE_LIMIT, Summary, samples::Sample},
        reconcile::samples::{Author, hub_of},
    };

    /// A hub without the requests that its watch has delivered, and the paths that are called on it.
    fn hub() -> (Hub<Author>, Arc<Mutex<Vec<String>>>) {
        let calls = Arc::<Mutex<Vec<String>>>::default();
        let seen = Arc::clone(&calls);
        let answer = move |request: Request<Body>| {
            seen.lock().unwrap().push(request.uri().path().to_owned());
            let status = json!({ "status": "Failure", "reason": "NotFound", "code": 404 });
            let body = Body::from(status.to_string().into_bytes());
            let gone = Response::builder().status(404).body(body).unwrap();
            std::future::ready(Ok::<_, Infallible>(gone))
        };
        let client = Client::new(tower::service_fn(answer), "default");
        (hub_of(client), calls)
    }

    fn deliver(hub: &Hub<Author>, name: &str, request: &CertificateSigningRequest) {
        let object = serde_json::from_value(json!(request)).unwrap();
        let summary = Arc::new(Summary::read(&object, false).unwrap());
        let (change, version) = (Change::Applied(name.to_owned(), summary), None);
        let update = Update { change, version };
        hub.world
            .apply(|state| state.requests.entry(None).or_default(), update);
    }

    #[tokio::test]
    async fn flood_of_requests_is_reported_once_per_cluster_and_not_read() {
        let (hub, calls) = hub();
        let mut request = Sample::good().request();
        let names: Vec<_> = (0..50)
            .map(|number| format!("request-{number:02}"))
            .collect();
        for name in &names {
            deliver(&hub, name, &request);
        }
        request.spec.request.0 = vec![b'x'; SIZE_LIMIT];
        deliver(&hub, "a-large-one", &request);
        for name in names.iter().map(String::as_str).chain(["a-large-one"]) {
            reconcile(&hub, name, Timestamp::UNIX_EPOCH).await.unwrap();
        }
        let calls = calls.lock().unwrap().clone();
        let (events, reads): (Vec<_>, Vec<_>) = calls.iter().partition(|it| it.contains("events"));
        assert_eq!(events.len(), 1, "{events:?}");
        assert_eq!(reads.len(), OPEN_LIMIT, "{reads:?}");
        assert!(
            reads
                .iter()
                .zip(&names)
                .all(|(path, name)| path.ends_with(name)),
            "{reads:?}"
        );
    }
}
