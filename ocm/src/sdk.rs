//! The add-on SDK: an author implements [`Addon`]; [`run`] watches, reconciles and writes.
//!
//! ```text
//!   watches ──► ObjectCache ◄──── View (for the author)
//!                │ keys: a cluster, a certificate request, the configurations
//!                ▼
//!              Queue ──► at most N reconciles at a time, one per key
//!                           cluster: observe ► plan ► apply ► report
//!                           request: check ► approve ► sign   (or an Event with the reason)
//!                           configs: hashes into the ClusterManagementAddOn
//! ```
//!
//! Reconciles are level-triggered: any of them may run at any time, and a no-op writes nothing. The
//! status of a `ManagedClusterAddOn`, the ManagedCluster's metadata and status, and the feedback in
//! works are claims of the cluster. Everything that grants access is computed from the author's
//! return values and the cluster's name.
//!
//! The life cycle of an add-on on one cluster:
//!
//! | step | the SDK | the author |
//! |---|---|---|
//! | enrolment | identities, their certificates, a Role and `RoleBinding` on the hub | [`Addon::registrations`], [`Addon::signing_ca`], [`Addon::hub_permissions`] |
//! | deployment | objects into works, on the cluster or on its host | [`Addon::render`], [`Addon::hosts`], [`images`], [`values`], [`workload`] |
//! | health | feedback, or a lease that the agent renews | [`Addon::conditions`], [`fn@availability`], [`Addon::health_mode`] |
//! | removal | hooks with a deadline, then finalizers, then works | [`Addon::before_removal`], [`Addon::hook_deadline`], [`Addon::after_removal`] |
//!
//! After `kubectl delete --cascade=foreground` of a `ManagedClusterAddOn`, the garbage collector deletes
//! the works while hooks still need them; such hooks end at their deadline.
//!
//! Pure parts: `hash`, `settled`, `registration`, `permissions`, `hosting`, `place`, `render`, `pack`,
//! `hooks`, `finalizers`, `health`, `feedback`, `csr`, `sign`, `queue`, `failures` and `reconcile`'s plan,
//! teardown and report. The others do I/O.

mod addon;
mod cache;
mod configs;
mod csr;
mod discover;
mod drive;
mod error;
mod event;
mod exchange;
mod failures;
mod feedback;
mod finalizers;
mod hash;
mod health;
mod hooks;
mod hosting;
mod hub;
pub mod images;
mod key;
mod metrics;
mod object_cache;
mod pack;
mod permissions;
mod place;
mod queue;
mod reconcile;
mod registration;
mod render;
mod request;
mod settled;
mod sign;
mod target;
pub mod values;
mod view;
mod watches;
pub mod workload;

pub use self::{
    addon::{Addon, HookError},
    discover::discover,
    drive::{DRAIN, Setup, run},
    error::Error,
    exchange::{
        Config, Health, HealthInput, Removal, RemovalInput, RemovalPhase, RenderError, RenderInput,
        Rendered, WorkReport,
    },
    feedback::availability,
    metrics::Metrics,
    settled::Configuration,
    sign::{SigningCa, SigningCaError, own_roots, signing_key},
    target::{Admission, ConfigKind, HealthMode, Hosts, Registration, Target},
    view::View,
};
