//! The namespaces and names of works. Pure.
//!
//! A work belongs to an add-on by its name, not by a label, because names are immutable.

use crate::{
    keys,
    name::{AddonName, ClusterName},
};

/// The cluster on which a work is applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// On the managed cluster itself.
    Managed,
    /// On the cluster that hosts its agent.
    Hosting(ClusterName),
}

impl Place {
    /// The namespace of works for `cluster`.
    pub(crate) const fn namespace<'a>(&'a self, cluster: &'a ClusterName) -> &'a ClusterName {
        match self {
            Self::Managed => cluster,
            Self::Hosting(host) => host,
        }
    }

    /// Whether it is another cluster than the managed one.
    pub(crate) const fn is_hosting(&self) -> bool {
        matches!(self, Self::Hosting(_))
    }

    /// The finalizer of an add-on with hooks there.
    pub(crate) const fn hook_finalizer(&self) -> &'static str {
        match self {
            Self::Managed => keys::PRE_DELETE_FINALIZER,
            Self::Hosting(_) => keys::HOSTING_PRE_DELETE_FINALIZER,
        }
    }

    /// The name of a work with rendered objects.
    pub(crate) fn deploy_name(
        &self,
        addon: &AddonName,
        cluster: &ClusterName,
        number: usize,
    ) -> String {
        format!("addon-{addon}-deploy{}-{number}", self.mark(cluster))
    }

    /// The name of the work with hooks.
    pub(crate) fn hook_name(&self, addon: &AddonName, cluster: &ClusterName) -> String {
        format!("addon-{addon}-pre-delete{}", self.mark(cluster))
    }

    /// The part of a name that marks works on a host, where works for several clusters may be.
    fn mark(&self, cluster: &ClusterName) -> String {
        match self {
            Self::Managed => String::new(),
            Self::Hosting(_) => format!("{HOSTING}{cluster}"),
        }
    }
}

const HOSTING: &str = "-hosting-";

/// The purpose of a work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Holds rendered objects, and has this number.
    Deploy(usize),
    /// Holds hooks.
    Hook,
}

/// A parsed name of a work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResourceTitle {
    /// The cluster whose agent is hosted, if so.
    pub(crate) hosted_for: Option<ClusterName>,
    /// Its purpose.
    pub(crate) purpose: Purpose,
}

/// Parses the name of a work; `None` if it does not belong to the add-on.
pub(crate) fn title(addon: &AddonName, name: &str) -> Option<ResourceTitle> {
    let rest = name.strip_prefix(&format!("addon-{addon}-"))?;
    let (purpose, mark) = if let Some(mark) = rest.strip_prefix("pre-delete") {
        (Purpose::Hook, mark)
    } else {
        let (mark, text) = rest.strip_prefix("deploy")?.rsplit_once('-')?;
        let number: usize = text.parse().ok()?;
        if number.to_string() != text {
            return None;
        }
        (Purpose::Deploy(number), mark)
    };
    let hosted_for = match mark.strip_prefix(HOSTING) {
        Some(cluster) => Some(ClusterName::new(cluster).ok()?),
        None if mark.is_empty() => None,
        None => return None,
    };
    Some(ResourceTitle {
        hosted_for,
        purpose,
    })
}

/// The cluster that a work is for; `None` if its name does not belong to the add-on, regardless of its labels: another
/// client created it, so the SDK must not delete it.
pub(crate) fn served(addon: &AddonName, namespace: &str, name: &str) -> Option<ClusterName> {
    let ResourceTitle { hosted_for, .. } = title(addon, name)?;
    hosted_for.or_else(|| ClusterName::new(namespace).ok())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn works_have_the_names_that_ocm_expects() {
        let (addon, cluster) = (AddonName::new("a").unwrap(), ClusterName::new("c").unwrap());
        let hosting = Place::Hosting(ClusterName::new("h").unwrap());
        let names = [
            Place::Managed.deploy_name(&addon, &cluster, 0),
            Place::Managed.hook_name(&addon, &cluster),
            hosting.deploy_name(&addon, &cluster, 1),
            hosting.hook_name(&addon, &cluster),
        ];
        let wanted = [
            "addon-a-deploy-0",
            "addon-a-pre-delete",
            "addon-a-deploy-hosting-c-1",
            "addon-a-pre-delete-hosting-c",
        ];
        assert_eq!(names, wanted);
    }

    #[test]
    fn other_names_belong_to_no_cluster() {
        let addon = AddonName::new("a").unwrap();
        for name in [
            "addon-b-deploy-0",
            "addon-a-deploy-",
            "addon-a-deploy-01",
            "addon-a-deploy-x",
            "addon-a-deploy-hosting-0",
            "addon-a-pre-delete-2",
            "a",
        ] {
            assert_eq!(title(&addon, name), None, "{name}");
            assert_eq!(served(&addon, "c", name), None, "{name}");
        }
    }

    #[test]
    fn a_work_is_for_the_cluster_of_its_namespace_or_of_its_name() {
        let addon = AddonName::new("a").unwrap();
        let cluster = |name| served(&addon, "c", name).map(|it| it.to_string());
        assert_eq!(cluster("addon-a-deploy-0").as_deref(), Some("c"));
        assert_eq!(cluster("addon-a-deploy-hosting-d-0").as_deref(), Some("d"));
    }

    proptest! {
        #[test]
        fn a_generated_name_parses_back(
            addon in "[a-z]([a-z0-9-]{0,8}[a-z0-9])?", cluster in "[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?",
            number in 0usize..1000, hosted in any::<bool>()
        ) {
            let addon = AddonName::new(addon).unwrap();
            let cluster = ClusterName::new(cluster).unwrap();
            let place = if hosted { Place::Hosting(cluster.clone()) } else { Place::Managed };
            let hosted_for = hosted.then(|| cluster.clone());
            let deploy = ResourceTitle { hosted_for: hosted_for.clone(), purpose: Purpose::Deploy(number) };
            prop_assert_eq!(title(&addon, &place.deploy_name(&addon, &cluster, number)), Some(deploy));
            let hook = ResourceTitle { hosted_for, purpose: Purpose::Hook };
            prop_assert_eq!(title(&addon, &place.hook_name(&addon, &cluster)), Some(hook));
        }
    }
}
