//! `status`: each cluster in one line. Pure.

mod tally;
mod troubles;

use argocd::keys::addon::MODE;
use diagnosis::status::{Cluster, Connected, Connection, Fleet};
use jiff::Timestamp;

use crate::output::{Format, Mood, Place, View, age, draw, left, or_nothing, warnings, word};
use tally::{all, detail, lag};

/// What an empty fleet says.
pub fn empty_fleet() -> String {
    format!(
        "no cluster has the add-on yet. To opt in: kubectl label managedcluster CLUSTER {MODE}=managed\n"
    )
}

impl View for Fleet {
    fn text(&self, place: Place) -> String {
        let silent = warnings(&self.silent, place.colours);
        if self.clusters.is_empty() {
            return empty_fleet() + &silent;
        }
        let wide = place.format == Format::Wide;
        let mut header = vec![
            "CLUSTER",
            "MODE",
            "VERSION",
            "CONNECTED",
            "APPS",
            "SYNCED",
            "HEALTHY",
            "LAG",
            "CERTIFICATE",
            "LAST ERROR",
        ];
        if wide {
            header.extend(["SINCE", "APPS IN DETAIL", "MESSAGE"]);
        }
        let rows = self.clusters.iter().map(|cluster| {
            let mood = match (cluster.connected.state, cluster.degraded) {
                (_, false) => Mood::Calm,
                (Connection::Yes | Connection::Leaving, true) => Mood::Warning,
                (Connection::No | Connection::NotYet | Connection::Unknown, true) => Mood::Bad,
            };
            (mood, row(cluster, wide, place.now))
        });
        // The table has no place for the next step of a label.
        let errors = self.clusters.iter().filter_map(|it| it.last_error.as_ref());
        let labels = errors.filter(|it| it.condition == MODE && !wide);
        let labels = warnings(labels.map(|it| &it.message), place.colours);
        draw(&header, rows, place.colours) + &labels + &silent
    }
}

fn row(cluster: &Cluster, wide: bool, now: Timestamp) -> Vec<String> {
    let (applications, error) = (&cluster.applications, cluster.last_error.as_ref());
    let mut cells = vec![
        cluster.name.clone(),
        or_nothing(cluster.mode.as_ref()),
        or_nothing(cluster.version.as_ref()),
        connection(cluster.connected, now),
        all(applications),
        applications.synced().to_string(),
        applications.healthy().to_string(),
        lag(applications, now),
        or_nothing(cluster.certificate_expires.map(|until| left(until, now))),
        or_nothing(error.map(|it| &it.reason)),
    ];
    if wide {
        cells.extend([
            or_nothing(cluster.connected.since.map(|at| format!("{at:.0}"))),
            detail(applications),
            or_nothing(error.map(|it| &it.message)),
        ]);
    }
    cells
}

/// A connection in words, and for how long it is so.
pub fn connection(connected: Connected, now: Timestamp) -> String {
    let state = word(connected.state);
    match connected.since {
        Some(since) if connected.state != Connection::NotYet => {
            format!("{state} ({})", age(since, now))
        }
        _ => state,
    }
}

#[cfg(test)]
mod tests;
