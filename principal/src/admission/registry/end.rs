//! How the hub ends a session.

/// Why the hub ends a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The same cluster opened another session.
    Superseded,
    /// The cluster has left the fleet.
    LeftFleet,
    /// The recorded mode has changed.
    ModeChanged,
    /// The certificate has expired, or its CA is not trusted any more.
    Certificate,
    /// An administrator revoked its credentials.
    Revoked,
    /// The password of the session was changed or removed.
    Password,
    /// The session reached its maximum age.
    Life,
    /// Another replica is active now.
    Inactive,
    /// The hub was restored to an earlier state: all objects are compared again.
    Rewound,
    /// It used the most memory while the program was near its limit.
    Memory,
    /// The program stops.
    Stopping,
}

impl End {
    /// A word for metrics and logs.
    pub(crate) const fn reason(self) -> &'static str {
        match self {
            Self::Superseded => "superseded",
            Self::LeftFleet => "left_fleet",
            Self::ModeChanged => "mode_changed",
            Self::Certificate => "certificate",
            Self::Revoked => "revoked",
            Self::Password => "password",
            Self::Life => "life",
            Self::Inactive => "inactive",
            Self::Rewound => "rewound",
            Self::Memory => "memory",
            Self::Stopping => "stopping",
        }
    }
}
