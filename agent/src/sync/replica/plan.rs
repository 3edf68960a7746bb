//! What to write so that the spoke is as the hub said; pure.
//!
//! The rules in one place: whose object it is, what a differing source means, when something is
//! deleted. Nothing here deletes an object without the stamp of the principal that asks for it.

use std::fmt;

use argocd::command;
use argocd::masked::Masked;
use argocd::projection::{Written, patch_for_spoke, release_patch_for_spoke};
use argocd::{Meta, Patch, entries};
use serde_json::{Value, json};

use crate::config::{Adoption, Mismatch, Policy, Recreated};

mod asked;
mod relation;
#[cfg(test)]
mod tests;

pub(super) use asked::{along, sync, terminate};
use relation::{Relation, adoption, has_stamp, is_meant, mismatch, relation};

/// What the hub said about an object, made ready for the spoke.
#[derive(Clone, Copy)]
pub(super) struct Incoming<'a> {
    /// As it came.
    pub(super) message: &'a Value,
    /// As it should be here.
    pub(super) desired: &'a Value,
    /// The object here came from one that had the same name on the hub.
    pub(super) same_name: bool,
}

/// One write.
#[derive(Clone, PartialEq)]
pub(super) enum Step {
    /// Makes the object.
    Create(Value),
    /// Brings the object with this UID to the desired value, in as few patches as it takes.
    Converge { uid: String },
    /// Sends this patch to the object with this UID.
    Patch { uid: String, patch: Patch },
    /// Deletes the object with this UID.
    Delete { uid: String },
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create(object) => f.debug_tuple("Create").field(&Masked(object)).finish(),
            Self::Converge { uid } => f.debug_struct("Converge").field("uid", uid).finish(),
            Self::Patch { uid, patch } => f
                .debug_struct("Patch")
                .field("uid", uid)
                .field("patch", patch)
                .finish(),
            Self::Delete { uid } => f.debug_struct("Delete").field("uid", uid).finish(),
        }
    }
}

/// What to remember after the steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Memory {
    /// Nothing changes.
    Keep,
    /// The hub wants it as it said.
    Want,
    /// The hub wants it gone: when it goes, that is said and it stays gone.
    Leaving,
    /// The hub wants nothing of this name.
    Forget,
}

/// What to do about one message, or about a local change.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Plan {
    /// In this order; the first failure ends it.
    pub(super) steps: Vec<Step>,
    /// Only after all steps.
    pub(super) memory: Memory,
    /// Say that the hub's object with this UID has nothing here (any more).
    pub(super) gone: Option<String>,
}

impl Plan {
    pub(super) const NOTHING: Self = Self {
        steps: vec![],
        memory: Memory::Keep,
        gone: None,
    };

    /// What was wanted of the object that is taken away is wanted no more, even if nothing of it is here.
    pub(super) fn forgetting(mut self, source_uid: &str, wanted: Option<&Value>) -> Self {
        let same = wanted.is_some_and(|it| Meta::of(it).source_uid() == Some(source_uid));
        if same && self.memory == Memory::Keep {
            self.memory = Memory::Forget;
        }
        self
    }

    pub(super) const fn steps(steps: Vec<Step>, memory: Memory) -> Self {
        Self {
            steps,
            memory,
            gone: None,
        }
    }
}

/// What cannot be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum No {
    /// Now or later; the hub is told why.
    Refused(String),
    /// Something of the spoke's own is in its place; the hub is told, and should that go, it is made.
    Occupied(&'static str),
    /// Not yet.
    NotYet(&'static str),
}

/// What becomes of something of the same name that did not come from the hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// It is taken over, as the policy says.
    Adopt,
    /// It stays as it is: a Secret of the spoke's own.
    Spare,
    /// It stays, and the hub's entries are put beside its own.
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

/// The hub said how the object should be.
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
        // What we made is as the hub wants it again when the label goes, and the hub does not say it a second time.
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
        return Ok(Plan::steps(
            vec![Step::Create(desired.clone())],
            Memory::Want,
        ));
    };
    // It cannot be kept from going; when it is gone it is made again.
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

/// What the Go agent says word for word.
const NOT_ADOPTED: &str = "Adoption policy for application is set to never. Either change the policy and recreate the app on the principal or delete the existing app on the agent.";

/// For a Secret.
pub(super) const TAKEN: &str = "a Secret of this name exists on the cluster and did not come from the hub; the \
agent does not change it. Rename one of the two, or delete the one on the cluster";

/// The hub said what entries there should be beside the spoke's own.
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

/// The hub has no such entries any more.
pub(super) fn withdraw(
    source_uid: &str,
    same_name: bool,
    principal_uid: Option<&str>,
    live: Option<&Value>,
) -> Plan {
    match meant(source_uid, same_name, principal_uid, live) {
        Ok(live) => withdrawal(live),
        Err(plan) => plan,
    }
}

/// The live object, if it is there and meant by whoever names it so; else what is done about it.
fn meant<'a>(
    source_uid: &str,
    same_name: bool,
    principal_uid: Option<&str>,
    live: Option<&'a Value>,
) -> Result<&'a Value, Plan> {
    let live = live.ok_or_else(|| Plan::steps(vec![], Memory::Forget))?;
    let meta = Meta::of(live);
    if meta.is_ignored() || !is_meant(meta, source_uid, same_name, principal_uid) {
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

/// The hub's object is being deleted and waits for ours to go.
///
/// A replica of its predecessor is taken over first, as it would have been a moment earlier: saying
/// that nothing is here would end the wait while the copy and its resources stay.
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
    // The finalizers have to be the hub's before it goes: they say what becomes of its resources.
    let mut steps = converge(desired, live, None);
    steps.push(Step::Delete {
        uid: Meta::of(live).uid().to_owned(),
    });
    Plan::steps(steps, Memory::Leaving)
}

/// The hub's object is gone for good.
///
/// `same_name`: the live one came from an object that had the same name on the hub. Then it goes even
/// if its source was a predecessor of the one that is named here, but only with the stamp of this very
/// principal.
pub(super) fn delete(
    source_uid: &str,
    same_name: bool,
    principal_uid: Option<&str>,
    live: Option<&Value>,
) -> Plan {
    let live = match meant(source_uid, same_name, principal_uid, live) {
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

/// Something changed here about an object that the hub wants so.
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
        // It is the spoke's own, from the beginning or by now.
        Some(live) if manner == Manner::Spare && Meta::of(live).source_uid().is_none() => vec![],
        Some(live) => converge(desired, live, written),
    };
    Plan::steps(steps, Memory::Keep)
}

pub(super) fn one_patch(live: &Value, patch: Patch) -> Plan {
    let uid = Meta::of(live).uid().to_owned();
    Plan::steps(vec![Step::Patch { uid, patch }], Memory::Keep)
}

fn converge(desired: &Value, live: &Value, written: Option<&Written>) -> Vec<Step> {
    // What remained of our last write of this value will remain of the next one too.
    if written.is_some_and(|written| written.is_normal_form(live, desired)) {
        return vec![];
    }
    let needed = patch_for_spoke(live, desired).is_some();
    needed
        .then(|| Step::Converge {
            uid: Meta::of(live).uid().to_owned(),
        })
        .into_iter()
        .collect()
}

/// The object to make again after somebody deleted it here.
fn recreated(desired: &Value, policy: Policy) -> Value {
    let mut object = desired.clone();
    match policy.recreated {
        // A desired value has no status, so both start without one.
        Recreated::Ignore | Recreated::ClearStatus => {}
        Recreated::Resync if Manner::of(desired) != Manner::Adopt => {}
        Recreated::Resync => {
            if let Some(fields) = object.as_object_mut() {
                fields.insert("operation".to_owned(), json!({ "sync": {} }));
            }
        }
    }
    object
}
