//! Reads and writes the Secrets, without decisions.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::{
    ByteString, api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{Api, Client, api::PostParams};
use principal::JwtKey;

use super::{
    Authority, CA_SECRET, Error, JWT_KEY, JWT_SECRET, Observed, PRINCIPAL_SECRET,
    RESOURCE_PROXY_SECRET, TokenKey,
    facts::{ReadAuthority, ReadLeaf, StoredAuthority, StoredLeaf, leaf_facts},
    make::{self, Leaf},
    rotation::Move,
    takeover::{self, NEXT, ROTATE, SINCE, TAKEN, UNIT},
};
use crate::api;

/// The label on every Secret that we created, and so may replace.
const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "argocd-agent-addon-manager");

/// Our namespace's Secrets.
#[derive(Clone, Debug)]
pub struct Secrets {
    api: Api<Secret>,
    /// Their namespace.
    pub namespace: String,
}

impl Secrets {
    /// The Secrets of `namespace`.
    pub fn new(client: Client, namespace: &str) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            namespace: namespace.to_owned(),
        }
    }

    /// Reads all four Secrets.
    pub async fn observe(&self) -> Result<Observed, Error> {
        let ca = self.get(CA_SECRET).await?;
        let ca = ca.map(|secret| stored_authority(&secret).map(Box::new));
        let principal = self.get(PRINCIPAL_SECRET).await?;
        let resource_proxy = self.get(RESOURCE_PROXY_SECRET).await?;
        let token_key = token_key(self.get(JWT_SECRET).await?.as_ref());
        Ok(Observed {
            principal: read_leaf(principal.as_ref(), &ca),
            resource_proxy: read_leaf(resource_proxy.as_ref(), &ca),
            ca,
            token_key,
        })
    }

    /// Creates and stores a new CA.
    pub async fn create_authority(&self, now: Timestamp) -> Result<(), Error> {
        let ca = make::authority(now)?;
        self.create(&authority_secret(&self.namespace, &ca)).await
    }

    /// Carries out one step of a rotation, if the Secret has not changed since the decision.
    pub async fn step(
        &self,
        stored: &StoredAuthority,
        step: Move,
        now: Timestamp,
    ) -> Result<(), Error> {
        let next = match step {
            Move::Introduce => Some(make::authority(now)?),
            Move::Stay | Move::Switch | Move::Retire => None,
        };
        let raced = || Error::Raced {
            name: CA_SECRET.to_owned(),
        };
        let live = self.get(CA_SECRET).await?.ok_or_else(raced)?;
        if live.metadata.resource_version.as_deref() != Some(&stored.version) {
            return Err(raced());
        }
        let after = takeover::after(live, stored, step, next.as_ref(), now);
        self.replace(CA_SECRET, &after).await
    }

    /// Requests a rotation with the annotation; `name` is its value.
    pub async fn ask_for_rotation(&self, name: String) -> Result<(), Error> {
        let mut secret = self.get(CA_SECRET).await?.ok_or_else(|| Error::Unusable {
            name: CA_SECRET,
            reason: "there is none yet".to_owned(),
        })?;
        let annotations = secret.metadata.annotations.get_or_insert_default();
        annotations.insert(ROTATE.to_owned(), name);
        self.replace(CA_SECRET, &secret).await
    }

    async fn replace(&self, name: &str, secret: &Secret) -> Result<(), Error> {
        let written = self.api.replace(name, &PostParams::default(), secret).await;
        written
            .map(drop)
            .map_err(|error| failed("replace Secret", name, error))
    }

    /// Stores a serving certificate: replaces the Secret of that resource version, or creates it.
    pub async fn write_leaf(
        &self,
        name: &str,
        ca: &Authority,
        leaf: &Leaf,
        replaces: Option<String>,
    ) -> Result<(), Error> {
        let data = [
            ("tls.crt", leaf.certificate.as_str()),
            ("tls.key", leaf.key.as_str()),
            ("ca.crt", ca.bundle.as_str()),
        ];
        let mut secret = secret(&self.namespace, name, "kubernetes.io/tls", data);
        if replaces.is_none() {
            return self.create(&secret).await;
        }
        secret.metadata.resource_version = replaces;
        self.replace(name, &secret).await
    }

    /// Stores a new token key.
    pub async fn create_token_key(&self, pem: &str) -> Result<(), Error> {
        let data = [(JWT_KEY, pem)];
        self.create(&secret(&self.namespace, JWT_SECRET, "Opaque", data))
            .await
    }

    async fn get(&self, name: &str) -> Result<Option<Secret>, Error> {
        self.api
            .get_opt(name)
            .await
            .map_err(|error| failed("get Secret", name, error))
    }

    async fn create(&self, secret: &Secret) -> Result<(), Error> {
        let name = secret.metadata.name.as_deref().unwrap_or_default();
        let created = self.api.create(&PostParams::default(), secret).await;
        created
            .map(drop)
            .map_err(|error| failed("create Secret", name, error))
    }
}

/// The Secret of a new CA. It has a unit from the start: if it replaces a lost CA, the certificates of agents are not
/// trusted any more, and only another subject makes OCM request new ones.
pub(super) fn authority_secret(namespace: &str, ca: &Authority) -> Secret {
    let data = [
        ("tls.crt", ca.certificate.as_str()),
        ("tls.key", ca.key.as_str()),
    ];
    let mut secret = secret(namespace, CA_SECRET, "kubernetes.io/tls", data);
    secret.metadata.annotations = Some([(UNIT.to_owned(), takeover::unit(ca))].into());
    secret
}

/// Whether a key under tokens is stored, and can sign.
fn token_key(secret: Option<&Secret>) -> TokenKey {
    let Some(secret) = secret else {
        return TokenKey::Missing;
    };
    let pem = secret.data.as_ref().and_then(|data| data.get(JWT_KEY));
    if pem.is_some_and(|pem| JwtKey::from_pem(&pem.0).is_ok()) {
        TokenKey::Usable
    } else {
        TokenKey::Unusable
    }
}

fn secret<'a>(
    namespace: &str,
    name: &str,
    kind: &str,
    data: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Secret {
    let (label, value) = MANAGED_BY;
    let entries = data.into_iter();
    Secret {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(namespace.to_owned()),
            labels: Some(BTreeMap::from([(label.to_owned(), value.to_owned())])),
            ..ObjectMeta::default()
        },
        type_: Some(kind.to_owned()),
        data: Some(
            entries
                .map(|(key, value)| (key.to_owned(), ByteString(value.as_bytes().to_vec())))
                .collect(),
        ),
        ..Secret::default()
    }
}

fn failed(action: &'static str, name: &str, error: kube::Error) -> Error {
    if let kube::Error::Api(status) = &error
        && (status.is_conflict() || status.is_already_exists())
    {
        let name = name.to_owned();
        return Error::Raced { name };
    }
    api::failed(action, name)(error).into()
}

fn text(secret: &Secret, key: &str) -> Option<String> {
    let data = secret.data.as_ref()?;
    String::from_utf8(data.get(key)?.0.clone()).ok()
}

fn is_ours(secret: &Secret) -> bool {
    let labels = secret.metadata.labels.as_ref();
    labels.and_then(|labels| labels.get(MANAGED_BY.0)) == Some(&MANAGED_BY.1.to_owned())
}

/// Reads the CA's Secret.
pub(super) fn stored_authority(secret: &Secret) -> Result<StoredAuthority, String> {
    let certificate = text(secret, "tls.crt").ok_or("tls.crt is missing or not text")?;
    let key = text(secret, "tls.key").ok_or("tls.key is missing or not text")?;
    let annotation = |key: &str| secret.metadata.annotations.as_ref()?.get(key).cloned();
    let mut ca = Authority::from_pem(certificate, key, text(secret, "ca.crt"))?;
    ca.unit = annotation(UNIT).filter(|unit| is_unit(unit));
    let [next_certificate, next_key] = NEXT.map(|key| text(secret, key));
    let next = next_certificate.zip(next_key);
    let next = next
        .map(|(certificate, key)| Authority::from_pem(certificate, key, None))
        .transpose()
        .map_err(|reason| {
            format!("the next CA: {reason}; remove next.crt and next.key to restart the rotation")
        })?;
    Ok(StoredAuthority {
        ca,
        next,
        ours: is_ours(secret),
        version: secret.metadata.resource_version.clone().unwrap_or_default(),
        asked: annotation(ROTATE),
        taken: annotation(TAKEN),
        // A time that cannot be parsed counts as long ago.
        since: annotation(SINCE).map(|since| since.parse().unwrap_or(Timestamp::UNIX_EPOCH)),
    })
}

/// Whether a text is valid as a unit in a subject.
fn is_unit(unit: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    (1..=64).contains(&unit.len()) && unit.chars().all(fits)
}

fn read_leaf(secret: Option<&Secret>, ca: &ReadAuthority) -> ReadLeaf {
    let secret = secret?;
    let facts = match (ca, text(secret, "tls.crt"), text(secret, "tls.key")) {
        (Some(Ok(stored)), Some(certificate), Some(key)) => {
            leaf_facts(&certificate, &key, &stored.ca)
        }
        (_, None, _) => Err("tls.crt is missing or not text".to_owned()),
        (_, _, None) => Err("tls.key is missing or not text".to_owned()),
        (None | Some(Err(_)), Some(_), Some(_)) => {
            Err("there is no CA that could have issued it".to_owned())
        }
    };
    Some(StoredLeaf {
        ours: is_ours(secret),
        version: secret.metadata.resource_version.clone().unwrap_or_default(),
        facts,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ca_secret_without_its_key_is_refused_with_the_field() {
        let secret = Secret {
            data: Some([("tls.crt".to_owned(), ByteString(b"x".to_vec()))].into()),
            ..Secret::default()
        };
        assert_eq!(
            stored_authority(&secret).unwrap_err(),
            "tls.key is missing or not text"
        );
    }

    #[test]
    fn a_token_key_is_usable_if_it_can_sign() {
        let stored = |key: &str| Secret {
            data: Some([(JWT_KEY.to_owned(), ByteString(key.as_bytes().to_vec()))].into()),
            ..Secret::default()
        };
        assert_eq!(token_key(None), TokenKey::Missing);
        for damaged in [Secret::default(), stored(""), stored("not a key")] {
            assert_eq!(token_key(Some(&damaged)), TokenKey::Unusable);
        }
        let good = stored(&make::token_key().unwrap());
        assert_eq!(token_key(Some(&good)), TokenKey::Usable);
    }

    #[test]
    fn a_secret_without_our_label_is_not_ours() {
        let read = read_leaf(Some(&Secret::default()), &None);
        let Some(stored) = read else {
            panic!("it exists")
        };
        assert!(!stored.ours && stored.facts.is_err());
    }
}
