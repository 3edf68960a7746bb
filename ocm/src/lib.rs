//! Open Cluster Management, as an add-on sees it.
//!
//! OCM runs one *hub* and many *managed clusters*. A managed cluster is a `ManagedCluster` on the hub
//! and a namespace of the same name. An *add-on* is switched on for a cluster by a
//! `ManagedClusterAddOn` in that namespace; its manager answers with `ManifestWork`s there, which
//! OCM's work agent applies on the cluster, and with certificates for the agent that they start.
//!
//! | module | is |
//! |---|---|
//! | [`api`] | the API types, and the codecs between the two versions of the add-on API |
//! | [`name`] | names of clusters and add-ons: checked once, at the edge |
//! | [`keys`] | every label, annotation and finalizer of OCM that add-ons meet |
//! | [`condition`] | conditions: build, find, merge; the time is a parameter |
//! | `sdk` (feature) | the add-on SDK: what an author writes, and everything that runs it |
//!
//! The crate knows no add-on in particular.
#![warn(missing_docs)]

pub mod api;
pub mod condition;
pub mod keys;
pub mod name;
#[cfg(feature = "sdk")]
pub mod sdk;
