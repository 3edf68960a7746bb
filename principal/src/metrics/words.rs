//! The words by which metrics tell things apart: all there are, so that every series is there from the start.
//!
//! A word that is missing here shows in every test that counts it: see [`runtime::metrics::ByWord`].

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

/// What else there is at the agents' port.
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
    "Superseded",
    "TooMany",
    "UnknownMode",
    "VersionMismatch",
    "VersionRequired",
];

/// Ends that the hub wants, and two that it does not.
pub(super) const SESSION_ENDS: &[&str] = &[
    "certificate",
    "inactive",
    "left_fleet",
    "life",
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

/// What the resource proxy answers beside failed handshakes.
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

/// The same of the redis proxy.
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
