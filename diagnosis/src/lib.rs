//! How a fleet and its Applications are doing, judged from objects of the hub.
//!
//! ```text
//!   objects of the hub ─> facts, fleet, labels, writers ─> status (clusters, Applications in trouble)
//!                                                       └> why (each hop of one Application)
//! ```
//!
//! `argocd-agentctl` prints these judgements, and the hub program serves them to Argo CD's UI: there is one rule for both.
//! Routing, names and projects are judged by the functions of [`argocd`] that the principal uses. Nothing in this
//! crate knows a client, a clock or a terminal: the time is a parameter.
//!
//! | module | content |
//! |---|---|
//! | [`object`] | fields of any object, leniently |
//! | [`facts`] | what a `ManagedClusterAddOn` shows of a cluster |
//! | [`fleet`] | the clusters as routing sees them |
//! | [`settings`] | the rules of routing, and doubts about them |
//! | [`labels`] | opt-in labels without effect |
//! | [`writers`] | the field managers of an object |
//! | [`status`] | each cluster, its counted Applications, and those that need attention |
//! | [`why`] | each hop of one Application, its obstacles and the next step |
#![warn(missing_docs)]

mod comparison;
pub mod facts;
pub mod fleet;
pub mod labels;
pub mod object;
pub mod settings;
pub mod status;
pub mod why;
pub mod writers;

#[cfg(any(test, feature = "testing"))]
pub mod testing;
