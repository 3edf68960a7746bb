//! Computes the files of a volume. Pure: objects in, files out.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    ConfigMapVolumeSource, DownwardAPIVolumeFile, HostPathVolumeSource, KeyToPath,
    ObjectFieldSelector, Pod, ProjectedVolumeSource, SecretVolumeSource, Volume, VolumeProjection,
};
use kube::ResourceExt;

use super::tokens::{Stored, Wanted};
use crate::objects::Look;

/// The files of a volume, by their path inside.
pub(crate) type Payload = BTreeMap<String, FileContent>;

/// One file of a volume.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct FileContent {
    pub(crate) content: Vec<u8>,
    pub(crate) mode: u32,
}

impl std::fmt::Debug for FileContent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // It may be a secret.
        write!(f, "{} bytes, mode {:o}", self.content.len(), self.mode)
    }
}

/// The source of a volume's content.
#[derive(Debug)]
pub(super) enum Made {
    Files(Payload),
    Empty,
    Machine(HostPathVolumeSource),
}

/// A referenced object that is missing, or a feature that this kubelet lacks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Missing {
    #[error("{kind} {name:?} not found")]
    Object { kind: &'static str, name: String },
    #[error("couldn't find key {key} in {kind} {name}")]
    Key {
        kind: &'static str,
        name: String,
        key: String,
    },
    #[error("the token for audience {0:?} has not been issued yet")]
    Token(String),
    #[error("the lab's kubelet does not know {0}")]
    Unknown(String),
}

/// The addresses that the downward API offers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Addresses {
    pub(crate) pod: String,
    pub(crate) host: String,
}

const DEFAULT_MODE: i32 = 0o644;

/// Makes one volume.
pub(super) fn make(
    volume: &Volume,
    pod: &Pod,
    look: &impl Look,
    retained: &Stored,
) -> Result<Made, Missing> {
    let namespace = pod.namespace().unwrap_or_default();
    if volume.empty_dir.is_some() {
        Ok(Made::Empty)
    } else if let Some(host) = &volume.host_path {
        Ok(Made::Machine(host.clone()))
    } else if let Some(source) = &volume.config_map {
        of_config_map(source, &namespace, look).map(Made::Files)
    } else if let Some(source) = &volume.secret {
        of_secret(source, &namespace, look).map(Made::Files)
    } else if let Some(source) = &volume.downward_api {
        let items = source.items.as_deref().unwrap_or_default();
        of_fields(items, source.default_mode.unwrap_or(DEFAULT_MODE), pod).map(Made::Files)
    } else if let Some(source) = &volume.projected {
        of_projection(source, pod, look, retained).map(Made::Files)
    } else {
        Err(Missing::Unknown(format!(
            "the kind of volume {}",
            volume.name
        )))
    }
}

/// The data of an object, by key.
type Data = BTreeMap<String, Vec<u8>>;

fn of_config_map(
    source: &ConfigMapVolumeSource,
    namespace: &str,
    look: &impl Look,
) -> Result<Payload, Missing> {
    let data = look.config_map(namespace, &source.name).map(|object| {
        let text = object
            .data
            .iter()
            .flatten()
            .map(|(key, value)| (key.clone(), value.clone().into_bytes()));
        let binary = object
            .binary_data
            .iter()
            .flatten()
            .map(|(key, value)| (key.clone(), value.0.clone()));
        text.chain(binary).collect()
    });
    let pick = Pick {
        kind: "ConfigMap",
        name: &source.name,
        items: source.items.as_deref(),
        mode: source.default_mode.unwrap_or(DEFAULT_MODE),
        optional: source.optional == Some(true),
    };
    pick.from(data)
}

fn of_secret(
    source: &SecretVolumeSource,
    namespace: &str,
    look: &impl Look,
) -> Result<Payload, Missing> {
    let name = source.secret_name.as_deref().unwrap_or_default();
    let data = look.secret(namespace, name).map(|object| {
        object
            .data
            .iter()
            .flatten()
            .map(|(key, value)| (key.clone(), value.0.clone()))
            .collect()
    });
    let pick = Pick {
        kind: "Secret",
        name,
        items: source.items.as_deref(),
        mode: source.default_mode.unwrap_or(DEFAULT_MODE),
        optional: source.optional == Some(true),
    };
    pick.from(data)
}

/// The keys of an object that become files.
struct Pick<'a> {
    kind: &'static str,
    name: &'a str,
    items: Option<&'a [KeyToPath]>,
    mode: i32,
    optional: bool,
}

impl Pick<'_> {
    fn from(&self, data: Option<Data>) -> Result<Payload, Missing> {
        let Some(mut data) = data else {
            if self.optional {
                return Ok(Payload::new());
            }
            return Err(Missing::Object {
                kind: self.kind,
                name: self.name.to_owned(),
            });
        };
        let Some(items) = self.items.filter(|items| !items.is_empty()) else {
            let all = data.into_iter();
            return Ok(all
                .map(|(key, content)| (key, file(content, self.mode)))
                .collect());
        };
        let mut payload = Payload::new();
        for item in items {
            match data.remove(&item.key) {
                Some(content) => {
                    payload.insert(
                        item.path.clone(),
                        file(content, item.mode.unwrap_or(self.mode)),
                    );
                }
                None if self.optional => {}
                None => {
                    let (name, key) = (self.name.to_owned(), item.key.clone());
                    return Err(Missing::Key {
                        kind: self.kind,
                        name,
                        key,
                    });
                }
            }
        }
        Ok(payload)
    }
}

fn file(content: Vec<u8>, mode: i32) -> FileContent {
    FileContent {
        content,
        mode: u32::try_from(mode).unwrap_or_default() & 0o777,
    }
}

fn of_fields(items: &[DownwardAPIVolumeFile], mode: i32, pod: &Pod) -> Result<Payload, Missing> {
    let mut payload = Payload::new();
    for item in items {
        let Some(selector) = &item.field_ref else {
            return Err(Missing::Unknown(format!("what fills {}", item.path)));
        };
        let content = field(selector, pod, &Addresses::default())?.into_bytes();
        payload.insert(item.path.clone(), file(content, item.mode.unwrap_or(mode)));
    }
    Ok(payload)
}

fn of_projection(
    source: &ProjectedVolumeSource,
    pod: &Pod,
    look: &impl Look,
    retained: &Stored,
) -> Result<Payload, Missing> {
    let namespace = pod.namespace().unwrap_or_default();
    let mode = source.default_mode.unwrap_or(DEFAULT_MODE);
    let default_mode = Some(mode);
    let mut payload = Payload::new();
    for part in source.sources.iter().flatten() {
        let VolumeProjection {
            config_map,
            downward_api,
            secret,
            service_account_token,
            ..
        } = part;
        if let Some(part) = config_map {
            let (name, items, optional) = (part.name.clone(), part.items.clone(), part.optional);
            let source = ConfigMapVolumeSource {
                name,
                items,
                optional,
                default_mode,
                ..Default::default()
            };
            payload.extend(of_config_map(&source, &namespace, look)?);
        } else if let Some(part) = secret {
            let (secret_name, items, optional) =
                (Some(part.name.clone()), part.items.clone(), part.optional);
            let source = SecretVolumeSource {
                secret_name,
                items,
                optional,
                default_mode,
                ..Default::default()
            };
            payload.extend(of_secret(&source, &namespace, look)?);
        } else if let Some(part) = downward_api {
            let items = part.items.as_deref().unwrap_or_default();
            payload.extend(of_fields(items, mode, pod)?);
        } else if let Some(part) = service_account_token {
            let wanted = Wanted::from(part);
            let token = retained
                .get(&wanted)
                .ok_or_else(|| Missing::Token(wanted.audience.clone()))?;
            let content = token.expose().as_bytes().to_vec();
            payload.insert(part.path.clone(), file(content, DEFAULT_MODE));
        } else {
            return Err(Missing::Unknown(
                "the kind of a projected source".to_owned(),
            ));
        }
    }
    Ok(payload)
}

/// The value of a `fieldRef`.
pub(crate) fn field(
    selector: &ObjectFieldSelector,
    pod: &Pod,
    addresses: &Addresses,
) -> Result<String, Missing> {
    let path = selector.field_path.as_str();
    let spec = pod.spec.as_ref();
    let text = |value: Option<&String>| value.cloned().unwrap_or_default();
    if let Some((map, key)) = path
        .strip_suffix("']")
        .and_then(|path| path.split_once("['"))
    {
        return match map {
            "metadata.labels" => Ok(text(pod.labels().get(key))),
            "metadata.annotations" => Ok(text(pod.annotations().get(key))),
            _ => Err(Missing::Unknown(format!("the field {path}"))),
        };
    }
    match path {
        "metadata.name" => Ok(pod.name_any()),
        "metadata.namespace" => Ok(pod.namespace().unwrap_or_default()),
        "metadata.uid" => Ok(pod.uid().unwrap_or_default()),
        "metadata.labels" => Ok(quoted(pod.labels())),
        "metadata.annotations" => Ok(quoted(pod.annotations())),
        "spec.nodeName" => Ok(text(spec.and_then(|spec| spec.node_name.as_ref()))),
        "spec.serviceAccountName" => Ok(text(
            spec.and_then(|spec| spec.service_account_name.as_ref()),
        )),
        "status.podIP" | "status.podIPs" => Ok(addresses.pod.clone()),
        "status.hostIP" | "status.hostIPs" => Ok(addresses.host.clone()),
        _ => Err(Missing::Unknown(format!("the field {path}"))),
    }
}

/// A map as the downward API writes it: one `key="value"` a line.
fn quoted(map: &BTreeMap<String, String>) -> String {
    let lines: Vec<String> = map
        .iter()
        .map(|(key, value)| format!("{key}={value:?}"))
        .collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{objects::fake::Few, volumes::tokens::Token};

    fn pod() -> Pod {
        serde_json::from_value(json!({
            "metadata": { "name": "p", "namespace": "ns", "labels": { "a": "b" } },
            "spec": { "containers": [], "nodeName": "n" },
        }))
        .unwrap()
    }

    fn parse(volume: Value) -> Volume {
        serde_json::from_value(volume).unwrap()
    }

    fn files(
        volume: Value,
        look: &Few,
        retained: &Stored,
    ) -> Result<Vec<(String, String, u32)>, Missing> {
        let volume = parse(volume);
        match make(&volume, &pod(), look, retained)? {
            Made::Files(payload) => {
                let text =
                    |content: &FileContent| String::from_utf8(content.content.clone()).unwrap();
                Ok(payload
                    .iter()
                    .map(|(path, file)| (path.clone(), text(file), file.mode))
                    .collect())
            }
            other @ (Made::Empty | Made::Machine(_)) => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_secret_shows_its_keys_or_the_chosen_ones_under_their_new_names() {
        let look = Few::default().secret("ns/s", json!({ "data": { "a": "MQ==", "b": "Mg==" } }));
        let all = files(
            json!({ "name": "v", "secret": { "secretName": "s" } }),
            &look,
            &Stored::default(),
        );
        assert_eq!(
            all.unwrap(),
            [
                ("a".into(), "1".into(), 0o644),
                ("b".into(), "2".into(), 0o644)
            ]
        );

        let chosen = json!({ "name": "v", "secret": {
            "secretName": "s", "items": [{ "key": "b", "path": "dir/c", "mode": 0o400 }],
        }});
        assert_eq!(
            files(chosen, &look, &Stored::default()).unwrap(),
            [("dir/c".into(), "2".into(), 0o400)]
        );
    }

    #[test]
    fn a_missing_object_is_named_unless_it_is_optional() {
        let missing = json!({ "name": "v", "configMap": { "name": "c" } });
        let error = files(missing, &Few::default(), &Stored::default()).unwrap_err();
        assert_eq!(error.to_string(), "ConfigMap \"c\" not found");

        let optional = json!({ "name": "v", "configMap": { "name": "c", "optional": true } });
        assert_eq!(
            files(optional, &Few::default(), &Stored::default()).unwrap(),
            []
        );
    }

    #[test]
    fn the_volume_that_every_pod_gets_has_token_ca_and_namespace() {
        let look =
            Few::default().config_map("ns/kube-root-ca.crt", json!({ "data": { "ca.crt": "CA" } }));
        let volume = json!({ "name": "v", "projected": { "sources": [
            { "serviceAccountToken": { "expirationSeconds": 3607, "path": "token" } },
            { "configMap": { "name": "kube-root-ca.crt", "items": [{ "key": "ca.crt", "path": "ca.crt" }] } },
            { "downwardAPI": { "items": [
                { "path": "namespace", "fieldRef": { "fieldPath": "metadata.namespace" } },
            ] } },
        ]}});
        let none = files(volume.clone(), &look, &Stored::default()).unwrap_err();
        assert_eq!(none, Missing::Token(String::new()));

        let wanted = Wanted {
            audience: String::new(),
            seconds: 3607,
        };
        let retained = [(wanted, Token::new("T".to_owned()))].into();
        let mode = 0o644;
        assert_eq!(
            files(volume, &look, &retained).unwrap(),
            [
                ("ca.crt".into(), "CA".into(), mode),
                ("namespace".into(), "ns".into(), mode),
                ("token".into(), "T".into(), mode)
            ]
        );
    }

    #[test]
    fn labels_can_be_asked_for_one_by_one_or_all() {
        let selector = |path: &str| ObjectFieldSelector {
            api_version: None,
            field_path: path.to_owned(),
        };
        let ask = |path| field(&selector(path), &pod(), &Addresses::default());
        assert_eq!(ask("metadata.labels['a']"), Ok("b".to_owned()));
        assert_eq!(ask("metadata.labels"), Ok("a=\"b\"".to_owned()));
        assert!(ask("spec.nope").is_err());
    }
}
