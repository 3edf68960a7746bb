//! All label values of the metrics, so that every series exists from the start.
//!
//! Every test that counts a value that is missing here fails: see [`runtime::metrics::ByWord`].

/// How a handshake of TLS ends without a connection.
pub(super) const HANDSHAKE: &[&str] = &[
    "closed",
    "expired",
    "garbage",
    "incompatible",
    "no_certificate",
    "no_certificate_of_ours",
    "other",
    "plain_http",
    "refused_by_peer",
    "timeout",
    "untrusted",
];

/// Other outcomes at the agents' port.
pub(super) const LISTENER: &[&str] = &[
    "ok",
    "too_many_connections",
    "too_many_from_address",
    "too_many_of_certificate",
    "waited_too_long",
];

pub(super) const WEBSOCKET: &[&str] = &[
    "bad_upgrade",
    "closed",
    "malformed",
    "not_grpc",
    "ok",
    "other",
    "oversized",
    "silent",
    "switched_off",
    "text",
    "timeout",
];

/// As `protocol::refusal::Refusal` and `protocol::proof::Refused` spell them.
pub(super) const REFUSALS: &[&str] = &[
    "AuthenticationFailed",
    "Contested",
    "Draining",
    "Internal",
    "InvalidToken",
    "NotActive",
    "NotEnrolled",
    "ProofCertificate",
    "ProofLate",
    "ProofMissing",
    "ProofNonce",
    "ProofNotAProxy",
    "ProofReplayed",
    "ProofServerName",
    "ProofSignature",
    "ProofUnreadable",
    "ProtocolViolation",
    "Revoked",
    "ShortOfMemory",
    "Superseded",
    "TooMany",
    "UnknownMode",
    "VersionMismatch",
    "VersionRequired",
];

/// Ends by the hub, and two by the peer.
pub(super) const SESSION_ENDS: &[&str] = &[
    "certificate",
    "inactive",
    "left_fleet",
    "life",
    "memory",
    "mode_changed",
    "password",
    "peer",
    "revoked",
    "rewound",
    "stopping",
    "superseded",
    "violation",
];

pub(super) const DIRECTIONS: &[&str] = &["received", "sent"];

pub(super) const EVENTS_REFUSED: &[&str] = &[
    "budget",
    "hub",
    "malformed",
    "not_allowed",
    "not_deleting",
    "not_theirs",
    "too_large",
];

pub(super) const HUB_WRITES: &[&str] = &[
    "conflict",
    "not_found",
    "ok",
    "refused",
    "unavailable",
    "unfit",
];

pub(super) const RESYNCS: &[&str] = &["connect", "periodic"];

/// Outcomes of the resource proxy besides failed handshakes.
pub(super) const RESOURCE_REQUESTS: &[&str] = &[
    "abandoned",
    "answered",
    "forbidden",
    "internal",
    "late",
    "lost",
    "not_connected",
    "standby",
    "too_many_connections",
    "too_many_requests",
    "unauthorized",
];

/// Outcomes of the redis proxy besides failed handshakes.
pub(super) const REDIS_REQUESTS: &[&str] = &[
    "abandoned",
    "answered",
    "broken",
    "failed",
    "forbidden",
    "late",
    "local",
    "local_failed",
    "lost",
    "missing",
    "not_connected",
    "page",
    "remembered",
    "too_large",
    "too_many_connections",
    "too_many_requests",
];
