//! Hashes of configurations, and the patches that write them.
//!
//! The hash is of the text that Go's `encoding/json` writes for the object, so that other implementations
//! compute the same hash.

use std::io::{self, Write};

use serde::{Deserialize as _, Serialize as _};
use serde_json::{Map, Serializer, Value, json, ser::Formatter};
use sha2::{Digest as _, Sha256};

use crate::api::addon::{AddOnConfig, ConfigGroupResource, ConfigReference, Version};

/// The hash of a configuration object as served, without the fields that all objects have.
pub(crate) fn spec_hash(object: &Value) -> String {
    let shared = ["apiVersion", "kind", "metadata", "status"];
    let fields = object.as_object().into_iter().flatten();
    let content = fields.filter(|(name, _)| !shared.contains(&name.as_str()));
    let content = content
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect::<Map<_, _>>();
    digest(&Value::Object(content))
}

/// The SHA-256 of a value's canonical text, in lower-case hex.
pub(crate) fn digest(value: &Value) -> String {
    hex::encode(Sha256::digest(canonical(value)))
}

/// The value as Go's `encoding/json` writes it: compact, keys sorted, HTML characters escaped.
fn canonical(value: &Value) -> Vec<u8> {
    // The map's own order depends on a feature that any crate may enable.
    let mut value = value.clone();
    value.sort_all_objects();
    let mut text = Vec::new();
    // Writing to memory cannot fail.
    let _ok = value.serialize(&mut Serializer::with_formatter(&mut text, Go));
    text
}

/// Differences of Go's encoder from serde's.
struct Go;

impl Formatter for Go {
    fn write_f64<W: Write + ?Sized>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        writer.write_all(go_float(value).as_bytes())
    }

    fn write_string_fragment<W: Write + ?Sized>(
        &mut self,
        writer: &mut W,
        text: &str,
    ) -> io::Result<()> {
        for piece in text.split_inclusive(ESCAPED) {
            let plain = piece.trim_end_matches(ESCAPED);
            writer.write_all(plain.as_bytes())?;
            if let Some(character) = piece.chars().last().filter(|last| ESCAPED.contains(last)) {
                write!(writer, "\\u{:04x}", u32::from(character))?;
            }
        }
        Ok(())
    }
}

/// Characters that Go escapes for HTML and JavaScript.
const ESCAPED: [char; 5] = ['<', '>', '&', '\u{2028}', '\u{2029}'];

/// A float as Go writes it: plain, or with a signed exponent when very large or very small.
fn go_float(float: f64) -> String {
    let size = float.abs();
    if size != 0.0 && !(1e-6..1e21).contains(&size) {
        let text = format!("{float:e}");
        match text.split_once('e') {
            Some((digits, exponent)) if !exponent.starts_with('-') => {
                format!("{digits}e+{exponent}")
            }
            Some(_) | None => text,
        }
    } else {
        format!("{float}")
    }
}

/// A configuration object that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Live {
    /// Its hash.
    pub(crate) hash: String,
    /// Its generation.
    pub(crate) generation: i64,
}

/// The merge patch that writes missing and outdated hashes into a `ClusterManagementAddOn`'s status.
///
/// Works on the raw object because the lists have no keys and are shared with OCM: they are written back
/// completely, guarded by the resourceVersion. The reference to a missing object keeps its hash, so all
/// clusters that use it wait.
pub(crate) fn offer_patch(
    version: Version,
    offer: &Value,
    supported: &[ConfigGroupResource],
    live: impl Fn(&AddOnConfig) -> Option<Live>,
) -> Option<Value> {
    let mut patch = offer.get("status")?.as_object()?.clone();
    let defaults = version.default_config_references();
    // Only changed lists are in the patch.
    patch.retain(|name, list| match name.as_str() {
        "installProgressions" => {
            let progressions = list.as_array_mut().into_iter().flatten();
            let references = progressions.filter_map(|it| it.get_mut("configReferences"));
            references.fold(false, |changed, it| {
                changed | set_hashes(it, supported, &live)
            })
        }
        name => name == defaults && set_hashes(list, supported, &live),
    });
    guarded(offer, &patch)
}

/// The merge patch that writes the hashes of configurations in `spec.configs` into a
/// `ManagedClusterAddOn`'s status; OCM writes all others.
pub(crate) fn addon_patch(
    addon: &Value,
    supported: &[ConfigGroupResource],
    live: impl Fn(&AddOnConfig) -> Option<Live>,
) -> Option<Value> {
    let own = addon.pointer("/spec/configs").and_then(Value::as_array)?;
    let own = own.iter().map(AddOnConfig::deserialize);
    let own: Vec<_> = own.filter_map(Result::ok).collect();
    let mut references = addon.pointer("/status/configReferences")?.clone();
    let live_own = |config: &AddOnConfig| own.contains(config).then(|| live(config)).flatten();
    let changed = set_hashes(&mut references, supported, &live_own);
    let changed = changed.then(|| Map::from_iter([("configReferences".to_owned(), references)]));
    guarded(addon, &changed.unwrap_or_default())
}

fn guarded(object: &Value, status: &Map<String, Value>) -> Option<Value> {
    let resource_version = object.pointer("/metadata/resourceVersion")?;
    let metadata = json!({ "resourceVersion": resource_version });
    (!status.is_empty()).then(|| json!({ "metadata": metadata, "status": status }))
}

fn set_hashes(
    references: &mut Value,
    supported: &[ConfigGroupResource],
    live: &impl Fn(&AddOnConfig) -> Option<Live>,
) -> bool {
    let mut changed = false;
    for reference in references.as_array_mut().into_iter().flatten() {
        let config = referred(reference).filter(|config| supported.contains(&config.kind()));
        let Some(live) = config.and_then(|config| live(&config)) else {
            continue;
        };
        let hash = reference.pointer("/desiredConfig/specHash");
        if hash.and_then(Value::as_str) == Some(live.hash.as_str()) {
            continue;
        }
        let desired = reference.get_mut("desiredConfig");
        if let Some(desired) = desired.and_then(Value::as_object_mut) {
            desired.insert("specHash".to_owned(), live.hash.into());
            changed = true;
        }
        // No component decides by it, so it causes no write of its own.
        if let Some(entry) = reference.as_object_mut()
            && entry.contains_key("lastObservedGeneration")
        {
            entry.insert("lastObservedGeneration".to_owned(), live.generation.into());
        }
    }
    changed
}

fn referred(reference: &Value) -> Option<AddOnConfig> {
    let (config, _) = ConfigReference::deserialize(reference).ok()?.desired();
    (!config.name.is_empty()).then_some(config)
}

#[cfg(test)]
mod tests;
