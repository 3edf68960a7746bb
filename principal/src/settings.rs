//! The settings of the principal; the caller that builds them checks them.

use std::{net::SocketAddr, num::NonZero, time::Duration};

use protocol::version::Capabilities;

use crate::admission::identity;

/// Live streams (logs and terminals) of a Go agent on the connection of its session.
pub(crate) const GO_STREAMS: u32 = 32;

/// The settings of one principal.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The address of the gRPC server; port 0 takes a free one (see [`Handle`](crate::Handle)).
    pub listen: SocketAddr,
    /// The address of the resource proxy, if it is enabled; port 0 takes a free one.
    pub resource_proxy: Option<SocketAddr>,
    /// The credentials that open a cluster there.
    pub visitors: identity::visitor::Visitors,
    /// The redis proxy, if it is enabled.
    pub redis_proxy: Option<RedisProxy>,
    /// The hub's Argo CD namespace: its projects, and Applications that name a cluster as destination.
    pub argocd_namespace: String,
    /// Namespaces besides the clusters' own and Argo CD's whose Applications may name a cluster as destination.
    pub other_namespaces: Vec<String>,
    /// How the credentials of a peer, usually a verified certificate, identify a cluster.
    pub identity: identity::Method,
    /// Whether agents connect in plaintext, behind a mesh that terminates TLS.
    pub plaintext: bool,
    /// Whether a connection needs a certificate although it does not identify the cluster.
    pub require_certificates: bool,
    /// Whether `WebSocket`s over HTTP/1.1 are served besides HTTP/2, on the same port.
    pub websockets: bool,
    /// Common names of the client certificates of TLS-terminating proxies in front of us.
    pub trusted_proxies: Vec<String>,
    /// Our own version, as `Version` reports it (without the `argocd-agent-` prefix).
    pub version: String,
    /// Our capabilities beyond the Go protocol: all of them, except in tests of old and new together.
    pub capabilities: Capabilities,
    /// The resource limits per peer and for all peers.
    pub limits: Limits,
}

/// The redis proxy, which Argo CD on the hub uses as its redis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisProxy {
    /// Its address; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Whether it serves TLS, with the certificate of the resource proxy.
    pub tls: bool,
    /// Bytes of the largest value from a cluster.
    pub largest_value: u64,
    /// Bytes of all values that are kept for disconnected clusters.
    pub remembered: usize,
}

/// The resource limits per peer and for all peers.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes of one message, after decompression. An object in etcd is 1.5 MiB at most.
    pub message_bytes: usize,
    /// TLS handshakes that compute at the same time; others wait, and their addresses take turns. More than there are
    /// processors would only delay sessions.
    pub handshakes: usize,
    /// Connections before the end of their TLS handshake, at each port. A further one evicts an idle one, from the
    /// address that has most. A reconnect storm behind a load balancer must fit: there all agents have one address.
    pub unauthenticated: usize,
    /// How long a peer may take to send its hello, how long a handshake may wait for its turn, and how long the rest of
    /// it may take.
    pub handshake_time: Duration,
    /// Open connections; further ones are closed at once.
    pub connections: usize,
    /// Open connections of one certificate. With `WebSocket`s each call has its own.
    pub connections_per_certificate: usize,
    /// Requests at the same time on one connection; a Go agent has its logs and terminals there as well.
    pub streams_per_connection: u32,
    /// How long a connection may be without any request.
    pub idle: Duration,
    /// The maximum life of a session, so that certificates are checked again.
    pub session_life: Duration,
    /// Bytes of one session's messages that wait to be applied; at the bound its stream is not read.
    pub inbox_bytes: usize,
    /// How long an agent that sends heartbeats may be silent at least: two of ours, and a half.
    pub silence: Duration,
    /// Writes to the hub's API at the same time, shared fairly by all sessions.
    pub writes: usize,
    /// Writes to the hub's API at the same time for one session.
    pub writes_per_session: usize,
    /// Writes of reports about one object in a second, at most. While the hub's API is busy there are two.
    pub object_writes: u32,
    /// How long a stop waits for sessions to end.
    pub drain: Duration,
    /// The limits of the mirrors of one autonomous cluster.
    pub mirrors: MirrorLimits,
    /// Bytes of all statuses of one managed cluster that have more than 64 KiB each.
    pub large_statuses: usize,
    /// Resident bytes of the program above which the sessions that use the most end; none if nothing limits it.
    pub memory: Option<u64>,
    /// The interval of full comparisons in one session, plus or minus a half.
    pub compare_every: Duration,
}

/// The limits of the mirrors of one autonomous cluster on the hub.
#[derive(Clone, Copy, Debug)]
pub struct MirrorLimits {
    /// Applications and projects together.
    pub objects: usize,
    /// Bytes of one of them. An object in etcd is 1.5 MiB at most, with the fields that the API server adds.
    pub object_bytes: usize,
    /// Estimated memory of one of them without its status, in bytes. A write needs several copies of it at a time.
    pub object_memory: usize,
    /// Estimated memory of all of them, in bytes.
    pub memory: usize,
}

impl Default for MirrorLimits {
    fn default() -> Self {
        Self {
            objects: 10_000,
            object_bytes: 1_350_000,
            object_memory: 8 << 20,
            memory: 128 << 20,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message_bytes: 16 << 20,
            handshakes: std::thread::available_parallelism().map_or(2, NonZero::get),
            unauthenticated: 8192,
            handshake_time: Duration::from_secs(10),
            connections: 20_000,
            connections_per_certificate: 32,
            streams_per_connection: 2 * GO_STREAMS,
            idle: Duration::from_mins(1),
            session_life: Duration::from_hours(12),
            inbox_bytes: 64 << 20,
            silence: Duration::from_secs(25),
            writes: 64,
            writes_per_session: 8,
            object_writes: 20,
            drain: Duration::from_secs(5),
            mirrors: MirrorLimits::default(),
            large_statuses: 128 << 20,
            memory: None,
            compare_every: Duration::from_mins(5),
        }
    }
}

impl Settings {
    /// Settings of an add-on with the usual names: identity by OCM's certificates, Argo CD in `argocd`.
    pub fn usual(listen: SocketAddr) -> Self {
        Self {
            listen,
            resource_proxy: None,
            visitors: identity::visitor::Visitors::default(),
            redis_proxy: None,
            argocd_namespace: "argocd".to_owned(),
            other_namespaces: Vec::new(),
            identity: identity::Method::ocm(),
            plaintext: false,
            require_certificates: false,
            websockets: true,
            trusted_proxies: Vec::new(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            capabilities: Capabilities::ours(),
            limits: Limits::default(),
        }
    }
}
