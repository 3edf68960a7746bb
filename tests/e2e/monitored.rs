//! A Prometheus that is set up from the documentation alone: its targets, the dashboards, and the alerts.
//!
//! Differences from what a user runs, all of them here: the Prometheus is not a Pod, so it gets the address of the API server;
//! it scrapes each second; one alert waits for seconds and not for minutes.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use lab::{
    Cluster, product,
    prometheus::{Prometheus, Targets},
    steps::{At, Objects, enrol},
    tools, wait,
};
use serde_json::{Value, json};

use crate::{reader::Reader, stage::Stage};

mod panels;

const PAGE: &str = "docs/metrics.md";
const TEST: &str = "a_prometheus_that_follows_the_page_sees_everything";
/// The namespace and the name of the `ServiceAccount` of the user's Prometheus.
const ACCOUNT: (&str, &str) = ("monitoring", "prometheus");
/// The alerts that an agent's disconnection raises, at the spoke and at the hub.
const AWAY: [&str; 2] = ["ArgoCDAgentDisconnected", "ArgoCDAgentClustersDisconnected"];
/// A scrape, an evaluation and a connection that ends or begins.
const SOON: Duration = Duration::from_mins(1);

/// A Prometheus that follows the page scrapes the hub program and an agent, every panel of the dashboards has data, every
/// alert can be evaluated, and the alerts of a disconnected agent fire and resolve.
pub(crate) async fn a_prometheus_that_follows_the_page_sees_everything(
    stage: &Stage,
) -> Result<()> {
    stage.enrolled(1).await?;
    let (lab, folder) = (&stage.lab, tempfile::tempdir()?);
    for (cluster, objects) in [(lab.hub(), &stage.hub), (lab.spoke(1), stage.spoke(1))] {
        prepare(cluster, objects).await?;
    }
    Reader::of(stage)?
        .with("MONITORING", folder.path().to_string_lossy())
        .with("PROMETHEUS", format!("{}:{}", ACCOUNT.0, ACCOUNT.1))
        .with_cluster("SPOKE_KUBECONFIG", lab.spoke(1))
        .follow(PAGE, TEST, 4)
        .await?;

    let kind = ("ServiceMonitor", "servicemonitors");
    let monitor = monitoring(kind, product::NAMESPACE, product::MANAGER);
    let monitor = stage.hub.read(&monitor).await?;
    let hub = Side::watch(lab.hub(), folder.path(), "hub", 19090, &monitor).await?;
    let kind = ("PodMonitor", "podmonitors");
    let monitor = monitoring(kind, enrol::AGENT_NAMESPACE, "argocd-agent-addon-agent");
    let monitor = stage.spoke(1).read(&monitor).await?;
    let spoke = Side::watch(lab.spoke(1), folder.path(), "spoke", 19091, &monitor).await?;
    let places = [product::NAMESPACE, enrol::AGENT_NAMESPACE];
    let both = [(&hub, &stage.hub), (&spoke, stage.spoke(1))];
    for ((side, objects), place) in both.into_iter().zip(places) {
        side.until_both_ways_find_one_and_the_same().await?;
        let known = rules(objects, place).await?;
        side.until_every_rule_is_evaluated(&known).await?;
    }

    let map = At::config_map(product::NAMESPACE, "argocd-agent-addon-dashboards");
    let boards = panels::Board::all_of(&stage.hub.read(&map).await?)?;
    ensure!(boards.len() == 3, "not three dashboards: {boards:?}");
    for board in &boards {
        let side = if board.name == "cluster" {
            &spoke
        } else {
            &hub
        };
        board
            .until_every_panel_shows_something(&side.prometheus)
            .await?;
    }

    disconnect_alerts_fire_and_resolve(stage, &hub, &spoke).await
}

/// An agent loses its hub: the Prometheus of the spoke alerts, and that of the hub is about to. Both are quiet again
/// when it is back.
async fn disconnect_alerts_fire_and_resolve(stage: &Stage, hub: &Side, spoke: &Side) -> Result<()> {
    let [at_spoke, at_hub] = AWAY;
    spoke.until_alert(at_spoke, "inactive").await?;
    hub.until_alert(at_hub, "inactive").await?;
    stage.lab.faults().cut("spoke1");
    spoke.until_alert(at_spoke, "firing").await?;
    hub.until_alert(at_hub, "pending").await?;
    stage.lab.faults().heal("spoke1");
    spoke.until_alert(at_spoke, "inactive").await?;
    hub.until_alert(at_hub, "inactive").await?;
    enrol::until_available(&stage.hub, "spoke1").await.map(drop)
}

/// The prerequisites: the definitions of the Prometheus operator, and the account of the user's Prometheus.
async fn prepare(cluster: &Cluster, objects: &Objects) -> Result<()> {
    let definitions = tools::prometheus_operator()?;
    for kind in ["servicemonitors", "podmonitors", "prometheusrules"] {
        let name = format!("{kind}.monitoring.coreos.com");
        let file = definitions.join(format!("monitoring.coreos.com_{kind}.yaml"));
        let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        cluster.apply(&text).await?;
        let group = "apiextensions.k8s.io/v1";
        let at = At::of(
            group,
            ("CustomResourceDefinition", "customresourcedefinitions"),
            None,
            &name,
        );
        let is_served = |it: &Value| {
            lab::steps::objects::has_condition(it, "Established", "True", "InitialNamesAccepted")
        };
        objects
            .until(&at, "is served", wait::BOUND, is_served)
            .await?;
    }
    let (namespace, name) = ACCOUNT;
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    objects.apply(&At::namespace(namespace), object).await?;
    let metadata = json!({"name": name, "namespace": namespace});
    let object = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata});
    let at = At::service_account(namespace, name);
    objects.apply(&at, object).await.map(drop)
}

/// One cluster and the Prometheus there.
struct Side {
    name: &'static str,
    prometheus: Prometheus,
    _targets: Targets,
}

impl Side {
    /// Starts it with the configuration that the page had made for this side, and with what an operator would make of a
    /// monitor.
    async fn watch(
        cluster: &Cluster,
        made: &Path,
        name: &'static str,
        port: u16,
        monitor: &Value,
    ) -> Result<Self> {
        let file = made.join(format!("prometheus-{name}.yaml"));
        let mut configuration: Value = serde_saphyr::from_str(&fs::read_to_string(file)?)?;
        let (namespace, account) = ACCOUNT;
        let access = cluster
            .service_account_kubeconfig(namespace, account)
            .await?;
        let mut jobs = configuration["scrape_configs"].take();
        let jobs = jobs.as_array_mut().context("jobs")?;
        jobs.push(as_an_operator_would(monitor));
        for job in jobs.iter_mut() {
            for place in job["kubernetes_sd_configs"]
                .as_array_mut()
                .context("places")?
            {
                place["kubeconfig_file"] = json!(access);
            }
        }
        let folder = made.join(name);
        fs::create_dir(&folder)?;
        let targets = Targets::find(&folder, &json!({ "scrape_configs": jobs }))?;
        let found = json!([{ "files": [targets.file()] }]);
        // A target of both jobs is scraped twice; the series of one job are dropped.
        let once = json!([{ "source_labels": ["job"], "regex": "operator/.*", "action": "drop" }]);
        let job =
            json!({"job_name": "found", "file_sd_configs": found, "metric_relabel_configs": once});
        configuration["scrape_configs"] = json!([job]);
        configuration["global"] = json!({"scrape_interval": "1s", "evaluation_interval": "1s"});
        for rules in configuration["rule_files"].as_array().context("rules")? {
            let file = rules.as_str().context("a file")?;
            fs::write(
                folder.join(file),
                with_short_wait(&fs::read_to_string(made.join(file))?)?,
            )?;
        }
        let prometheus = Prometheus::start(&folder, port, &configuration).await?;
        Ok(Self {
            name,
            prometheus,
            _targets: targets,
        })
    }

    /// The page's own job and the operator's monitor lead to one Pod, and its metrics are read.
    async fn until_both_ways_find_one_and_the_same(&self) -> Result<()> {
        let look = || async {
            let data = self
                .prometheus
                .api("targets", &[("state", "active")])
                .await?;
            let mut by_job = BTreeMap::<String, BTreeSet<String>>::new();
            for target in data["activeTargets"].as_array().into_iter().flatten() {
                let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
                let seen = format!("{} {}", text(&target["scrapeUrl"]), text(&target["health"]));
                by_job
                    .entry(text(&target["labels"]["job"]))
                    .or_default()
                    .insert(seen);
            }
            Ok(by_job)
        };
        let same = |found: &BTreeMap<String, BTreeSet<String>>| {
            let one: BTreeSet<_> = found.values().collect();
            let only = one.first().filter(|_| one.len() == 1 && found.len() == 2);
            only.is_some_and(|it| it.len() == 1 && it.iter().all(|it| it.ends_with(" up")))
        };
        let what = format!("{}: both jobs scrape the same Pod", self.name);
        wait::until_within(SOON, &what, look, same).await.map(drop)
    }

    /// Each alert that is in the API is in Prometheus too, and was evaluated without an error.
    async fn until_every_rule_is_evaluated(&self, known: &BTreeSet<String>) -> Result<()> {
        let look = || async {
            let good = self
                .rules()
                .await?
                .into_iter()
                .filter(|(_, rule)| rule["health"] == "ok");
            Ok(good.map(|(name, _)| name).collect::<BTreeSet<_>>())
        };
        let what = format!("{}: {} alerts are evaluated", self.name, known.len());
        wait::until_within(SOON, &what, look, |good| good == known)
            .await
            .map(drop)
    }

    async fn until_alert(&self, alert: &str, state: &str) -> Result<()> {
        let look =
            || async { Ok(self.rules().await?.remove(alert).unwrap_or_default()["state"].take()) };
        let what = format!("{}: {alert} is {state}", self.name);
        wait::until_within(SOON, &what, look, |seen| seen == state)
            .await
            .map(drop)
    }

    /// The alerts that it has, by name.
    async fn rules(&self) -> Result<BTreeMap<String, Value>> {
        let data = self.prometheus.api("rules", &[("type", "alert")]).await?;
        let groups = data["groups"].as_array().into_iter().flatten();
        let rules = groups.flat_map(|it| it["rules"].as_array().cloned().unwrap_or_default());
        let named = rules.filter_map(|it| Some((it["name"].as_str()?.to_owned(), it)));
        Ok(named.collect())
    }
}

/// The names of the alerts that the page had put into a cluster, for the operator.
async fn rules(objects: &Objects, namespace: &str) -> Result<BTreeSet<String>> {
    let at = monitoring(("PrometheusRule", "prometheusrules"), namespace, "");
    let all = objects.list(&at, "").await?;
    let groups = all
        .iter()
        .flat_map(|it| it["spec"]["groups"].as_array().into_iter().flatten());
    let rules = groups.flat_map(|it| it["rules"].as_array().into_iter().flatten());
    let names: BTreeSet<_> = rules
        .filter_map(|it| it["alert"].as_str().map(str::to_owned))
        .collect();
    ensure!(names.len() > 7, "only {names:?}");
    Ok(names)
}

/// An object of the Prometheus operator.
fn monitoring(kind: (&str, &str), namespace: &str, name: &str) -> At {
    At::of("monitoring.coreos.com/v1", kind, Some(namespace), name)
}

/// The job that the Prometheus operator makes of a `ServiceMonitor` or a `PodMonitor`: the labels of the one or the other
/// select, and the name of the port.
fn as_an_operator_would(monitor: &Value) -> Value {
    let of_pods = monitor["kind"] == "PodMonitor";
    let (role, labels, port, endpoints) = if of_pods {
        (
            "pod",
            "pod_label",
            "pod_container_port_name",
            "podMetricsEndpoints",
        )
    } else {
        (
            "endpointslice",
            "service_label",
            "endpointslice_port_name",
            "endpoints",
        )
    };
    let keep = |meta: String, value: &Value| json!({"source_labels": [format!("__meta_kubernetes_{meta}")], "regex": value, "action": "keep"});
    let selector = monitor["spec"]["selector"]["matchLabels"].as_object();
    let mut rules: Vec<_> = selector
        .into_iter()
        .flatten()
        .map(|(label, value)| {
            let plain = label.replace(|it: char| !it.is_ascii_alphanumeric(), "_");
            keep(format!("{labels}_{plain}"), value)
        })
        .collect();
    rules.push(keep(
        port.to_owned(),
        &monitor["spec"][endpoints][0]["port"],
    ));
    let namespaces = json!({"names": [monitor["metadata"]["namespace"]]});
    json!({
        "job_name": format!("operator/{}", monitor["metadata"]["name"].as_str().unwrap_or_default()),
        "kubernetes_sd_configs": [{"role": role, "namespaces": namespaces}],
        "relabel_configs": rules,
    })
}

/// A file of rules in which the alert of an agent that is away waits for seconds.
fn with_short_wait(rules: &str) -> Result<String> {
    let mut rules: Value = serde_saphyr::from_str(rules)?;
    let groups = rules["groups"].as_array_mut().into_iter().flatten();
    for rule in groups.flat_map(|it| it["rules"].as_array_mut().into_iter().flatten()) {
        if rule["alert"] == AWAY[0] {
            rule["for"] = json!("3s");
        }
    }
    Ok(serde_saphyr::to_string(&rules)?)
}
