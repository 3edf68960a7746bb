//! The spoke program: dials the principal and keeps the spoke as the hub wants it.
//!
//! It must never know OCM nor the principal's code, and it has no rights beyond a Role in the
//! namespaces of Argo CD.
//!
//! ```text
//!             spoke API                                             hub
//!    watch │             ▲ create, patch, delete                     ▲
//!          ▼             │                                           │ one stream
//!   replica::observe   replica::apply ◀── work ──┐                   ▼
//!          │             ▲                       │       link::dial, link::drive
//!          ▼             │ drift                 └────── protocol::Session ──┐
//!        store ──────────┘                                   ▲      ▲        │ bodies, when sent
//!          │                                                 │      └────────┘
//!          └── report: what changed here (marks) ────────────┘  report::Reports (Source)
//! ```
//!
//! | module | is |
//! |---|---|
//! | [`args`], [`config`] | flags and environment of the Go agent, and what they come to |
//! | [`app`] | builds every part and waits |
//! | [`spoke`] | the spoke's API: a trait, with Kubernetes and memory behind it |
//! | [`store`] | what is known to be on the spoke, and what the hub last wanted there |
//! | [`link`] | keeps one session up |
//! | [`lane`] | beside it: on which people at the hub see this cluster |
//! | [`replica`] | makes the spoke match what the hub said |
//! | [`report`] | what changed here, for the hub |
//! | [`source`] | what the spoke owns in autonomous mode, for the hub |
//! | [`census`] | what its Argo CD has counted here, for the hub's page of clusters |
//! | [`redis`] | this cluster's redis, in which its Argo CD keeps what people see |
//! | [`metrics`] | counters and gauges |
//! | `traced` | what the hub's changes come to, as parts of their traces |
//! | [`state`] | what is known at this moment, for whoever looks into the program |

pub mod app;
pub mod argocd_probe;
pub mod args;
pub mod config;
pub mod live;
pub mod metrics;
pub mod state;
pub mod sync;
pub mod transport;
