//! The words of the wire for targets and verbs.

use super::{Method, Target, Verb};
use crate::object::Kind;

const PREFIX: &str = "io.argoproj.argocd-agent.event";

impl Target {
    const ALL: [Self; 15] = [
        Self::Object(Kind::Application),
        Self::Object(Kind::AppProject),
        Self::Object(Kind::Repository),
        Self::Object(Kind::GpgKey),
        Self::Object(Kind::TlsCerts),
        Self::Object(Kind::SshKnownHosts),
        Self::ApplicationSet,
        Self::Ack,
        Self::Resource,
        Self::Redis,
        Self::Resync,
        Self::ClusterInfo,
        Self::ContainerLog,
        Self::Terminal,
        Self::Heartbeat,
    ];

    /// The word in `dataschema`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Object(Kind::Application) => "application",
            Self::Object(Kind::AppProject) => "appproject",
            Self::Object(Kind::Repository) => "repository",
            Self::Object(Kind::GpgKey) => "gpgkey",
            Self::Object(Kind::TlsCerts) => "tlscerts",
            Self::Object(Kind::SshKnownHosts) => "sshknownhosts",
            Self::ApplicationSet => "applicationset",
            Self::Ack => "eventProcessed",
            Self::Resource => "resource",
            Self::Redis => "redis",
            Self::Resync => "resourceResync",
            Self::ClusterInfo => "clusterCacheInfoUpdate",
            Self::ContainerLog => "containerlog",
            Self::Terminal => "terminal",
            Self::Heartbeat => "heartbeat",
        }
    }

    pub(super) fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|target| target.as_str() == word)
    }
}

impl Verb {
    const PREFIXED: [Self; 20] = [
        Self::Ping,
        Self::Pong,
        Self::Create,
        Self::Delete,
        Self::SpecUpdate,
        Self::StatusUpdate,
        Self::SetOperation,
        Self::TerminateOperation,
        Self::Processed,
        Self::Get,
        Self::Response,
        Self::RedisRequest,
        Self::RedisResponse,
        Self::RequestSyncedResourceList,
        Self::ResponseSyncedResource,
        Self::RequestUpdate,
        Self::RequestResourceResync,
        Self::ClusterInfoUpdate,
        Self::TerminalRequest,
        Self::Error,
    ];

    /// The word after the prefix, or the HTTP verb.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ping => "ping",
            Self::Pong => "pong",
            Self::Create => "create",
            Self::Delete => "delete",
            Self::SpecUpdate => "spec-update",
            Self::StatusUpdate => "status-update",
            Self::SetOperation => "set-operation",
            Self::TerminateOperation => "terminate-operation",
            Self::Processed => "processed",
            Self::Get => "get",
            Self::Response => "response",
            Self::RedisRequest => "redis-request",
            Self::RedisResponse => "redis-response",
            Self::RequestSyncedResourceList => "request-synced-resource-list",
            Self::ResponseSyncedResource => "response-synced-resource",
            Self::RequestUpdate => "request-update",
            Self::RequestResourceResync => "request-resource-resync",
            Self::ClusterInfoUpdate => "cluster-cache-info-update",
            Self::TerminalRequest => "terminal-request",
            Self::Error => "error",
            Self::Http(Method::Get) => "GET",
            Self::Http(Method::Post) => "POST",
            Self::Http(Method::Patch) => "PATCH",
            Self::Http(Method::Delete) => "DELETE",
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
        if let Some(word) = kind
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.strip_prefix('.'))
        {
            return Self::PREFIXED
                .into_iter()
                .find(|verb| verb.as_str() == word);
        }
        [Method::Get, Method::Post, Method::Patch, Method::Delete]
            .into_iter()
            .map(Self::Http)
            .find(|verb| verb.as_str() == kind)
    }
}
