//! Whether the agent of a cluster runs on another cluster, and whether that cluster may host it. Pure.

use super::{Addon, Hosts, place::Place};
use crate::{
    api::{addon::ManagedClusterAddOn, cluster::ManagedCluster},
    condition::{self, Verdict},
    name::ClusterName,
};

/// Where the agent of a cluster runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Hosting {
    /// On the cluster itself.
    No,
    /// On this cluster.
    On(ClusterName),
    /// The host is refused, for this reason.
    Refused(String),
}

impl Hosting {
    /// Whether the add-on is in hosted mode.
    pub(crate) const fn is_hosted(&self) -> bool {
        !matches!(self, Self::No)
    }

    /// The places that works go to.
    pub(crate) fn places(&self) -> Vec<Place> {
        let hosting = match self {
            Self::On(host) => Some(Place::Hosting(host.clone())),
            Self::No | Self::Refused(_) => None,
        };
        [Place::Managed].into_iter().chain(hosting).collect()
    }

    /// The condition of the host; none without hosted mode.
    pub(crate) fn verdict(&self) -> Option<Verdict> {
        let kind = condition::addon::HOSTING_CLUSTER_VALIDITY;
        match self {
            Self::No => None,
            Self::On(host) => {
                let message = format!("cluster {host} hosts the agent");
                Some(Verdict::new(kind, true, "HostingClusterValid", message))
            }
            Self::Refused(why) => Some(Verdict::new(kind, false, "HostingClusterInvalid", why)),
        }
    }
}

/// Decides where the agent runs. `host` is the cluster that the annotation names, if it exists.
pub(crate) fn hosting(
    addon: &impl Addon,
    cluster_addon: &ManagedClusterAddOn,
    host: Option<&ManagedCluster>,
) -> Hosting {
    let Some(named) = cluster_addon.hosting_cluster() else {
        return Hosting::No;
    };
    judge(&addon.hosts(), named, host).map_or_else(Hosting::Refused, Hosting::On)
}

fn judge(hosts: &Hosts, named: &str, host: Option<&ManagedCluster>) -> Result<ClusterName, String> {
    let name = ClusterName::new(named)
        .map_err(|error| format!("the hosting cluster has no valid name: {error}"))?;
    if !hosts.admit(&name) {
        return Err(format!(
            "cluster {name} is not allowed to host agents of this add-on"
        ));
    }
    let host = host.ok_or_else(|| format!("hosting cluster {name} not found"))?;
    if host.is_deleting() {
        return Err(format!("the hosting cluster {name} is being deleted"));
    }
    if !host.is_admitted() {
        return Err(format!("the hosting cluster {name} is not accepted"));
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    fn cluster() -> ManagedCluster {
        let mut cluster = ManagedCluster::default();
        cluster.spec.hub_accepts_client = true;
        cluster
    }

    #[test]
    fn only_accepted_clusters_on_the_list_may_host() {
        let host = || ClusterName::new("h").unwrap();
        let these = Hosts::Only([host()].into());
        let (good, mut deleting, refused) = (cluster(), cluster(), ManagedCluster::default());
        deleting.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
        assert_eq!(judge(&these, "h", Some(&good)), Ok(host()));
        assert_eq!(judge(&Hosts::Any, "h", Some(&good)), Ok(host()));
        let cases = [
            (&these, "other", Some(&good), "is not allowed"),
            (&Hosts::None, "h", Some(&good), "is not allowed"),
            (&these, "H!", Some(&good), "no valid name"),
            (&these, "h", None, "cluster h not found"),
            (&these, "h", Some(&deleting), "being deleted"),
            (&these, "h", Some(&refused), "not accepted"),
        ];
        for (hosts, name, host, why) in cases {
            let error = judge(hosts, name, host).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn a_refused_host_gets_no_works_and_a_condition() {
        let refused = Hosting::Refused("why".to_owned());
        assert_eq!(refused.places(), [Place::Managed]);
        assert_eq!(refused.verdict().unwrap().reason, "HostingClusterInvalid");
        assert_eq!(Hosting::No.verdict(), None);
    }
}
