//! At the end of a history: an API server refuses one object for as long as it is like this.

use std::time::Duration;

use argocd::{Meta, keys};
use principal::Key;
use principal::store::Watched;
use protocol::{Kind, ObjectKey};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::World;
use super::site::Site;
use crate::fault::Fault;
use crate::oracle::{Oracle, cluster_of};
use crate::process::{ARGOCD, TEAM};
use crate::refusals::{Answer, Refusal};

/// By then a change has arrived, and a refusal is reported.
const SOON: Duration = Duration::from_secs(30);

impl World {
    /// The refused object is reported, the others arrive, and when the API takes it again a change arrives, too.
    pub(super) async fn refuse_for_good(&mut self) -> Vec<String> {
        let spokes = self.spokes();
        let delivered = Oracle::new(&self.hub.inner, &spokes, self.network.witness()).delivered();
        let there = delivered.into_iter();
        let there: Vec<(Key, Value)> = there
            .filter(|(_, app)| !Meta::of(app).is_deleting())
            .collect();
        if there.is_empty() {
            return vec![];
        }
        let (refused, app) = self.dice.pick(&there).clone();
        let Some(cluster) = cluster_of(&refused, &app, &self.names()) else {
            return vec![];
        };
        let mut findings = self.while_refused(&there, &refused, &cluster).await;
        let of_name = |(key, _): &&(Key, Value)| key.name == refused.name;
        let again: Vec<Key> = there
            .iter()
            .filter(of_name)
            .map(|it| it.0.clone())
            .collect();
        findings.extend(self.once_accepted(&again, &refused, &cluster).await);
        findings
    }

    /// The API of the cluster refuses one of these Applications, and users change all.
    async fn while_refused(
        &mut self,
        there: &[(Key, Value)],
        refused: &Key,
        cluster: &str,
    ) -> Vec<String> {
        let answer = *self.dice.pick(&Answer::FINAL);
        self.trace
            .emit(format_args!("{cluster} refuses {refused}: {answer:?}"));
        let refusal = Refusal {
            answer,
            name: (self.fault != Fault::RefusesAll).then(|| refused.name.clone()),
            often: 1.0,
            until: Instant::now() + Duration::from_hours(24),
        };
        self.site(cluster).store.refusals.set(Some(refusal));
        let mut findings = vec![];
        let mut paths = vec![];
        for (key, _) in there {
            paths.push((key.clone(), self.people.set_path(key)));
        }
        tokio::time::sleep(SOON).await;
        for (key, path) in paths.iter().filter(|(key, _)| key.name != refused.name) {
            if !self.has_path(key, path) {
                findings.push(format!("{key} waits while {cluster} refuses {refused}"));
            }
        }
        if self.fault == Fault::SilentRefusal {
            let nothing = json!({ "status": { "conditions": null } });
            let (namespace, name) = (&refused.namespace, &refused.name);
            let hub = &self.hub.inner;
            hub.edit(Watched::Application, namespace, name, nothing);
        }
        let shown = self.condition(refused);
        if !shown
            .as_ref()
            .is_some_and(|it| it.contains(answer.message()))
        {
            findings.push(format!(
                "{refused} is refused, and its condition is {shown:?}"
            ));
        }
        if !self.reports_refusals(cluster) {
            findings.push(format!(
                "{cluster} refuses {refused}, and its report is silent"
            ));
        }
        findings
    }

    /// The API takes the Applications of this name again.
    async fn once_accepted(&mut self, again: &[Key], refused: &Key, cluster: &str) -> Vec<String> {
        let mut findings = vec![];
        if self.fault != Fault::StillRefused {
            self.site(cluster).store.refusals.set(None);
        }
        let mut paths = vec![];
        for key in again {
            paths.push((key, self.people.set_path(key)));
        }
        tokio::time::sleep(SOON).await;
        for (key, path) in paths.iter().filter(|(key, path)| !self.has_path(key, path)) {
            findings.push(format!("{key} is accepted again, and is not like {path}"));
        }
        findings.extend(self.settle("after a refusal").await);
        let shown = self.condition(refused);
        if shown.is_some() || self.reports_refusals(cluster) {
            findings.push(format!(
                "{refused} is accepted again, and its condition is {shown:?}"
            ));
        }
        findings.extend(self.oracle_findings());
        findings
    }

    fn site(&self, cluster: &str) -> &Site {
        let site = self.sites.iter().find(|site| site.name == cluster);
        site.expect("a site for each cluster")
    }

    /// Whether the copy of this Application has this path.
    fn has_path(&self, key: &Key, path: &str) -> bool {
        let (hub, clusters) = (&self.hub.inner, self.names());
        let app = hub.application(&key.namespace, &key.name);
        let app = app.unwrap_or_default();
        let Some(cluster) = cluster_of(key, &app, &clusters) else {
            return false;
        };
        let namespace = if key.namespace == TEAM { TEAM } else { ARGOCD };
        let copy = ObjectKey::new(Kind::Application, namespace, &key.name);
        let copy = self.site(&cluster).store.inner.get(&copy);
        copy.is_some_and(|copy| copy["spec"]["source"]["path"] == path)
    }

    /// The message of the condition about an error on the cluster.
    fn condition(&self, key: &Key) -> Option<String> {
        let apps = self.hub.inner.all(Watched::Application);
        let conditions = apps.get(key)?["status"]["conditions"].as_array()?;
        let error = conditions
            .iter()
            .find(|it| it["type"] == keys::CONDITION_ERROR)?;
        Some(error["message"].as_str().unwrap_or_default().to_owned())
    }

    fn reports_refusals(&self, cluster: &str) -> bool {
        let principal = self.principal.as_ref();
        let reports = principal.map(|principal| principal.handle.sessions.borrow().clone());
        let report = reports.as_ref().and_then(|all| all.get(cluster));
        report.is_some_and(|report| report.refused.is_some())
    }
}
