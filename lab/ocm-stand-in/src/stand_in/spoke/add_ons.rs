//! The registration agent's part in add-ons: a certificate or a token in a Secret for every registration,
//! and a check of add-on leases.

mod lease;
mod registration;
mod token;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use anyhow::Result;
use base64::Engine as _;
use jiff::Timestamp;
use k8s_openapi::api::{
    certificates::v1::{CertificateSigningRequest, CertificateSigningRequestCondition},
    core::v1::Secret,
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::sync::Mutex;

use super::{Spoke, enrolment, keep};
use crate::{
    condition::{self, Condition},
    control::{self, Again},
    kinds::{
        CERTIFICATE_SIGNING_REQUEST, MANAGED_CLUSTER_ADD_ON,
        words::{ADD_ON_NAME, CLUSTER_NAME},
    },
    stand_in::pki::{self, Certificate},
    tasks::Tasks,
};
use registration::Registration;

/// The most requests for one add-on; beyond it the agent waits.
const MOST_REQUESTS: usize = 10;
const TOO_MANY: &str = "Stop creating csr since there are too many csr created already on hub";
/// A deleted Secret is noticed after at most this long.
const LOOK_AGAIN: Duration = Duration::from_secs(10);
/// How often a namespace is looked up that an add-on's works will create.
const LOOK_FOR_NAMESPACE: Duration = Duration::from_secs(1);

/// The memory about one registration. A restart loses it, and so a pending request.
#[derive(Debug, Default)]
struct Memory {
    pending: Option<Pending>,
    /// When the certificate in the Secret is to be replaced; drawn once per certificate.
    renewal: Option<(Timestamp, Timestamp)>,
}

#[derive(Debug)]
struct Pending {
    request: String,
    key_pem: String,
    /// The certificate was issued before its Secret could be written.
    is_late: bool,
}

/// The registrations by add-on and Secret name.
type Remembered = HashMap<(String, String), (Registration, Memory)>;

pub(super) fn start(spoke: &Spoke, tasks: &mut Tasks) {
    let own = spoke.clone();
    // One pass at a time, so the lock never waits; it only lets each pass borrow the memory of the last one.
    let remembered = Arc::new(Mutex::new(Remembered::new()));
    keep(tasks, "add-on registration", &spoke.on_hub, move || {
        pass(own.clone(), Arc::clone(&remembered))
    });
    let own = spoke.clone();
    keep(tasks, "add-on lease", &spoke.on_hub, move || {
        lease::pass(own.clone())
    });
}

async fn pass(spoke: Spoke, remembered: Arc<Mutex<Remembered>>) -> Result<Again> {
    let mut remembered = remembered.lock().await;
    let add_ons = spoke.on_hub.within(MANAGED_CLUSTER_ADD_ON, &spoke.cluster);
    let mut wanted: BTreeMap<(String, String), (Registration, Arc<DynamicObject>)> =
        BTreeMap::new();
    let mut untouched = Vec::new();
    for add_on in &add_ons {
        if add_on.metadata.deletion_timestamp.is_some() {
            // The add-on's agent may still need its certificate to clean up.
            untouched.push(add_on.name_any());
            continue;
        }
        if registration::set_driver(&spoke, add_on).await?
            || registration::set_token_user(&spoke, add_on).await?
        {
            untouched.push(add_on.name_any());
            continue;
        }
        for one in registration::wanted(&spoke.cluster, add_on) {
            wanted.insert(
                (add_on.name_any(), one.secret.clone()),
                (one, Arc::clone(add_on)),
            );
        }
    }
    forget(&spoke, &mut remembered, &wanted, &untouched).await?;
    let mut again = None;
    for (key, (one, add_on)) in wanted {
        let (_, memory) = remembered
            .entry(key)
            .or_insert_with(|| (one.clone(), Memory::default()));
        again = control::sooner(again, ensure(&spoke, &add_on, &one, memory).await?);
    }
    Ok(again)
}

/// Deletes the Secrets of registrations that are gone or have changed: these start from scratch.
async fn forget(
    spoke: &Spoke,
    remembered: &mut Remembered,
    wanted: &BTreeMap<(String, String), (Registration, Arc<DynamicObject>)>,
    untouched: &[String],
) -> Result<()> {
    let over: Vec<(String, String)> = remembered
        .iter()
        .filter(|(key, _)| !untouched.contains(&key.0))
        .filter(|(key, (was, _))| wanted.get(*key).is_none_or(|(one, _)| one != was))
        .map(|(key, _)| key.clone())
        .collect();
    for key in over {
        if let Some((was, _)) = remembered.get(&key) {
            let api = was.secrets(spoke);
            condition::tolerate_staleness(api.delete(&was.secret, &DeleteParams::default()).await)?;
        }
        remembered.remove(&key);
    }
    Ok(())
}

/// One step towards a valid Secret.
async fn ensure(
    spoke: &Spoke,
    add_on: &DynamicObject,
    one: &Registration,
    memory: &mut Memory,
) -> Result<Again> {
    let secrets = one.secrets(spoke);
    let live = secrets.get_opt(&one.secret).await?;
    if one.token {
        return token::ensure(spoke, add_on, one, live).await;
    }
    if let Some(good) = live
        .as_ref()
        .and_then(|secret| one.certificate_in(secret, spoke))
    {
        let now = Timestamp::now();
        let renewal = match memory.renewal {
            Some((of, at)) if of == good.not_after => at,
            Some(_) | None => now + enrolment::until_renewal(&good, now),
        };
        memory.renewal = Some((good.not_after, renewal));
        if renewal > now {
            memory.pending = None;
            let left = Duration::try_from(renewal.duration_since(now)).unwrap_or_default();
            return Ok(Some(left.min(LOOK_AGAIN)));
        }
    }
    let Some(pending) = &mut memory.pending else {
        memory.pending = ask(spoke, add_on, one).await?;
        return Ok(Some(LOOK_AGAIN));
    };
    match answer(spoke, pending).await {
        Answer::None => Ok(Some(LOOK_AGAIN)),
        Answer::Gone => {
            memory.pending = None;
            Ok(Some(LOOK_FOR_NAMESPACE))
        }
        Answer::Certificate(pem) => {
            if !save(spoke, &secrets, one, &pending.key_pem, &pem).await? {
                pending.is_late = true;
                return Ok(Some(LOOK_FOR_NAMESPACE));
            }
            // OCM's agent does not report it when the Secret had to wait for its namespace.
            if !pending.is_late {
                report(spoke, add_on, Ok(&Certificate::read(pem.as_bytes())?)).await?;
            }
            memory.pending = None;
            Ok(Some(LOOK_AGAIN))
        }
    }
}

/// Makes a key and a request for it, unless there are too many requests already.
async fn ask(spoke: &Spoke, add_on: &DynamicObject, one: &Registration) -> Result<Option<Pending>> {
    let name = add_on.name_any();
    let made_before = spoke
        .on_hub
        .list(CERTIFICATE_SIGNING_REQUEST)
        .iter()
        .filter(|request| request.labels().get(ADD_ON_NAME) == Some(&name))
        .count();
    if made_before >= MOST_REQUESTS {
        report(spoke, add_on, Err(TOO_MANY)).await?;
        return Ok(None);
    }
    let dns_name = format!("{name}.addon.open-cluster-management.io");
    let made = pki::request(&one.subject, &[&dns_name])?;
    let csr: CertificateSigningRequest = serde_json::from_value(json!({
        "metadata": {
            "generateName": format!("addon-{}-{name}-", spoke.cluster),
            "labels": { CLUSTER_NAME: spoke.cluster, ADD_ON_NAME: name },
        },
        "spec": {
            "request": base64::engine::general_purpose::STANDARD.encode(&made.csr_pem),
            "signerName": one.signer,
            "usages": ["digital signature", "key encipherment", "client auth"],
        },
    }))?;
    let api: Api<CertificateSigningRequest> = Api::all(spoke.hub.clone());
    let created = api.create(&PostParams::default(), &csr).await?;
    Ok(Some(Pending {
        request: created.name_any(),
        key_pem: made.key_pem,
        is_late: false,
    }))
}

#[derive(Debug, PartialEq, Eq)]
enum Answer {
    /// None yet, or a refusal, which OCM's agent takes for none.
    None,
    /// The request is gone.
    Gone,
    Certificate(String),
}

/// Reads the hub's response to a request directly: the copies may not have it yet.
async fn answer(spoke: &Spoke, pending: &Pending) -> Answer {
    let api: Api<CertificateSigningRequest> = Api::all(spoke.hub.clone());
    match api.get_opt(&pending.request).await {
        Ok(csr) => answer_of(csr),
        Err(_) => Answer::None,
    }
}

/// A denied or failed request is waited for like a pending one, until the hub collects it. Only then the agent makes another.
fn answer_of(csr: Option<CertificateSigningRequest>) -> Answer {
    let Some(csr) = csr else {
        return Answer::Gone;
    };
    let status = csr.status.unwrap_or_default();
    let is_denied = |one: &CertificateSigningRequestCondition| one.type_ == "Denied";
    if status.conditions.iter().flatten().any(is_denied) {
        return Answer::None;
    }
    match status
        .certificate
        .map(|certificate| String::from_utf8(certificate.0))
    {
        Some(Ok(pem)) if !pem.is_empty() => Answer::Certificate(pem),
        Some(_) | None => Answer::None,
    }
}

/// Writes the Secret; false while its namespace does not exist yet.
async fn save(
    spoke: &Spoke,
    secrets: &Api<Secret>,
    one: &Registration,
    key_pem: &str,
    certificate_pem: &str,
) -> Result<bool> {
    let data = [
        ("tls.key".to_owned(), key_pem.to_owned()),
        ("tls.crt".to_owned(), certificate_pem.to_owned()),
    ];
    write(spoke, secrets, one, data.into()).await
}

/// Writes the Secret with the keys that all of them have; false while its namespace does not exist yet.
async fn write(
    spoke: &Spoke,
    secrets: &Api<Secret>,
    one: &Registration,
    mut data: BTreeMap<String, String>,
) -> Result<bool> {
    data.insert("cluster-name".to_owned(), spoke.cluster.clone());
    data.extend(
        one.kubeconfig(spoke)
            .map(|config| ("kubeconfig".to_owned(), config)),
    );
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": { "name": one.secret }, "type": "Opaque", "stringData": data,
    });
    let how = PatchParams::apply("registration-agent").force();
    match secrets
        .patch(&one.secret, &how, &Patch::Apply(&secret))
        .await
    {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(false),
        Err(error) => Err(error.into()),
    }
}

async fn report(
    spoke: &Spoke,
    add_on: &DynamicObject,
    outcome: Result<&Certificate, &str>,
) -> Result<()> {
    let wanted = match outcome {
        Ok(good) => Condition::of(
            "ClusterCertificateRotated",
            true,
            "ClientCertificateUpdated",
            format!(
                "client certificate rotated starting from {} to {}",
                good.not_before, good.not_after
            ),
        ),
        Err(problem) => {
            let reason = "ClientCertificateUpdateFailed";
            Condition::of("ClusterCertificateRotated", false, reason, problem)
        }
    };
    set_condition(spoke, add_on, &wanted).await
}

/// Sets a condition of an add-on.
async fn set_condition(spoke: &Spoke, add_on: &DynamicObject, wanted: &Condition) -> Result<()> {
    let api = MANAGED_CLUSTER_ADD_ON.within(&spoke.hub, &spoke.cluster);
    condition::write_status(&api, add_on, |status| {
        condition::set(condition::list(status), wanted);
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_request_is_waited_for_until_it_is_gone() {
        let certificate = base64::engine::general_purpose::STANDARD.encode("pem");
        let issued = Answer::Certificate("pem".to_owned());
        let cases = [
            (json!({}), Answer::None),
            (condition("Approved", None), Answer::None),
            (condition("Denied", None), Answer::None),
            (condition("Failed", None), Answer::None),
            (condition("Approved", Some(&certificate)), issued),
            (condition("Denied", Some(&certificate)), Answer::None),
        ];
        for (status, wanted) in cases {
            let spec = json!({ "request": "", "signerName": "example.com/signer" });
            let csr = json!({ "metadata": {}, "spec": spec, "status": status });
            let csr = serde_json::from_value(csr).unwrap();
            assert_eq!(answer_of(Some(csr)), wanted, "{status}");
        }
        assert_eq!(answer_of(None), Answer::Gone);
    }

    fn condition(kind: &str, certificate: Option<&String>) -> serde_json::Value {
        let condition = json!({ "type": kind, "status": "True" });
        json!({ "conditions": [condition], "certificate": certificate })
    }
}
