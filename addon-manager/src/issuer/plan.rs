//! Decides which certificates to issue. Pure.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::{
    Observed, PRINCIPAL_SECRET, RESOURCE_PROXY_SECRET, TokenKey,
    facts::{Leaf, ReadLeaf},
};

/// The names that the two serving certificates must cover.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// For the principal.
    pub principal: BTreeSet<String>,
    /// For the resource proxy, and for the redis proxy beside it.
    pub resource_proxy: BTreeSet<String>,
}

impl Wanted {
    /// The Services in `namespace`, and for the principal the `addresses` that agents dial.
    pub fn at(namespace: &str, addresses: BTreeSet<String>) -> Self {
        let mut principal = service_names("argocd-agent-principal", namespace);
        principal.extend(addresses);
        let mut resource_proxy = service_names("argocd-agent-resource-proxy", namespace);
        resource_proxy.extend(service_names("argocd-agent-redis-proxy", namespace));
        Self {
            principal,
            resource_proxy,
        }
    }
}

fn service_names(service: &str, namespace: &str) -> BTreeSet<String> {
    [
        service.to_owned(),
        format!("{service}.{namespace}"),
        format!("{service}.{namespace}.svc"),
        format!("{service}.{namespace}.svc.cluster.local"),
    ]
    .into()
}

/// One write or report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Issue a serving certificate into this Secret.
    Issue {
        /// The Secret.
        secret: &'static str,
        /// The names that it must cover.
        names: BTreeSet<String>,
        /// The reason, for the log.
        why: &'static str,
        /// The resource version of the Secret to replace; none creates it.
        replaces: Option<String>,
    },
    /// Create the token key.
    MakeTokenKey,
    /// Report an invalid certificate of another owner.
    ReportForeign {
        /// The Secret.
        secret: &'static str,
        /// Why it is invalid.
        reason: String,
    },
    /// Report a token key that cannot sign.
    ReportTokenKey,
}

/// Returns the steps that make the certificates cover `wanted`, in order.
///
/// A good certificate of ours costs no write. We do not issue it again to remove a name, so that an unstable address
/// does not churn certificates.
pub fn plan(observed: &Observed, wanted: &Wanted, now: Timestamp) -> Vec<Step> {
    let leaves = [
        (PRINCIPAL_SECRET, &observed.principal, &wanted.principal),
        (
            RESOURCE_PROXY_SECRET,
            &observed.resource_proxy,
            &wanted.resource_proxy,
        ),
    ];
    let mut steps: Vec<Step> = leaves
        .into_iter()
        .filter_map(|(secret, leaf, names)| leaf_step(secret, leaf, names, now))
        .collect();
    steps.extend(match observed.token_key {
        TokenKey::Missing => Some(Step::MakeTokenKey),
        TokenKey::Unusable => Some(Step::ReportTokenKey),
        TokenKey::Usable => None,
    });
    steps
}

fn leaf_step(
    secret: &'static str,
    leaf: &ReadLeaf,
    names: &BTreeSet<String>,
    now: Timestamp,
) -> Option<Step> {
    let Some(stored) = leaf else {
        return Some(Step::Issue {
            secret,
            names: names.clone(),
            why: "missing",
            replaces: None,
        });
    };
    let flaw = match &stored.facts {
        Err(reason) => Some(("unusable", reason.clone())),
        // Another owner may write the same chain in another form.
        Ok(facts) if stored.ours && facts.issued_by_ca && !facts.has_chain => Some((
            "other chain",
            "lacks the certificates above the CA in use".to_owned(),
        )),
        Ok(facts) => flaw(facts, names, now),
    };
    // A renewal keeps the covered names: it would otherwise lose an address that is not known again yet after a restart.
    let covered = stored
        .facts
        .as_ref()
        .map(|facts| facts.names.clone())
        .unwrap_or_default();
    match flaw {
        Some((why, _)) if stored.ours => Some(Step::Issue {
            secret,
            names: names.union(&covered).cloned().collect(),
            why,
            replaces: Some(stored.version.clone()),
        }),
        Some((_, reason)) => Some(Step::ReportForeign { secret, reason }),
        None => None,
    }
}

/// The flaw of a certificate, as a short reason and as a phrase.
fn flaw(leaf: &Leaf, names: &BTreeSet<String>, now: Timestamp) -> Option<(&'static str, String)> {
    let missing: Vec<&str> = names.difference(&leaf.names).map(String::as_str).collect();
    let life = leaf.not_after.duration_since(leaf.not_before);
    let left = leaf.not_after.duration_since(now);
    if !leaf.issued_by_ca {
        return Some(("other authority", "not issued by the CA in use".to_owned()));
    }
    if !missing.is_empty() {
        return Some(("new name", format!("does not cover {}", missing.join(", "))));
    }
    if left.checked_mul(3).is_none_or(|thrice| thrice < life) {
        return Some(("renewal", format!("expires at {}", leaf.not_after)));
    }
    None
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, ToSpan as _};
    use proptest::prelude::*;

    use super::*;
    use crate::issuer::facts::StoredLeaf;

    fn now() -> Timestamp {
        "2026-11-20T12:00:00Z".parse().unwrap()
    }

    fn wanted() -> Wanted {
        Wanted::at("here", ["hub.example.org".to_owned()].into())
    }

    fn good(names: &BTreeSet<String>) -> StoredLeaf {
        stored_leaf(
            true,
            Leaf {
                not_before: now() - 1.hours(),
                not_after: now() + SignedDuration::from_hours(24 * 80),
                names: names.clone(),
                issued_by_ca: true,
                has_chain: true,
                der: Vec::new(),
            },
        )
    }

    fn stored_leaf(ours: bool, facts: Leaf) -> StoredLeaf {
        StoredLeaf {
            ours,
            version: "7".to_owned(),
            facts: Ok(facts),
        }
    }

    fn settled() -> Observed {
        let wanted = wanted();
        Observed {
            ca: None,
            principal: Some(good(&wanted.principal)),
            resource_proxy: Some(good(&wanted.resource_proxy)),
            token_key: TokenKey::Usable,
        }
    }

    fn steps(observed: &Observed) -> Vec<Step> {
        plan(observed, &wanted(), now())
    }

    fn with_principal(change: impl FnOnce(&mut StoredLeaf, &mut Leaf)) -> Observed {
        let mut observed = settled();
        let Some(stored) = &mut observed.principal else {
            unreachable!()
        };
        let mut facts = stored.facts.clone().unwrap();
        change(stored, &mut facts);
        stored.facts = stored.facts.clone().map(|_| facts);
        observed
    }

    fn why(observed: &Observed) -> Vec<&'static str> {
        steps(observed)
            .into_iter()
            .map(|step| match step {
                Step::Issue { why, .. } => why,
                Step::MakeTokenKey => "token key",
                Step::ReportForeign { .. } | Step::ReportTokenKey => "report",
            })
            .collect()
    }

    #[test]
    fn good_certificates_are_left_alone() {
        assert_eq!(steps(&settled()), []);
    }

    #[test]
    fn missing_certificates_and_keys_are_created() {
        let nothing = Observed {
            ca: None,
            principal: None,
            resource_proxy: None,
            token_key: TokenKey::Missing,
        };
        assert_eq!(why(&nothing), ["missing", "missing", "token key"]);
    }

    /// Another owner may have written it, so it is not replaced.
    #[test]
    fn an_unusable_token_key_is_reported_and_left() {
        let observed = Observed {
            token_key: TokenKey::Unusable,
            ..settled()
        };
        assert_eq!(steps(&observed), [Step::ReportTokenKey]);
    }

    #[test]
    fn a_certificate_is_renewed_in_the_last_third_of_its_life() {
        let early = with_principal(|_, leaf| leaf.not_after = now() + 31.hours() * 24);
        assert_eq!(why(&early), [""; 0]);
        let late = with_principal(|_, leaf| {
            leaf.not_before = now() - SignedDuration::from_hours(24 * 61);
            leaf.not_after = now() + SignedDuration::from_hours(24 * 29);
        });
        assert_eq!(why(&late), ["renewal"]);
        let over = with_principal(|_, leaf| leaf.not_after = now() - 1.minutes());
        assert_eq!(why(&over), ["renewal"]);
    }

    #[test]
    fn a_new_address_is_put_into_the_certificate() {
        let incomplete = with_principal(|_, leaf| {
            leaf.names.remove("hub.example.org");
        });
        assert_eq!(why(&incomplete), ["new name"]);
    }

    #[test]
    fn a_removed_address_does_not_reissue_the_certificate() {
        let more = with_principal(|_, leaf| {
            leaf.names.insert("10.240.0.9".to_owned());
        });
        assert_eq!(why(&more), [""; 0]);
    }

    #[test]
    fn a_renewal_keeps_covered_names() {
        let other = with_principal(|_, leaf| leaf.names = ["10.240.0.9".to_owned()].into());
        let steps = steps(&other);
        let [Step::Issue { names, .. }] = &steps[..] else {
            panic!("{steps:?}")
        };
        assert!(names.contains("10.240.0.9") && names.contains("hub.example.org"));
    }

    #[test]
    fn another_authority_means_a_new_certificate() {
        let other = with_principal(|_, leaf| leaf.issued_by_ca = false);
        assert_eq!(why(&other), ["other authority"]);
    }

    #[test]
    fn another_chain_means_a_new_certificate() {
        let chain = with_principal(|_, leaf| leaf.has_chain = false);
        assert_eq!(why(&chain), ["other chain"]);
        let both = with_principal(|_, leaf| {
            leaf.has_chain = false;
            leaf.issued_by_ca = false;
        });
        assert_eq!(why(&both), ["other authority"]);
        let foreign = with_principal(|stored, leaf| {
            stored.ours = false;
            leaf.has_chain = false;
        });
        assert_eq!(why(&foreign), [""; 0]);
    }

    #[test]
    fn a_certificate_that_is_not_ours_is_never_replaced() {
        let foreign = with_principal(|stored, leaf| {
            stored.ours = false;
            leaf.issued_by_ca = false;
        });
        assert_eq!(why(&foreign), ["report"]);
    }

    proptest! {
        #[test]
        fn a_second_plan_finds_nothing_to_do(
            addresses in proptest::collection::btree_set("[a-z]{1,8}", 0..3),
            age in 0i64..200, left in -50i64..200, incomplete: bool, ours: bool, known: bool,
            chained: bool,
        ) {
            let wanted = Wanted::at("here", addresses);
            let mut leaf = Leaf {
                not_before: now() - SignedDuration::from_hours(24 * age),
                not_after: now() + SignedDuration::from_hours(24 * left),
                names: wanted.principal.clone(),
                issued_by_ca: known,
                has_chain: chained,
                der: Vec::new(),
            };
            if incomplete { leaf.names.pop_last(); }
            let mut observed = settled();
            observed.principal = Some(stored_leaf(ours, leaf));
            for step in plan(&observed, &wanted, now()) {
                if let Step::Issue { secret: PRINCIPAL_SECRET, names, .. } = step {
                    observed.principal = Some(good(&names));
                }
            }
            let again = plan(&observed, &wanted, now());
            let reports = |step: &Step| matches!(step, Step::ReportForeign { .. });
            prop_assert!(again.iter().all(reports));
            prop_assert!(!ours || again.is_empty());
        }
    }
}
