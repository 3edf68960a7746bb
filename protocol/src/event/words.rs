//! The words of the wire for targets and verbs.

use super::{Method, Target, Verb};
use crate::object::{Kind, of_word, word_of};

const PREFIX: &str = "io.argoproj.argocd-agent.event";

impl Target {
    /// The word of each target in `dataschema`.
    const WORDS: [(Self, &str); 15] = [
        (Self::Object(Kind::Application), "application"),
        (Self::Object(Kind::AppProject), "appproject"),
        (Self::Object(Kind::Repository), "repository"),
        (Self::Object(Kind::GpgKey), "gpgkey"),
        (Self::Object(Kind::TlsCerts), "tlscerts"),
        (Self::Object(Kind::SshKnownHosts), "sshknownhosts"),
        (Self::ApplicationSet, "applicationset"),
        (Self::Ack, "eventProcessed"),
        (Self::Resource, "resource"),
        (Self::Redis, "redis"),
        (Self::Resync, "resourceResync"),
        (Self::ClusterInfo, "clusterCacheInfoUpdate"),
        (Self::ContainerLog, "containerlog"),
        (Self::Terminal, "terminal"),
        (Self::Heartbeat, "heartbeat"),
    ];

    /// The word in `dataschema`.
    pub fn as_str(self) -> &'static str {
        word_of(&Self::WORDS, self)
    }

    pub(super) fn parse(word: &str) -> Option<Self> {
        of_word(&Self::WORDS, word)
    }
}

impl Verb {
    /// The words after the prefix.
    const PREFIXED: [(Self, &str); 20] = [
        (Self::Ping, "ping"),
        (Self::Pong, "pong"),
        (Self::Create, "create"),
        (Self::Delete, "delete"),
        (Self::SpecUpdate, "spec-update"),
        (Self::StatusUpdate, "status-update"),
        (Self::SetOperation, "set-operation"),
        (Self::TerminateOperation, "terminate-operation"),
        (Self::Processed, "processed"),
        (Self::Get, "get"),
        (Self::Response, "response"),
        (Self::RedisRequest, "redis-request"),
        (Self::RedisResponse, "redis-response"),
        (
            Self::RequestSyncedResourceList,
            "request-synced-resource-list",
        ),
        (Self::ResponseSyncedResource, "response-synced-resource"),
        (Self::RequestUpdate, "request-update"),
        (Self::RequestResourceResync, "request-resource-resync"),
        (Self::ClusterInfoUpdate, "cluster-cache-info-update"),
        (Self::TerminalRequest, "terminal-request"),
        (Self::Error, "error"),
    ];
    const HTTP: [(Self, &str); 4] = [
        (Self::Http(Method::Get), "GET"),
        (Self::Http(Method::Post), "POST"),
        (Self::Http(Method::Patch), "PATCH"),
        (Self::Http(Method::Delete), "DELETE"),
    ];

    /// The word after the prefix, or the HTTP verb.
    pub fn as_str(self) -> &'static str {
        if let Self::Http(_) = self {
            word_of(&Self::HTTP, self)
        } else {
            word_of(&Self::PREFIXED, self)
        }
    }

    /// The whole `type` attribute.
    pub(crate) fn to_type(self) -> String {
        if let Self::Http(_) = self {
            self.as_str().to_owned()
        } else {
            format!("{PREFIX}.{}", self.as_str())
        }
    }

    pub(crate) fn parse(kind: &str) -> Option<Self> {
        let rest = kind.strip_prefix(PREFIX);
        match rest.and_then(|rest| rest.strip_prefix('.')) {
            Some(word) => of_word(&Self::PREFIXED, word),
            None => of_word(&Self::HTTP, kind),
        }
    }
}
