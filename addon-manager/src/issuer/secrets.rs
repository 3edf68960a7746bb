//! The Secrets themselves: reads and writes, no decisions.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::{
    ByteString, api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{Api, Client, api::PostParams};

use super::{
    Authority, CA_SECRET, Error, JWT_KEY, JWT_SECRET, Observed, PRINCIPAL_SECRET,
    RESOURCE_PROXY_SECRET,
    facts::{HeldLeaf, ReadAuthority, ReadLeaf, leaf_facts},
    make::{self, Leaf},
};

/// On every Secret that we wrote, and so may write again.
const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "argocd-agent-addon-manager");

/// Our namespace's Secrets.
#[derive(Clone)]
pub struct Secrets {
    api: Api<Secret>,
    namespace: String,
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secrets")
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}

impl Secrets {
    /// The Secrets of `namespace`.
    pub fn new(client: Client, namespace: &str) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            namespace: namespace.to_owned(),
        }
    }

    /// The namespace they are in.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Reads all four.
    pub async fn observe(&self) -> Result<Observed, Error> {
        let ca = self
            .get(CA_SECRET)
            .await?
            .map_or(ReadAuthority::Missing, |secret| {
                read_authority(&secret).map_or_else(ReadAuthority::Unusable, |ca| {
                    ReadAuthority::Held(Box::new(ca))
                })
            });
        let principal = self.get(PRINCIPAL_SECRET).await?;
        let resource_proxy = self.get(RESOURCE_PROXY_SECRET).await?;
        let token_key = self.get(JWT_SECRET).await?.is_some();
        Ok(Observed {
            principal: read_leaf(principal.as_ref(), &ca),
            resource_proxy: read_leaf(resource_proxy.as_ref(), &ca),
            ca,
            token_key,
        })
    }

    /// Makes and stores a new CA.
    pub async fn create_authority(&self, now: Timestamp) -> Result<Authority, Error> {
        let ca = make::authority(now)?;
        let data = [("tls.crt", ca.certificate()), ("tls.key", ca.key())];
        self.create(&self.secret(CA_SECRET, "kubernetes.io/tls", data))
            .await?;
        Ok(ca)
    }

    /// Stores a serving certificate, in the place of the version named or as a new Secret.
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
            ("ca.crt", ca.bundle()),
        ];
        let mut secret = self.secret(name, "kubernetes.io/tls", data);
        if replaces.is_none() {
            return self.create(&secret).await;
        }
        secret.metadata.resource_version = replaces;
        let written = self
            .api
            .replace(name, &PostParams::default(), &secret)
            .await;
        written
            .map(drop)
            .map_err(|error| failed("replace", name, error))
    }

    /// Stores a new token key.
    pub async fn create_token_key(&self, pem: &str) -> Result<(), Error> {
        self.create(&self.secret(JWT_SECRET, "Opaque", [(JWT_KEY, pem)]))
            .await
    }

    async fn get(&self, name: &str) -> Result<Option<Secret>, Error> {
        self.api
            .get_opt(name)
            .await
            .map_err(|error| failed("get", name, error))
    }

    async fn create(&self, secret: &Secret) -> Result<(), Error> {
        let name = secret.metadata.name.as_deref().unwrap_or_default();
        let created = self.api.create(&PostParams::default(), secret).await;
        created
            .map(drop)
            .map_err(|error| failed("create", name, error))
    }

    fn secret<'a>(
        &self,
        name: &str,
        kind: &str,
        data: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Secret {
        let entries = data.into_iter();
        Secret {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                namespace: Some(self.namespace.clone()),
                labels: Some(BTreeMap::from([(
                    MANAGED_BY.0.to_owned(),
                    MANAGED_BY.1.to_owned(),
                )])),
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
}

fn failed(verb: &'static str, name: &str, error: kube::Error) -> Error {
    let name = name.to_owned();
    if let kube::Error::Api(status) = &error
        && (status.is_conflict() || status.is_already_exists())
    {
        return Error::Raced { name };
    }
    Error::Api {
        verb,
        name,
        source: Box::new(error),
    }
}

fn text(secret: &Secret, key: &str) -> Option<String> {
    let data = secret.data.as_ref()?;
    String::from_utf8(data.get(key)?.0.clone()).ok()
}

fn read_authority(secret: &Secret) -> Result<Authority, String> {
    let certificate = text(secret, "tls.crt").ok_or("tls.crt is missing or not text")?;
    let key = text(secret, "tls.key").ok_or("tls.key is missing or not text")?;
    Authority::from_pem(certificate, key, text(secret, "ca.crt"))
}

fn read_leaf(secret: Option<&Secret>, ca: &ReadAuthority) -> ReadLeaf {
    let Some(secret) = secret else {
        return ReadLeaf::Missing;
    };
    let ours = secret
        .metadata
        .labels
        .as_ref()
        .and_then(|labels| labels.get(MANAGED_BY.0));
    let facts = match (ca, text(secret, "tls.crt"), text(secret, "tls.key")) {
        (ReadAuthority::Held(ca), Some(certificate), Some(key)) => {
            leaf_facts(&certificate, &key, ca)
        }
        (_, None, _) => Err("tls.crt is missing or not text".to_owned()),
        (_, _, None) => Err("tls.key is missing or not text".to_owned()),
        (ReadAuthority::Missing | ReadAuthority::Unusable(_), Some(_), Some(_)) => {
            Err("there is no CA that could have issued it".to_owned())
        }
    };
    ReadLeaf::Held(HeldLeaf {
        ours: ours.is_some_and(|by| by == MANAGED_BY.1),
        version: secret.metadata.resource_version.clone().unwrap_or_default(),
        facts,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ca_secret_without_its_key_says_which_field_is_missing() {
        let secret = Secret {
            data: Some([("tls.crt".to_owned(), ByteString(b"x".to_vec()))].into()),
            ..Secret::default()
        };
        assert_eq!(
            read_authority(&secret).unwrap_err(),
            "tls.key is missing or not text"
        );
    }

    #[test]
    fn a_secret_that_somebody_else_made_is_not_ours() {
        let read = read_leaf(Some(&Secret::default()), &ReadAuthority::Missing);
        let ReadLeaf::Held(held) = read else {
            panic!("it is there")
        };
        assert!(!held.ours && held.facts.is_err());
    }
}
