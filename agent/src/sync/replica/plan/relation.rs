//! Whose object the one here is, and what its users want to become of one that is not the hub's.

use argocd::{Meta, keys};
use serde_json::Value;

use crate::config::{Adoption, Mismatch, Policy};

/// Whose object the live one is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Relation {
    /// A replica of the object that the hub speaks of.
    Same,
    /// Nobody's replica.
    Unmanaged,
    /// A replica of another object of the same principal, or of one that left no name.
    OtherSource,
    /// A replica of an object of another principal, from which we take over.
    OtherPrincipal,
}

pub(super) fn relation(desired: &Value, live: &Value) -> Relation {
    let (want, have) = (Meta::of(desired), Meta::of(live));
    match have.source_uid() {
        _ if is_of_other_principal(have, want.principal_uid()) => Relation::OtherPrincipal,
        None => Relation::Unmanaged,
        Some(uid) if want.source_uid() == Some(uid) => Relation::Same,
        Some(_) => Relation::OtherSource,
    }
}

/// Whether it says that it came from this principal; saying nothing is not enough.
pub(super) fn has_stamp(live: Meta<'_>, principal_uid: Option<&str>) -> bool {
    principal_uid.is_some() && live.principal_uid() == principal_uid
}

fn is_of_other_principal(live: Meta<'_>, principal_uid: Option<&str>) -> bool {
    match (live.principal_uid(), principal_uid) {
        (Some(theirs), Some(ours)) => theirs != ours,
        (None, _) | (_, None) => false,
    }
}

/// Whether a delete is about the object that the live one came from.
pub(super) fn is_meant(
    live: Meta<'_>,
    source_uid: &str,
    same_name: bool,
    principal_uid: Option<&str>,
) -> bool {
    live.source_uid().is_some_and(|uid| {
        let same_object = uid == source_uid && !is_of_other_principal(live, principal_uid);
        same_object || (same_name && has_stamp(live, principal_uid))
    })
}

/// The user's annotation on the object here counts more than the flag.
pub(super) fn adoption(live: &Value, policy: Policy) -> Adoption {
    match Meta::of(live).annotation(keys::ADOPTION_POLICY) {
        Some("always") => Adoption::Always,
        Some("never") => Adoption::Never,
        Some(_) | None => policy.adoption,
    }
}

/// The user's annotation on the hub's object counts more than the flag.
pub(super) fn mismatch(message: &Value, policy: Policy) -> Mismatch {
    match Meta::of(message).annotation(keys::SOURCE_UID_MISMATCH_POLICY) {
        Some("upsert") => Mismatch::Upsert,
        Some("recreate") => Mismatch::Recreate,
        Some(_) | None => policy.mismatch,
    }
}
