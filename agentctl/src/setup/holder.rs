//! The objects with the settings of argocd-server: the `ConfigMap` of Argo CD's parameters; with Argo CD's operator the
//! resource that it deploys Argo CD from, since it passes these settings as flags; and for the pages in the UI the
//! `ConfigMaps` with its settings and policies. Pure.

use argocd::{
    Meta, glob,
    keys::{TRACKING_ID, addon::HUB_SETUP},
};
use diagnosis::object::{argument, container, entries, full_name, list, option, put, text, value};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Action, Facts, FieldChange, ObjectChange, Write, as_read, record::Record, ui};
use crate::{
    check::{NAMESPACES as OWN_NAMESPACES, REDIS_SERVER, leads_to_us, proxy_address},
    hub::{ARGO_CDS, CONFIG_MAPS, Kind},
};

/// A path of keys.
pub(super) type Path = &'static [&'static str];

const NAMESPACES: Path = &["data", "application.namespaces"];
const REDIS: Path = &["data", "redis.server"];
const OPERATOR_NAMESPACES: Path = &["spec", "sourceNamespaces"];
// Not spec.redis.remote: with that the operator deletes its own redis, which the redis proxy forwards to.
pub(super) const OPERATOR_FLAGS: Path = &["spec", "server", "extraCommandArgs"];

pub(super) const RECORD: Path = &["metadata", "annotations", HUB_SETUP];
/// What is shown of a record.
pub(super) const RECORDED: &str = "the values from before";

/// The flag of argocd-server for the address of redis.
const REDIS_FLAG: &str = REDIS_SERVER.0;
/// Without a setting, argocd-server uses this redis.
const DEFAULT_REDIS: &str = "argocd-redis:6379";
/// Shows the Applications of all namespaces.
const ALL: &str = "*";

/// An object with settings of argocd-server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holder<'a> {
    /// The object.
    pub(super) object: &'a Value,
    /// Whether the operator reads it.
    pub(super) is_operated: bool,
    /// Whether argocd-server reads it at its start only.
    pub(super) needs_restart: bool,
    /// The fields that setup may change.
    pub(super) fields: &'static [Path],
}

/// The settings that have to change.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    /// The values, by field.
    pub(super) values: Vec<(Path, Value)>,
    /// All patterns of namespaces afterwards, if these change.
    pub(super) patterns: Option<Vec<String>>,
    /// Whether the address of redis changes.
    pub(super) is_led: bool,
}

/// The objects that may have the parameters: first that of the operator.
pub(super) fn all(facts: &Facts) -> impl Iterator<Item = Holder<'_>> {
    let operated = facts.operated.iter().map(|object| Holder {
        object,
        is_operated: true,
        needs_restart: false,
        fields: &[
            OPERATOR_NAMESPACES,
            OPERATOR_FLAGS,
            ui::OPERATOR_APPLICATION,
            ui::OPERATOR_FLEET,
            ui::OPERATOR_VOLUMES,
            ui::OPERATOR_MOUNTS,
        ],
    });
    let parameters = facts.parameters.iter().map(|object| Holder {
        object,
        is_operated: false,
        needs_restart: true,
        fields: &[NAMESPACES, REDIS, ui::FORWARDING],
    });
    operated.chain(parameters)
}

/// Argo CD's settings.
pub(super) fn settings(facts: &Facts) -> Option<Holder<'_>> {
    facts.settings.as_ref().map(|object| Holder {
        object,
        is_operated: false,
        needs_restart: false,
        fields: &ui::EXTENSIONS,
    })
}

/// Argo CD's policies.
pub(super) fn policies(facts: &Facts) -> Option<Holder<'_>> {
    facts.policies.as_ref().map(|object| Holder {
        object,
        is_operated: false,
        needs_restart: false,
        fields: &[ui::POLICIES],
    })
}

/// All objects that setup may have changed by fields.
pub(super) fn every(facts: &Facts) -> impl Iterator<Item = Holder<'_>> {
    all(facts).chain(settings(facts)).chain(policies(facts))
}

impl Holder<'_> {
    const fn kind(self) -> (Kind, &'static str) {
        if self.is_operated {
            (ARGO_CDS, "ArgoCD")
        } else {
            (CONFIG_MAPS, "ConfigMap")
        }
    }

    /// Kind, namespace and name.
    pub(super) fn title(self) -> String {
        let (_, kind) = self.kind();
        format!("{kind} {}", full_name(self.object))
    }

    /// Where namespaces and the address of redis are.
    const fn live_fields(self) -> [Path; 2] {
        if self.is_operated {
            [OPERATOR_NAMESPACES, OPERATOR_FLAGS]
        } else {
            [NAMESPACES, REDIS]
        }
    }

    /// The patterns of namespaces whose Applications are shown.
    fn patterns(self) -> Vec<String> {
        if self.is_operated {
            let all = list(self.object, "/spec/sourceNamespaces").iter();
            return all.filter_map(Value::as_str).map(str::to_owned).collect();
        }
        entries(text(self.object, "/data/application.namespaces"))
    }

    /// The redis that argocd-server uses.
    pub(super) fn redis(self, facts: &Facts) -> String {
        let set = if self.is_operated {
            let flags = json!({"args": list(self.object, "/spec/server/extraCommandArgs")});
            argument(&flags, REDIS_FLAG).map(str::to_owned)
        } else {
            Some(text(self.object, "/data/redis.server").trim().to_owned())
        };
        let set = set.filter(|it| !it.is_empty());
        let in_effect = || {
            let server = container(&facts.server)?;
            option(server, REDIS_SERVER).map(str::to_owned)
        };
        let set = set.or_else(in_effect);
        set.unwrap_or_else(|| DEFAULT_REDIS.to_owned())
    }

    /// The settings that have to change.
    pub(super) fn wanted(self, facts: &Facts) -> Wanted {
        let [namespaces, redis] = self.live_fields();
        let mut wanted = Wanted::default();
        let present = self.patterns();
        // Its own list wins, and no other program reads that one.
        let more = if !self.is_operated && own_namespaces(facts).is_some() {
            Vec::new()
        } else {
            missing(facts, &present, self.is_operated)
        };
        if !more.is_empty() {
            wanted.values.push((namespaces, self.extended(&more)));
            wanted.patterns = Some(present.into_iter().chain(more).collect());
        }
        let server = self.redis(facts);
        if !leads_to_us(&server, &facts.argocd_namespace, &facts.own_namespace) {
            let ours = proxy_address(&facts.own_namespace);
            wanted.values.push((redis, self.led(ours)));
            wanted.is_led = true;
        }
        wanted
    }

    /// The namespaces as they are, and these.
    fn extended(self, more: &[String]) -> Value {
        if self.is_operated {
            let mut all = self.patterns();
            all.extend_from_slice(more);
            return json!(all);
        }
        // What the user wrote stays, letter for letter.
        let present = text(self.object, "/data/application.namespaces");
        let present = present.trim().trim_end_matches(',');
        let comma = if present.is_empty() { "" } else { "," };
        json!(format!("{present}{comma}{}", more.join(",")))
    }

    /// The value that leads argocd-server to this redis.
    fn led(self, address: String) -> Value {
        if !self.is_operated {
            return Value::String(address);
        }
        let mut words = without_redis(list(self.object, "/spec/server/extraCommandArgs"));
        words.extend([json!(REDIS_FLAG), Value::String(address)]);
        Value::Array(words)
    }

    /// One write that sets values, and records those from before.
    pub(super) fn set(
        self,
        wanted: &[(Path, Value)],
        record: Option<Record>,
        now: Timestamp,
    ) -> ObjectChange {
        let is_first = record.is_none();
        let mut record = record.unwrap_or_default();
        let (mut body, mut fields) = (as_read(self.object), Vec::new());
        for (path, after) in wanted {
            let (field, before) = (path.join("."), value(self.object, path));
            record.add(&field, &before, after);
            put(&mut body, path, after.clone());
            fields.push(FieldChange::new(&field, before, after.clone()));
        }
        put(&mut body, RECORD, record.text(now));
        if is_first {
            fields.push(FieldChange::new(
                &RECORD.join("."),
                Value::Null,
                json!(RECORDED),
            ));
        }
        self.patch(body, fields)
    }

    pub(super) fn patch(self, body: Value, fields: Vec<FieldChange>) -> ObjectChange {
        let (kind, title) = self.kind();
        let meta = Meta::of(self.object);
        ObjectChange {
            kind: title,
            namespace: Some(meta.namespace().to_owned()),
            name: meta.name().to_owned(),
            action: Action::Patch,
            fields,
            write: Write::Merge(kind, body),
        }
    }

    /// The client that manages the object and would set values back, if one is known, with what to do.
    pub(super) fn manager(self) -> Option<(String, &'static str)> {
        let meta = Meta::of(self.object);
        let source = "set the same values in its source, or run this again afterwards";
        let chart =
            "set the same values in configs.params of the chart, or run this again afterwards";
        let helm = if self.is_operated { source } else { chart };
        let release = meta.annotation("meta.helm.sh/release-name");
        let is_helm = meta.label("app.kubernetes.io/managed-by") == Some("Helm");
        if is_helm || release.is_some() {
            let release = release.unwrap_or_default();
            return Some((format!("the next upgrade of Helm release {release}"), helm));
        }
        let application = meta.annotation(TRACKING_ID)?;
        let application = application.split(':').next().unwrap_or_default();
        Some((format!("a sync of Application {application}"), source))
    }
}

/// The namespaces that argocd-server shows by a flag or a variable of its own.
fn own_namespaces(facts: &Facts) -> Option<&str> {
    option(container(&facts.server)?, OWN_NAMESPACES)
}

/// The patterns to add to those that are there.
pub(super) fn missing(facts: &Facts, present: &[String], is_operated: bool) -> Vec<String> {
    if !facts.patterns.is_empty() {
        let mut more = Vec::<String>::new();
        for pattern in &facts.patterns {
            if !present.contains(pattern) && !more.contains(pattern) {
                more.push(pattern.clone());
            }
        }
        return more;
    }
    // A user's list is not widened to all namespaces; and the operator would make Roles in all of them.
    if present.is_empty() && !is_operated {
        return vec![ALL.to_owned()];
    }
    let is_shown = |cluster: &String| {
        let mut present = present.iter();
        present.any(|it| glob::matches_entry(it, cluster))
    };
    let clusters = facts.clusters.iter();
    clusters.filter(|it| !is_shown(it)).cloned().collect()
}

/// The words of a command line without the address of redis.
fn without_redis(words: &[Value]) -> Vec<Value> {
    let mut kept = Vec::new();
    let mut is_value = false;
    for word in words {
        let text = word.as_str().unwrap_or_default();
        let is_dropped = std::mem::take(&mut is_value) && !text.starts_with("--");
        match text.strip_prefix(REDIS_FLAG) {
            Some("") => is_value = true,
            Some(rest) if rest.starts_with('=') => {}
            Some(_) | None if is_dropped => {}
            Some(_) | None => kept.push(word.clone()),
        }
    }
    kept
}
