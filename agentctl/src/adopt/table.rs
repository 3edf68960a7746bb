//! The plan as text for people.

use super::{Fate, Kind, Named, Plan, Row, State};
use crate::output::{Format, Mood, NOTHING, Place, View, draw, one_line, or_nothing, warnings};

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
        let (state, mood) = match row.state {
            State::Stays => ("stays", Mood::Calm),
            State::Adopted => ("adopted", Mood::Calm),
            State::OptedIn => ("opted in", Mood::Calm),
            State::Ready => ("ready", Mood::Calm),
            State::Blocked => ("blocked", Mood::Bad),
        };
        let kind = match row.kind {
            Kind::Hub => "hub",
            Kind::Push => "push",
            Kind::Agent => "agent",
        };
        let cluster = or_nothing(row.cluster.as_ref());
        let count = row.applications.to_string();
        let mut cells = vec![row.secret.clone(), kind.to_owned(), cluster, count];
        cells.extend([state.to_owned(), one_line(&remark(row))]);
        if wide {
            cells.extend([row.name.clone(), row.server.clone()]);
        }
        (mood, cells)
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
        let (fate, mood) = match it.fate {
            Fate::Reached => ("reached", Mood::Calm),
            Fate::Change => ("change", Mood::Warning),
            Fate::Blocked => ("held", Mood::Bad),
        };
        let place = it.made_by.as_ref().map_or_else(String::new, |set| {
            format!(" in the template of ApplicationSet {set}")
        });
        let remark = match (&it.why, it.fate) {
            (Some(why), _) => one_line(why),
            (None, Fate::Change) => format!(
                "set spec.destination.name to {}, and remove spec.destination.server{place}",
                it.cluster
            ),
            (None, Fate::Reached | Fate::Blocked) => NOTHING.to_owned(),
        };
        let cells = vec![
            it.application.clone(),
            it.cluster.clone(),
            fate.to_owned(),
            remark,
        ];
        (mood, cells)
    });
    draw(
        &["APPLICATION", "CLUSTER", "BECOMES", "WHAT"],
        rows,
        colours,
    )
}
