//! The published CRDs of OCM: where they are read from and how they are installed.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context, Result, ensure};
use kube::{
    Client, ResourceExt,
    api::{DynamicObject, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::{condition, kinds::CUSTOM_RESOURCE_DEFINITION};

/// An API server on a busy machine needs a few seconds to serve a new kind.
const SERVED_WITHIN: Duration = Duration::from_mins(1);

/// The CRDs that need OCM's conversion webhook.
const CONVERTED: [&str; 2] = [
    "clustermanagementaddons.addon.open-cluster-management.io",
    "managedclusteraddons.addon.open-cluster-management.io",
];

/// The group of the add-on kinds, and its two versions.
const ADD_ONS: &str = "addon.open-cluster-management.io";
pub(crate) const OLD: &str = "v1alpha1";
pub(crate) const NEW: &str = "v1beta1";

/// The directory with one folder each for `hub`, `spoke` and `argocd`: `OCM_CRD_DIR`, else `lab/crds`.
pub fn directory() -> PathBuf {
    std::env::var_os("OCM_CRD_DIR")
        .filter(|dir| !dir.is_empty())
        .map_or_else(
            || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../crds")),
            PathBuf::from,
        )
}

/// Reads the CRDs of one folder, in the order of their file names.
pub fn read(folder: &str) -> Result<Vec<Value>> {
    let path = directory().join(folder);
    let mut files: Vec<PathBuf> = std::fs::read_dir(&path)
        .with_context(|| format!("read the CRD directory {}", path.display()))?
        .map(|entry| entry.map(|e| e.path()))
        .collect::<Result<_, _>>()?;
    files.retain(|file| file.extension().is_some_and(|ending| ending == "yaml"));
    files.sort();
    ensure!(!files.is_empty(), "no CRDs in {}", path.display());
    files.iter().map(read_one).collect()
}

fn read_one(file: &PathBuf) -> Result<Value> {
    let text = std::fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
    serde_saphyr::from_str(&text).with_context(|| format!("parse {}", file.display()))
}

/// Installs the CRDs of one folder and waits until each of them is served.
pub async fn install(client: &Client, folder: &str) -> Result<()> {
    install_all(client, folder, read(folder)?).await
}

/// Installs the CRDs of a hub before OCM 1.2: the add-on kinds in v1alpha1 only, without conversion.
pub(crate) async fn install_old_hub(client: &Client) -> Result<()> {
    let mut crds = read("hub")?;
    crds.iter_mut().for_each(only_old_add_ons);
    install_all(client, "hub", crds).await
}

/// Takes the newer version from a kind of the add-on API.
fn only_old_add_ons(crd: &mut Value) {
    if crd["spec"]["group"] != ADD_ONS {
        return;
    }
    if let Some(versions) = crd["spec"]["versions"].as_array_mut() {
        versions.retain(|version| version["name"] == OLD);
    }
    if let Some(spec) = crd["spec"].as_object_mut() {
        spec.remove("conversion");
    }
}

async fn install_all(client: &Client, folder: &str, crds: Vec<Value>) -> Result<()> {
    let api = CUSTOM_RESOURCE_DEFINITION.all(client);
    let how = PatchParams::apply("lab-ocm").force();
    let mut names = Vec::new();
    for crd in crds {
        let name = crd["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        api.patch(&name, &how, &Patch::Apply(&crd))
            .await
            .with_context(|| format!("install the CRD {name}"))?;
        names.push(name);
    }
    let established = async {
        for name in &names {
            wait_established(client, name).await;
        }
    };
    tokio::time::timeout(SERVED_WITHIN, established)
        .await
        .with_context(|| format!("the CRDs of {folder} were not served within {SERVED_WITHIN:?}"))
}

async fn wait_established(client: &Client, name: &str) {
    let api = CUSTOM_RESOURCE_DEFINITION.all(client);
    let is_established = |crd: Option<&DynamicObject>| {
        crd.is_some_and(|c| condition::is_true(&c.data, "Established") && !c.name_any().is_empty())
    };
    while kube::runtime::wait::await_condition(api.clone(), name, is_established)
        .await
        .is_err()
    {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Points both add-on kinds at a conversion webhook and waits until each version can be listed.
pub(crate) async fn convert_through(client: &Client, url: &str, ca_pem: &str) -> Result<()> {
    use base64::Engine as _;
    let bundle = base64::engine::general_purpose::STANDARD.encode(ca_pem);
    let patch = json!({ "spec": { "conversion": {
        "strategy": "Webhook",
        "webhook": {
            "conversionReviewVersions": ["v1"],
            "clientConfig": { "url": url, "caBundle": bundle, "service": null },
        },
    }}});
    let api = CUSTOM_RESOURCE_DEFINITION.all(client);
    for name in CONVERTED {
        api.patch(name, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .with_context(|| format!("set the conversion of {name}"))?;
    }
    tokio::time::timeout(SERVED_WITHIN, wait_listed(client))
        .await
        .with_context(|| format!("the add-on API was not served within {SERVED_WITHIN:?}"))
}

/// Waits until both versions of both kinds answer a list, which converts the stored objects.
async fn wait_listed(client: &Client) {
    for plural in ["managedclusteraddons", "clustermanagementaddons"] {
        for version in [OLD, NEW] {
            let path = format!("/apis/{ADD_ONS}/{version}/{plural}");
            loop {
                let Ok(request) = http::Request::get(&path).body(Vec::new()) else {
                    return;
                };
                if client.request_text(request).await.is_ok() {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_published_crd_can_be_read() {
        for (folder, at_least) in [("hub", 12), ("spoke", 2), ("argocd", 3)] {
            let crds = read(folder).unwrap();
            assert!(crds.len() >= at_least, "{folder}: {}", crds.len());
            assert!(
                crds.iter()
                    .all(|crd| crd["kind"] == "CustomResourceDefinition")
            );
        }
    }

    #[test]
    fn the_converted_kinds_are_served_in_both_versions() {
        let crds = read("hub").unwrap();
        for name in CONVERTED {
            let crd = crds
                .iter()
                .find(|crd| crd["metadata"]["name"] == name)
                .unwrap();
            let versions: Vec<_> = crd["spec"]["versions"].as_array().unwrap().iter().collect();
            let served: Vec<_> = versions
                .iter()
                .map(|v| v["name"].as_str().unwrap())
                .collect();
            assert_eq!(served, [OLD, NEW]);
        }
    }

    #[test]
    fn an_old_hub_has_one_stored_version_of_the_add_on_kinds() {
        let mut crds = read("hub").unwrap();
        let before = crds.clone();
        crds.iter_mut().for_each(only_old_add_ons);
        for (crd, before) in crds.iter().zip(&before) {
            if crd["spec"]["group"] != ADD_ONS {
                assert_eq!(crd, before);
                continue;
            }
            let versions = crd["spec"]["versions"].as_array().unwrap();
            assert_eq!(versions.len(), 1, "{}", crd["metadata"]["name"]);
            assert_eq!(versions[0]["name"], OLD);
            assert_eq!(versions[0]["storage"], true);
            assert!(crd["spec"]["conversion"].is_null());
        }
        assert_ne!(crds, before);
    }
}
