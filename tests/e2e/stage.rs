//! The setup that the tests of the product share: a lab with everything in it.

use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, Result};
use lab::{
    Lab, argocd,
    git::Repository,
    product,
    raw_client::{Forger, RawClient},
    steps::{
        ADDON, At, Objects,
        deliver::{self, Application},
        enrol,
        objects::is_rolled_out,
        workload,
    },
};
use serde_json::{Value, json};

/// One more round through everything on two busy cores.
pub(crate) const SOON: Duration = Duration::from_mins(1);

/// The lab and its clusters, as the tests see them. A test names what it makes after itself.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) lab: Arc<Lab>,
    pub(crate) hub: Objects,
    spokes: Vec<Objects>,
}

impl Stage {
    /// Looks at a lab that has everything.
    pub(crate) fn of(lab: Arc<Lab>) -> Self {
        let hub = Objects::new(lab.hub().client());
        Self::with_hub(lab, hub)
    }

    /// The lab after the spare control plane has become the hub.
    pub(crate) fn at_spare(lab: Arc<Lab>) -> Result<Self> {
        let hub = Objects::new(lab.spare()?.client());
        Ok(Self::with_hub(lab, hub))
    }

    fn with_hub(lab: Arc<Lab>, hub: Objects) -> Self {
        let spokes = lab
            .spokes()
            .iter()
            .map(|spoke| Objects::new(spoke.client()))
            .collect();
        Self { lab, hub, spokes }
    }

    /// The objects on `spoke1`, `spoke2` and so on.
    pub(crate) fn spoke(&self, number: usize) -> &Objects {
        &self.spokes[number - 1]
    }

    /// Makes sure that a spoke has the add-on and that it works.
    pub(crate) async fn enrolled(&self, number: usize) -> Result<()> {
        let cluster = format!("spoke{number}");
        if self.hub.get(&At::addon(&cluster)).await?.is_none() {
            enrol::by_label(&self.hub, &cluster).await?;
        }
        enrol::until_available(&self.hub, &cluster).await.map(drop)
    }

    /// Makes sure that a spoke is enrolled in mode autonomous, after an opt-out if it has another mode.
    pub(crate) async fn autonomous(&self, number: usize) -> Result<()> {
        let cluster = format!("spoke{number}");
        let addon = self.hub.get(&At::addon(&cluster)).await?;
        let mode = addon.map(|addon| addon["metadata"]["annotations"][enrol::MODE].clone());
        if mode.as_ref().is_none_or(|mode| mode != "autonomous") {
            self.not_enrolled(number).await?;
            enrol::by_label_as(&self.hub, &cluster, "autonomous").await?;
        }
        enrol::until_available(&self.hub, &cluster).await.map(drop)
    }

    /// Makes sure that a spoke has no add-on.
    pub(crate) async fn not_enrolled(&self, number: usize) -> Result<()> {
        let cluster = format!("spoke{number}");
        enrol::take_label_away(&self.hub, &cluster).await?;
        self.hub.delete(&At::addon(&cluster)).await?;
        enrol::until_removed(&self.hub, self.spoke(number), &cluster).await?;
        self.make_room_for_requests(&cluster).await
    }

    /// Deletes the add-on's requests of a cluster: OCM's agent creates no more when there are ten, and a lab has many tests.
    pub(crate) async fn make_room_for_requests(&self, cluster: &str) -> Result<()> {
        let labels = format!(
            "open-cluster-management.io/addon-name={ADDON},open-cluster-management.io/cluster-name={cluster}"
        );
        for csr in self.hub.list(&At::csr(""), &labels).await? {
            let name = csr["metadata"]["name"].as_str().unwrap_or_default();
            self.hub.delete(&At::csr(name)).await?;
        }
        Ok(())
    }

    /// An Application of the greeter in a repository of its own, for one spoke, by hub namespace.
    ///
    /// The project of the same name is made; the Application is not.
    pub(crate) async fn greeter(&self, name: &str, number: usize) -> Result<Application> {
        let cluster = format!("spoke{number}");
        let repository = self.lab.git().repository(name)?;
        commit(&repository, "hello", "v1")?;
        deliver::allow(&self.hub, name, &cluster).await?;
        Ok(Application {
            at: At::application(&cluster, name),
            project: name.to_owned(),
            cluster: "in-cluster".to_owned(),
            namespace: name.to_owned(),
            repository: repository.url(),
            path: workload::PATH.to_owned(),
            revision: "v1".to_owned(),
            automated: true,
        })
    }

    /// Where the replica of a test's Application is on its spoke.
    pub(crate) fn replica(name: &str) -> At {
        At::application(enrol::ARGOCD, name)
    }

    /// Waits until the greeter on a spoke is deployed with this word.
    pub(crate) async fn until_greets(
        &self,
        number: usize,
        namespace: &str,
        word: &str,
    ) -> Result<()> {
        let at = At::config_map(namespace, workload::NAME);
        let greets = |map: &Value| map["data"]["greeting"] == word;
        self.spoke(number)
            .until(&at, &format!("says {word}"), SOON, greets)
            .await
            .map(drop)
    }

    /// Requests a refresh of an Application of spoke1, as Argo CD's UI does, and waits until it is done: then the annotation
    /// is gone on both sides.
    pub(crate) async fn refresh(&self, at: &At, replica: &str) -> Result<()> {
        const REFRESH: &str = "argocd.argoproj.io/refresh";
        const SECONDS: &str = "%Y-%m-%dT%H:%M:%SZ";
        let (replica, spoke) = (Self::replica(replica), self.spoke(1));
        let before = spoke.read(&replica).await?["status"]["reconciledAt"].clone();
        // It is in whole seconds: a refresh within the same second would not change it.
        let is_over = || async { Ok(json!(jiff::Timestamp::now().strftime(SECONDS).to_string())) };
        lab::wait::until("the next second", is_over, |now| *now != before).await?;
        let asked = json!({"metadata": {"annotations": {REFRESH: "hard"}}});
        self.hub.merge(at, asked).await?;
        let is_done =
            |app: &Value| app.is_object() && app["metadata"]["annotations"][REFRESH].is_null();
        let again = |app: &Value| is_done(app) && app["status"]["reconciledAt"] != before;
        let what = "was looked at again";
        spoke.until(&replica, what, lab::wait::BOUND, again).await?;
        self.hub
            .until(at, what, lab::wait::BOUND, is_done)
            .await
            .map(drop)
    }

    /// Waits until argocd-server of the hub runs with its newest settings.
    pub(crate) async fn until_server_rolled_out(&self) -> Result<()> {
        let server = At::deployment(enrol::ARGOCD, argocd::SERVER);
        let what = "is rolled out";
        let bound = lab::wait::BOUND;
        let rolled_out = self.hub.until(&server, what, bound, is_rolled_out);
        rolled_out.await.map(drop)
    }

    /// Removes a test's Application with its workload and its project.
    pub(crate) async fn clear(&self, app: &Application) -> Result<()> {
        self.hub.delete(&app.at).await?;
        self.hub.until_gone(&app.at, lab::wait::BOUND).await?;
        self.hub
            .delete(&At::project(enrol::ARGOCD, &app.project))
            .await
    }

    /// The principal's endpoint as agents see it, and a forger with the key of its CA.
    pub(crate) async fn door(&self) -> Result<(RawClient, Forger)> {
        let service = self
            .hub
            .read(&At::service(product::NAMESPACE, product::SERVICE))
            .await?;
        let ip = service["status"]["loadBalancer"]["ingress"][0]["ip"].as_str();
        let ip = ip.context("the principal's Service has no address")?;
        let ca = self
            .hub
            .read(&At::secret(product::NAMESPACE, "argocd-agent-ca"))
            .await?;
        let (authority, key) = (text(&ca, "tls.crt")?, text(&ca, "tls.key")?);
        let forger = Forger::with(&authority, &key)?;
        Ok((
            RawClient {
                address: format!("{ip}:443"),
                authority,
            },
            forger,
        ))
    }
}

/// Commits a greeter with this word, under a tag; returns the commit.
pub(crate) fn commit(repository: &Repository, greeting: &str, tag: &str) -> Result<String> {
    let files = workload::files(greeting);
    let files: Vec<_> = files
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str()))
        .collect();
    let commit = repository.commit(greeting, &files)?;
    repository.tag(tag)?;
    Ok(commit)
}

/// One entry of a Secret as text.
pub(crate) fn text(secret: &Value, key: &str) -> Result<String> {
    use base64::Engine as _;
    let encoded = secret["data"][key]
        .as_str()
        .with_context(|| format!("no {key}"))?;
    let bytes = base64::engine::general_purpose::STANDARD.decode(encoded)?;
    String::from_utf8(bytes).context("not text")
}
