//! The plan as text for people.

use super::{Fate, Named, Plan, Row, State};
use crate::output::{Format, Mood, NOTHING, Place, View, draw, or_nothing, warnings, word};

impl View for Plan {
    fn text(&self, place: Place) -> String {
        let wide = place.format == Format::Wide;
        if self.clusters.is_empty() {
            return "no cluster Secret in the namespace of Argo CD; nothing to adopt\n".to_owned();
        }
        let mut text = clusters(&self.clusters, wide, place.colours);
        let shown = |it: &&Named| wide || it.fate != Fate::Reached;
        let shown: Vec<_> = self.applications.iter().filter(shown).collect();
        if !shown.is_empty() {
            text.push('\n');
            text.push_str(&applications(&shown, place.colours));
        }
        for finding in &self.hub {
            let next = finding.next.as_deref().unwrap_or(NOTHING);
            let (check, cause) = (finding.check, &finding.cause);
            let line = format!("Obstacle for all clusters: {check}: {cause}; {next}");
            text += &warnings([&line], place.colours);
        }
        text
    }
}

fn clusters(rows: &[Row], wide: bool, colours: bool) -> String {
    let mut header = vec!["SECRET", "KIND", "CLUSTER", "APPS", "STATE", "WHAT"];
    if wide {
        header.extend(["NAME", "SERVER"]);
    }
    let rows = rows.iter().map(|row| {
        let is_blocked = row.state == State::Blocked;
        let mut cells = vec![
            row.secret.clone(),
            word(row.kind),
            or_nothing(row.cluster.as_ref()),
            row.applications.to_string(),
            word(row.state),
            remark(row),
        ];
        if wide {
            cells.extend([row.name.clone(), row.server.clone()]);
        }
        (if is_blocked { Mood::Bad } else { Mood::Calm }, cells)
    });
    draw(&header, rows, colours)
}

fn remark(row: &Row) -> String {
    match (row.in_the_way.is_empty(), &row.afterwards, row.state) {
        (false, ..) => row.in_the_way.join("; "),
        (true, Some(left), State::Adopted) => left.clone(),
        (true, Some(left), State::Ready | State::OptedIn) => format!("afterwards {left}"),
        (true, _, State::Blocked) => "see below".to_owned(),
        (true, ..) => NOTHING.to_owned(),
    }
}

fn applications(all: &[&Named], colours: bool) -> String {
    let rows = all.iter().map(|it| {
        let mood = match it.fate {
            Fate::Reached => Mood::Calm,
            Fate::Change => Mood::Warning,
            Fate::Blocked => Mood::Bad,
        };
        let (application, cluster) = (it.application.clone(), it.cluster.clone());
        let set = it
            .made_by
            .iter()
            .map(|set| format!(" in the template of ApplicationSet {set}"));
        let remark = match (&it.why, it.fate) {
            (Some(why), _) => why.clone(),
            (None, Fate::Change) => format!(
                "set spec.destination.name to {cluster}, and remove spec.destination.server{}",
                set.collect::<String>()
            ),
            (None, Fate::Reached | Fate::Blocked) => NOTHING.to_owned(),
        };
        (mood, vec![application, cluster, word(it.fate), remark])
    });
    let header = ["APPLICATION", "CLUSTER", "BECOMES", "WHAT"];
    draw(&header, rows, colours)
}
