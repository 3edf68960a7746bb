//! Bodies of control messages, as Go's `encoding/json` reads and writes them.

use std::collections::BTreeSet;

use bytes::Bytes;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

mod live;
mod object;

pub use live::{
    LogRequest, RedisAnswer, RedisCommand, RedisGet, RedisPing, RedisPong, RedisPush, RedisRequest,
    RedisResponse, RedisSubscribe, RedisSubscribed, RedisValue, ResourceRequest, ResourceResponse,
    TerminalRequest,
};

pub use object::{
    MOST_OBJECT_BYTES, MOST_OBJECT_MEMORY, decode_metadata, decode_object, decode_within,
    estimate_of, memory_of,
};

/// A body that does not decode as its event's type requires.
#[derive(Debug, thiserror::Error)]
#[error("decode {what}")]
pub struct Undecodable {
    what: &'static str,
    source: serde_json::Error,
}

/// One object of a resync, as its receiver has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RequestUpdate {
    /// Its name on the sender of this message.
    pub name: String,
    /// Its namespace on the *principal*, which the sender reports for a remapped object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// UID of the source object, from the `source-uid` annotation; empty when the sender does not have the object.
    pub uid: String,
    /// `Application`, `AppProject`, `Repository` or `GPGKey`.
    pub kind: String,
    /// Go's spec checksum.
    #[serde(with = "base64_or_null")]
    pub checksum: Option<Vec<u8>>,
    /// Ours: digest of the value that the sender last received, if it still knows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// One object that the source has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SyncedResource {
    /// Its name.
    pub name: String,
    /// Its namespace.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Its UID.
    pub uid: String,
    /// Its kind.
    pub kind: String,
}

/// Asks for the list of synced resources; between our own ends it marks the end of the request-updates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SyncedResourceList {
    /// Go's list checksum; none for an empty list.
    #[serde(with = "base64_or_null")]
    pub checksum: Option<Vec<u8>>,
    /// Ours: checksums over ranges of the sender's objects, if the peer has requested them.
    #[serde(with = "base64_or_null", skip_serializing_if = "Option::is_none")]
    pub ranges: Option<Vec<u8>>,
    /// Ours: checksums over the statuses of the spoke's Applications.
    #[serde(with = "base64_or_null", skip_serializing_if = "Option::is_none")]
    pub statuses: Option<Vec<u8>>,
}

/// Asks for the peer's objects. Go sends it empty, which asks for all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResyncRequest {
    /// Ours: asks for checksums over ranges only.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub sums: bool,
    /// Ours: asks for the objects in these ranges.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ranges: Option<Ranges>,
    /// Ours: asks for the statuses in these ranges.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub statuses: Option<Ranges>,
}

/// A selection of ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ranges {
    /// The number of all ranges.
    pub of: u32,
    /// The selected ranges.
    pub these: BTreeSet<u32>,
}

/// A failure on the spoke that a user of the hub has to see.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ErrorReport {
    /// Name of the object on the hub.
    pub resource_name: String,
    /// Its namespace there.
    pub resource_namespace: String,
    /// The error.
    pub message: String,
    /// Ours: another field manager on the spoke keeps changing fields that the hub owns, or has stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contest: Option<Contest>,
}

/// The state of a conflict with another field manager on the spoke about fields that the hub owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Contest {
    /// It continues.
    On,
    /// It has ended.
    Over,
    /// A value of a later version.
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

/// Ours: the agent's facts about its spoke, in the same message as [`ClusterInfo`]; Go ignores them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SpokeInfo {
    /// Whether there is an Argo CD; none when the agent does not report it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub argo_cd: Option<ArgoCd>,
    /// Which Argo CD runs there; none when the agent does not report it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub argo_cd_runs: Option<Runs>,
    /// Whether the add-on installed the CRDs of Argo CD; false when the agent does not report it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub argo_cd_kinds_brought: bool,
    /// The problem of an Argo CD that the add-on installed; none when it is healthy or the agent does not report it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub argo_cd_ails: Option<HealthProblem>,
    /// The SHA-256, in hexadecimal, of the CA certificates that the agent trusts; none when it does not report them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trusts: Option<BTreeSet<String>>,
    /// As in [`ClusterInfo`]; none before the first count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub applications_count: Option<u64>,
    /// As in [`ClusterInfo`]; none before the first count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub apis_count: Option<u64>,
    /// As in [`ClusterInfo`]; none before the first count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources_count: Option<u64>,
    /// The version of Kubernetes, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_version: Option<String>,
}

/// Whether a spoke has an Argo CD.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ArgoCd {
    /// Its API serves Argo CD's kinds.
    Installed,
    /// Its API does not serve them.
    Missing,
    /// A value of a later version.
    #[serde(other)]
    Other,
}

/// Which Argo CD runs on a spoke, in the Argo CD namespace or another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Runs {
    /// None.
    Nothing,
    /// One that the add-on installed.
    Ours,
    /// One that an administrator or another tool installed.
    Foreign,
    /// None in the Argo CD namespace, but another one has one, or may have one.
    Elsewhere,
    /// A value of a later version.
    #[serde(other)]
    Other,
}

/// Why a workload of Argo CD is not healthy on a spoke.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HealthProblem {
    /// The workload: `Deployment argocd-repo-server`.
    pub workload: String,
    /// The cause.
    pub cause: Cause,
    /// The image, container or Pod that has the problem; empty when it is the workload as a whole.
    pub subject: String,
    /// The message of the cluster.
    pub detail: String,
}

/// Causes of an unhealthy workload; a cause comes before its consequences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Cause {
    /// The cluster rejects its Pods, for example because of a quota or an admission webhook.
    NotMade,
    /// No node fits its Pod.
    Unschedulable,
    /// The kubelet cannot pull an image.
    ImagePull,
    /// A container restarts again and again.
    Crashes,
    /// A container cannot start.
    NotBegun,
    /// Its Pod was evicted, for example because of memory or disk pressure.
    GivenUp,
    /// A user has scaled it to zero.
    ScaledDown,
    /// It runs but is not ready.
    NotReady,
    /// It is not up yet, for no known reason.
    Starting,
    /// A value of a later version.
    #[default]
    #[serde(other)]
    Other,
}

#[cfg(test)]
thread_local! {
    /// Calls of [`decode`] on this thread.
    pub(crate) static DECODED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Decodes a body. An empty body is the zero value, as in Go.
pub fn decode<T: DeserializeOwned + Default>(
    what: &'static str,
    body: &Bytes,
) -> Result<T, Undecodable> {
    #[cfg(test)]
    DECODED.set(DECODED.get() + 1);
    if body.is_empty() {
        return Ok(T::default());
    }
    serde_json::from_slice(body).or_else(|source| {
        // Go writes `null` for some empty values, and reads it as the zero value.
        // Above the limits of an object, a null is an error, as it is reported first.
        let Ok(mut body) = decode_object(what, body) else {
            return Err(Undecodable { what, source });
        };
        remove_nulls(&mut body);
        serde_json::from_value(body).map_err(|_again| Undecodable { what, source })
    })
}

/// Only in objects: positions in a list matter.
fn remove_nulls(value: &mut Value) {
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|_, field| !field.is_null());
        fields.values_mut().for_each(remove_nulls);
    }
}

/// Encodes a body.
pub fn encode<T: Serialize>(body: &T) -> Bytes {
    // only string keys and plain data: serde_json cannot fail on these types
    serde_json::to_vec(body)
        .map(Bytes::from)
        .unwrap_or_default()
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
