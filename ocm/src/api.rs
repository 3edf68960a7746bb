//! The three API groups of OCM that add-ons use.
//!
//! [`addon::ManagedClusterAddOn`] and [`addon::ClusterManagementAddOn`] exist in two versions;
//! the types here are v1beta1 and [`addon::Version`] reads and writes the other one.

pub mod addon;
pub mod cluster;
pub mod work;
