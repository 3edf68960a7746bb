//! `status --applications`: every Application that needs a look, with the cause. Pure.

use diagnosis::status::Troubles;

use crate::output::{Format, Mood, Place, View, age, draw, or_nothing, warnings};

impl View for Troubles {
    fn text(&self, place: Place) -> String {
        let silent = warnings(&self.silent, place.colours);
        if self.applications.is_empty() {
            return "no Application needs attention\n".to_owned() + &silent;
        }
        let wide = place.format == Format::Wide;
        let mut header = vec!["APPLICATION", "CLUSTER", "REASON", "AGE"];
        if wide {
            header.extend(["SINCE", "SYNC", "HEALTH"]);
        }
        header.push("WHAT");
        let rows = self.applications.iter().map(|it| {
            let mut cells = vec![
                format!("{}/{}", it.namespace, it.name),
                or_nothing(it.cluster.as_ref()),
                it.reason.clone(),
                or_nothing(it.since.map(|at| age(at, place.now))),
            ];
            if wide {
                cells.extend([
                    or_nothing(it.since.map(|at| format!("{at:.0}"))),
                    or_nothing(it.sync.as_ref()),
                    or_nothing(it.health.as_ref()),
                ]);
            }
            cells.push(it.cause.clone());
            (Mood::Bad, cells)
        });
        let next = "\nNext: run argocd-agentctl why APPLICATION for the next step of each\n";
        draw(&header, rows, place.colours) + next + &silent
    }
}

#[cfg(test)]
mod tests;
