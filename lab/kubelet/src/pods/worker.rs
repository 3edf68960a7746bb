//! The worker of one Pod on this machine: observes, plans, acts, reports, and waits for
//! the next event.

mod act;
mod publish;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use kube::ResourceExt;
use tokio::{
    sync::{mpsc, watch},
    time::sleep,
};
use tokio_util::sync::DropGuard;

use super::{
    Shared,
    launch::{Paths, last_words},
    plan::{Over, Plan, Step, plan},
    record::{Ended, Records, State, records},
    report::{Reporter, Target},
    status::{Place, status},
};
use crate::{
    env,
    inside::{Process, ShimMessage},
    probes::Verdict,
    sandbox::Sandbox,
    volumes::{self, Stored, Volumes},
};

/// A message about a container.
#[derive(Debug)]
struct Update {
    container: String,
    /// The run of the container. Messages of an earlier run are stale.
    run: u32,
    change: Change,
}

#[derive(Debug)]
enum Change {
    Shim(ShimMessage),
    Probe(Verdict),
    /// A `postStart` hook has failed.
    Hook(String),
}

/// Updates that may wait for the worker; senders of more wait too.
const WAITING: usize = 32;

/// A container that has a shim.
#[derive(Debug)]
struct Alive {
    run: u32,
    process: Process,
    /// Closing it ends the container by force.
    signals: mpsc::Sender<i32>,
    /// Dropping it ends its probes.
    probes: Option<DropGuard>,
}

/// The worker of one Pod.
pub(super) struct Worker {
    shared: Shared,
    pod: Arc<Pod>,
    newest: watch::Receiver<Option<Arc<Pod>>>,
    /// The Pod is not in the API any more.
    gone: bool,
    paths: Paths,
    records: Records,
    alive: BTreeMap<String, Alive>,
    volumes: Volumes,
    retained: watch::Receiver<Stored>,
    sandbox: Option<Sandbox>,
    /// The error that prevents the preparation of the Pod, reported once, and when to try again.
    trouble: Option<(String, Timestamp)>,
    /// When all remaining containers are killed, once the Pod is to stop.
    stop: Option<Timestamp>,
    over: Option<Over>,
    updates: (mpsc::Sender<Update>, mpsc::Receiver<Update>),
    reporter: Reporter,
}

impl Worker {
    pub(super) fn new(
        shared: Shared,
        pod: Arc<Pod>,
        newest: watch::Receiver<Option<Arc<Pod>>>,
    ) -> Self {
        let paths = Paths::of(&pod, &shared.state, &shared.logs);
        let known = pod.status.clone().unwrap_or_default();
        // A Pod that was over before this kubelet saw it is not started again.
        let over = match known.phase.as_deref() {
            Some("Succeeded") => Some(Over::Succeeded),
            Some("Failed") => Some(Over::Failed),
            Some(_) | None => None,
        };
        let (tokens, retained) = watch::channel(Stored::new());
        let keep = volumes::keep(shared.client.clone(), Arc::clone(&pod), tokens);
        if over.is_none() {
            shared.tasks.spawn("tokens", keep);
        }
        Self {
            volumes: Volumes::new(paths.volumes(), env::fs_group(&pod)),
            reporter: Reporter::start(shared.client.clone(), &pod, known, &shared.tasks),
            records: records(&pod),
            alive: BTreeMap::new(),
            updates: mpsc::channel(WAITING),
            gone: false,
            sandbox: None,
            trouble: None,
            stop: None,
            shared,
            pod,
            newest,
            paths,
            retained,
            over,
        }
    }

    /// Runs the Pod until nothing of it is left.
    pub(super) async fn run(mut self) {
        loop {
            let now = Timestamp::now();
            self.learn(now);
            let plan = self.plan(now);
            if plan.over == Some(Over::Stopped) {
                break;
            }
            for step in plan.steps {
                self.act(step, now).await;
            }
            if self.over.is_none() && plan.over.is_some() {
                self.over = plan.over;
                self.leave_network().await;
            }
            self.keep_volumes(now);
            self.publish();
            self.report(now);
            self.wait(plan.wake, now).await;
        }
        self.finish().await;
    }

    fn spec(&self) -> PodSpec {
        self.pod.spec.clone().unwrap_or_default()
    }

    fn container(&self, name: &str) -> Option<Container> {
        let spec = self.pod.spec.as_ref()?;
        let mut all = spec
            .init_containers
            .iter()
            .flatten()
            .chain(&spec.containers);
        all.find(|container| container.name == name).cloned()
    }

    /// Adopts the newest version of the Pod, and its deletion.
    fn learn(&mut self, now: Timestamp) {
        if self.shared.tasks.stop().is_cancelled() {
            self.stop = Some(now);
            return;
        }
        let newest = self.newest.borrow_and_update().clone();
        if let Some(newest) = newest {
            self.pod = newest;
        } else {
            // Deleted by force: no client waits for a graceful end.
            self.gone = true;
            self.stop = Some(now);
        }
        if self.pod.metadata.deletion_timestamp.is_some() {
            let grace = self
                .pod
                .metadata
                .deletion_grace_period_seconds
                .unwrap_or_default();
            let deadline = now + SignedDuration::from_secs(grace);
            // A second deletion may shorten the grace of the first, never lengthen it.
            self.stop = Some(self.stop.map_or(deadline, |stop| stop.min(deadline)));
        }
    }

    fn plan(&self, now: Timestamp) -> Plan {
        if self.over.is_some() && self.stop.is_none() {
            return Plan::default();
        }
        plan(&self.spec(), &self.records, self.stop, now)
    }

    fn report(&mut self, now: Timestamp) {
        let place = Place {
            host_ip: self.shared.network.gateway().to_string(),
            pod_ip: self.sandbox.as_ref().map(|sandbox| sandbox.ip.to_string()),
        };
        if self.over.is_some() && self.records.values().all(|record| record.runs == 0) {
            return; // over before this kubelet saw it: its status is not ours to change
        }
        let before = self.reporter.last();
        self.reporter.update(status(
            &self.pod,
            &self.records,
            &place,
            self.over,
            &before,
            now,
        ));
    }

    /// Waits until there is something to do. Everything waited for is a state, so an event
    /// meanwhile is not lost.
    async fn wait(&mut self, wake: Option<Timestamp>, now: Timestamp) {
        let stopping = self.stop.is_some();
        let again = self
            .trouble
            .as_ref()
            .map(|(_, again)| *again)
            .filter(|_| !stopping);
        let pause = [wake, again]
            .into_iter()
            .flatten()
            .min()
            .map(|at| at.duration_since(now));
        let pause = pause.map(|pause| Duration::try_from(pause).unwrap_or_default());
        let timer = async {
            match pause {
                Some(pause) => sleep(pause).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.shared.tasks.stop().cancelled(), if !stopping => {}
            updates = self.updates.1.recv() => self.apply_updates(updates),
            // When the sender is gone the kubelet is about to stop; the first branch handles that.
            Ok(()) = self.newest.changed() => {}
            () = self.shared.objects.changed(), if !stopping => {}
            Ok(()) = self.retained.changed(), if !stopping => {}
            () = timer => {}
        }
    }

    /// Applies one update and those that have arrived with it.
    fn apply_updates(&mut self, first: Option<Update>) {
        let mut next = first;
        while let Some(updates) = next {
            self.apply(updates);
            next = self.updates.1.try_recv().ok();
        }
    }

    fn apply(
        &mut self,
        Update {
            container,
            run,
            change,
        }: Update,
    ) {
        let current = self
            .alive
            .get(&container)
            .is_some_and(|alive| alive.run == run);
        let Some(spec) = self.container(&container).filter(|_| current) else {
            return;
        };
        match change {
            Change::Shim(ShimMessage::Started(process)) => self.has_started(&spec, process),
            Change::Shim(ShimMessage::Failed(why)) => {
                self.shared.events.warn(
                    &self.pod,
                    "Failed",
                    format!("container {container}: {why}"),
                );
                self.has_ended(&spec, run, 128, None, Some(why)); // as in the real kubelet
            }
            Change::Shim(ShimMessage::Exited { code, signal }) => {
                self.has_ended(&spec, run, code, signal, None);
            }
            Change::Probe(verdict) => self.has_verdict(&spec, verdict),
            Change::Hook(why) => {
                self.shared
                    .events
                    .warn(&self.pod, "FailedPostStartHook", why);
                self.terminate(&container, Timestamp::now());
            }
        }
    }

    fn has_started(&mut self, container: &Container, process: u32) {
        if let Some(record) = self.records.get_mut(&container.name) {
            record.run(container, process, Timestamp::now());
        }
        self.shared.events.notify(
            &self.pod,
            "Started",
            format!("container {} started", container.name),
        );
        self.attend(container, process);
    }

    fn has_ended(
        &mut self,
        container: &Container,
        run: u32,
        code: i32,
        signal: Option<i32>,
        failure: Option<String>,
    ) {
        self.alive.remove(&container.name);
        let reason = match (&failure, code) {
            (Some(_), _) => "StartError",
            (None, 0) => "Completed",
            (None, _) => "Error",
        };
        let message = failure.or_else(|| last_words(&self.paths, container, run, code));
        let ended = Ended {
            code,
            signal,
            reason,
            message,
            started: None,
            finished: Timestamp::now(),
        };
        if let Some(record) = self.records.get_mut(&container.name) {
            record.end(ended);
            tracing::debug!(
                pod = self.pod.name_any(),
                container = container.name,
                code,
                "container ended"
            );
        }
    }

    fn has_verdict(&mut self, container: &Container, verdict: Verdict) {
        let Some(record) = self.records.get_mut(&container.name) else {
            return;
        };
        match verdict {
            Verdict::Started => record.started = true,
            Verdict::Ready(ready) => record.ready = ready,
            Verdict::Unhealthy { which, why } => {
                let note = format!("{which} probe of {} failed: {why}", container.name);
                self.shared.events.warn(&self.pod, "Unhealthy", note);
            }
            Verdict::Fatal { which, why } => {
                let note = format!(
                    "{which} probe of {} failed, it will be ended: {why}",
                    container.name
                );
                self.shared.events.warn(&self.pod, "Killing", note);
                self.terminate(&container.name, Timestamp::now());
            }
        }
    }

    /// Cleans up, reports the end, and deletes the Pod in the API.
    async fn finish(mut self) {
        let now = Timestamp::now();
        if self.over.is_none() {
            self.over = Some(Over::Stopped);
            self.report(now);
        }
        self.leave_network().await;
        self.unpublish();
        if let Err(error) = remove_all(&self.paths.dir).await {
            tracing::warn!(pod = self.pod.name_any(), %error, "files of a Pod are left behind");
        }
        if self.gone || self.shared.tasks.stop().is_cancelled() {
            return;
        }
        let target = Target::of(self.shared.client.clone(), &self.pod);
        let stop = self.shared.tasks.stop().clone();
        let let_go = async {
            self.reporter.finish().await;
            target.delete().await;
        };
        tokio::select! {
            () = let_go => {}
            () = stop.cancelled() => {}
        }
    }
}

async fn remove_all(dir: &std::path::Path) -> std::io::Result<()> {
    match tokio::fs::remove_dir_all(dir).await {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}
