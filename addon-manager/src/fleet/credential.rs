//! The credential of Argo CD on the hub at the resource proxy, for one cluster: a client certificate of our CA that is
//! valid for this cluster only. Pure, except that it creates keys.

use argocd::cluster_secret::Access;
use jiff::{SignedDuration, Timestamp};
use principal::admission::identity::visitor::{self, Visitors};

use crate::issuer::{
    Authority, Error,
    facts::{Leaf, leaf_facts},
    make,
};

/// The credential for the cluster Secret: the stored one if it is good, else a new one.
///
/// The trusted CAs are always the current ones, because the CA may rotate meanwhile.
pub fn current(
    stored: Option<Access>,
    ca: &Authority,
    cluster: &str,
    now: Timestamp,
) -> Result<Access, Error> {
    let stored = stored.and_then(|access| access.certificate.zip(access.key));
    let good = stored.filter(|(certificate, key)| {
        leaf_facts(certificate, key, ca).is_ok_and(|leaf| is_good(&leaf, cluster, now))
    });
    let (certificate, key) = if let Some(stored) = good {
        stored
    } else {
        let made = make::visitor(ca, &visitor::name_for(cluster), now)?;
        (made.certificate, made.key)
    };
    Ok(Access {
        bearer_token: None,
        ca: Some(ca.bundle.clone()),
        certificate: Some(certificate),
        key: Some(key),
    })
}

/// Whether the current CA issued it with its chain, it is valid for this cluster, and a third of its life is left.
fn is_good(leaf: &Leaf, cluster: &str, now: Timestamp) -> bool {
    let life = leaf.not_after.duration_since(leaf.not_before);
    let left: SignedDuration = leaf.not_after.duration_since(now);
    let opens = Visitors::Named
        .cluster_of(&leaf.der)
        .is_ok_and(|name| name.as_str() == cluster);
    let lasts = left.checked_mul(3).is_none_or(|thrice| thrice >= life);
    leaf.issued_by_ca && leaf.has_chain && opens && lasts
}

#[cfg(test)]
mod tests {
    use jiff::ToSpan as _;

    use super::*;

    fn now() -> Timestamp {
        "2026-11-20T12:00:00Z".parse().unwrap()
    }

    #[test]
    fn a_credential_opens_its_own_cluster_and_is_kept_while_it_is_good() {
        let ca = make::authority(now()).unwrap();
        let first = current(None, &ca, "spoke1", now()).unwrap();
        let again = current(Some(first.clone()), &ca, "spoke1", now()).unwrap();
        assert!(again == first, "a good credential is kept");
        let (certificate, key) = (
            first.certificate.clone().unwrap(),
            first.key.clone().unwrap(),
        );
        let facts = leaf_facts(&certificate, &key, &ca).unwrap();
        assert_eq!(
            Visitors::Named.cluster_of(&facts.der).unwrap().as_str(),
            "spoke1"
        );
        let other = current(Some(first.clone()), &ca, "spoke2", now()).unwrap();
        assert!(
            other.certificate != first.certificate,
            "another cluster's is no good"
        );
    }

    #[test]
    fn a_credential_is_renewed_in_time_and_after_a_ca_rotation() {
        let ca = make::authority(now()).unwrap();
        let first = current(None, &ca, "c", now()).unwrap();
        let days = |days: i64| now() + SignedDuration::from_hours(24 * days);
        for (at, same) in [(days(50), true), (days(61), false), (days(100), false)] {
            let then = current(Some(first.clone()), &ca, "c", at).unwrap();
            assert_eq!(then == first, same, "{at}");
        }
        let next = make::authority(now()).unwrap();
        let then = current(Some(first.clone()), &next, "c", now() + 1.hours()).unwrap();
        assert!(then.certificate != first.certificate);
        assert_eq!(then.ca.as_deref(), Some(next.bundle.as_str()));
    }

    #[test]
    fn a_credential_gets_the_chain_of_the_ca() {
        let bare = make::authority(now()).unwrap();
        let first = current(None, &bare, "c", now()).unwrap();
        let chained = Authority {
            chain: bare.certificate.clone(),
            ..bare
        };
        let then = current(Some(first), &chained, "c", now()).unwrap();
        let certificate = then.certificate.clone().unwrap();
        assert!(certificate.ends_with(&chained.chain));
        let again = current(Some(then.clone()), &chained, "c", now()).unwrap();
        assert!(again == then, "the chain is there");
    }

    #[test]
    fn garbage_in_the_secret_is_replaced() {
        let ca = make::authority(now()).unwrap();
        let garbage = Access {
            certificate: Some("x".to_owned()),
            key: Some("y".to_owned()),
            ..Access::default()
        };
        assert!(current(Some(garbage), &ca, "c", now()).is_ok());
    }
}
