//! The stand-in: our own tasks instead of OCM's.
//!
//! Not implemented, because no test needs it: executors of works, AddOnTemplates, rollouts by group and their
//! deadlines, decision groups and scores of placements, CEL rules, ManifestWorkReplicaSets, the admission webhooks,
//! eviction of applied works whose hub work was deleted while the agent was away.

pub(crate) mod hub;
mod pki;
pub(crate) mod spoke;
mod webhook;

pub(crate) use pki::{Subject, certificate_pem, request, serving};
