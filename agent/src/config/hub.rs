//! The principal's address, and the settings of connections to it.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use rustls_pki_types::ServerName;

use super::error::Error;
use super::proxy::Proxy;
use crate::args::HubArgs;

/// The principal's address, and the settings of connections to it.
#[derive(Debug, Clone)]
pub struct Hub {
    /// Host name or address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// How to authenticate.
    pub method: Method,
    /// Pause between heartbeats.
    pub heartbeat: Option<Duration>,
    /// Pause between HTTP/2 pings.
    pub keep_alive: Option<Duration>,
    /// Largest message in bytes.
    pub max_message: usize,
    /// Whether to use `WebSocket`s only; otherwise they are the fallback if HTTP/2 is blocked.
    pub only_websockets: bool,
    /// Whether a mesh does TLS instead of the agent.
    pub plaintext: bool,
    /// The forward proxy.
    pub proxy: Proxy,
    /// Whether messages are compressed.
    pub compression: bool,
}

/// How to authenticate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Method {
    /// By the client certificate.
    Mtls,
    /// By user and password, the first line of this file as `user:password`.
    UserPass(PathBuf),
    /// By a header that a mesh sets.
    Header,
}

impl TryFrom<&HubArgs> for Hub {
    type Error = Error;

    fn try_from(args: &HubArgs) -> Result<Self, Error> {
        if args.server_address.is_empty() {
            return Err(Error::NoServer);
        }
        // IPv6 addresses have brackets in URLs only.
        let host = args.server_address.trim_matches(['[', ']']).to_owned();
        if ServerName::try_from(host.as_str()).is_err() {
            return Err(Error::Server(host));
        }
        let some = |duration: Duration| (!duration.is_zero()).then_some(duration);
        let method: Method = args.creds.parse()?;
        match (&method, args.insecure_plaintext) {
            (Method::Mtls, true) | (Method::Header, false) => return Err(Error::Plaintext),
            (Method::Mtls, false) | (Method::Header, true) | (Method::UserPass(_), _) => {}
        }
        Ok(Self {
            host,
            port: args.server_port,
            method,
            heartbeat: some(args.heartbeat_interval),
            keep_alive: some(args.keep_alive_ping_interval),
            max_message: args.grpc_max_message_size,
            only_websockets: args.enable_websocket,
            plaintext: args.insecure_plaintext,
            proxy: Proxy::new(&args.proxy).map_err(Error::Proxy)?,
            compression: args.enable_compression,
        })
    }
}

impl FromStr for Method {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text.split_once(':') {
            Some(("mtls", _)) => Ok(Self::Mtls),
            Some(("userpass", file)) if !file.is_empty() => Ok(Self::UserPass(file.into())),
            Some(("header", _)) => Ok(Self::Header),
            _ => Err(Error::Credentials(text.to_owned())),
        }
    }
}
