//! `why`: the hops of one Application as a table, and the next step. Pure.

use diagnosis::why::{State, Why};
use jiff::Timestamp;

use crate::output::{Mood, Place, View, age, draw, one_line, or_nothing, paint, word};

impl View for Why {
    fn text(&self, place: Place) -> String {
        let at = |at: Option<Timestamp>| or_nothing(at.map(|at| age(at, place.now)));
        let to = self
            .cluster
            .iter()
            .map(|cluster| format!(", cluster {cluster}"));
        let to: String = to.collect();
        let mut text = format!("Application {}/{}{to}\n\n", self.namespace, self.name);
        let hops = self.hops.iter().map(|hop| {
            let cells = [
                hop.hop.to_owned(),
                word(hop.state),
                at(hop.at),
                hop.text.clone(),
            ];
            (mood(hop.state), cells.to_vec())
        });
        text += &draw(&["HOP", "STATE", "AGE", "WHAT"], hops, place.colours);
        let writers = self.writers.iter().map(|writer| {
            let cells = [
                writer.manager.clone(),
                at(writer.at),
                writer.wrote.join(", "),
            ];
            (Mood::Calm, cells.to_vec())
        });
        text += "\n";
        text += &draw(&["WRITER", "AGE", "WROTE"], writers, place.colours);
        let doubts = self.doubts.iter();
        text.extend(doubts.map(|doubt| format!("\nNot known: {doubt}\n")));
        let next = self.next.as_deref().unwrap_or("nothing to do");
        let next = paint(&one_line(next), mood(self.verdict), place.colours);
        text + &format!("\nNext: {next}\n")
    }
}

const fn mood(state: State) -> Mood {
    match state {
        State::Good => Mood::Calm,
        State::Unclear | State::Waiting => Mood::Warning,
        State::Bad => Mood::Bad,
    }
}

#[cfg(test)]
mod tests;
