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

/// A hub object that is gone.
#[derive(Clone, Copy)]
pub(in crate::sync::replica) struct Deleted<'a> {
    pub(in crate::sync::replica) uid: &'a str,
    /// The live object came from one with the same name on the hub.
    pub(in crate::sync::replica) same_name: bool,
    pub(in crate::sync::replica) principal_uid: Option<&'a str>,
}

impl Deleted<'_> {
    /// Whether the live object came from this one, or from a predecessor with the same name.
    pub(super) fn is_source_of(self, live: Meta<'_>) -> bool {
        live.source_uid().is_some_and(|uid| {
            let same_object = uid == self.uid && !is_of_other_principal(live, self.principal_uid);
            same_object || (self.same_name && has_stamp(live, self.principal_uid))
        })
    }
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
