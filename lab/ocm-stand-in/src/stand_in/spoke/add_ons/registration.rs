//! The registrations that an add-on requests.

use anyhow::Result;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, ResourceExt, api::DynamicObject};
use serde_json::{Value, json};

use super::super::Spoke;
use crate::{
    client, condition,
    kinds::{
        MANAGED_CLUSTER_ADD_ON,
        words::{ADD_ON_NAMESPACE, HOSTING_CLUSTER, INSTALL_NAMESPACE, KUBE_SIGNER},
    },
    stand_in::pki::{Certificate, Subject},
};

/// One certificate, or token, to keep in one Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Registration {
    pub(super) secret: String,
    pub(super) namespace: String,
    /// Whether the Secret is for an agent on the cluster that the klusterlet runs on.
    pub(super) hosted: bool,
    /// Whether it is a token of the hub's, not a certificate.
    pub(super) token: bool,
    pub(super) signer: String,
    pub(super) subject: Subject,
}

impl Registration {
    /// The certificate of a Secret, if it matches this registration.
    pub(super) fn certificate_in(&self, secret: &Secret, spoke: &Spoke) -> Option<Certificate> {
        let data = secret.data.as_ref()?;
        let has = |key: &str, wanted: &str| {
            data.get(key)
                .is_some_and(|value| value.0 == wanted.as_bytes())
        };
        let kubeconfig = self
            .kubeconfig(spoke)
            .is_none_or(|wanted| has("kubeconfig", &wanted));
        if !data.contains_key("tls.key") || !has("cluster-name", &spoke.cluster) || !kubeconfig {
            return None;
        }
        let certificate = Certificate::read(&data.get("tls.crt")?.0).ok()?;
        (certificate.subject == self.subject).then_some(certificate)
    }

    /// The Secrets of the cluster that the agent runs on.
    pub(super) fn secrets(&self, spoke: &Spoke) -> Api<Secret> {
        let cluster = if self.hosted {
            &spoke.management
        } else {
            &spoke.registration
        };
        Api::namespaced(cluster.clone(), &self.namespace)
    }

    /// For a client of the hub's API server, the kubeconfig for the certificate or the token.
    pub(super) fn kubeconfig(&self, spoke: &Spoke) -> Option<String> {
        if self.signer != KUBE_SIGNER {
            return None;
        }
        let user = if self.token {
            json!({ "tokenFile": "token" })
        } else {
            json!({ "client-certificate": "tls.crt", "client-key": "tls.key" })
        };
        Some(client::kubeconfig(
            &spoke.hub_config,
            "configuration",
            &user,
        ))
    }
}

/// Whether an add-on's agent runs on another cluster than its own.
pub(super) fn is_hosted(add_on: &DynamicObject) -> bool {
    let host = add_on.annotations().get(HOSTING_CLUSTER);
    host.is_some_and(|host| !host.is_empty())
}

/// The service account on the hub of an add-on's agent with a token.
pub(super) fn account(add_on: &str) -> String {
    format!("{add_on}-agent")
}

/// The namespace of an add-on's Secrets and lease.
pub(super) fn namespace(add_on: &DynamicObject) -> String {
    let stated = add_on.data["status"]["namespace"]
        .as_str()
        .filter(|name| !name.is_empty());
    let annotated = add_on
        .annotations()
        .get(INSTALL_NAMESPACE)
        .map(String::as_str);
    stated
        .or_else(|| annotated.filter(|name| !name.is_empty()))
        .unwrap_or(ADD_ON_NAMESPACE)
        .to_owned()
}

/// The complete registrations of an add-on.
pub(super) fn wanted(cluster: &str, add_on: &DynamicObject) -> Vec<Registration> {
    let name = add_on.name_any();
    let (namespace, hosted) = (namespace(add_on), is_hosted(add_on));
    let all = add_on.data["status"]["registrations"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    all.iter()
        .filter_map(|one| {
            let (signer, asked, is_kube) = if one["type"] == "kubeClient" {
                (KUBE_SIGNER, one.get("kubeClient")?, true)
            } else {
                let custom = one.get("customSigner")?;
                (custom["signerName"].as_str()?, custom, false)
            };
            let secret = if is_kube {
                format!("{name}-hub-kubeconfig")
            } else {
                format!("{name}-{}-client-cert", signer.replace('/', "-"))
            };
            let token = is_kube && asked["driver"] == "token";
            let subject = if token {
                Subject {
                    common_name: user_of_token(cluster, &name),
                    ..Subject::default()
                }
            } else {
                subject(cluster, &name, &asked["subject"], is_kube)
            };
            Some(Registration {
                secret,
                namespace: namespace.clone(),
                hosted,
                token,
                signer: signer.to_owned(),
                subject,
            })
        })
        .collect()
}

fn subject(cluster: &str, add_on: &str, asked: &Value, is_kube: bool) -> Subject {
    let texts = |key: &str| {
        let list = asked[key].as_array().map_or(&[][..], Vec::as_slice);
        list.iter()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect()
    };
    let group = format!("system:open-cluster-management:cluster:{cluster}:addon:{add_on}");
    let user = asked["user"].as_str().filter(|user| !user.is_empty());
    let mut subject = Subject {
        common_name: user.map_or_else(|| format!("{group}:agent:{add_on}"), str::to_owned),
        organizations: texts("groups"),
        units: texts("organizationUnits"),
    };
    if is_kube && subject.organizations.is_empty() {
        subject.organizations.insert(group);
    }
    subject
}

/// The user of an agent with a token.
fn user_of_token(cluster: &str, add_on: &str) -> String {
    format!("system:serviceaccount:{cluster}:{}", account(add_on))
}

/// Reports the user of an agent with a token; true if the status had to be written.
pub(super) async fn set_token_user(spoke: &Spoke, add_on: &DynamicObject) -> Result<bool> {
    let wanted = json!({ "user": user_of_token(&spoke.cluster, &add_on.name_any()) });
    let registrations = add_on.data["status"]["registrations"].as_array();
    let wrong = registrations.into_iter().flatten().position(|one| {
        one["type"] == "kubeClient"
            && one["kubeClient"]["driver"] == "token"
            && one["kubeClient"]["subject"] != wanted
    });
    let Some(index) = wrong else { return Ok(false) };
    let api = MANAGED_CLUSTER_ADD_ON.within(&spoke.hub, &spoke.cluster);
    condition::write_status(&api, add_on, |status| {
        if let Some(one) = status.pointer_mut(&format!("/registrations/{index}")) {
            one["kubeClient"]["subject"] = wanted;
        }
    })
    .await?;
    Ok(true)
}

/// Reports the driver of the first `kubeClient` registration; true if the status had to be written.
pub(super) async fn set_driver(spoke: &Spoke, add_on: &DynamicObject) -> Result<bool> {
    let registrations = add_on.data["status"]["registrations"].as_array();
    let first = registrations
        .into_iter()
        .flatten()
        .position(|one| one["type"] == "kubeClient")
        .filter(|index| {
            let driver = format!("/status/registrations/{index}/kubeClient/driver");
            add_on
                .data
                .pointer(&driver)
                .is_none_or(|driver| driver != spoke.driver)
        });
    let Some(index) = first else { return Ok(false) };
    let api = MANAGED_CLUSTER_ADD_ON.within(&spoke.hub, &spoke.cluster);
    condition::write_status(&api, add_on, |status| {
        if let Some(one) = status.pointer_mut(&format!("/registrations/{index}")) {
            one["kubeClient"]["driver"] = json!(spoke.driver);
        }
    })
    .await?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registrations_become_secrets_with_the_names_that_ocm_gives_them() {
        let add_on: DynamicObject = serde_json::from_value(json!({
            "metadata": { "name": "a", "namespace": "c" },
            "status": {
                "namespace": "there",
                "registrations": [
                    { "type": "customSigner", "customSigner": {
                        "signerName": "open-cluster-management.io/a",
                        "subject": { "user": "u", "groups": ["g1", "g2"] },
                    }},
                    { "type": "kubeClient", "kubeClient": {} },
                    { "type": "kubeClient" },
                ],
            },
        }))
        .unwrap();
        let wanted = wanted("c", &add_on);
        assert_eq!(wanted.len(), 2);
        assert_eq!(
            wanted[0].secret,
            "a-open-cluster-management.io-a-client-cert"
        );
        assert_eq!(wanted[0].namespace, "there");
        assert_eq!(wanted[0].subject.common_name, "u");
        assert_eq!(wanted[1].secret, "a-hub-kubeconfig");
        assert_eq!(
            wanted[1].subject.common_name,
            "system:open-cluster-management:cluster:c:addon:a:agent:a"
        );
        assert_eq!(wanted[1].subject.organizations.len(), 1);
    }
}
