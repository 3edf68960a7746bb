//! Argo CD objects as opaque JSON, and the pure rules over them.
//!
//! An Application or AppProject is a [`serde_json::Value`] here and stays one: a field that this build
//! does not know survives every projection. Small views ([`object`]) read what decisions need. Nothing
//! in this crate knows the wire, a client or a clock.
//!
//! ```text
//!   hub Application ── route, admit ──▶ wire_application ──▶ desired_on_spoke ──▶ patch_for_spoke
//!                                                                                        │
//!   hub Application ◀── status_patch_for_hub ◀── command::judge ◀── report_application ◀─┘
//! ```
//!
//! | module | is |
//! |---|---|
//! | [`keys`] | every label, annotation and finalizer, once |
//! | [`object`] | views over the JSON |
//! | [`patch`] | what to send so that one value becomes another |
//! | [`routing`] | which Application goes where, and who keeps a name |
//! | [`admission`] | the hub's own project rule |
//! | [`project`] | an AppProject as one cluster may see it |
//! | [`projection`] | hub to spoke and back |
//! | [`mirror`] | an autonomous cluster's objects as the hub shows them |
//! | [`command`] | sync, terminate and refresh, at most once |
//! | [`digest`] | Go's checksums, and ours |
//! | [`availability`], [`claim`] | what is said of an agent on the hub, and how much of its own word |
//! | [`cluster_secret`] | the Argo CD cluster Secret of a managed cluster |
//! | [`ranges`] | what two ends have of the same objects, compared without naming them |
//! | [`memory`] | what an API server makes of writes, behind the in-memory stores of both ends |
//! | [`repository`] | repository and repo-creds Secrets: what they are about, whose they are, what of them travels |
//! | [`host_keys`] | which hosts an Application needs, and which TLS certificates and SSH keys are theirs |
//! | [`entries`] | `ConfigMap`s that hub and spoke fill together |
//! | [`masked`] | objects as they may be printed |

pub mod admission;
pub mod availability;
pub mod claim;
pub mod cluster_project;
pub mod cluster_secret;
pub mod command;
pub mod digest;
pub mod entries;
pub mod glob;
pub mod host_keys;
pub mod keys;
pub mod masked;
pub mod memory;
pub mod mirror;
pub mod object;
pub mod patch;
pub mod project;
pub mod projection;
pub mod ranges;
pub mod repository;
pub mod routing;

#[cfg(test)]
mod testing;

pub use object::{AppProject, Application, Meta};
pub use patch::Patch;
