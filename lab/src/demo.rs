//! The main job from end to end, with a line for each step, for `make demo`.

mod pages;

use anyhow::{Context as _, Result, ensure};
use comfy_table::Table;
use serde_json::{Value, json};

use crate::{
    Lab,
    git::Repository,
    product,
    progress::{Progress, print},
    steps::{
        At, Objects,
        deliver::{self, Application},
        enrol,
        objects::condition,
        workload,
    },
    wait,
};
use pages::Pages;

/// The demo on a lab that has everything and two spokes.
#[derive(Debug)]
pub struct Demo<'a> {
    lab: &'a Lab,
    hub: Objects,
    spokes: Vec<Objects>,
    repository: Repository,
    /// Its port for a browser inside the lab, and the port of the caller's loopback that leads there.
    ports: (u16, u16),
    pages: Option<Pages>,
}

/// How many steps a demo and the start of its lab have.
pub const STEPS: u64 = 20;

/// The line of one Application in the table at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    cluster: String,
    addon: String,
    application: String,
    sync: String,
    health: String,
    /// From its creation on the hub until it was Synced and Healthy there.
    seconds: String,
}

impl<'a> Demo<'a> {
    /// A demo that has not begun. A port of the lab's loopback is free for a browser, and a port of the caller's leads there.
    pub fn new(lab: &'a Lab, ports: (u16, u16)) -> Result<Self> {
        ensure!(lab.spokes().len() == 2, "the demo wants two spokes");
        let repository = lab.git().repository("demo")?;
        commit(&repository, "hello", "v1")?;
        commit(&repository, "welcome", "v2")?;
        Ok(Self {
            lab,
            hub: Objects::new(lab.hub().client()),
            spokes: lab
                .spokes()
                .iter()
                .map(|spoke| Objects::new(spoke.client()))
                .collect(),
            repository,
            ports,
            pages: None,
        })
    }

    /// Runs the main job; an error is a step that failed.
    pub async fn run(&mut self, progress: &mut Progress) -> Result<()> {
        product::until_ready(&self.hub).await?;
        progress.step("the addon-manager serves on the hub");
        self.enrol(progress).await?;
        let [first, second] = [self.greeter(1, "greeter"), self.greeter(2, "greeter2")];
        let seconds = self.deliver(&[&first, &second], progress).await?;
        self.change(first, progress).await?;
        self.delete(progress).await?;
        self.leave_and_return(&second, progress).await?;
        let pages = Pages::open(self.lab, self.ports).await?;
        progress.step("the pages of the add-on are on in Argo CD's server on the hub");
        progress.ends();
        self.pages = Some(pages);
        self.show(&seconds).await
    }

    async fn enrol(&self, progress: &mut Progress) -> Result<()> {
        enrol::by_label(&self.hub, "spoke1").await?;
        progress.step("spoke1 is labelled, and the manager made its add-on");
        enrol::by_addon(&self.hub, "spoke2").await?;
        progress.step("spoke2 is enabled as clusteradm does it");
        for cluster in ["spoke1", "spoke2"] {
            enrol::until_available(&self.hub, cluster).await?;
            self.hub
                .until_there(&enrol::cluster_secret(cluster), wait::BOUND)
                .await?;
            progress.step(format_args!("{cluster}: add-on Available, agent connected"));
        }
        Ok(())
    }

    /// An Application for a spoke: for the first by hub namespace, for the second by destination.
    fn greeter(&self, number: usize, name: &str) -> Application {
        let cluster = format!("spoke{number}");
        let by_namespace = number == 1;
        Application {
            at: At::application(
                if by_namespace {
                    &cluster
                } else {
                    enrol::ARGOCD
                },
                name,
            ),
            project: cluster.clone(),
            cluster: if by_namespace {
                "in-cluster".to_owned()
            } else {
                cluster
            },
            namespace: name.to_owned(),
            repository: self.repository.url(),
            path: workload::PATH.to_owned(),
            revision: "v1".to_owned(),
            automated: true,
        }
    }

    async fn deliver(
        &self,
        apps: &[&Application],
        progress: &mut Progress,
    ) -> Result<Vec<(At, f32)>> {
        let began = progress.elapsed();
        for app in apps {
            deliver::allow(&self.hub, &app.project, &app.project).await?;
            app.apply(&self.hub).await?;
        }
        progress.step("an AppProject and an Application for each spoke are made on the hub");
        let mut seconds = Vec::new();
        for app in apps {
            deliver::until_healthy(&self.hub, &app.at, "").await?;
            seconds.push((
                app.at.clone(),
                progress.elapsed().saturating_sub(began).as_secs_f32(),
            ));
            progress.step(format_args!("{} is Synced and Healthy on the hub", app.at));
        }
        Ok(seconds)
    }

    async fn change(&self, mut app: Application, progress: &mut Progress) -> Result<()> {
        "v2".clone_into(&mut app.revision);
        app.apply(&self.hub).await?;
        let at = At::config_map(&app.namespace, workload::NAME);
        let emits = |map: &Value| map["data"]["greeting"] == "welcome";
        self.spoke(1)?
            .until(&at, "says welcome", wait::BOUND, emits)
            .await?;
        progress.step("a new target revision on the hub runs on spoke1");

        let replica = At::application(enrol::ARGOCD, "greeter");
        let edit = json!({"spec": {"source": {"targetRevision": "elsewhere"}}});
        self.spoke(1)?.merge(&replica, edit).await?;
        let back = |app: &Value| app["spec"]["source"]["targetRevision"] == "v2";
        self.spoke(1)?
            .until(&replica, "is reverted", wait::BOUND, back)
            .await?;
        progress.step("an edit on spoke1 is reverted");

        let ended = |app: &Value| {
            app["operation"].is_null() && app["status"]["operationState"]["phase"] == "Succeeded"
        };
        // The syncs of both revisions, before one more can be counted. Times do not suffice: they
        // have only seconds, and syncs are faster.
        let both = |app: &Value| ended(app) && history(app) >= 2;
        let before = self
            .hub
            .until(&app.at, "shows both syncs", wait::BOUND, both)
            .await?;
        deliver::ask_for_sync(&self.hub, &app.at, "v2").await?;
        let entries = history(&before);
        let ran = |app: &Value| ended(app) && history(app) == entries + 1;
        self.hub
            .until(&app.at, "shows one more sync", wait::BOUND, ran)
            .await?;
        progress.step("a sync asked for on the hub ran once on spoke1");
        Ok(())
    }

    async fn delete(&self, progress: &mut Progress) -> Result<()> {
        let app = self.greeter(1, "goodbye");
        app.apply(&self.hub).await?;
        deliver::until_healthy(&self.hub, &app.at, "").await?;
        self.hub.delete(&app.at).await?;
        self.hub.until_gone(&app.at, wait::BOUND).await?;
        self.spoke(1)?
            .until_gone(&At::config_map("goodbye", workload::NAME), wait::BOUND)
            .await?;
        self.spoke(1)?
            .until_gone(&At::application(enrol::ARGOCD, "goodbye"), wait::BOUND)
            .await?;
        progress.step("an Application deleted on the hub took its workload along");
        Ok(())
    }

    async fn leave_and_return(&self, app: &Application, progress: &mut Progress) -> Result<()> {
        let workload = At::config_map(&app.namespace, workload::NAME);
        let before = self.spoke(2)?.read(&workload).await?["metadata"]["uid"].clone();
        self.hub.delete(&At::addon("spoke2")).await?;
        enrol::until_removed(&self.hub, self.spoke(2)?, "spoke2").await?;
        let left = self.spoke(2)?.read(&workload).await?["metadata"]["uid"].clone();
        ensure!(left == before, "the workload on spoke2 was touched");
        progress.step("spoke2 opted out: nothing of ours is left, its workload still runs");
        enrol::by_addon(&self.hub, "spoke2").await?;
        enrol::until_available(&self.hub, "spoke2").await?;
        deliver::until_healthy(&self.hub, &app.at, "").await?;
        let after = self.spoke(2)?.read(&workload).await?["metadata"]["uid"].clone();
        ensure!(after == before, "the workload on spoke2 was recreated");
        progress.step("spoke2 opted in again and adopted what was there");
        Ok(())
    }

    fn spoke(&self, number: usize) -> Result<&Objects> {
        self.spokes
            .get(number - 1)
            .with_context(|| format!("no spoke{number}"))
    }

    async fn show(&self, seconds: &[(At, f32)]) -> Result<()> {
        let mut table = Table::new();
        table.set_header([
            "CLUSTER",
            "ADD-ON",
            "APPLICATION",
            "SYNC",
            "HEALTH",
            "SECONDS",
        ]);
        for (number, (at, seconds)) in (1..).zip(seconds) {
            let Row {
                cluster,
                addon,
                application,
                sync,
                health,
                seconds,
            } = self.row(number, at, *seconds).await?;
            table.add_row([cluster, addon, application, sync, health, seconds]);
        }
        print(table);
        Ok(())
    }

    async fn row(&self, number: usize, at: &At, seconds: f32) -> Result<Row> {
        let cluster = format!("spoke{number}");
        let addon = self.hub.read(&At::addon(&cluster)).await?;
        let available = condition(&addon, "Available").cloned().unwrap_or_default();
        let app = self.hub.read(at).await?;
        let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
        Ok(Row {
            cluster,
            addon: format!(
                "Available={} ({})",
                text(&available["status"]),
                text(&available["reason"])
            ),
            application: at.to_string(),
            sync: text(&app["status"]["sync"]["status"]),
            health: text(&app["status"]["health"]["status"]),
            seconds: format!("{seconds:.1}"),
        })
    }

    /// Prints how to explore the lab while it stays up. The way of a browser to Argo CD ends with the demo.
    pub fn look_around(&self) {
        let kubectl = self.lab.tools().kubectl.display().to_string();
        print("");
        print("The lab stays up until Ctrl-C. Look around from another terminal:");
        for cluster in self.lab.clusters() {
            let kubeconfig = cluster.dir().join(crate::cluster::KUBECONFIG);
            print(format_args!(
                "  export KUBECONFIG={}   # {}",
                kubeconfig.display(),
                cluster.name()
            ));
        }
        print(format_args!(
            "  {kubectl} get managedclusteraddons -A          # on the hub"
        ));
        print(format_args!(
            "  {kubectl} get applications.argoproj.io -A      # on any cluster"
        ));
        print(format_args!(
            "  {kubectl} -n {} get pods                # the manager, on the hub",
            product::NAMESPACE
        ));
        print(format_args!(
            "  {kubectl} -n {} get pods   # the agent, on a spoke",
            enrol::AGENT_NAMESPACE
        ));
        if let Some(pages) = &self.pages {
            pages.show();
        }
    }
}

fn commit(repository: &Repository, greeting: &str, tag: &str) -> Result<()> {
    let files = workload::files(greeting);
    let files: Vec<_> = files
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str()))
        .collect();
    repository.commit(greeting, &files)?;
    repository.tag(tag)
}

fn history(app: &Value) -> usize {
    app["status"]["history"].as_array().map_or(0, Vec::len)
}
