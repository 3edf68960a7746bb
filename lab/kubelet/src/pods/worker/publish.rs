//! Publishes the state of the containers for requests of logs and commands.

use kube::ResourceExt;

use super::{State, Worker};
use crate::running::{Here, Inside, Key, Turn};

impl Worker {
    /// Publishes the state of the containers.
    pub(super) fn publish(&self) {
        if self.gone {
            return self.unpublish();
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
        self.shared.running.set(self.key(), here);
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

    /// Removes this Pod from the published state.
    pub(super) fn unpublish(&self) {
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
