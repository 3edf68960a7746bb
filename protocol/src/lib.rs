//! Messages of the wire and the session rules of both ends; no I/O.
//!
//! The hub's principal and a spoke's agent exchange CloudEvents over one stream. This crate has their content and
//! their order, and nothing else: no Kubernetes, no clock, no socket. A driver passes in received frames and the
//! time since the session began, and takes out frames to write and work to do.
//!
//! ```text
//!   local change ── mark ──▶ outbox ── next_outgoing ──▶ stream
//!                              ▲  encodes the body at the time of sending: the peer gets the newest value
//!   stream ── receive ──▶ inbox ── next_work ──▶ driver applies it ── finished ──▶ acknowledgement
//! ```
//!
//! | module | content |
//! |---|---|
//! | [`wire`] | the generated gRPC code |
//! | [`event`] | one message, checked; the only parser of CloudEvents |
//! | [`payload`] | bodies of control messages |
//! | [`session`] | the state machine: outbox, inbox, acknowledgement, windows, resends |
//! | [`refusal`] | the reasons to refuse an authentication or a session |
//! | [`version`] | versions and capabilities |
//! | [`trace`] | the trace context of an event, and the names of spans |
//! | [`proof`] | the proof of an agent's certificate where a proxy ends TLS |
//! | [`websocket`] | the frames of gRPC over `WebSocket`s |
//! | [`oversize_filter`] | removes the data of a response that exceeds the message limit |

pub mod event;
pub mod inbox;
pub mod object;
pub mod outbox;
pub mod oversize_filter;
pub mod payload;
pub mod proof;
pub mod refusal;
pub mod session;
pub mod token;
pub mod trace;
pub mod version;
pub mod websocket;
pub mod wire;

pub use event::{Event, Malformed, Target, Verb};
pub use object::{Facet, Kind, Mode, ObjectKey};
pub use session::{Limits, Peer, Role, Session, Source, Verdict, Violation, Work, WorkId};
