//! The add-on SDK: an author writes an [`Addon`], [`run`] does everything else.
//!
//! ```text
//!   watches ──► World ◄────────── View (for the author)
//!                │ keys: a cluster, a certificate request, the configurations
//!                ▼
//!              Queue ──► at most N reconciles at a time, one a key
//!                           cluster: observe ► plan ► apply ► report
//!                           request: check ► approve ► sign   (or an Event that says why not)
//!                           configs: hashes into the ClusterManagementAddOn
//! ```
//!
//! Reconciles look at what is, never at what happened: any of them may run at any time, and one that
//! finds nothing to change writes nothing. The status of a `ManagedClusterAddOn`, the ManagedCluster's
//! metadata and status, and the feedback in works are claims of the cluster; everything that
//! grants something is computed from the author's answers and the cluster's name.
//!
//! An add-on's life on one cluster, and what the author may say to each step:
//!
//! | step | the SDK | the author |
//! |---|---|---|
//! | enrolment | identities, their certificates, a Role and `RoleBinding` on the hub | [`Addon::registrations`], [`Addon::signing_ca`], [`Addon::hub_permissions`] |
//! | deployment | objects into works, on the cluster or on its host | [`Addon::render`], [`Addon::hosts`], [`images`], [`values`], [`workload`] |
//! | health | feedback, or a lease that the agent renews | [`Addon::conditions`], [`fn@availability`], [`Addon::health_mode`] |
//! | farewell | hooks with a deadline, then finalizers, then works | [`Addon::leaving`], [`Addon::hook_deadline`], [`Addon::left`] |
//!
//! A `kubectl delete --cascade=foreground` of a `ManagedClusterAddOn` has the garbage collector take the
//! works away while hooks would still need them; hooks then end by their deadline.
//!
//! Pure parts: `hash`, `settled`, `registration`, `permissions`, `hosting`, `place`, `render`, `pack`,
//! `hooks`, `finalizers`, `health`, `feedback`, `csr`, `sign`, `queue`, `trouble` and `reconcile`'s plan,
//! farewell and report. The rest moves bytes.

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
pub mod images;
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
    csr::Refusal,
    discover::discover,
    drive::{DRAIN, Setup, run},
    error::Error,
    exchange::{
        Config, Health, HealthInput, Leaving, LeavingPhase, Removal, RenderError, RenderInput,
        Rendered, WorkReport,
    },
    feedback::availability,
    metrics::Metrics,
    sign::{SigningCa, SigningCaError},
    target::{Admission, ConfigKind, HealthMode, Hosts, Registration, Target},
    view::View,
};
