//! The owner of a live object, and the policies of users for objects that are not the hub's.

use argocd::{Meta, keys};
use serde_json::Value;

use crate::config::{Adoption, Mismatch, Policy};

/// The exact message of the Go agent.
pub(super) const NOT_ADOPTED: &str = "Adoption policy for application is set to never. Either change the policy and recreate the app on the principal or delete the existing app on the agent.";

/// How the live object relates to the hub's object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Relation {
    /// A replica of the hub's object.
    Same,
    /// No replica.
    Unmanaged,
    /// A replica of another object of the same principal, or of an unnamed one.
    OtherSource,
    /// A replica of an object of another principal, which we take over.
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

/// Whether the object has the stamp of this principal; an object without a stamp has not.
pub(super) fn has_stamp(live: Meta<'_>, principal_uid: Option<&str>) -> bool {
    principal_uid.is_some() && live.principal_uid() == principal_uid
}

fn is_of_other_principal(live: Meta<'_>, principal_uid: Option<&str>) -> bool {
    match (live.principal_uid(), principal_uid) {
        (Some(theirs), Some(ours)) => theirs != ours,
        (None, _) | (_, None) => false,
    }
}

/// Whether a delete applies to the source of the live object.
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

/// The adoption policy: the annotation on the live object overrides the flag.
pub(super) fn adoption(live: &Value, policy: Policy) -> Adoption {
    match Meta::of(live).annotation(keys::ADOPTION_POLICY) {
        Some("always") => Adoption::Always,
        Some("never") => Adoption::Never,
        Some(_) | None => policy.adoption,
    }
}

/// The policy for a differing source: the annotation on the hub's object overrides the flag.
pub(super) fn mismatch(message: &Value, policy: Policy) -> Mismatch {
    match Meta::of(message).annotation(keys::SOURCE_UID_MISMATCH_POLICY) {
        Some("upsert") => Mismatch::Upsert,
        Some("recreate") => Mismatch::Recreate,
        Some(_) | None => policy.mismatch,
    }
}
