//! Plans the writes that make the spoke match the hub; pure.
//!
//! The rules are in one place: the owner of an object, the effect of a differing source, deletions.
//! No plan deletes an object without the stamp of the principal that requests it.

use argocd::command;
use argocd::projection::{Written, patch_for_spoke, release_patch_for_spoke};
use argocd::{Meta, Patch, entries};
use serde_json::{Value, json};

use crate::config::{Adoption, Mismatch, Policy, Recreated};

mod of_mirror;
mod operation;
mod relation;
mod step;
#[cfg(test)]
mod tests;

pub(super) use of_mirror::of_mirror;
pub(super) use operation::{along, sync, terminate};
pub(super) use relation::Deleted;
use relation::{NOT_ADOPTED, Relation, adoption, has_stamp, mismatch, relation};
pub(super) use step::{Memory, No, Plan, Step};

/// A state of the hub's object, and its desired form on the spoke.
#[derive(Clone, Copy)]
pub(super) struct Incoming<'a> {
    /// The received object.
    pub(super) message: &'a Value,
    /// The desired object on this cluster.
    pub(super) desired: &'a Value,
    /// The live object came from one with the same name on the hub.
    pub(super) same_name: bool,
}

/// How the agent treats a local object of the same name that did not come from the hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// Takes it over if the policy allows that.
    Adopt,
    /// Leaves it alone: a local Secret.
    Spare,
    /// Adds the hub's entries to the local ones.
    Merge,
}

impl Manner {
    fn of(desired: &Value) -> Self {
        if entries::is_shared(desired) {
            Self::Merge
        } else if desired.get("kind").and_then(Value::as_str) == Some("Secret") {
            Self::Spare
        } else {
            Self::Adopt
        }
    }
}

/// Plans for a new desired state.
pub(super) fn state(
    incoming: Incoming<'_>,
    live: Option<&Value>,
    written: Option<&Written>,
    policy: Policy,
) -> Result<Plan, No> {
    let Incoming {
        message, desired, ..
    } = incoming;
    if let Some(live) = live.filter(|live| Meta::of(live).is_ignored()) {
        // When the label is removed, the drift loop restores our replica; the hub does not resend the state.
        let is_ours = relation(desired, live) == Relation::Same;
        return Ok(if is_ours && !Meta::of(message).is_deleting() {
            Plan::steps(vec![], Memory::Want)
        } else {
            Plan::NOTHING
        });
    }
    let manner = Manner::of(desired);
    if manner == Manner::Merge {
        return Ok(merge(incoming, live, written));
    }
    if Meta::of(message).is_deleting() {
        return Ok(deletion(incoming, live));
    }
    let Some(live) = live else {
        let create = Step::Create(desired.clone());
        return Ok(Plan::steps(vec![create], Memory::Want));
    };
    // A deletion cannot be cancelled; the drift loop recreates the object afterwards.
    if Meta::of(live).is_deleting() {
        return Ok(Plan::steps(vec![], Memory::Want));
    }
    let uid = Meta::of(live).uid().to_owned();
    match relation(desired, live) {
        Relation::Unmanaged if manner == Manner::Spare => Err(No::Occupied(TAKEN)),
        Relation::Unmanaged if adoption(live, policy) == Adoption::Never => {
            Err(No::Refused(NOT_ADOPTED.to_owned()))
        }
        Relation::OtherSource if mismatch(message, policy) == Mismatch::Recreate => {
            Ok(Plan::steps(vec![Step::Delete { uid }], Memory::Want))
        }
        Relation::Unmanaged | Relation::Same | Relation::OtherSource | Relation::OtherPrincipal => {
            let mut steps = converge(desired, live, written);
            if let Some(patch) = command::take_refresh(live, message) {
                steps.push(Step::Patch { uid, patch });
            }
            Ok(Plan::steps(steps, Memory::Want))
        }
    }
}

/// A local Secret is in the way.
pub(super) const TAKEN: &str = "a Secret of this name exists on the cluster and did not come from the hub; the \
agent does not change it. Rename one of the two, or delete the one on the cluster";

/// Plans for the hub's entries of an object that also has local entries.
fn merge(incoming: Incoming<'_>, live: Option<&Value>, written: Option<&Written>) -> Plan {
    let Incoming {
        message, desired, ..
    } = incoming;
    match live {
        Some(live) if Meta::of(message).is_deleting() => withdrawal(live),
        None if Meta::of(message).is_deleting() => Plan::steps(vec![], Memory::Forget),
        Some(live) if Meta::of(live).is_deleting() => Plan::steps(vec![], Memory::Want),
        Some(live) => Plan::steps(converge(desired, live, written), Memory::Want),
        None if entries::is_empty(desired) => Plan::steps(vec![], Memory::Want),
        None => Plan::steps(vec![Step::Create(desired.clone())], Memory::Want),
    }
}

/// Plans the removal of the hub's entries.
pub(super) fn withdraw(deleted: Deleted<'_>, live: Option<&Value>) -> Plan {
    match meant(deleted, live) {
        Ok(live) => withdrawal(live),
        Err(plan) => plan,
    }
}

/// The live object if the message is about it; else the plan.
fn meant<'a>(deleted: Deleted<'_>, live: Option<&'a Value>) -> Result<&'a Value, Plan> {
    let live = live.ok_or_else(|| Plan::steps(vec![], Memory::Forget))?;
    let meta = Meta::of(live);
    if meta.is_ignored() || !deleted.is_source_of(meta) {
        return Err(Plan::NOTHING);
    }
    Ok(live)
}

fn withdrawal(live: &Value) -> Plan {
    let uid = Meta::of(live).uid().to_owned();
    let patch = entries::withdraw_patch(live);
    let steps = patch.map(|patch| Step::Patch { uid, patch });
    Plan::steps(steps.into_iter().collect(), Memory::Forget)
}

/// Plans for a hub object that is being deleted and waits for its replica.
///
/// The agent first takes over a replica of the object's predecessor: if it reported that no replica
/// exists, the wait would end while the replica and its resources stay.
fn deletion(incoming: Incoming<'_>, live: Option<&Value>) -> Plan {
    let Incoming {
        desired, same_name, ..
    } = incoming;
    let nothing_here = |memory| Plan {
        steps: vec![],
        memory,
        gone: Meta::of(desired).source_uid().map(str::to_owned),
    };
    let Some(live) = live else {
        return nothing_here(Memory::Forget);
    };
    match relation(desired, live) {
        Relation::Same => {}
        Relation::OtherSource
            if same_name && has_stamp(Meta::of(live), Meta::of(desired).principal_uid()) => {}
        Relation::Unmanaged | Relation::OtherSource | Relation::OtherPrincipal => {
            return nothing_here(Memory::Keep);
        }
    }
    if Meta::of(live).is_deleting() {
        return Plan::steps(vec![], Memory::Leaving);
    }
    // The hub's finalizers come first: they decide whether its resources are deleted.
    let mut steps = converge(desired, live, None);
    steps.push(Step::Delete {
        uid: Meta::of(live).uid().to_owned(),
    });
    Plan::steps(steps, Memory::Leaving)
}

/// Plans for a hub object that is gone.
///
/// If the live object came from one with the same name on the hub, the agent deletes it even if its source was a
/// predecessor of the named object, but only with the stamp of this principal.
pub(super) fn delete(deleted: Deleted<'_>, live: Option<&Value>) -> Plan {
    let live = match meant(deleted, live) {
        Ok(live) => live,
        Err(plan) => return plan,
    };
    let meta = Meta::of(live);
    let uid = meta.uid().to_owned();
    if meta.is_deleting() {
        return Plan::steps(vec![], Memory::Leaving);
    }
    let release = release_patch_for_spoke(live);
    let release = release.map(|patch| Step::Patch {
        uid: uid.clone(),
        patch,
    });
    Plan::steps(
        release.into_iter().chain([Step::Delete { uid }]).collect(),
        Memory::Leaving,
    )
}

/// Plans the revert of a local change.
pub(super) fn drift(
    desired: &Value,
    live: Option<&Value>,
    written: Option<&Written>,
    policy: Policy,
) -> Plan {
    let manner = Manner::of(desired);
    let steps = match live {
        None if manner == Manner::Merge && entries::is_empty(desired) => vec![],
        None => vec![Step::Create(recreated(desired, policy))],
        Some(live) if Meta::of(live).is_ignored() || Meta::of(live).is_deleting() => vec![],
        // This is a local Secret.
        Some(live) if manner == Manner::Spare && Meta::of(live).source_uid().is_none() => vec![],
        Some(live) => converge(desired, live, written),
    };
    Plan::steps(steps, Memory::Keep)
}

fn converge(desired: &Value, live: &Value, written: Option<&Written>) -> Vec<Step> {
    // The API server would turn the next write of this value into the same normal form.
    if written.is_some_and(|written| written.is_normal_form(live, desired)) {
        return vec![];
    }
    let uid = Meta::of(live).uid().to_owned();
    let patch = difference(live, desired);
    let step = patch.map(|patch| Step::Converge { uid, patch });
    step.into_iter().collect()
}

/// The patch that turns the live object into the desired one; none if nothing differs.
pub(super) fn difference(live: &Value, desired: &Value) -> Option<Patch> {
    Some(match patch_for_spoke(live, desired)? {
        // Its paths fit only this version.
        patch @ Patch::Json(_) => patch.under(Meta::of(live).resource_version()),
        patch @ Patch::Merge(_) => patch,
    })
}

/// The object to recreate after a local deletion.
fn recreated(desired: &Value, policy: Policy) -> Value {
    let mut object = desired.clone();
    // A desired value has no status, so with the other policies it starts without one.
    if policy.recreated == Recreated::Resync
        && Manner::of(desired) == Manner::Adopt
        && let Some(fields) = object.as_object_mut()
    {
        fields.insert("operation".to_owned(), json!({ "sync": {} }));
    }
    object
}
