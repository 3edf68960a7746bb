//! Argo CD's cached facts about a cluster in redis: connection, versions and counts for its cluster page.
//!
//! ```text
//!   cluster|info|SERVER|VERSION        SERVER is the URL in the cluster's Secret,
//!                                      VERSION ends in .gz where values are compressed
//! ```
//!
//! On a spoke the application controller writes it for its own cluster every ten seconds; the hub has no controller that
//! could. There we serve it, with the counts of the spoke's controller and the state of our connection.

use std::io::{Read as _, Write as _};

use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use serde::{Deserialize, Serialize};

use argocd::claim;

#[cfg(test)]
mod tests;

/// The prefix of these keys.
const PREFIX: &str = "cluster|info|";
/// The format of values in all releases of Argo CD since 1.8.3.
const VERSION: &str = "1.8.3";
/// The suffix of the key of a compressed value.
const COMPRESSED: &str = ".gz";
/// The URL in Argo CD of the cluster that it runs on.
const THIS_CLUSTER: &str = "https://kubernetes.default.svc";
/// The largest value in bytes after decompression.
const LARGEST: u64 = 4 << 20;

/// The keys of the cluster that Argo CD runs on, with the form of their values.
pub fn of_this_cluster() -> [(String, Form); 2] {
    let key = format!("{PREFIX}{THIS_CLUSTER}|{VERSION}");
    [
        (format!("{key}{COMPRESSED}"), Form::Compressed),
        (key, Form::Plain),
    ]
}

/// The form of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As JSON.
    Plain,
    /// As JSON with gzip.
    Compressed,
}

/// The server of a key and the form of its value; none for other keys.
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

/// The counts of the controller on a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Applications that deploy to it.
    pub applications: u64,
    /// Kinds that its API serves.
    pub apis: u64,
    /// Objects that the controller watches there.
    pub resources: u64,
    /// The version of Kubernetes, if known.
    pub server_version: Option<String>,
}

/// The state of the connection to a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Whether it is connected.
    pub is_up: bool,
    /// The start of the connection, or the cause of the disconnect, in one line.
    pub message: String,
    /// The time of the last transition, RFC 3339.
    pub at: String,
}

/// Why a value cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// The compression differs from the key, or the value is too large.
    #[error("decompress what Argo CD keeps of a cluster")]
    Compression(#[source] std::io::Error),
    /// The JSON is invalid.
    #[error("read what Argo CD keeps of a cluster")]
    Json(#[from] serde_json::Error),
}

/// The value in the form of Argo CD, without fields that we do not use.
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

/// Parses the value that a controller has written for its own cluster.
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

/// Writes the value of a cluster for Argo CD on the hub.
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
    // Plain data in memory: neither step can fail.
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
