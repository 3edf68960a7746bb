//! The principal's port: [`listener`] accepts TLS connections, as HTTP/2 or as a `WebSocket`; [`service`] has the gRPC
//! services. Decisions about peers are made in [`admission`](crate::admission).

pub(crate) mod listener;
pub(crate) mod service;
