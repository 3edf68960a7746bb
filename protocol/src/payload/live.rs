//! What a Go principal asks of a spoke for people at the hub, over the session, and the answers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::or_default;

/// A request to the spoke's API. Bodies of requests that change something are not read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the words of the Kubernetes API")]
pub struct ResourceRequest {
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
    pub get: Option<serde_json::Value>,
    pub subscribe: Option<serde_json::Value>,
    pub ping: Option<serde_json::Value>,
}

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
    /// A sign of life.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pong: Option<RedisPong>,
}

/// What a key holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RedisValue {
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

/// Nothing but that somebody is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RedisPong {}
