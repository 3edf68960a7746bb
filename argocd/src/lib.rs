//! Argo CD objects as opaque JSON, and the pure rules over them.
//!
//! An Application or AppProject is a [`serde_json::Value`] throughout, so a field that this build does not know survives
//! every projection. Small views ([`object`]) read the fields that decisions need. Nothing in this crate knows the
//! wire, a client or a clock.
//!
//! ```text
//!   hub Application ── route, admit ──▶ wire_application ──▶ desired_on_spoke ──▶ patch_for_spoke
//!                                                                                        │
//!   hub Application ◀── status_patch_for_hub ◀── command::judge ◀── report_application ◀─┘
//! ```
//!
//! | module | content |
//! |---|---|
//! | [`keys`] | all labels, annotations and finalizers |
//! | [`object`] | views over the JSON |
//! | [`patch`] | patches between two values |
//! | [`routing`] | the target of each Application, and name conflicts |
//! | [`admission`] | the hub's own project rule |
//! | [`project`] | an AppProject compiled for one cluster |
//! | [`global_projects`] | lists that other projects add to an AppProject |
//! | [`projection`] | hub to spoke and back |
//! | [`mirror`] | mirrors of an autonomous cluster's objects on the hub |
//! | [`command`] | sync, terminate and refresh, at most once |
//! | [`digest`] | Go's checksums, and ours |
//! | [`availability`], [`claim`] | messages about an agent on the hub, and its sanitized claims |
//! | [`cluster_secret`] | the Argo CD cluster Secret of a managed cluster |
//! | [`ranges`] | checksums over ranges of objects, to compare two ends |
//! | [`memory`] | an in-memory API server, for the in-memory stores of both ends |
//! | [`repository`] | repository and repo-creds Secrets: URLs, projects and wire form |
//! | [`host_keys`] | the hosts that an Application uses, and their TLS certificates and SSH keys |
//! | [`entries`] | `ConfigMap`s that hub and spoke share |
//! | [`masked`] | printed objects without secrets |
//! | [`name`] | forms of names and labels |

pub mod admission;
pub mod availability;
pub mod claim;
pub mod cluster_project;
pub mod cluster_secret;
pub mod command;
pub mod digest;
pub mod entries;
pub mod glob;
pub mod global_projects;
pub mod host_keys;
pub mod keys;
pub mod masked;
pub mod mirror;
pub mod name;
pub mod object;
pub mod patch;
pub mod project;
pub mod projection;
pub mod ranges;
pub mod repository;
pub mod routing;

#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use object::{AppProject, Application, Meta};
pub use patch::Patch;
