//! `agent list`: who may come in, and with what. Pure.

use diagnosis::{
    facts::Addon,
    status::{Connected, Connection, connected},
};
use jiff::Timestamp;
use serde::Serialize;

use crate::{
    output::{Mood, Place, View, draw, name, or_nothing},
    status::{connection, empty_fleet},
};

/// All agents.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Agents {
    /// By cluster.
    pub agents: Vec<Agent>,
}

/// One agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Agent {
    /// Its cluster.
    pub cluster: String,
    /// Its mode.
    pub mode: Option<String>,
    /// Its version.
    pub version: Option<String>,
    /// Whether it is connected.
    pub connected: Connected,
    /// Why it was revoked, if it was.
    pub revoked: Option<String>,
    /// The name of its key, if a person had it changed.
    pub key: Option<String>,
    /// When its certificate ends.
    pub certificate_expires: Option<Timestamp>,
}

/// The agents of all clusters with the add-on.
pub fn agents(addons: &[Addon]) -> Agents {
    let agent = |addon: &Addon| Agent {
        cluster: addon.cluster.clone(),
        mode: addon.mode.clone(),
        version: addon.version(),
        connected: connected(addon),
        revoked: addon.revoked.clone(),
        key: addon.rekey.clone(),
        certificate_expires: addon.certificate_expires(),
    };
    let mut agents: Vec<_> = addons.iter().map(agent).collect();
    agents.sort_by(|a, b| a.cluster.cmp(&b.cluster));
    Agents { agents }
}

impl View for Agents {
    fn text(&self, place: Place) -> String {
        if self.agents.is_empty() {
            return empty_fleet();
        }
        let rows = self.agents.iter().map(|agent| {
            let mood = match (&agent.revoked, agent.connected.state) {
                (Some(_), _) => Mood::Bad,
                (None, Connection::Yes | Connection::Leaving) => Mood::Calm,
                (None, Connection::No | Connection::NotYet | Connection::Unknown) => Mood::Warning,
            };
            let let_in = match &agent.revoked {
                Some(reason) => format!("no, revoked: {reason}"),
                None => "yes".to_owned(),
            };
            let cells = vec![
                agent.cluster.clone(),
                or_nothing(agent.mode.as_ref()),
                or_nothing(agent.version.as_ref()),
                connection(agent.connected, place.now),
                or_nothing(agent.key.as_deref().map(name)),
                let_in,
            ];
            (mood, cells)
        });
        let header = ["CLUSTER", "MODE", "VERSION", "CONNECTED", "KEY", "LET IN"];
        draw(&header, rows, place.colours)
    }
}

#[cfg(test)]
mod tests;
