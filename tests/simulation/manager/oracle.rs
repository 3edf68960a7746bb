//! The judgement of a hub at rest, in words of its own.

use serde_json::Value;

use super::World;
use super::api::is_deleting;
use super::ledger::{OWN, holder, pod_of};
use super::ocm::{ADDON, WORKS};
use super::people::{CONFIGS, Intent, People, REQUESTS};

impl World {
    /// Everything that is wrong, with the last request of each cluster.
    pub(super) fn judge(&self, asked: &[(Intent, String)]) -> Vec<String> {
        let mut findings = vec![];
        for (intent, request) in asked {
            let mut wrong = self.add_on_is_wrong(intent);
            wrong.extend(self.objects_are_wrong(intent));
            wrong.extend(self.certificate_is_wrong(intent, request));
            let name = &intent.name;
            findings.extend(wrong.into_iter().map(|it| format!("{name}: {it}")));
        }
        for (request, how) in self.ledger.forgeries() {
            if self.is_granted(&request) {
                findings.push(format!("a request {how} was granted: {request}"));
            }
        }
        findings.extend(self.leader_is_wrong());
        findings
    }

    fn add_on_is_wrong(&self, intent: &Intent) -> Vec<String> {
        let Some(add_on) = self.people.add_on(&intent.name) else {
            let wanted = intent.wants_it().then_some("it has no ManagedClusterAddOn");
            return wanted.map(str::to_owned).into_iter().collect();
        };
        if !intent.wants_it() {
            return vec!["its ManagedClusterAddOn is left".to_owned()];
        }
        let mut wrong = vec![];
        let annotations = &add_on["metadata"]["annotations"];
        let of = |name: &str| annotations[People::annotation(name)].as_str();
        let mode = match intent.label {
            Some(label) if !intent.by_hand => label,
            _by_hand => "managed",
        };
        if of("mode") != Some(mode) {
            wrong.push(format!("its mode is {:?} and should be {mode}", of("mode")));
        }
        if of("made-for-label").is_some() == intent.by_hand {
            wrong.push("its ManagedClusterAddOn has another maker".to_owned());
        }
        match (of("revoked").is_some(), intent.revoked) {
            (true, false) => wrong.push("its agent was restored and is revoked".to_owned()),
            (false, true) => wrong.push("its agent was revoked and is not".to_owned()),
            (true, true) | (false, false) => {}
        }
        if is_deleting(&add_on) {
            wrong.push("the deletion of its ManagedClusterAddOn never ends".to_owned());
        }
        wrong
    }

    /// The name of the node pool that the configuration of a cluster asks for.
    fn pool(&self, add_on: &Value) -> String {
        let own = add_on["spec"]["configs"].as_array();
        let own = own.and_then(|it| it.first());
        let of = |it: &Value, part: &str| it[part].as_str().unwrap_or_default().to_owned();
        let (namespace, name) = match own {
            Some(own) => (of(own, "namespace"), of(own, "name")),
            None => (OWN.to_owned(), ADDON.to_owned()),
        };
        let config = self.api.get(CONFIGS, &namespace, &name);
        let pool = config.map(|it| it["spec"]["nodePlacement"]["nodeSelector"]["pool"].clone());
        pool.unwrap_or_default().to_string()
    }

    /// The works and the cluster Secret.
    fn objects_are_wrong(&self, intent: &Intent) -> Vec<String> {
        let (mut wrong, name) = (vec![], &intent.name);
        let works = self.api.list(WORKS, name);
        let secret = self
            .api
            .get("secrets", "argocd", &format!("cluster-{name}"));
        let add_on = self.people.add_on(name);
        match (&secret, intent.wants_it()) {
            (None, true) => wrong.push("it has no cluster Secret".to_owned()),
            (Some(_), false) => wrong.push("its cluster Secret is left".to_owned()),
            (Some(_), true) | (None, false) => {}
        }
        let Some(add_on) = add_on.filter(|_| intent.wants_it()) else {
            let left = works
                .iter()
                .map(|(key, _)| format!("a work is left: {key:?}"));
            wrong.extend(left);
            return wrong;
        };
        let pool = format!("\"pool\":{}", self.pool(&add_on));
        let deploys = works.iter().any(|(_, work)| {
            work.to_string().contains(&pool) && work["status"]["conditions"].is_array()
        });
        if !deploys {
            wrong.push(format!("no work has {pool}"));
        }
        if works.iter().any(|(_, work)| is_deleting(work)) {
            wrong.push("the deletion of a work never ends".to_owned());
        }
        wrong
    }

    fn is_granted(&self, request: &str) -> bool {
        let request = self.api.get(REQUESTS, "", request);
        request.is_some_and(|it| {
            let approved = it["status"]["conditions"].as_array();
            !it["status"]["certificate"].is_null() || approved.is_some_and(|all| !all.is_empty())
        })
    }

    fn certificate_is_wrong(&self, intent: &Intent, request: &str) -> Option<String> {
        let is_right = intent.wants_it() && !intent.revoked;
        match (self.is_granted(request), is_right) {
            (true, false) => Some("it got a certificate and should not".to_owned()),
            (false, true) => Some("it got no certificate".to_owned()),
            (true, true) | (false, false) => None,
        }
    }

    /// The Service selects one Pod, that of the leader.
    fn leader_is_wrong(&self) -> Option<String> {
        let holder = holder(&self.api);
        let leads = holder.as_deref().map(pod_of);
        let label = People::annotation("active");
        let active = self.api.list("pods", OWN).into_iter();
        let active = active.filter(|(_, pod)| pod["metadata"]["labels"][&label] == "true");
        let active: Vec<String> = active.map(|(key, _)| key.2).collect();
        let is_right = leads.is_some() && active.iter().map(String::as_str).eq(leads);
        (!is_right).then(|| format!("{leads:?} leads, and the Service selects {active:?}"))
    }
}
