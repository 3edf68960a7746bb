//! Deletes an add-on whose label is gone. If the configuration asks to keep Argo CD, the cluster must have applied that first.

use jiff::{SignedDuration, Timestamp};
use kube::{
    Api,
    api::{ApiResource, DynamicObject, ListParams},
    runtime::events::EventType,
};
use ocm::{
    api::{
        addon::{AddOnDeploymentConfig, AddOnDeploymentConfigSpec, ManagedClusterAddOn},
        work::ManifestWork,
    },
    keys as ocm_keys,
};
use runtime::clock::Clock;
use serde_json::json;

use super::{Done, Error, Writer};
use crate::{
    addon::argocd_install::{Decision, keep},
    api::{self, failed},
    keys,
    optin::plan::Leave,
};

/// How long a removal waits for the cluster.
const LIMIT: SignedDuration = SignedDuration::from_mins(5);

/// The next step of a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// Delete the add-on.
    Delete,
    /// Record that the removal waits.
    Begin,
    /// Wait.
    Wait,
    /// Report that Argo CD is lost, and delete the add-on.
    GiveUp,
}

/// The next step of a removal. `would_lose`: the cluster would delete an Argo CD that the configuration asks to keep.
fn next(leave: Leave, would_lose: bool, now: Timestamp) -> Next {
    if !would_lose {
        return Next::Delete;
    }
    if !leave.reachable {
        return Next::GiveUp;
    }
    let waited = leave.since.map(|since| now.duration_since(since));
    // A time in the future is of another clock.
    match waited.filter(|waited| !waited.is_negative()) {
        None => Next::Begin,
        Some(waited) if waited < LIMIT => Next::Wait,
        Some(_) => Next::GiveUp,
    }
}

impl Writer {
    /// Carries out the next step of a removal.
    pub(super) async fn leave(
        &self,
        cluster: &str,
        uid: &str,
        leave: Leave,
    ) -> Result<Done, Error> {
        let would_lose = self.would_lose(cluster, leave.installed).await?;
        let now = Clock::system().now();
        let about = self.reference(cluster, Some(uid.to_owned()));
        match next(leave, would_lose, now) {
            Next::Delete => self.delete(cluster, uid).await,
            Next::Wait => Ok(Done::Waits),
            Next::Begin => {
                let since = json!({ keys::KEEPING_SINCE: now.to_string() });
                let action = "record the removal of";
                let done = self.annotate(cluster, uid, &since, action).await?;
                if matches!(done, Done::Wrote(_)) {
                    let (kind, reason) = (EventType::Normal, "KeepingArgoCD");
                    self.emit_event(&about, cluster, kind, reason, &waits(cluster))
                        .await?;
                }
                Ok(done)
            }
            Next::GiveUp => {
                let (kind, reason) = (EventType::Warning, "ArgoCDNotKept");
                let message = given_up(leave.reachable);
                self.emit_event(&about, cluster, kind, reason, &message)
                    .await?;
                self.delete(cluster, uid).await
            }
        }
    }

    /// Whether the cluster would delete an Argo CD that the configuration asks to keep.
    ///
    /// Reads the hub and not the view: the view may show that the label is gone before it shows an earlier change of the
    /// configuration.
    async fn would_lose(&self, cluster: &str, installed: bool) -> Result<bool, Error> {
        let read = self.addons(cluster).get_opt(keys::ADDON).await;
        let read = read.map_err(failed("read the ManagedClusterAddOn of", cluster))?;
        let Some(addon) = read.map(|it| self.version.read_addon(it)) else {
            return Ok(false);
        };
        let decision = addon.annotation(keys::ARGOCD).and_then(Decision::read);
        let installed = installed || decision.is_some_and(Decision::installs_argocd);
        Ok(installed && self.asks_to_keep(cluster, &addon).await? && !self.keeps(cluster).await?)
    }

    async fn asks_to_keep(
        &self,
        cluster: &str,
        addon: &ManagedClusterAddOn,
    ) -> Result<bool, Error> {
        let resource = self.version.cluster_management_addons();
        let offers: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
        let offer = api::find(&offers, keys::ADDON).await;
        let offer = offer.map_err(failed("read the ClusterManagementAddOn of", cluster))?;
        let offer = offer.map(|it| self.version.read_offer(it));
        let named = keep::configuration(addon, offer.as_ref());
        let Some(named) = named.filter(|it| !it.namespace.is_empty()) else {
            return Ok(false);
        };
        let resource = ApiResource::erase::<AddOnDeploymentConfig>(&());
        let configs: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), &named.namespace, &resource);
        let config = configs.get_opt(&named.name).await;
        let config = config.map_err(failed("read the AddOnDeploymentConfig of", cluster))?;
        let spec = config.and_then(|it| it.data.get("spec").cloned());
        let spec = spec.and_then(|it| serde_json::from_value::<AddOnDeploymentConfigSpec>(it).ok());
        Ok(spec.is_some_and(|it| keep::is_asked(&it)))
    }

    async fn keeps(&self, cluster: &str) -> Result<bool, Error> {
        let resource = ApiResource::erase::<ManifestWork>(&());
        let works: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), cluster, &resource);
        let ours = format!("{}={}", ocm_keys::ADDON_NAME, keys::ADDON);
        let works = works.list(&ListParams::default().labels(&ours)).await;
        let works = works.map_err(failed("list the ManifestWorks of", cluster))?;
        Ok(keep::is_kept(&works.items))
    }
}

/// The message of the Event when a removal begins to wait.
fn waits(cluster: &str) -> String {
    format!(
        "the label is gone; the add-on is removed as soon as the cluster has applied KEEP_ARGOCD, and after 5 minutes in any \
        case; if it takes long, check the conditions ManifestApplied and Configured of this ManagedClusterAddOn; to remove it \
        at once, with Argo CD: clusteradm addon disable --names {} --clusters {cluster}",
        keys::ADDON
    )
}

/// The message of the Event when Argo CD does not stay.
fn given_up(reachable: bool) -> String {
    let why = if reachable {
        "the cluster has not applied that within 5 minutes"
    } else {
        "the hub has lost the cluster or does not accept it"
    };
    format!(
        "KEEP_ARGOCD is true, but {why}, so the cluster deletes the programs of Argo CD with the add-on; Applications and \
        their workloads stay; opt the cluster in again to install Argo CD again"
    )
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::{Arc, Mutex},
    };

    use http::{Method, Request, Response};
    use kube::{Client, client::Body};
    use ocm::api::addon::GROUP;
    use serde_json::Value;

    use super::*;
    use crate::{hub::DEPLOYMENT_CONFIGS, optin::apply::tests::writer};

    type Methods = Arc<Mutex<Vec<Method>>>;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    const fn leave(since: Option<Timestamp>, reachable: bool) -> Leave {
        Leave {
            since,
            reachable,
            installed: false,
        }
    }

    /// A hub where Argo CD was installed and does not stay, and the methods of the writes that it gets.
    fn hub(keep: &'static str) -> (Writer, Methods) {
        let methods = Methods::default();
        let written = Arc::clone(&methods);
        let service = tower::service_fn(move |request: Request<Body>| {
            let (method, path) = (request.method().clone(), request.uri().path());
            let answer = if method == Method::DELETE {
                json!({ "apiVersion": "v1", "kind": "Status", "status": "Success" })
            } else {
                answer(path, keep)
            };
            if method != Method::GET {
                written.lock().unwrap().push(method);
            }
            let body = Body::from(answer.to_string().into_bytes());
            std::future::ready(Ok::<_, Infallible>(Response::new(body)))
        });
        (writer(Client::new(service, "default")), methods)
    }

    fn answer(path: &str, keep: &str) -> Value {
        if path.ends_with("/manifestworks") {
            let object = json!({ "metadata": { "labels": { keys::INSTALLED: "true" } } });
            let work = json!({
                "metadata": { "name": "w", "generation": 1 },
                "spec": { "workload": { "manifests": [object] } },
            });
            return json!({ "metadata": {}, "items": [work] });
        }
        if path.ends_with("/clustermanagementaddons") {
            return json!({ "metadata": {}, "items": [] });
        }
        if path.ends_with("/namespaces/c/addondeploymentconfigs/own") {
            let variables = json!([{ "name": "KEEP_ARGOCD", "value": keep }]);
            return json!({
                "metadata": { "name": "own" }, "spec": { "customizedVariables": variables },
            });
        }
        let config = json!({
            "group": GROUP, "resource": DEPLOYMENT_CONFIGS, "namespace": "c", "name": "own",
        });
        json!({
            "metadata": {
                "name": keys::ADDON, "resourceVersion": "7",
                "annotations": { keys::ARGOCD: "brought" },
            },
            "spec": { "configs": [config] },
        })
    }

    /// Neither the view nor the status of the `ManagedClusterAddOn` shows the configuration yet.
    #[tokio::test]
    async fn configuration_on_the_hub_decides_whether_a_removal_waits() {
        let gone = || Done::Gone("uid".to_owned());
        let begun = Done::Wrote("7".to_owned());
        let now = Some(Clock::system().now());
        let (patch, post, delete) = (Method::PATCH, Method::POST, Method::DELETE);
        let cases = [
            ("true", leave(None, true), begun, vec![&patch, &post]),
            ("true", leave(now, true), Done::Waits, vec![]),
            (
                "true",
                leave(Some(at(0)), true),
                gone(),
                vec![&post, &delete],
            ),
            ("true", leave(None, false), gone(), vec![&post, &delete]),
            ("false", leave(None, true), gone(), vec![&delete]),
            ("false", leave(now, true), gone(), vec![&delete]),
        ];
        for (keep, leave, expected, writes) in cases {
            let (writer, methods) = hub(keep);
            let done = writer.leave("c", "uid", leave).await.unwrap();
            assert_eq!(done, expected, "{leave:?}");
            let methods = methods.lock().unwrap().clone();
            assert_eq!(methods.iter().collect::<Vec<_>>(), writes, "{leave:?}");
        }
    }

    #[test]
    fn removal_waits_for_a_reachable_cluster_and_five_minutes_at_most() {
        let now = at(1000);
        let cases = [
            (None, Next::Begin),
            (Some(1001), Next::Begin),
            (Some(1000), Next::Wait),
            (Some(701), Next::Wait),
            (Some(700), Next::GiveUp),
            (Some(0), Next::GiveUp),
        ];
        for (since, expected) in cases {
            let since = since.map(at);
            assert_eq!(next(leave(since, true), true, now), expected, "{since:?}");
            assert_eq!(next(leave(since, false), true, now), Next::GiveUp);
            for reachable in [true, false] {
                assert_eq!(next(leave(since, reachable), false, now), Next::Delete);
            }
        }
    }

    #[test]
    fn recorded_time_is_read_back() {
        let now = Clock::system().now();
        assert_eq!(now.to_string().parse::<Timestamp>().unwrap(), now);
    }
}
