//! Live requests and responses over a session of which one end is a Go program.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::base64_or_null;

/// A request to the spoke's API.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the words of the Kubernetes API")]
pub struct ResourceRequest {
    /// Correlates the response; also the event id.
    pub uuid: String,
    pub method: String,
    /// Empty for the core group.
    pub group: String,
    pub version: String,
    /// Empty for a discovery request.
    pub resource: String,
    pub namespace: String,
    pub name: String,
    pub subresource: String,
    pub params: BTreeMap<String, String>,
    #[serde(with = "base64_or_null")]
    pub body: Option<Vec<u8>>,
}

/// The response to a [`ResourceRequest`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourceResponse {
    /// The event id of the request.
    pub uuid: String,
    /// The HTTP status; a Go principal passes a body on with 200 only.
    pub status: u16,
    /// The body.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource: String,
}

/// A request to the spoke's redis.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RedisRequest {
    /// Correlates the response; also the event id.
    pub uuid: String,
    /// The redis connection of Argo CD on the hub.
    pub connection_uuid: String,
    /// The command.
    pub body: RedisCommand,
}

/// A redis command: exactly one field is present.
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

/// Asks for the value of a key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RedisGet {
    /// The key, as Argo CD on the hub spells it.
    pub key: String,
}

/// Asks for a notification of each message on a channel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RedisSubscribe {
    /// The channel, as Argo CD on the hub spells it.
    pub channel: String,
}

/// Keeps a connection alive: its client on the hub is still connected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RedisPing {}

/// The response to a [`RedisRequest`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RedisResponse {
    /// The event id of the request.
    pub uuid: String,
    /// As in the request.
    pub connection_uuid: String,
    /// The result of the command.
    pub body: RedisAnswer,
}

/// The result of a redis command: exactly one field is present.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RedisAnswer {
    /// The value of the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub get: Option<RedisValue>,
    /// The result of a subscription.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subscribe_response: Option<RedisSubscribed>,
    /// A message on a channel of an earlier subscription.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub push_from_subscribe: Option<RedisPush>,
    /// The response to a ping.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pong: Option<RedisPong>,
}

/// The value of a key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RedisValue {
    /// The bytes in redis.
    #[serde(with = "base64_or_null")]
    pub bytes: Option<Vec<u8>>,
    /// Whether the key exists.
    pub cache_hit: bool,
    /// The error of the read; empty on success.
    pub error: String,
}

/// The result of a subscription.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RedisSubscribed {
    /// The error; empty on success.
    pub error: String,
}

/// The channel of a message. The content is not sent: messages of Argo CD have none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RedisPush {
    /// As in the request.
    pub channel_name: String,
}

/// The response to a ping; the agent is connected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RedisPong {}

/// Asks for the log of a container; the agent sends it on a stream of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(missing_docs, reason = "the words of the Kubernetes API")]
pub struct LogRequest {
    /// Correlates the stream; also the event id.
    pub uuid: String,
    pub namespace: String,
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

/// Asks for a terminal in a container; the agent opens a stream for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(
    missing_docs,
    clippy::struct_excessive_bools,
    reason = "the words of the Kubernetes API"
)]
pub struct TerminalRequest {
    /// Correlates the stream; also the event id.
    pub uuid: String,
    pub namespace: String,
    pub pod_name: String,
    pub container_name: String,
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

    fn read<T: serde::de::DeserializeOwned + Default>(value: impl Into<Value>) -> T {
        super::super::decode("a body", &value.into().to_string().into()).unwrap()
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
    fn redis_answers_of_go_may_omit_fields() {
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
