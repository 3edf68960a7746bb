//! Reasons and messages of an add-on's condition `Available`, which the hub program writes and the command line reads.

use crate::claim;

/// Connected, and its Deployment is available.
pub const AGENT_CONNECTED: &str = "AgentConnected";
/// The objects are not on the cluster.
pub const AGENT_NOT_DEPLOYED: &str = "AgentNotDeployed";
/// The Deployment exists and has no ready Pod.
pub const AGENT_UNAVAILABLE: &str = "AgentUnavailable";
/// The Pod runs and its agent has never connected.
pub const AGENT_NEVER_CONNECTED: &str = "AgentNeverConnected";
/// The agent was connected and is disconnected now.
pub const AGENT_DISCONNECTED: &str = "AgentDisconnected";

const WORKS: &str = "the agent is connected and running";
/// Precedes the version in the message.
const VERSION: &str = ", version ";

/// The message about a healthy agent, with the version that it claims.
pub fn works(version: Option<&str>) -> String {
    match version.and_then(claim::version) {
        Some(version) => format!("{WORKS}{VERSION}{version}"),
        None => WORKS.to_owned(),
    }
}

/// The version in such a message.
pub fn version(message: &str) -> Option<&str> {
    claim::version(message.strip_prefix(WORKS)?.strip_prefix(VERSION)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_in_the_message_round_trips() {
        assert_eq!(
            works(Some("0.1.0+ab-c")),
            "the agent is connected and running, version 0.1.0+ab-c"
        );
        for claimed in [Some("0.1.0+ab-c"), None] {
            assert_eq!(version(&works(claimed)), claimed);
        }
        assert_eq!(works(Some("a, version b")), WORKS);
        for other in ["last seen at noon, version 2", WORKS, "", ", version 1"] {
            assert_eq!(version(other), None, "{other}");
        }
    }
}
