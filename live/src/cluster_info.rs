//! What Argo CD keeps in redis of a cluster: the connection, versions and counts on its page of clusters.
//!
//! ```text
//!   cluster|info|SERVER|VERSION        SERVER is the URL in the cluster's Secret,
//!                                      VERSION ends in .gz where values are compressed
//! ```
//!
//! On a spoke the application controller writes it of its own cluster every ten seconds; the hub has no controller that could. There
//! we answer for it, with what the spoke's controller has counted and what we know of the connection.

use std::io::{Read as _, Write as _};

use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use serde::{Deserialize, Serialize};

use argocd::claim;

#[cfg(test)]
mod tests;

/// What every such key begins with.
const PREFIX: &str = "cluster|info|";
/// The format of values in all releases of Argo CD since 1.8.3.
const VERSION: &str = "1.8.3";
/// How the name of a compressed value ends.
const COMPRESSED: &str = ".gz";
/// The URL by which Argo CD calls the cluster that it is in.
const THIS_CLUSTER: &str = "https://kubernetes.default.svc";
/// More than this is no such value, however it is compressed: bytes.
const LARGEST: u64 = 4 << 20;

/// The keys under which Argo CD keeps what it knows of the cluster that it is in, with how their values are compressed.
pub fn of_this_cluster() -> [(String, Form); 2] {
    let key = format!("{PREFIX}{THIS_CLUSTER}|{VERSION}");
    [
        (format!("{key}{COMPRESSED}"), Form::Compressed),
        (key, Form::Plain),
    ]
}

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As JSON.
    Plain,
    /// The same with gzip.
    Compressed,
}

/// The server that a key is about, and how its value is written. None: the key is about something else.
pub fn server_of(key: &[u8]) -> Option<(&str, Form)> {
    let rest = str::from_utf8(key).ok()?.strip_prefix(PREFIX)?;
    let (server, version) = rest.rsplit_once('|')?;
    let form = match version.strip_prefix(VERSION)? {
        "" => Form::Plain,
        COMPRESSED => Form::Compressed,
        _ => return None,
    };
    Some((server, form)).filter(|(server, _)| !server.is_empty())
}

/// What the controller on a cluster has counted there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Applications that deploy to it.
    pub applications: u64,
    /// Kinds that its API serves.
    pub apis: u64,
    /// Objects that the controller watches there.
    pub resources: u64,
    /// The version of Kubernetes, where it is known.
    pub server_version: Option<String>,
}

/// Whether there is a way to a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Whether there is.
    pub is_up: bool,
    /// Since when, or why not, in one line for people.
    pub message: String,
    /// When it became so: a time of RFC 3339.
    pub at: String,
}

/// Why a value cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// It is not compressed as its key says, or too large.
    #[error("decompress what Argo CD keeps of a cluster")]
    Compression(#[source] std::io::Error),
    /// It is not what Argo CD writes.
    #[error("read what Argo CD keeps of a cluster")]
    Json(#[from] serde_json::Error),
}

/// The value, as Argo CD has it. Fields that we have no use for are left out.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Value {
    connection_state: ConnectionState,
    server_version: String,
    cache_info: CacheInfo,
    applications_count: u64,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ConnectionState {
    status: String,
    message: String,
    attempted_at: Option<String>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct CacheInfo {
    resources_count: u64,
    apis_count: u64,
}

/// Reads what a controller has written of its own cluster.
pub fn read(value: &[u8], form: Form) -> Result<Census, Unreadable> {
    let mut json = Vec::new();
    match form {
        Form::Plain => json.extend_from_slice(value),
        Form::Compressed => {
            let mut limited = GzDecoder::new(value).take(LARGEST);
            limited
                .read_to_end(&mut json)
                .map_err(Unreadable::Compression)?;
        }
    }
    let info: Value = serde_json::from_slice(&json)?;
    Ok(Census {
        applications: info.applications_count,
        apis: info.cache_info.apis_count,
        resources: info.cache_info.resources_count,
        server_version: claim::version(&info.server_version).map(str::to_owned),
    })
}

/// Writes what Argo CD on the hub is to know of a cluster.
pub fn write(connection: &Connection, census: &Census, form: Form) -> Vec<u8> {
    let status = if connection.is_up {
        "Successful"
    } else {
        "Failed"
    };
    let info = Value {
        connection_state: ConnectionState {
            status: status.to_owned(),
            message: connection.message.clone(),
            attempted_at: Some(connection.at.clone()),
        },
        server_version: census.server_version.clone().unwrap_or_default(),
        cache_info: CacheInfo {
            resources_count: census.resources,
            apis_count: census.apis,
        },
        applications_count: census.applications,
    };
    // Only plain data: neither can fail in memory.
    let json = serde_json::to_vec(&info).unwrap_or_default();
    match form {
        Form::Plain => json,
        Form::Compressed => {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            let written = encoder.write_all(&json).and_then(|()| encoder.finish());
            written.unwrap_or_default()
        }
    }
}
