//! Argo CD on the hub at the resource proxy: the cluster that its certificate opens.
//!
//! Each cluster Secret has a certificate of its own, which opens that cluster and nothing else. Its common name cannot
//! be a cluster's name and is not that of an agent, so the principal rejects it. The resource proxy in turn rejects an
//! agent's certificate, unless upstream's rules are configured ([`Visitors`]).

use x509_parser::{certificate::X509Certificate, prelude::FromDer as _};

use super::{NotIdentified, common_name};
use crate::fleet::ClusterName;

const PREFIX: &str = "argocd-agent:resource-proxy:";

/// The common name of the certificate with which Argo CD connects for a cluster.
pub fn name_for(cluster: &str) -> String {
    format!("{PREFIX}{cluster}")
}

/// The credentials that open a cluster at the resource proxy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Visitors {
    /// A certificate for this purpose only ([`name_for`]).
    #[default]
    Named,
    /// Also, as at upstream's principal, a certificate whose common name is the cluster (`argocd-agentctl agent create`),
    /// or a token that names the cluster and belongs to the certificate of the connection (self-registration).
    Upstream,
}

impl Visitors {
    /// The cluster that this verified leaf certificate opens.
    pub fn cluster_of(self, leaf: &[u8]) -> Result<ClusterName, NotIdentified> {
        let (_, certificate) =
            X509Certificate::from_der(leaf).map_err(|_unreadable| NotIdentified::Unreadable)?;
        let name = common_name(&certificate)?;
        let cluster = match (name.strip_prefix(PREFIX), self) {
            (Some(cluster), _) => cluster,
            (None, Self::Upstream) => name,
            (None, Self::Named) => return Err(NotIdentified::Form),
        };
        ClusterName::try_from(cluster).map_err(|_invalid| NotIdentified::Name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{admission::identity::Method, testing::Authority};

    fn leaf(common_name: &str) -> Vec<u8> {
        let leaf = Authority::new().client(common_name);
        leaf.peer_certificate().leaf().to_vec()
    }

    fn cluster_of(leaf: &[u8]) -> Result<ClusterName, NotIdentified> {
        Visitors::Named.cluster_of(leaf)
    }

    #[test]
    fn a_visitors_certificate_opens_its_cluster_and_no_other() {
        for visitors in [Visitors::Named, Visitors::Upstream] {
            let opened = visitors.cluster_of(&leaf(&name_for("spoke1"))).unwrap();
            assert_eq!(opened.as_str(), "spoke1");
        }
        for name in [
            "spoke1",
            "",
            "argocd-agent:resource-proxy:",
            "x argocd-agent:resource-proxy:a",
        ] {
            assert!(cluster_of(&leaf(name)).is_err(), "{name:?}");
        }
        for name in ["a.b", "a,CN=b", "a:b"] {
            assert_eq!(cluster_of(&leaf(&name_for(name))), Err(NotIdentified::Name));
        }
    }

    #[test]
    fn by_upstreams_rules_the_whole_common_name_is_the_cluster() {
        let opened = |name| Visitors::Upstream.cluster_of(&leaf(name));
        assert_eq!(opened("spoke1").unwrap().as_str(), "spoke1");
        for name in ["", "a.b", "a,CN=b", "x argocd-agent:resource-proxy:a"] {
            assert!(opened(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn an_agent_is_no_visitor_and_a_visitor_is_no_agent() {
        let agent = Authority::new().agent("spoke1").peer_certificate();
        assert_eq!(cluster_of(agent.leaf()), Err(NotIdentified::Form));
        let visitor = leaf(&name_for("spoke1"));
        for method in [Method::ocm(), Method::Cn] {
            assert!(method.cluster_of(&visitor).is_err(), "{method:?}");
        }
    }
}
