//! A plan: its steps, and what the agent remembers after them.

use argocd::masked::Masked;
use argocd::{Meta, Patch};
use serde_json::Value;

/// One write.
#[derive(Clone, PartialEq, derive_more::Debug)]
pub(in crate::sync::replica) enum Step {
    /// Creates the object.
    #[debug("Create({:?})", Masked(_0))]
    Create(Value),
    /// Sends the patch that turns the object with this UID into the desired one.
    Converge { uid: String, patch: Patch },
    /// Sends another patch to the object with this UID.
    Patch { uid: String, patch: Patch },
    /// Deletes the object with this UID.
    Delete { uid: String },
}

/// The change of the remembered desired state after the steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::sync::replica) enum Memory {
    /// Keep the old one.
    Keep,
    /// Remember the new one.
    Want,
    /// The hub deletes the object: the agent reports the deletion and does not recreate the object.
    Leaving,
    /// The hub wants no object of this name.
    Forget,
}

/// The plan for one message, or for a local change.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::sync::replica) struct Plan {
    /// Steps in order; the first failure ends the plan.
    pub(in crate::sync::replica) steps: Vec<Step>,
    /// Takes effect only after all steps.
    pub(in crate::sync::replica) memory: Memory,
    /// Report that the hub's object with this UID has no replica (any more).
    pub(in crate::sync::replica) gone: Option<String>,
}

impl Plan {
    pub(in crate::sync::replica) const NOTHING: Self = Self {
        steps: vec![],
        memory: Memory::Keep,
        gone: None,
    };

    /// One patch that changes nothing in the desired state.
    pub(in crate::sync::replica) fn patch(live: &Value, patch: Patch) -> Self {
        let uid = Meta::of(live).uid().to_owned();
        Self::steps(vec![Step::Patch { uid, patch }], Memory::Keep)
    }

    /// Forgets the desired state of a deleted object, even if it has no replica.
    pub(in crate::sync::replica) fn forgetting(
        mut self,
        source_uid: &str,
        wanted: Option<&Value>,
    ) -> Self {
        let same = wanted.is_some_and(|it| Meta::of(it).source_uid() == Some(source_uid));
        if same && self.memory == Memory::Keep {
            self.memory = Memory::Forget;
        }
        self
    }

    pub(in crate::sync::replica) const fn steps(steps: Vec<Step>, memory: Memory) -> Self {
        Self {
            steps,
            memory,
            gone: None,
        }
    }
}

/// Why there is no plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::sync::replica) enum No {
    /// Never possible; the hub gets the reason.
    Refused(String),
    /// A local object is in the way; the hub gets the reason, and the agent creates the object when the other is gone.
    Occupied(&'static str),
    /// Not yet possible.
    NotYet(&'static str),
}
