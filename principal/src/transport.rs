//! The principal's port: [`listener`] accepts TLS connections, as HTTP/2 or as a `WebSocket`, and limits them. The
//! services behind it are in [`service`](crate::service).

pub(crate) mod listener;
