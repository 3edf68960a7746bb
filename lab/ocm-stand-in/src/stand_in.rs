//! The stand-in: our own tasks instead of OCM's.
//!
//! Not implemented, because no test needs it: executors of works, AddOnTemplates, deadlines, failures and mandatory
//! groups of rollouts, scores of placements, CEL rules, ManifestWorkReplicaSets, ClusterProperties, the admission webhooks,
//! eviction of applied works whose hub work was deleted while the agent was away.
//!
//! Gentler than OCM, besides the times in `times`: a work whose spec has changed is tried as often as a new one, and the
//! record of a work that a user deletes is noticed at the next apply only.
//! Stricter: the first apply of a work deletes what an earlier one left, and a conflict is a failure of the apply.

pub(crate) mod hub;
mod pki;
pub(crate) mod spoke;
mod times;
mod webhook;

pub(crate) use pki::{Subject, certificate_pem, request, serving};
