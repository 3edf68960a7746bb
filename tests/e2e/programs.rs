//! Our two programs: the running process, its metrics, and how to kill it.

use std::net::{IpAddr, SocketAddr};

use anyhow::{Context as _, Result, ensure};
use lab::{
    metrics::Metrics,
    product,
    steps::{At, Objects, enrol::AGENT_NAMESPACE},
    wait,
};
use serde_json::Value;

use crate::stage::Stage;

/// One of our programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    /// The manager on the hub, which is the principal too.
    Manager,
    /// The agent of the spoke with this number.
    Agent(usize),
}

/// A process of it. Two are equal if they are the same process.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    program: Program,
    name: String,
    uid: Value,
    container: Value,
    address: SocketAddr,
}

impl PartialEq for Running {
    fn eq(&self, other: &Self) -> bool {
        (&self.uid, &self.container) == (&other.uid, &other.container)
    }
}

impl Program {
    const fn app(self) -> &'static str {
        match self {
            Self::Manager => product::MANAGER,
            Self::Agent(_) => "argocd-agent-agent",
        }
    }

    const fn namespace(self) -> &'static str {
        match self {
            Self::Manager => product::NAMESPACE,
            Self::Agent(_) => AGENT_NAMESPACE,
        }
    }

    const fn metrics_port(self) -> u16 {
        match self {
            Self::Manager => 8000,
            Self::Agent(_) => 8181,
        }
    }

    fn side(self, stage: &Stage) -> &Objects {
        match self {
            Self::Manager => &stage.hub,
            Self::Agent(number) => stage.spoke(number),
        }
    }

    /// All Pods of it.
    async fn pods(self, stage: &Stage) -> Result<Vec<Value>> {
        let labels = format!("app.kubernetes.io/name={}", self.app());
        let pods = At::pod(self.namespace(), "");
        self.side(stage).list(&pods, &labels).await
    }

    /// The process that runs and is ready.
    pub(crate) async fn running(self, stage: &Stage) -> Result<Running> {
        let look = || async {
            let pods = self.pods(stage).await?;
            let ready = pods.iter().find(|pod| is_ready(pod));
            ready.map(|pod| self.process(pod)).transpose()
        };
        let found = wait::until(&format!("{self:?} is ready"), look, Option::is_some).await?;
        found.context("a ready Pod")
    }

    /// Waits until none of it is left.
    pub(crate) async fn until_none(self, stage: &Stage) -> Result<()> {
        let look = || async { Ok(self.pods(stage).await?.len()) };
        let what = format!("{self:?} has ended");
        wait::until(&what, look, |left| *left == 0).await.map(drop)
    }

    fn process(self, pod: &Value) -> Result<Running> {
        let address: IpAddr = pod["status"]["podIP"]
            .as_str()
            .context("a Pod that is ready has an address")?
            .parse()?;
        let name = pod["metadata"]["name"].as_str().context("a name")?;
        Ok(Running {
            program: self,
            name: name.to_owned(),
            uid: pod["metadata"]["uid"].clone(),
            container: pod["status"]["containerStatuses"][0]["containerID"].clone(),
            address: SocketAddr::new(address, self.metrics_port()),
        })
    }

    /// Kills all of its Pods, running or starting, without grace, as when a node loses power.
    pub(crate) async fn kill(self, stage: &Stage) -> Result<()> {
        for at in self.pods_at(stage).await? {
            self.side(stage).kill(&at).await?;
        }
        Ok(())
    }

    /// Deletes all of its Pods with their grace, as when a node is drained.
    pub(crate) async fn drain(self, stage: &Stage) -> Result<()> {
        for at in self.pods_at(stage).await? {
            self.side(stage).delete(&at).await?;
        }
        Ok(())
    }

    async fn pods_at(self, stage: &Stage) -> Result<Vec<At>> {
        let at = |pod: &Value| {
            let name = pod["metadata"]["name"].as_str().context("a name")?;
            Ok(At::pod(self.namespace(), name))
        };
        self.pods(stage).await?.iter().map(at).collect()
    }
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    pod["metadata"]["deletionTimestamp"].is_null()
        && conditions
            .into_iter()
            .flatten()
            .any(|c| c["type"] == "Ready" && c["status"] == "True")
}

impl Running {
    /// Its metrics.
    pub(crate) async fn metrics(&self) -> Result<Metrics> {
        Metrics::read(self.address).await
    }

    /// Its response at another path of the port for metrics: the status line and the body.
    pub(crate) async fn answer(&self, path: &str) -> Result<(String, String)> {
        lab::metrics::ask(self.address, path).await
    }

    /// Waits until a series has this value.
    pub(crate) async fn until_counts(&self, series: &str, value: f64) -> Result<()> {
        let look = || async { Ok(self.metrics().await?.value(series)) };
        let what = format!("{:?} counts {value} of {series}", self.program);
        let is = |seen: &f64| (seen - value).abs() < f64::EPSILON;
        wait::until(&what, look, is).await.map(drop)
    }

    /// Fails if another process has taken its place.
    pub(crate) async fn still_runs(&self, stage: &Stage) -> Result<()> {
        let now = self.program.running(stage).await?;
        ensure!(now == *self, "{} was replaced by {}", self.name, now.name);
        Ok(())
    }
}
