//! Open Cluster Management for authors of add-ons.
//!
//! OCM runs one *hub* and many *managed clusters*. A managed cluster is a `ManagedCluster` on the hub
//! and a namespace of the same name. A `ManagedClusterAddOn` in that namespace enables an *add-on* for
//! the cluster. The add-on's manager writes `ManifestWork`s into the namespace, which OCM's work agent
//! applies on the cluster, and signs certificates for the agent that the works start.
//!
//! | module | is |
//! |---|---|
//! | [`api`] | the API types, and the codecs between the two versions of the add-on API |
//! | [`name`] | names of clusters and add-ons: checked once, at the edge |
//! | [`keys`] | every label, annotation and finalizer of OCM that add-ons use |
//! | [`condition`] | conditions: build, find, merge; the time is a parameter |
//! | `sdk` (feature) | the add-on SDK: the trait that an author implements, and the controllers that run it |
//!
//! The crate depends on no particular add-on.
#![warn(missing_docs)]

pub mod api;
pub mod condition;
pub mod keys;
pub mod name;
#[cfg(feature = "sdk")]
pub mod sdk;
