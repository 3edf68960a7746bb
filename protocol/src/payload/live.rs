//! What people at the hub ask of a spoke, over the session where one of the two ends is Go's, and the answers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{base64_or_null, or_default};

/// A request to the spoke's API.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the words of the Kubernetes API")]
pub struct ResourceRequest {
    /// By which its answer is found; also the event id.
    #[serde(deserialize_with = "or_default")]
    pub uuid: String,
    #[serde(deserialize_with = "or_default")]
    pub method: String,
    /// Empty for the core.
    #[serde(deserialize_with = "or_default")]
    pub group: String,
    #[serde(deserialize_with = "or_default")]
    pub version: String,
    /// Empty where it is asked which kinds there are.
    #[serde(deserialize_with = "or_default")]
    pub resource: String,
    #[serde(deserialize_with = "or_default")]
    pub namespace: String,
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    #[serde(deserialize_with = "or_default")]
    pub subresource: String,
    #[serde(deserialize_with = "or_default")]
    pub params: BTreeMap<String, String>,
    #[serde(with = "base64_or_null")]
    pub body: Option<Vec<u8>>,
}

/// Its answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourceResponse {
    /// The event id of the request.
    pub uuid: String,
    /// As in HTTP; a Go principal carries a body with 200 only.
    pub status: u16,
    /// The body.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource: String,
}

/// A question to the spoke's redis.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RedisRequest {
    /// By which its answer is found; also the event id.
    #[serde(deserialize_with = "or_default")]
    pub uuid: String,
    /// Which connection of Argo CD on the hub asks.
    #[serde(deserialize_with = "or_default")]
    pub connection_uuid: String,
    /// What it asks.
    #[serde(deserialize_with = "or_default")]
    pub body: RedisCommand,
}

/// One of these; the others are absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the words of redis")]
pub struct RedisCommand {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub get: Option<RedisGet>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subscribe: Option<RedisSubscribe>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ping: Option<RedisPing>,
}

/// What a key holds is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RedisGet {
    /// The key, as Argo CD on the hub has it.
    #[serde(deserialize_with = "or_default")]
    pub key: String,
}

/// Word of each message on a channel is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RedisSubscribe {
    /// The channel, as Argo CD on the hub has it.
    #[serde(deserialize_with = "or_default")]
    pub channel: String,
}

/// Whoever asked on this connection is still there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RedisPing {}

/// Its answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RedisResponse {
    /// The event id of the request.
    pub uuid: String,
    /// As in the request.
    pub connection_uuid: String,
    /// The answer itself.
    pub body: RedisAnswer,
}

/// One of these.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RedisAnswer {
    /// What the key holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub get: Option<RedisValue>,
    /// That it was subscribed to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subscribe_response: Option<RedisSubscribed>,
    /// A message has come on a channel. Answers what was asked long ago.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub push_from_subscribe: Option<RedisPush>,
    /// A sign of life.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pong: Option<RedisPong>,
}

/// What a key holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RedisValue {
    /// The value, as redis has it.
    #[serde(with = "base64_or_null")]
    pub bytes: Option<Vec<u8>>,
    /// Whether it holds anything.
    pub cache_hit: bool,
    /// Why it cannot be read; empty if it can.
    pub error: String,
}

/// How a subscription went.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RedisSubscribed {
    /// Why there is none; empty if there is one.
    pub error: String,
}

/// On which channel a message has come. What it says is not told: Argo CD's say nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RedisPush {
    /// As in the request.
    pub channel_name: String,
}

/// Nothing but that somebody is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RedisPong {}

/// The log of a container, which the agent sends on a stream that it opens for this.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(missing_docs, reason = "the words of the Kubernetes API")]
pub struct LogRequest {
    /// By which the stream says what it is; also the event id.
    #[serde(deserialize_with = "or_default")]
    pub uuid: String,
    #[serde(deserialize_with = "or_default")]
    pub namespace: String,
    #[serde(deserialize_with = "or_default")]
    pub pod_name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub container: String,
    pub follow: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tail_lines: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since_seconds: Option<i64>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub since_time: String,
    pub timestamps: bool,
    pub previous: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_bytes: Option<i64>,
}

/// A terminal in a container, for which the agent opens a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(
    missing_docs,
    clippy::struct_excessive_bools,
    reason = "the words of the Kubernetes API"
)]
pub struct TerminalRequest {
    /// By which the stream says what it is; also the event id.
    #[serde(deserialize_with = "or_default")]
    pub uuid: String,
    #[serde(deserialize_with = "or_default")]
    pub namespace: String,
    #[serde(deserialize_with = "or_default")]
    pub pod_name: String,
    #[serde(deserialize_with = "or_default")]
    pub container_name: String,
    #[serde(deserialize_with = "or_default")]
    pub command: Vec<String>,
    pub tty: bool,
    pub stdin: bool,
    pub stdout: bool,
    pub stderr: bool,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn requests_are_written_as_go_reads_them() {
        let patch = ResourceRequest {
            uuid: "u".to_owned(),
            method: "PATCH".to_owned(),
            version: "v1".to_owned(),
            resource: "pods".to_owned(),
            body: Some(b"{}".to_vec()),
            ..ResourceRequest::default()
        };
        let written = serde_json::to_value(&patch).unwrap();
        assert_eq!(
            (&written["uuid"], &written["body"]),
            (&json!("u"), &json!("e30="))
        );
        assert_eq!(read::<ResourceRequest>(written), patch);
        let get = RedisCommand {
            get: Some(RedisGet {
                key: "k".to_owned(),
            }),
            ..RedisCommand::default()
        };
        assert_eq!(
            serde_json::to_value(get).unwrap(),
            json!({ "get": { "key": "k" } })
        );
        let log = LogRequest {
            pod_name: "p".to_owned(),
            tail_lines: Some(3),
            ..LogRequest::default()
        };
        let written = serde_json::to_value(log).unwrap();
        assert_eq!(
            (&written["podName"], &written["tailLines"]),
            (&json!("p"), &json!(3))
        );
        assert_eq!(written.get("sinceSeconds"), None);
        let terminal = json!({ "uuid": "u", "namespace": "n", "podName": "p", "containerName": "c",
            "command": ["sh"], "tty": true, "stdin": true, "stdout": true, "stderr": false });
        let asked: TerminalRequest = read(terminal.clone());
        assert_eq!(serde_json::to_value(asked).unwrap(), terminal);
        let asked: TerminalRequest = read(json!({ "podName": "p", "command": null }));
        assert_eq!((asked.command.len(), asked.tty), (0, false));
    }

    #[test]
    fn answers_of_go_are_read_with_what_it_leaves_out() {
        let hit: RedisAnswer =
            read(json!({ "get": { "bytes": "dHJlZQ==", "cacheHit": true, "error": "" } }));
        assert_eq!(hit.get.unwrap().bytes.as_deref(), Some(&b"tree"[..]));
        let miss: RedisAnswer =
            read(json!({ "get": { "bytes": null, "cacheHit": false, "error": "" } }));
        assert_eq!(miss.get, Some(RedisValue::default()));
        let push: RedisAnswer = read(json!({ "pushFromSubscribe": { "channelName": "c" } }));
        assert_eq!(push.push_from_subscribe.unwrap().channel_name, "c");
    }
}
