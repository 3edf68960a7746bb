//! The connection to the principal: addresses, proxies, TLS, HTTP/2 or WebSocket, tokens and credentials.

pub mod connection;
