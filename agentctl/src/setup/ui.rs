//! The pages of the add-on in Argo CD's UI: what setup adds to argocd-server for them, and what it takes away. Pure.

use argocd::{
    Meta,
    keys::addon::{HUB_SETUP, UI_EXTENSION, UI_SECRET},
};
use diagnosis::object::{container, list, put, text};
use serde_json::{Value, json};

use super::{
    Action, Facts, FieldChange, ObjectChange, RESTARTED, Write,
    holder::{self, Holder, OPERATOR_FLAGS, Path, RECORD, RECORDED, Wanted},
    record::Record,
};
use crate::{
    check::{Checked, Finding, failed, warning},
    hub::DEPLOYMENTS,
    ui::{
        self, Configured, FORWARDING as FLAG, POLICY, config, configured, is_decided,
        is_forwarding, is_mounted, may_invoke, own_forwarding,
    },
};

/// The parameter that turns proxy extensions on.
pub(super) const FORWARDING: Path = &["data", ui::FORWARDING_KEY];
/// Our extensions in Argo CD's settings, in the order of [`ui::EXTENSIONS`].
pub(super) const EXTENSIONS: [Path; 2] = [&["data", ui::APPLICATION_KEY], &["data", ui::FLEET_KEY]];
/// Our policies.
pub(super) const POLICIES: Path = &["data", ui::POLICY_KEY];
/// The same extension in the resource of the operator, which writes Argo CD's settings from it.
pub(super) const OPERATOR_APPLICATION: Path = &["spec", "extraConfig", ui::APPLICATION_KEY];
/// That of the fleet.
pub(super) const OPERATOR_FLEET: Path = &["spec", "extraConfig", ui::FLEET_KEY];
/// Volumes of argocd-server in the resource of the operator.
pub(super) const OPERATOR_VOLUMES: Path = &["spec", "server", "volumes"];
/// Their mounts.
pub(super) const OPERATOR_MOUNTS: Path = &["spec", "server", "volumeMounts"];

/// The volume of argocd-server with the JavaScript of the pages.
const VOLUME: &str = "argocd-agent-ui";
/// Where argocd-server finds it: each extension has a directory of its own, as Argo CD's installer of extensions makes them.
const MOUNT_PATH: &str = "/tmp/extensions/argocd-agent";

/// Whether a field is there for the pages alone.
pub(super) fn is_of_ui(path: Path) -> bool {
    let operated = [
        OPERATOR_APPLICATION,
        OPERATOR_FLEET,
        OPERATOR_VOLUMES,
        OPERATOR_MOUNTS,
    ];
    let shared = [FORWARDING, POLICIES];
    operated.contains(&path) || shared.contains(&path) || EXTENSIONS.contains(&path)
}

/// Optional, so that argocd-server starts without the `ConfigMap`, too.
fn volume() -> Value {
    json!({"name": VOLUME, "configMap": {"name": UI_EXTENSION, "optional": true}})
}

fn mount() -> Value {
    json!({"name": VOLUME, "mountPath": MOUNT_PATH, "readOnly": true})
}

/// Adds what the object with the parameters does not have yet.
pub(super) fn add(facts: &Facts, holder: Holder<'_>, wanted: &mut Wanted) {
    if holder.is_operated {
        return add_operated(facts, holder, wanted);
    }
    if !is_forwarding(facts.parameters.as_ref(), Some(&facts.server)) {
        wanted.values.push((FORWARDING, json!("true")));
    }
}

fn add_operated(facts: &Facts, holder: Holder<'_>, wanted: &mut Wanted) {
    let present = list(holder.object, "/spec/server/extraCommandArgs");
    let (flag, _) = FLAG;
    let has_flag = |words: &[Value]| {
        let mut words = words.iter().filter_map(Value::as_str);
        words.any(|it| it.starts_with(flag))
    };
    if !has_flag(present) {
        let set = wanted.values.iter_mut();
        let mut set = set.filter(|(path, _)| *path == OPERATOR_FLAGS);
        if let Some((_, Value::Array(words))) = set.next() {
            words.push(json!(flag));
        } else {
            let words = present.iter().cloned().chain([json!(flag)]);
            wanted.values.push((OPERATOR_FLAGS, words.collect()));
        }
    }
    let data = holder.object.pointer("/spec/extraConfig");
    wanted
        .values
        .extend(missing(data, [OPERATOR_APPLICATION, OPERATOR_FLEET], facts));
    let lists = [
        (OPERATOR_VOLUMES, "/spec/server/volumes", volume()),
        (OPERATOR_MOUNTS, "/spec/server/volumeMounts", mount()),
    ];
    for (path, pointer, entry) in lists {
        let present = list(holder.object, pointer);
        if !present.iter().any(|it| text(it, "/name") == VOLUME) {
            let all = present.iter().cloned().chain([entry]);
            wanted.values.push((path, all.collect()));
        }
    }
}

/// The extensions that are absent or lead elsewhere, at these paths.
fn missing(data: Option<&Value>, paths: [Path; 2], facts: &Facts) -> Vec<(Path, Value)> {
    let own = &facts.own_namespace;
    let both = ui::EXTENSIONS.into_iter().zip(paths);
    let both = both.filter(|(name, _)| {
        let found = configured(data, name, own);
        matches!(found, Configured::Absent | Configured::Wrong)
    });
    both.map(|(_, path)| (path, json!(config(own)))).collect()
}

/// What Argo CD's settings do not have yet.
pub(super) fn extensions(facts: &Facts, holder: Holder<'_>) -> Vec<(Path, Value)> {
    missing(holder.object.get("data"), EXTENSIONS, facts)
}

/// What Argo CD's policies do not have yet: nothing if they let any role call an extension, or a user has changed ours.
pub(super) fn policies(holder: Holder<'_>) -> Vec<(Path, Value)> {
    let policies = Some(holder.object);
    let mut both = ui::EXTENSIONS.iter();
    if is_decided(policies) || both.any(|it| may_invoke(policies, it)) {
        return Vec::new();
    }
    vec![(POLICIES, json!(POLICY))]
}

/// What has to be done before.
pub(super) fn obstacles(facts: &Facts, holder: Holder<'_>) -> Vec<Finding> {
    let argocd = &facts.argocd_namespace;
    let mut all = Vec::new();
    if facts.token.is_none() {
        let cause = format!(
            "the Secret {argocd}/{UI_SECRET} does not exist yet, with the token of argocd-server's requests to the hub program"
        );
        let next = "the leader of the hub program creates it within seconds, and its log has the cause if it cannot; then \
        run this again";
        all.push(("ui", failed(cause, next)));
    }
    let settings = (!holder.is_operated, facts.settings.as_ref(), "argocd-cm");
    let policies = (true, facts.policies.as_ref(), "argocd-rbac-cm");
    for (is_needed, object, name) in [settings, policies] {
        if is_needed && object.is_none() {
            let cause = format!("ConfigMap {argocd}/{name} not found");
            let next = "create it, as Argo CD's own manifests do";
            all.push(("argo cd", failed(cause, next)));
        }
    }
    all.extend(in_list(facts, holder).map(|it| ("ui", it)));
    if own_forwarding(Some(&facts.server)) == Some(false) {
        let (flag, name) = FLAG;
        let cause = format!(
            "argocd-server has the flag {flag} or the variable {name} with the value false, which wins over its parameters"
        );
        let next = "remove it where that is managed, and run this again";
        all.push(("flags", failed(cause, next)));
    }
    if !holder.is_operated {
        all.extend(taken(&facts.server).map(|it| ("ui", it)));
    }
    all.into_iter().map(Finding::of).collect()
}

/// Extensions in the list of a user that argocd-server would not serve.
fn in_list(facts: &Facts, holder: Holder<'_>) -> Option<Checked> {
    let (data, place) = if holder.is_operated {
        let data = holder.object.pointer("/spec/extraConfig");
        (data, format!("spec.extraConfig of {}", holder.title()))
    } else {
        let data = facts.settings.as_ref().and_then(|it| it.get("data"));
        let title = holder::settings(facts).map(Holder::title);
        (data, title.unwrap_or_default())
    };
    let mut both = ui::EXTENSIONS.into_iter();
    both.find_map(|name| {
        let cause = match configured(data, name, &facts.own_namespace) {
            Configured::Right | Configured::Absent | Configured::Wrong => return None,
            Configured::Unreadable(cause) => format!("cannot be read: {cause}"),
            Configured::Twice => format!("has {name}, which has a key of its own, too"),
            Configured::WrongInList => format!("has {name} with another backend or token"),
        };
        let key = ui::LIST_KEY;
        let next = format!("correct {key}, or remove {name} from it, and run this again");
        Some(failed(format!("{key} in {place} {cause}"), next))
    })
}

/// Whether another volume has our name or our place.
fn taken(server: &Value) -> Option<Checked> {
    if is_mounted(server) {
        return None;
    }
    let volumes = list(server, "/spec/template/spec/volumes").iter();
    let mut others = volumes.filter(|it| text(it, "/name") == VOLUME && !ui::is_ours(it));
    let mounts = container(server).map_or(&[][..], |it| list(it, "/volumeMounts"));
    let mut mounts = mounts.iter();
    let is_taken = others.next().is_some()
        || mounts.any(|it| text(it, "/mountPath") == MOUNT_PATH && text(it, "/name") != VOLUME);
    let cause = format!("argocd-server has another volume {VOLUME}, or one at {MOUNT_PATH}");
    let next = format!(
        "rename it, or mount the ConfigMap {UI_EXTENSION} below {}, and run this again",
        ui::EXTENSIONS_DIRECTORY
    );
    is_taken.then(|| failed(cause, next))
}

/// Both fields of the Deployment, as they are shown and recorded.
fn fields(container: &str) -> [String; 2] {
    [
        format!("spec.template.spec.volumes[{VOLUME}]"),
        format!("spec.template.spec.containers[{container}].volumeMounts[{VOLUME}]"),
    ]
}

/// One write that mounts the JavaScript into argocd-server and so replaces its Pods; none if it is mounted.
pub(super) fn mounted(facts: &Facts, record: Option<Record>) -> Option<ObjectChange> {
    let server = &facts.server;
    if server.is_null() || is_mounted(server) {
        return None;
    }
    let container = container(server).map_or("", |it| text(it, "/name"));
    let is_first = record.is_none();
    let mut record = record.unwrap_or_default();
    let mut changes = Vec::new();
    for (field, after) in fields(container).into_iter().zip([volume(), mount()]) {
        record.add(&field, &Value::Null, &after);
        changes.push(FieldChange::new(&field, Value::Null, after));
    }
    if is_first {
        let recorded = FieldChange::new(&RECORD.join("."), Value::Null, json!(RECORDED));
        changes.push(recorded);
    }
    let body = json!({
        "metadata": {"annotations": {HUB_SETUP: record.text(facts.now)}},
        "spec": {"template": {"spec": {
            "volumes": [volume()],
            "containers": [{"name": container, "volumeMounts": [mount()]}],
        }}},
    });
    Some(deployment(facts, body, changes))
}

/// One write that removes the mount and its record, and so replaces the Pods of argocd-server; or why the mount stays.
pub(super) fn unmounted(facts: &Facts) -> (ObjectChange, Option<Checked>) {
    let server = &facts.server;
    let mut body = json!({"metadata": {"annotations": {HUB_SETUP: null}}});
    let mut changes = vec![FieldChange::new(
        &RECORD.join("."),
        json!(RECORDED),
        Value::Null,
    )];
    let mut volumes = list(server, "/spec/template/spec/volumes").iter();
    let volume = volumes.find(|it| text(it, "/name") == VOLUME);
    let mut containers = list(server, "/spec/template/spec/containers").iter();
    let is_mount =
        |it: &&Value| text(it, "/mountPath") == MOUNT_PATH && text(it, "/name") == VOLUME;
    let mounts = |it: &Value| list(it, "/volumeMounts").iter().find(is_mount).cloned();
    let mount = containers.find_map(|it| Some((text(it, "/name"), mounts(it)?)));
    if volume.is_some_and(|it| !ui::is_ours(it)) {
        let cause = format!(
            "the volume {VOLUME} of argocd-server was changed after setup and stays as it is"
        );
        let kept = warning(
            cause,
            "remove it and its mount, if it should be as before setup",
        );
        return (deployment_record(facts, body, changes), Some(kept));
    }
    if volume.is_none() && mount.is_none() {
        return (deployment_record(facts, body, changes), None);
    }
    let (name, mount) = mount.unwrap_or_default();
    let present = [volume.cloned().unwrap_or_default(), mount];
    let shown = fields(name).into_iter().zip(&present);
    let shown = shown.filter(|(_, before)| !before.is_null());
    let shown = shown.map(|(field, before)| FieldChange::new(&field, before.clone(), Value::Null));
    changes.splice(0..0, shown);
    let [volume, mount] = present;
    if !volume.is_null() {
        let gone = json!([{"name": VOLUME, "$patch": "delete"}]);
        put(&mut body, &["spec", "template", "spec", "volumes"], gone);
    }
    if !mount.is_null() {
        let gone = json!([{"mountPath": MOUNT_PATH, "$patch": "delete"}]);
        let containers = json!([{"name": name, "volumeMounts": gone}]);
        put(
            &mut body,
            &["spec", "template", "spec", "containers"],
            containers,
        );
    }
    (deployment(facts, body, changes), None)
}

/// A strategic merge patch of argocd-server, after which its Pods are new. It names each entry, so that those of others stay, and
/// is not bound to a version: the status of a Deployment changes at any time.
fn deployment(facts: &Facts, mut body: Value, mut fields: Vec<FieldChange>) -> ObjectChange {
    let before = diagnosis::object::value(&facts.server, RESTARTED);
    let after = json!(facts.now.to_string());
    put(&mut body, RESTARTED, after.clone());
    fields.push(FieldChange::new(&RESTARTED.join("."), before, after));
    deployment_record(facts, body, fields)
}

fn deployment_record(facts: &Facts, body: Value, fields: Vec<FieldChange>) -> ObjectChange {
    let meta = Meta::of(&facts.server);
    ObjectChange {
        kind: "Deployment",
        namespace: Some(meta.namespace().to_owned()),
        name: meta.name().to_owned(),
        action: Action::Patch,
        fields,
        write: Write::Strategic(DEPLOYMENTS, body),
    }
}
