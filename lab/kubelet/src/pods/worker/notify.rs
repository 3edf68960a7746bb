//! What a worker tells those who are asked for logs and commands.

use kube::ResourceExt;

use super::{State, Worker};
use crate::running::{Here, Inside, Key, Turn};

impl Worker {
    /// Tells how far the containers have come.
    pub(super) fn notify(&self) {
        if self.gone {
            return self.fall_silent();
        }
        let turns = self.records.iter().map(|(name, record)| {
            let turn = Turn {
                runs: record.runs,
                alive: record.is_alive(),
                inside: self.inside(name, &record.state),
            };
            (name.clone(), turn)
        });
        let here = Here {
            uid: self.pod.uid().unwrap_or_default(),
            containers: turns.collect(),
        };
        self.shared.running.notify(self.key(), here);
    }

    fn inside(&self, container: &str, state: &State) -> Option<Inside> {
        let State::Running { process, .. } = state else {
            return None;
        };
        let alive = self.alive.get(container)?;
        Some(Inside {
            target: *process,
            process: alive.process.clone(),
        })
    }

    /// Nothing is known of this Pod any more.
    pub(super) fn fall_silent(&self) {
        let uid = self.pod.uid().unwrap_or_default();
        self.shared.running.forget(&self.key(), &uid);
    }

    fn key(&self) -> Key {
        Key {
            namespace: self.pod.namespace().unwrap_or_default(),
            pod: self.pod.name_any(),
        }
    }
}
