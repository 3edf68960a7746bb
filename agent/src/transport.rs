//! The connection to the principal.
//!
//! [`dial`] authenticates and opens the first call. Calls go over one HTTP/2 connection or over a [`websocket`] each
//! ([`transport_choice`]); [`connector`] reaches the address, through a proxy if one is configured.

mod connect;
mod connector;
pub(crate) mod credentials;
pub(crate) mod dial;
mod error;
pub(crate) mod tokens;
mod transport_choice;
mod websocket;

pub use connect::{Carrier, Connect, Network};
pub use connector::Error as ConnectorError;
pub use dial::{Dialer, Welcome};
pub use error::Error as DialError;
pub use transport_choice::Outcome;
