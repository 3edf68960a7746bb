//! The hub program: an OCM add-on manager with the principal inside.
//!
//! ```text
//!            hub API
//!    ┌──────────┴───────────────────────────────────────────────────┐
//!    ▼ (only while leading)                                         ▼
//!   ocm::sdk ── View ──> optin     makes and deletes add-ons     principal ──> agents
//!      │          └────> fleet ──────── Fleet (watch) ─────────────▶│
//!      ▼                                                            │
//!   addon (impl Addon) <── wake ◀────── Sessions (watch) ───────────┘
//!      ▲
//!      └── issuer ── Authority (watch)       address ──────── Address (watch)
//! ```
//!
//! All channels are `watch`: the newest value counts, nothing queues up.
//!
//! | module | is |
//! |---|---|
//! | [`args`], [`config`] | the command line, and settings checked once |
//! | [`app`], [`channels`] | builds every part, starts it, waits; the channels between parts |
//! | [`addon`] | our `impl ocm::sdk::Addon`: manifests, settings, conditions |
//! | [`hub`] | the facts about the hub that decisions use |
//! | [`decisions`] | decisions of administrators, recorded so that no other client undoes them |
//! | [`optin`] | opting in by label, and the mode of each cluster |
//! | [`fleet`] | enrolled clusters, cluster Secrets, removal |
//! | [`registration`] | self-registration, without OCM |
//! | [`issuer`] | CA, serving certificates, token key |
//! | [`backup`] | labels what a restored hub needs, for the backups of ACM |
//! | [`uninstall`] | removes the add-on from all clusters before `helm uninstall` removes the program |
//! | [`ui_api`] | the API behind the pages in Argo CD's UI |
//! | [`active`], [`replicas`], [`address`], [`api`], [`ready`], [`token_key`], [`requeue`], [`lock`], [`publish`], [`metrics`] | small parts of their own |

pub mod active;
pub mod addon;
pub mod address;
pub mod api;
pub mod app;
pub mod args;
pub mod backup;
pub mod channels;
pub mod config;
pub mod decisions;
pub mod fleet;
pub mod hub;
pub mod issuer;
pub mod keys;
pub mod lock;
pub mod metrics;
pub mod optin;
pub mod publish;
pub mod ready;
pub mod registration;
pub mod replicas;
pub mod requeue;
pub mod token_key;
pub mod ui_api;
pub mod uninstall;
