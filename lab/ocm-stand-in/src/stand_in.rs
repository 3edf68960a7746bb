//! The stand-in: our own tasks in the place of OCM's.
//!
//! Left out, because no test needs it: executors of works, AddOnTemplates, rollouts by group and their
//! deadlines, decision groups and scores of placements, CEL rules, ManifestWorkReplicaSets, the admission webhooks, eviction of applied works whose hub work vanished
//! while the agent was away.

pub(crate) mod hub;
mod pki;
pub(crate) mod spoke;
mod webhook;

pub(crate) use pki::{Subject, certificate_pem, request, serving};
