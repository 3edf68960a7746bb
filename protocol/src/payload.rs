//! Bodies of control messages, as Go's `encoding/json` reads and writes them.

use std::collections::BTreeSet;

use bytes::Bytes;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

mod live;
mod object;

pub use live::{
    LogRequest, RedisAnswer, RedisCommand, RedisGet, RedisPing, RedisPong, RedisPush, RedisRequest,
    RedisResponse, RedisSubscribe, RedisSubscribed, RedisValue, ResourceRequest, ResourceResponse,
    TerminalRequest,
};

pub use object::{MOST_OBJECT_BYTES, MOST_OBJECT_MEMORY, decode_object};

/// A body that is not what its event promises.
#[derive(Debug, thiserror::Error)]
#[error("decode {what}")]
pub struct Undecodable {
    what: &'static str,
    source: serde_json::Error,
}

/// One object of a resync, and what its holder knows about it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RequestUpdate {
    /// Its name, as the holder has it.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// Its namespace on the *principal*, which the holder reports for a remapped object.
    #[serde(
        deserialize_with = "or_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub namespace: String,
    /// UID of the source object, from the `source-uid` annotation; empty when it is not held.
    #[serde(deserialize_with = "or_default")]
    pub uid: String,
    /// `Application`, `AppProject`, `Repository` or `GPGKey`.
    #[serde(deserialize_with = "or_default")]
    pub kind: String,
    /// Go's spec checksum.
    #[serde(with = "base64_or_null")]
    pub checksum: Option<Vec<u8>>,
    /// Ours: digest of the value that the holder last received, when it still knows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// One object that the source has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SyncedResource {
    /// Its name.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// Its namespace.
    #[serde(
        deserialize_with = "or_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub namespace: String,
    /// Its UID.
    #[serde(deserialize_with = "or_default")]
    pub uid: String,
    /// Its kind.
    #[serde(deserialize_with = "or_default")]
    pub kind: String,
}

/// Asks for the list of synced resources; between our own ends it marks the end of the request-updates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SyncedResourceList {
    /// Go's list checksum; none when nothing is held.
    #[serde(with = "base64_or_null")]
    pub checksum: Option<Vec<u8>>,
    /// Ours: sums over what is held, when they were asked for.
    #[serde(with = "base64_or_null", skip_serializing_if = "Option::is_none")]
    pub ranges: Option<Vec<u8>>,
    /// Ours: sums over what the spoke shows of its Applications.
    #[serde(with = "base64_or_null", skip_serializing_if = "Option::is_none")]
    pub statuses: Option<Vec<u8>>,
}

/// Asks for what is held. Go sends it empty, which asks for everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResyncRequest {
    /// Ours: only sums over ranges are wanted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub sums: bool,
    /// Ours: what is held in these ranges is wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ranges: Option<Ranges>,
    /// Ours: the statuses in these ranges are wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub statuses: Option<Ranges>,
}

/// Some of so many ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ranges {
    /// How many there are.
    pub of: u32,
    /// Those that are meant.
    pub these: BTreeSet<u32>,
}

/// A failure on the spoke that a person on the hub has to know about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ErrorReport {
    /// Name of the object on the hub.
    #[serde(deserialize_with = "or_default")]
    pub resource_name: String,
    /// Its namespace there.
    #[serde(deserialize_with = "or_default")]
    pub resource_namespace: String,
    /// What happened.
    #[serde(deserialize_with = "or_default")]
    pub message: String,
    /// Ours: that somebody on the spoke keeps changing what the hub owns, or does so no more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contest: Option<Contest>,
}

/// How it stands about a spec that somebody on the spoke keeps changing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Contest {
    /// It goes on.
    On,
    /// It is over.
    Over,
    /// Something that this version does not know.
    #[serde(other)]
    Other,
}

/// Counters for the hub's page of clusters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClusterInfo {
    /// Applications on the spoke.
    pub applications_count: i64,
    /// API resources on the spoke.
    pub apis_count: i64,
    /// Objects that Argo CD caches there.
    pub resources_count: i64,
}

/// Ours: what the agent says about its spoke, in the same message as [`ClusterInfo`]; Go does not read it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SpokeInfo {
    /// Whether there is an Argo CD; none when the agent does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub argo_cd: Option<ArgoCd>,
    /// What of an Argo CD runs in its namespace; none when the agent does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub argo_cd_runs: Option<Runs>,
    /// Whether the definitions of Argo CD's kinds are those that the add-on has brought; false when the agent does not say.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub argo_cd_kinds_brought: bool,
    /// What is wrong with an Argo CD that the add-on has brought; none when nothing is or the agent does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub argo_cd_ails: Option<HealthProblem>,
    /// The SHA-256, in hexadecimal, of the CA certificates that the agent trusts; none when it does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trusts: Option<BTreeSet<String>>,
    /// As [`ClusterInfo`] says it; none when nobody has counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub applications_count: Option<u64>,
    /// The same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub apis_count: Option<u64>,
    /// The same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources_count: Option<u64>,
    /// The version of Kubernetes, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_version: Option<String>,
}

/// Whether a spoke has an Argo CD.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ArgoCd {
    /// Its API serves Argo CD's kinds.
    Installed,
    /// It does not.
    Missing,
    /// A word of the future.
    #[serde(other)]
    Other,
}

/// What of an Argo CD runs in its namespace on a spoke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Runs {
    /// Nothing.
    Nothing,
    /// What the add-on has brought.
    Ours,
    /// What somebody else has installed.
    Foreign,
    /// A word of the future.
    #[serde(other)]
    Other,
}

/// Why a program of Argo CD is not well on a spoke.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HealthProblem {
    /// The program: `Deployment argocd-repo-server`.
    pub workload: String,
    /// The cause.
    pub cause: Cause,
    /// What it is about: an image, a container, a Pod; empty when it is the program as a whole.
    pub subject: String,
    /// What the cluster says about it.
    pub detail: String,
}

/// Causes, those first that others may follow from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Cause {
    /// The cluster makes no Pod of it, because of a quota or an admission rule for example.
    NotMade,
    /// No node takes its Pod.
    Unschedulable,
    /// An image cannot be pulled.
    ImagePull,
    /// A container ends again and again.
    Crashes,
    /// A container cannot be begun.
    NotBegun,
    /// Its Pod was given up, for want of memory or disk for example.
    GivenUp,
    /// Somebody has scaled it to nothing.
    ScaledDown,
    /// It runs and is not ready.
    NotReady,
    /// It has not come up yet, nobody knows why.
    Starting,
    /// A word of the future.
    #[default]
    #[serde(other)]
    Other,
}

/// Reads a body. An empty one is the zero value, as in Go.
pub fn decode<T: DeserializeOwned + Default>(
    what: &'static str,
    body: &Bytes,
) -> Result<T, Undecodable> {
    if body.is_empty() {
        return Ok(T::default());
    }
    serde_json::from_slice(body).map_err(|source| Undecodable { what, source })
}

/// Writes a body.
pub fn encode<T: Serialize>(body: &T) -> Bytes {
    // only string keys and plain data: serde_json cannot fail on these types
    serde_json::to_vec(body)
        .map(Bytes::from)
        .unwrap_or_default()
}

/// Go writes `null` for an empty value now and then, and reads it as the zero value.
fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}

mod base64_or_null {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    #[expect(clippy::ref_option, reason = "the signature that serde's `with` calls")]
    pub(super) fn serialize<S: Serializer>(
        bytes: &Option<Vec<u8>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match bytes {
            Some(bytes) => serializer.serialize_str(&STANDARD.encode(bytes)),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Vec<u8>>, D::Error> {
        Option::<String>::deserialize(deserializer)?
            .map(|text| STANDARD.decode(text).map_err(D::Error::custom))
            .transpose()
    }
}
