//! Admission: who may connect, decided for every authentication, subscription and live request.
//!
//! [`identity`] finds the cluster of a credential, [`admit`] decides, [`tokens`] issues tokens that are bound to the
//! credential, and [`registry`] grants one session slot per cluster. [`trust`] and [`revoked`] end sessions whose
//! credentials are no longer good.

pub(crate) mod admit;
mod budget;
mod credentials;
pub mod identity;
pub(crate) mod peer;
pub(crate) mod registry;
pub(crate) mod reserve;
pub mod revoked;
pub mod tokens;
pub(crate) mod trust;
pub mod users;
