//! The desired configuration of an add-on on a cluster: named by the add-on's defaults, overridden per kind by a
//! placement's strategy, and that again by the ManagedClusterAddOn itself. Pure.

use serde_json::{Value, json};

use crate::kinds::words::NO_DEFAULT;

/// One configuration object with the hash of its desired content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Config {
    pub(crate) group: String,
    pub(crate) resource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) hash: String,
}

impl Config {
    /// From an entry with `group` and `resource`, and the `namespace`, `name` and hash in `referent`.
    pub(super) fn read(entry: &Value, referent: &Value) -> Option<Self> {
        let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
        let name = text(referent, "name");
        (!name.is_empty() && name != NO_DEFAULT).then(|| Self {
            group: text(entry, "group"),
            resource: text(entry, "resource"),
            namespace: text(referent, "namespace"),
            name,
            hash: text(referent, "specHash"),
        })
    }

    /// From an entry of a spec, which has no hash.
    pub(super) fn of_spec(entry: &Value) -> Option<Self> {
        Self::read(entry, entry)
    }

    /// From an entry of a status, whose desired object is `desiredConfig`.
    pub(super) fn of_status(entry: &Value) -> Option<Self> {
        Self::read(entry, &entry["desiredConfig"])
    }

    fn is_kind_of(&self, other: &Self) -> bool {
        (&self.group, &self.resource) == (&other.group, &other.resource)
    }

    pub(super) fn is_object_of(&self, other: &Self) -> bool {
        self.is_kind_of(other) && (&self.namespace, &self.name) == (&other.namespace, &other.name)
    }

    /// `{namespace, name, specHash}`, the value of `desiredConfig`.
    fn referent(&self) -> Value {
        let mut referent = json!({ "name": self.name, "specHash": self.hash });
        if !self.namespace.is_empty() {
            referent["namespace"] = json!(self.namespace);
        }
        referent
    }

    pub(super) fn to_status(&self) -> Value {
        json!({ "group": self.group, "resource": self.resource, "desiredConfig": self.referent() })
    }
}

pub(super) fn entries(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Replaces, kind by kind, objects of `base` by those of `wanted`, each object once.
pub(super) fn override_by_kind(base: &[Config], wanted: &[Config]) -> Vec<Config> {
    let mut result: Vec<Config> = base
        .iter()
        .filter(|old| !wanted.iter().any(|new| new.is_kind_of(old)))
        .cloned()
        .collect();
    for new in wanted {
        if !result.iter().any(|old| old.is_object_of(new)) {
            result.push(new.clone());
        }
    }
    result
}

/// Fills empty hashes from entries that name the same object.
fn with_hashes(mut configs: Vec<Config>, known: &[Config]) -> Vec<Config> {
    for config in &mut configs {
        if let Some(same) = known.iter().find(|one| one.is_object_of(config)) {
            config.hash.clone_from(&same.hash);
        }
    }
    configs
}

/// The add-on's defaults, with the hashes that its manager wrote into the status.
pub(crate) fn defaults(management: &Value) -> Vec<Config> {
    let wanted = entries(&management["spec"]["defaultConfigs"]);
    let known = entries(&management["status"]["defaultConfigReferences"]);
    let known: Vec<Config> = known.iter().filter_map(Config::of_status).collect();
    with_hashes(
        override_by_kind(
            &[],
            &wanted
                .iter()
                .filter_map(Config::of_spec)
                .collect::<Vec<_>>(),
        ),
        &known,
    )
}

/// The desired configuration of one placement's clusters: the defaults, overridden by an `installProgressions` entry.
pub(crate) fn of_placement(defaults: &[Config], progression: &Value) -> Vec<Config> {
    let own = entries(&progression["configReferences"]);
    override_by_kind(
        defaults,
        &own.iter().filter_map(Config::of_status).collect::<Vec<_>>(),
    )
}

/// The desired configuration of one ManagedClusterAddOn: its placement's, overridden by its own `spec.configs`.
///
/// The hashes of its own configs are those that the manager wrote into its status.
pub(crate) fn of_add_on(inherited: &[Config], add_on: &Value) -> Vec<Config> {
    let own: Vec<Config> = entries(&add_on["spec"]["configs"])
        .iter()
        .filter_map(Config::of_spec)
        .collect();
    let known: Vec<Config> = entries(&add_on["status"]["configReferences"])
        .iter()
        .filter_map(Config::of_status)
        .collect();
    override_by_kind(inherited, &with_hashes(own, &known))
}
