//! The permission of argocd-server to change Applications outside of its namespace, as Argo CD's documentation of
//! Applications in any namespace has it. Pure.

use argocd::Meta;
use diagnosis::object::{list, put, service_account, text};
use serde_json::{Value, json};

use super::{Action, Facts, FieldChange, ObjectChange, Write, as_read};
use crate::hub::{CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, Kind};

/// The `ClusterRole` and its binding.
pub const ROLE: &str = "argocd-agent-addon-argocd-server";
const GROUP: &str = "rbac.authorization.k8s.io";
/// Marks objects of ours.
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
const US: &str = "argocd-agentctl";

/// One of the two: kind, the field with its content, and the object that is there.
#[derive(Clone, Copy, Debug)]
struct Own<'a> {
    kind: (Kind, &'static str),
    field: &'static str,
    present: Option<&'a Value>,
}

const fn role(facts: &Facts) -> Own<'_> {
    Own {
        kind: (CLUSTER_ROLES, "ClusterRole"),
        field: "rules",
        present: facts.role.as_ref(),
    }
}

const fn binding(facts: &Facts) -> Own<'_> {
    Own {
        kind: (CLUSTER_ROLE_BINDINGS, "ClusterRoleBinding"),
        field: "subjects",
        present: facts.binding.as_ref(),
    }
}

/// The writes that give argocd-server the permission if it does not have it.
pub(super) fn granted(facts: &Facts) -> Result<Vec<ObjectChange>, String> {
    let mut is_allowed = true;
    for (_, answer) in &facts.server_rights {
        is_allowed &= answer.clone()?;
    }
    if is_allowed {
        return Ok(Vec::new());
    }
    let rules = json!([
        {
            "apiGroups": ["argoproj.io"],
            "resources": ["applications"],
            "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"],
        },
        {"apiGroups": [""], "resources": ["events"], "verbs": ["create"]},
    ]);
    let account = service_account(&facts.server);
    let subjects = json!([
        {"kind": "ServiceAccount", "name": account, "namespace": facts.argocd_namespace},
    ]);
    let role_ref = json!({"apiGroup": GROUP, "kind": "ClusterRole", "name": ROLE});
    let role = role(facts).with(rules, json!({}))?;
    let binding = binding(facts).with(subjects, json!({ "roleRef": role_ref }))?;
    Ok(role.into_iter().chain(binding).collect())
}

/// The writes that remove what setup created: the binding first. What the server of another Argo CD uses stays.
pub(super) fn removed(facts: &Facts) -> impl Iterator<Item = ObjectChange> {
    let is_of_another = |binding: &Value| {
        let mut subjects = list(binding, "/subjects").iter();
        !subjects.any(|it| text(it, "/namespace") == facts.argocd_namespace)
    };
    let stays = facts.binding.as_ref().is_some_and(is_of_another);
    let both = [binding(facts), role(facts)].into_iter();
    both.filter(move |_| !stays).filter_map(Own::without)
}

fn is_ours(object: &Value) -> bool {
    Meta::of(object).label(MANAGED_BY) == Some(US)
}

impl Own<'_> {
    /// The write after which it has this content; `new` has further fields of a new object.
    fn with(self, content: Value, new: Value) -> Result<Option<ObjectChange>, String> {
        let (kind, title) = self.kind;
        let Some(present) = self.present else {
            let mut object = new;
            put(&mut object, &["apiVersion"], json!(format!("{GROUP}/v1")));
            put(&mut object, &["kind"], json!(title));
            put(&mut object, &["metadata", "name"], json!(ROLE));
            put(&mut object, &["metadata", "labels", MANAGED_BY], json!(US));
            put(&mut object, &[self.field], content.clone());
            let field = FieldChange::new(self.field, Value::Null, content);
            let write = Write::Create(kind, object);
            return Ok(Some(self.change(Action::Create, field, write)));
        };
        if !is_ours(present) {
            return Err(format!(
                "{title} {ROLE} exists without the label {MANAGED_BY}={US}, and is not changed; rename or delete it"
            ));
        }
        let before = present.get(self.field).cloned().unwrap_or_default();
        if before == content {
            return Ok(None);
        }
        let mut body = as_read(present);
        put(&mut body, &[self.field], content.clone());
        let field = FieldChange::new(self.field, before, content);
        let write = Write::Merge(kind, body);
        Ok(Some(self.change(Action::Patch, field, write)))
    }

    fn without(self) -> Option<ObjectChange> {
        let present = self.present.filter(|it| is_ours(it))?;
        let before = present.get(self.field).cloned().unwrap_or_default();
        let field = FieldChange::new(self.field, before, Value::Null);
        let version = Meta::of(present).resource_version().to_owned();
        let write = Write::Delete(self.kind.0, version);
        Some(self.change(Action::Delete, field, write))
    }

    fn change(self, action: Action, field: FieldChange, write: Write) -> ObjectChange {
        ObjectChange {
            kind: self.kind.1,
            namespace: None,
            name: ROLE.to_owned(),
            action,
            fields: vec![field],
            write,
        }
    }
}
