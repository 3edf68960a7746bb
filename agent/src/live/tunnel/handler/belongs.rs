//! Looks up whether an object belongs to an Application of this cluster (`live::belonging`), step by step.

use std::collections::BTreeMap;

use argocd::{Meta, keys};
use live::belonging::{Claimed, DEEPEST, Identity, Owner};
use live::request::{Object, Subject};
use protocol::Mode;
use serde_json::Value;

use super::api::{Api, Failed};
use crate::config::Scope;

/// The key of the tracking label in Argo CD's settings.
const LABEL: &str = "application.instanceLabelKey";
/// The kind of an Application.
const APPLICATION: &str = "Application";
/// The most objects to read for one request.
const MOST: usize = 32;

/// One search.
pub(super) struct Search<'a> {
    api: &'a Api,
    scope: &'a Scope,
    label: Option<String>,
    kinds: BTreeMap<(String, String), Value>,
    looks: usize,
}

impl<'a> Search<'a> {
    pub(super) const fn new(api: &'a Api, scope: &'a Scope) -> Self {
        Self {
            api,
            scope,
            label: None,
            kinds: BTreeMap::new(),
            looks: 0,
        }
    }

    /// Whether an Application has this object or one of its owners.
    pub(super) async fn belongs(&mut self, object: &Value) -> Result<bool, Failed> {
        if self.is_listed(object).await? {
            return Ok(true);
        }
        self.has_owner(object).await
    }

    /// Whether an Application has one of its owners, or an owner of an owner.
    pub(super) async fn has_owner(&mut self, object: &Value) -> Result<bool, Failed> {
        let mut objects = vec![object.clone()];
        for _ in 0..DEEPEST {
            let mut owners = Vec::new();
            for object in &objects {
                let namespace = Meta::of(object).namespace();
                for owner in Owner::all_of(object) {
                    if let Some(owner) = self.owner(&owner, namespace).await? {
                        if self.is_listed(&owner).await? {
                            return Ok(true);
                        }
                        owners.push(owner);
                    }
                }
            }
            objects = owners;
        }
        Ok(false)
    }

    /// Whether users may see Events about this object: an Application that the hub shows, or an object that belongs to one.
    pub(super) async fn shows(
        &mut self,
        involved: &Owner<'_>,
        namespace: &str,
    ) -> Result<bool, Failed> {
        match self.is_shown(involved, namespace).await {
            // Every client that may create Events can name an object that users may not read, or none that can be read:
            // one such Event must not hide the others.
            Err(Failed::NotShown { .. } | Failed::Unreadable(_) | Failed::Unwritable(_)) => {
                Ok(false)
            }
            found => found,
        }
    }

    async fn is_shown(&mut self, involved: &Owner<'_>, namespace: &str) -> Result<bool, Failed> {
        if involved.kind == APPLICATION {
            let claim = Claimed {
                namespace: Some(namespace),
                name: involved.name,
            };
            let found = self.application(&claim).await?;
            if found.is_some_and(|it| involved.is(&it)) {
                return Ok(true);
            }
        }
        match self.owner(involved, namespace).await? {
            Some(object) => self.belongs(&object).await,
            None => Ok(false),
        }
    }

    /// Whether the status of an Application lists this object.
    async fn is_listed(&mut self, object: &Value) -> Result<bool, Failed> {
        let Some(identity) = Identity::of(object) else {
            return Ok(false);
        };
        let label = self.label().await?;
        for claim in Claimed::by(object, &label) {
            if let Some(application) = self.application(&claim).await?
                && identity.is_of(&application)
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// An Application that the hub shows: a replica, or any of an autonomous cluster.
    async fn application(&mut self, claim: &Claimed<'_>) -> Result<Option<Value>, Failed> {
        let own = self.scope.argocd_namespace.as_str();
        let namespace = claim.namespace.unwrap_or(own);
        if !self.scope.admits(namespace) || !self.may_look() {
            return Ok(None);
        }
        let object = Object {
            group: "argoproj.io".to_owned(),
            version: "v1alpha1".to_owned(),
            resource: "applications".to_owned(),
            namespace: Some(namespace.to_owned()),
            name: Some(claim.name.to_owned()),
            ..Object::default()
        };
        let found = self.api.object(object).await?;
        let managed = self.scope.mode == Mode::Managed;
        Ok(found.filter(|it| !managed || Meta::of(it).source_uid().is_some()))
    }

    async fn owner(&mut self, owner: &Owner<'_>, namespace: &str) -> Result<Option<Value>, Failed> {
        if !self.may_look() {
            return Ok(None);
        }
        let key = (owner.group.to_owned(), owner.version.to_owned());
        if !self.kinds.contains_key(&key) {
            let (group, version) = key.clone();
            let kinds = self.api.look(Subject::Kinds { group, version }).await?;
            self.kinds.insert(key.clone(), kinds.unwrap_or_default());
        }
        let kinds = self.kinds.get(&key);
        let Some((plural, namespaced)) = kinds.and_then(|it| owner.resource_in(it)) else {
            return Ok(None);
        };
        // A cluster-scoped object has no owner in a namespace.
        if namespaced && namespace.is_empty() {
            return Ok(None);
        }
        let object = Object {
            group: owner.group.to_owned(),
            version: owner.version.to_owned(),
            resource: plural.to_owned(),
            namespace: namespaced.then(|| namespace.to_owned()),
            name: Some(owner.name.to_owned()),
            subresource: None,
        };
        let found = match self.api.object(object).await {
            // An owner that the user may not read does not count.
            Err(Failed::NotShown { .. }) => None,
            found => found?,
        };
        Ok(found.filter(|it| owner.is(it)))
    }

    /// The tracking label of this cluster's Argo CD, if it tracks by label.
    async fn label(&mut self) -> Result<String, Failed> {
        if let Some(label) = &self.label {
            return Ok(label.clone());
        }
        let object = Object {
            version: "v1".to_owned(),
            resource: "configmaps".to_owned(),
            namespace: Some(self.scope.argocd_namespace.clone()),
            name: Some(keys::SETTINGS.to_owned()),
            ..Object::default()
        };
        let settings = self.api.object(object).await?.unwrap_or_default();
        let data = settings.get("data");
        let set = data.and_then(|data| data.get(LABEL)?.as_str());
        let label = set.filter(|it| !it.is_empty()).unwrap_or(keys::INSTANCE);
        Ok(self.label.insert(label.to_owned()).clone())
    }

    const fn may_look(&mut self) -> bool {
        self.looks = self.looks.saturating_add(1);
        self.looks <= MOST
    }
}
