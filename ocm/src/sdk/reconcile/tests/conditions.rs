//! The conditions of an add-on after a sequence of reports, on an API server that tracks field managers.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Mutex,
};

use http::Method;
use serde_json::{Value, json};

use super::*;
use crate::{
    api::{addon::ManagedClusterAddOn, cluster::ManagedCluster},
    condition::Status,
    sdk::Health,
};
use samples::read_addon;

/// The conditions of one add-on, and their field managers. A condition without a manager is removed.
#[derive(Default)]
struct Kept {
    version: usize,
    writes: usize,
    conditions: Vec<Value>,
    managers: BTreeMap<String, BTreeSet<String>>,
}

fn kind(condition: &Value) -> String {
    condition["type"].as_str().unwrap().to_owned()
}

impl Kept {
    fn write(&mut self, manager: &str, applied: bool, body: &Value) -> u16 {
        let under = body["metadata"]["resourceVersion"].as_str();
        if under.is_some_and(|it| it != self.version.to_string()) {
            return 409;
        }
        let conditions = body["status"]["conditions"].as_array().unwrap();
        let kinds: BTreeSet<_> = conditions.iter().map(kind).collect();
        let manager = manager.to_owned();
        if applied {
            let before = self.managers.insert(manager, kinds.clone());
            let before = before.unwrap_or_default();
            let owned = |it: &String| self.managers.values().any(|all| all.contains(it));
            let gone: BTreeSet<_> = before.into_iter().filter(|it| !owned(it)).collect();
            let stays = |it: &Value| !kinds.contains(&kind(it)) && !gone.contains(&kind(it));
            self.conditions.retain(stays);
            self.conditions.extend(conditions.iter().cloned());
        } else {
            for set in self.managers.values_mut() {
                set.retain(|it| kinds.contains(it));
            }
            self.managers.entry(manager).or_default().extend(kinds);
            self.conditions.clone_from(conditions);
        }
        self.version += 1;
        self.writes += 1;
        200
    }

    /// Sets `Available` as OCM does for a lost cluster.
    fn lose(&mut self) {
        let verdict = Verdict::new("Available", Status::Unknown, "Lost", "");
        let unknown = json!(verdict.onto(&[], Timestamp::UNIX_EPOCH));
        self.conditions.retain(|it| kind(it) != "Available");
        self.conditions.push(unknown);
        self.version += 1;
    }

    fn addon(&self) -> ManagedClusterAddOn {
        read_addon(json!({
            "apiVersion": "addon.open-cluster-management.io/v1beta1",
            "kind": "ManagedClusterAddOn",
            "metadata": {
                "name": "a", "namespace": "c", "uid": "u", "resourceVersion": self.version.to_string(),
            },
            "spec": {},
            "status": { "conditions": self.conditions },
        }))
    }

    fn kinds(&self) -> Vec<String> {
        let kinds: BTreeSet<_> = self.conditions.iter().map(kind).collect();
        kinds.into_iter().collect()
    }
}

async fn answer(kept: Arc<Mutex<Kept>>, request: Request<Body>) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let is_status = parts.method == Method::PATCH && parts.uri.path().ends_with("/a/status");
    let code = if is_status {
        let body = body.collect_bytes().await.unwrap();
        let body = serde_json::from_slice(&body).unwrap();
        let mut query = parts.uri.query().unwrap_or_default().split('&');
        let manager = query.find_map(|it| it.strip_prefix("fieldManager="));
        let applied = parts.headers["content-type"] == "application/apply-patch+yaml";
        kept.lock().unwrap().write(manager.unwrap(), applied, &body)
    } else {
        403
    };
    let reply = if code == 200 {
        json!(kept.lock().unwrap().addon())
    } else {
        let reason = if code == 409 { "Conflict" } else { "Forbidden" };
        json!({
            "kind": "Status", "metadata": {}, "status": "Failure",
            "message": "", "reason": reason, "code": code,
        })
    };
    let body = Body::from(serde_json::to_vec(&reply).unwrap());
    Response::builder().status(code).body(body).unwrap()
}

fn kept() -> (Hub<Author>, Arc<Mutex<Kept>>) {
    let kept = Arc::<Mutex<Kept>>::default();
    let server = Arc::clone(&kept);
    let service = move |request| {
        let answer = answer(Arc::clone(&server), request);
        async move { Ok::<_, Infallible>(answer.await) }
    };
    let client = Client::new(tower::service_fn(service), "default");
    (hub_of(client), kept)
}

/// Writes a report with these verdicts for an observed add-on.
async fn write(
    hub: &Hub<Author>,
    seen: &ManagedClusterAddOn,
    lost: bool,
    verdicts: &[(&str, bool)],
) -> Result<(), Error> {
    let verdicts = verdicts.iter();
    let verdicts = verdicts.map(|(kind, status)| Verdict::new(*kind, *status, "R", ""));
    *hub.addon.health.lock().unwrap() = Health {
        verdicts: verdicts.collect(),
        ..Health::default()
    };
    let mut cluster = ManagedCluster::default();
    if lost {
        let verdict = Verdict::new(
            crate::condition::cluster::AVAILABLE,
            Status::Unknown,
            "R",
            "",
        );
        let unknown = verdict.onto(&[], Timestamp::UNIX_EPOCH);
        cluster.status.get_or_insert_default().conditions = vec![unknown];
    }
    let name = cluster_name();
    let target = Target {
        name: &name,
        cluster: &cluster,
        addon: seen,
    };
    let facts = Facts {
        settled: true,
        ..Facts::default()
    };
    let one = Reconcile {
        hub,
        name: &name,
        observed: &Observed::default(),
        now: Timestamp::UNIX_EPOCH,
    };
    one.write_report(target, &facts).await.map(drop)
}

#[tokio::test]
async fn dropped_conditions_disappear_and_available_stays() {
    let (hub, kept) = kept();
    let now_reports = async |lost: bool, verdicts: &[(&str, bool)]| {
        let seen = kept.lock().unwrap().addon();
        write(&hub, &seen, lost, verdicts).await.unwrap();
        let kept = kept.lock().unwrap();
        (kept.writes, kept.kinds())
    };
    let well = [("Available", true), ("Own", true)];
    let all = ["Available", "ManifestApplied", "Own"].map(str::to_owned);
    assert_eq!(now_reports(false, &well).await, (1, all.to_vec()));
    assert_eq!(now_reports(false, &well).await, (1, all.to_vec()));

    let troubled = [("Available", true), ("Degraded", true)];
    let without = ["Available", "Degraded", "ManifestApplied"].map(str::to_owned);
    assert_eq!(now_reports(false, &troubled).await, (2, without.to_vec()));

    // `Available` that OCM set for a lost cluster stays as it is.
    kept.lock().unwrap().lose();
    let over = [("Available", true), ("Degraded", false)];
    assert_eq!(now_reports(true, &over).await, (3, without.to_vec()));
    let available = || {
        let kept = kept.lock().unwrap();
        let mut all = kept.conditions.iter();
        all.find(|it| kind(it) == "Available").unwrap()["status"].clone()
    };
    assert_eq!(available(), "Unknown");
    assert_eq!(now_reports(false, &over).await, (4, without.to_vec()));
    assert_eq!(available(), "True");

    // Changes of both conditions are one write.
    let gone = [("Available", false), ("Degraded", true)];
    assert_eq!(now_reports(false, &gone).await, (5, without.to_vec()));
    assert_eq!(available(), "False");
    assert_eq!(now_reports(false, &gone).await, (5, without.to_vec()));
}

#[tokio::test]
async fn available_does_not_overwrite_a_concurrent_write() {
    let (hub, kept) = kept();
    let seen = kept.lock().unwrap().addon();
    kept.lock().unwrap().lose();
    let result = write(&hub, &seen, false, &[("Available", true)]).await;
    assert!(result.unwrap_err().is_conflict());
    assert_eq!(kept.lock().unwrap().kinds(), ["Available"]);
}
