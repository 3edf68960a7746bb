//! What the condition `Available` of an add-on says of its agent: written by the hub program, and read by its command line.

use crate::claim;

/// Connected, and its Deployment is available.
pub const AGENT_CONNECTED: &str = "AgentConnected";
/// The objects are not on the cluster.
pub const AGENT_NOT_DEPLOYED: &str = "AgentNotDeployed";
/// The Deployment is there and has no ready pod.
pub const AGENT_UNAVAILABLE: &str = "AgentUnavailable";
/// The pod runs and has never been here.
pub const AGENT_NEVER_CONNECTED: &str = "AgentNeverConnected";
/// It has been here and is away.
pub const AGENT_DISCONNECTED: &str = "AgentDisconnected";

const WORKS: &str = "the agent is connected and running";
/// What stands before its version.
const VERSION: &str = ", version ";

/// The message about an agent that works: with the version that it claims, so that nobody has to ask it.
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
    fn the_version_of_an_agent_that_works_is_read_as_it_was_written() {
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
