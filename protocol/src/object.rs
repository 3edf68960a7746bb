//! Kinds, keys, facets and modes of the objects in events.

use std::str::FromStr;

use crate::version::Capability;

/// The kinds of objects that are replicated. Their order is the order in which they are first sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, derive_more::Display)]
#[display("{}", self.as_str())]
pub enum Kind {
    /// An Argo CD AppProject; Applications refer to it, so it goes first.
    AppProject,
    /// A repository or repo-creds Secret.
    Repository,
    /// The ConfigMap of GPG keys.
    GpgKey,
    /// The ConfigMap of TLS certificates; a Go peer does not know this kind.
    TlsCerts,
    /// The ConfigMap of SSH known hosts; a Go peer does not know this kind.
    SshKnownHosts,
    /// An Argo CD Application.
    Application,
}

impl Kind {
    /// Every kind, in the order of sending.
    pub const ALL: [Self; 6] = [
        Self::AppProject,
        Self::Repository,
        Self::GpgKey,
        Self::TlsCerts,
        Self::SshKnownHosts,
        Self::Application,
    ];

    /// The name in resync messages and list checksums.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AppProject => "AppProject",
            Self::Repository => "Repository",
            Self::GpgKey => "GPGKey",
            Self::TlsCerts => "TLSCerts",
            Self::SshKnownHosts => "SSHKnownHosts",
            Self::Application => "Application",
        }
    }

    /// The capability that a peer needs to receive such objects.
    pub const fn needs(self) -> Option<Capability> {
        match self {
            Self::TlsCerts | Self::SshKnownHosts => Some(Capability::HostKeys),
            Self::AppProject | Self::Repository | Self::GpgKey | Self::Application => None,
        }
    }
}

impl FromStr for Kind {
    type Err = UnknownKind;

    fn from_str(raw: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.as_str() == raw)
            .ok_or_else(|| UnknownKind(raw.chars().take(64).collect()))
    }
}

/// A kind that this protocol does not replicate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("kind {0:?} is not replicated")]
pub struct UnknownKind(String);

/// One object, by the names that the *sender* uses for it (hub names on the way to a spoke).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, derive_more::Display)]
#[display("{kind}/{namespace}/{name}")]
pub struct ObjectKey {
    /// Its kind.
    pub kind: Kind,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl ObjectKey {
    /// Names an object.
    pub fn new(kind: Kind, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            kind,
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// The `subject` of an event about this object.
    pub fn subject(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// The parts of an object that travel independently. Their order is the order of sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Facet {
    /// Labels, annotations, finalizers and spec, from the owner.
    State,
    /// The status that the spoke reports.
    Status,
    /// An operation that the receiver carries out at most once.
    Command,
}

/// Which side owns the spec.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, derive_more::Display)]
#[display("{}", self.as_str())]
pub enum Mode {
    /// The hub does.
    Managed,
    /// The spoke does.
    Autonomous,
}

impl Mode {
    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Managed => "managed",
            Self::Autonomous => "autonomous",
        }
    }
}

impl FromStr for Mode {
    type Err = UnknownMode;

    fn from_str(raw: &str) -> Result<Self, Self::Err> {
        match raw {
            "managed" => Ok(Self::Managed),
            "autonomous" => Ok(Self::Autonomous),
            other => Err(UnknownMode(other.chars().take(64).collect())),
        }
    }
}

/// A mode that is neither managed nor autonomous.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown agent mode: {0}")]
pub struct UnknownMode(String);
