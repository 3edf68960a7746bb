//! Applies the steps of a rotation to the CA's Secret. Pure.

use std::collections::BTreeMap;

use argocd::keys::addon::NEXT_CA;
pub(super) use argocd::keys::addon::{ROTATE, ROTATE_TAKEN as TAKEN, ROTATING_SINCE as SINCE};
use jiff::Timestamp;
use k8s_openapi::{ByteString, api::core::v1::Secret};

use super::{Authority, facts::StoredAuthority, rotation::Move};

/// Annotation on the CA's Secret: the organizational unit of agents' certificates. Another value makes every agent
/// request a new certificate.
pub(super) const UNIT: &str = "argocd-agent.open-cluster-management.io/ca-unit";

/// The keys of the next CA and its private key, until it signs.
pub(super) const NEXT: [&str; 2] = [NEXT_CA, "next.key"];

/// The Secret after a step; it keeps other labels and annotations. `next` is the CA for [`Move::Introduce`].
pub(super) fn after(
    mut secret: Secret,
    stored: &StoredAuthority,
    step: Move,
    next: Option<&Authority>,
    now: Timestamp,
) -> Secret {
    let since = (SINCE, Some(now.to_string()));
    let (set, annotated) = match (step, next.or(stored.next.as_ref())) {
        (Move::Introduce, Some(next)) => {
            let trusted = bundle([&stored.ca.bundle, &next.certificate]);
            let taken = stored.asked.as_ref().or(stored.taken.as_ref());
            let set = vec![
                ("ca.crt", Some(trusted)),
                (NEXT[0], Some(next.certificate.clone())),
                (NEXT[1], Some(next.key.clone())),
            ];
            (set, vec![since, (TAKEN, taken.cloned())])
        }
        (Move::Switch, Some(next)) => {
            let trusted = bundle([&next.certificate, &stored.ca.bundle]);
            let set = vec![
                ("ca.crt", Some(trusted)),
                ("tls.crt", Some(next.certificate.clone())),
                ("tls.key", Some(next.key.clone())),
                (NEXT[0], None),
                (NEXT[1], None),
            ];
            (set, vec![since, (UNIT, Some(unit(next)))])
        }
        (Move::Retire, _) => {
            let set = vec![("ca.crt", Some(stored.ca.certificate.clone()))];
            (set, vec![(SINCE, None)])
        }
        (Move::Stay, _) | (Move::Introduce | Move::Switch, None) => return secret,
    };
    let data = secret.data.get_or_insert_default();
    put(data, set, |text| ByteString(text.into_bytes()));
    let annotations = secret.metadata.annotations.get_or_insert_default();
    put(annotations, annotated, |text| text);
    secret
}

fn put<V>(
    map: &mut BTreeMap<String, V>,
    entries: Vec<(&str, Option<String>)>,
    value: impl Fn(String) -> V,
) {
    for (key, text) in entries {
        match text {
            Some(text) => drop(map.insert(key.to_owned(), value(text))),
            None => drop(map.remove(key)),
        }
    }
}

/// The certificates of several texts, each once.
fn bundle(texts: [&str; 2]) -> String {
    const END: &str = "-----END CERTIFICATE-----";
    let mut blocks: Vec<&str> = Vec::new();
    for block in texts.into_iter().flat_map(|text| text.split_inclusive(END)) {
        let block = block.trim();
        if block.ends_with(END) && !blocks.contains(&block) {
            blocks.push(block);
        }
    }
    blocks.join("\n") + "\n"
}

/// The unit that distinguishes the certificates of one CA from those of another.
pub(super) fn unit(ca: &Authority) -> String {
    let short: String = ca.fingerprint.chars().take(16).collect();
    format!("ca-{short}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::issuer::{
        CA_SECRET, make,
        rotation::Stage,
        secrets::{authority_secret, stored_authority},
    };

    fn now() -> Timestamp {
        "2026-11-20T12:00:00Z".parse().unwrap()
    }

    fn read(secret: &Secret) -> StoredAuthority {
        stored_authority(secret).unwrap()
    }

    fn trusted(stored: &StoredAuthority) -> usize {
        stored.ca.bundle.matches("BEGIN").count()
    }

    #[test]
    fn a_rotation_passes_all_stages_and_keeps_user_annotations() {
        let mut first = authority_secret("ours", &make::authority(now()).unwrap());
        let asked = [(ROTATE, "1"), ("mine", "x")];
        let asked = asked.map(|(key, value)| (key.to_owned(), value.to_owned()));
        first.metadata.annotations = Some(asked.into());
        let old = read(&first);
        assert!(old.is_asked() && old.ca.unit.is_none());

        let next = make::authority(now()).unwrap();
        let introduced = after(first, &old, Move::Introduce, Some(&next), now());
        let stored = read(&introduced);
        assert_eq!(
            (Stage::of(&stored), trusted(&stored)),
            (Stage::Introduced, 2)
        );
        assert_eq!(
            &stored.ca.certificate, &old.ca.certificate,
            "the old one signs"
        );
        assert!(!stored.is_asked());

        let switched = after(introduced, &stored, Move::Switch, None, now());
        let stored = read(&switched);
        assert_eq!((Stage::of(&stored), trusted(&stored)), (Stage::Retiring, 2));
        assert_eq!(
            &stored.ca.certificate, &next.certificate,
            "the new one signs"
        );
        assert!(
            stored
                .ca
                .unit
                .as_ref()
                .is_some_and(|unit| unit.starts_with("ca-"))
        );
        assert!(!switched.data.as_ref().unwrap().contains_key(NEXT[1]));

        let settled = after(switched, &stored, Move::Retire, None, now());
        let stored = read(&settled);
        assert_eq!((Stage::of(&stored), trusted(&stored)), (Stage::Settled, 1));
        assert_eq!(settled.metadata.annotations.as_ref().unwrap()["mine"], "x");
        assert_eq!(settled.metadata.name.as_deref(), Some(CA_SECRET));
    }

    #[test]
    fn replaced_ca_makes_every_agent_request_a_certificate() {
        let made = || authority_secret("ours", &make::authority(now()).unwrap());
        let (lost, new) = (read(&made()), read(&made()));
        assert!(new.ca.unit.is_some());
        assert_ne!(lost.ca.unit, new.ca.unit);
        // A CA of an earlier version has none, and its agents keep their certificates.
        let mut old = made();
        old.metadata.annotations = None;
        assert!(read(&old).ca.unit.is_none());
    }

    #[test]
    fn the_second_rotation_has_another_unit() {
        let (one, other) = (
            make::authority(now()).unwrap(),
            make::authority(now()).unwrap(),
        );
        assert_ne!(unit(&one), unit(&other));
    }

    #[test]
    fn a_bundle_names_each_certificate_once() {
        let (one, other) = (
            make::authority(now()).unwrap(),
            make::authority(now()).unwrap(),
        );
        let both = bundle([&one.certificate, &other.certificate]);
        assert_eq!(bundle([&both, &one.certificate]), both);
        assert_eq!(both.matches("BEGIN").count(), 2);
    }
}
