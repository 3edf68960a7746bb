//! Messages of the wire and the session rules of both ends; no I/O.
//!
//! The hub's principal and a spoke's agent talk in CloudEvents over one stream. This crate knows what
//! they say and in which order, and nothing else: no Kubernetes, no clock, no socket. A driver hands in
//! what it read and the time since the session began, and takes out what to write and what to do.
//!
//! ```text
//!   local change ── mark ──▶ outbox ── next_outgoing ──▶ stream
//!                              ▲  the body is made when it is sent: the peer needs the last word
//!   stream ── receive ──▶ inbox ── next_work ──▶ driver applies it ── finished ──▶ acknowledgement
//! ```
//!
//! | module | is |
//! |---|---|
//! | [`wire`] | the generated gRPC code |
//! | [`event`] | one message, checked; the only place that takes CloudEvents apart |
//! | [`payload`] | bodies of control messages |
//! | [`session`] | the machine: outbox, inbox, acknowledgement, windows, resending |
//! | [`resync`] | what is still unconfirmed after a connect |
//! | [`refusal`] | why an authentication or a session is refused, in one table |
//! | [`version`] | versions and capabilities |
//! | [`trace`] | where an event carries the context of its span, and what spans are called |
//! | [`proof`] | what an agent proves where a proxy ends TLS |
//! | [`websocket`] | the frames of gRPC over `WebSocket`s |
//! | [`oversize_filter`] | what is left of an answer that is larger than is held |

pub mod event;
pub mod inbox;
pub mod object;
pub mod outbox;
pub mod oversize_filter;
pub mod payload;
pub mod proof;
pub mod refusal;
pub mod resync;
pub mod session;
pub mod token;
pub mod trace;
pub mod version;
pub mod websocket;
pub mod wire;

pub use event::{Event, Malformed, Target, Verb};
pub use object::{Facet, Kind, Mode, ObjectKey};
pub use session::{Limits, Peer, Role, Session, Source, Verdict, Violation, Work, WorkId};
