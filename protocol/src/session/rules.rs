//! Which messages each end accepts.

use super::Role;
use crate::event::{Target, Verb};
use crate::object::{Kind, Mode};

/// Whether the end with role `role` accepts such an event. It acknowledges others as refused.
pub(super) fn takes(role: Role, mode: Mode, target: Target, verb: Verb) -> bool {
    match role {
        Role::Principal => principal_takes(mode, target, verb),
        Role::Agent => agent_takes(mode, target, verb),
    }
}

fn principal_takes(mode: Mode, target: Target, verb: Verb) -> bool {
    match (mode, target) {
        (Mode::Managed, Target::Object(Kind::Application)) => {
            matches!(verb, Verb::StatusUpdate | Verb::Delete | Verb::Error)
        }
        (Mode::Autonomous, Target::Object(Kind::Application | Kind::AppProject)) => {
            matches!(verb, Verb::Create | Verb::SpecUpdate | Verb::Delete)
        }
        (_, Target::Object(_)) => matches!(verb, Verb::Error),
        (Mode::Managed, Target::Resync) => {
            matches!(verb, Verb::RequestSyncedResourceList | Verb::RequestUpdate)
        }
        (Mode::Autonomous, Target::Resync) => {
            matches!(
                verb,
                Verb::ResponseSyncedResource | Verb::RequestResourceResync
            )
        }
        (_, Target::Resource) => verb == Verb::Response,
        (_, Target::Redis) => verb == Verb::RedisResponse,
        (_, Target::ClusterInfo) => verb == Verb::ClusterInfoUpdate,
        (_, Target::Heartbeat) => verb == Verb::Ping,
        (_, Target::Ack) => verb == Verb::Processed,
        (_, Target::ApplicationSet | Target::ContainerLog | Target::Terminal) => false,
    }
}

fn agent_takes(mode: Mode, target: Target, verb: Verb) -> bool {
    match (mode, target) {
        (Mode::Managed, Target::Object(Kind::Application)) => matches!(
            verb,
            Verb::Create
                | Verb::SpecUpdate
                | Verb::Delete
                | Verb::SetOperation
                | Verb::TerminateOperation
        ),
        (Mode::Managed, Target::Object(_)) => {
            matches!(verb, Verb::Create | Verb::SpecUpdate | Verb::Delete)
        }
        (Mode::Autonomous, Target::Object(Kind::Application)) => {
            matches!(
                verb,
                Verb::SpecUpdate | Verb::SetOperation | Verb::TerminateOperation
            )
        }
        (Mode::Managed, Target::Resync) => {
            matches!(
                verb,
                Verb::ResponseSyncedResource | Verb::RequestResourceResync
            )
        }
        (Mode::Autonomous, Target::Resync) => {
            matches!(verb, Verb::RequestSyncedResourceList | Verb::RequestUpdate)
        }
        (_, Target::Resource | Target::ContainerLog) => matches!(verb, Verb::Http(_)),
        (_, Target::Redis) => verb == Verb::RedisRequest,
        (_, Target::Terminal) => verb == Verb::TerminalRequest,
        (_, Target::Ack) => verb == Verb::Processed,
        (Mode::Autonomous, Target::Object(_))
        | (_, Target::ApplicationSet | Target::ClusterInfo | Target::Heartbeat) => false,
    }
}
