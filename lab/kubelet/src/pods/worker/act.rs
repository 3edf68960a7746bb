//! Carries out the steps of a plan for a Pod.

use std::{sync::Arc, time::Duration};

use anyhow::Context;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Container;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Alive, Change, State, Step, Update, Worker};
use crate::{
    Image, container,
    env::{self, hostname},
    inside::{Process, ShimSpec},
    pods::{launch::Launch, record::Ending},
    probes::{self, Check, Patient},
    sandbox::Sandbox,
    volumes::{Addresses, Missing},
};

/// How long to wait before a failed step is retried without any change.
const AGAIN: SignedDuration = SignedDuration::from_secs(1);
/// How long before an image is looked up again. Images of a lab rarely appear late.
const IMAGE_AGAIN: SignedDuration = SignedDuration::from_secs(2);
/// The default grace period of the API for a container to end.
const GRACE: i64 = 30;
/// Signals that may wait for a shim: TERM and KILL, and some to spare.
const SIGNALS: usize = 4;

impl Worker {
    pub(super) async fn act(&mut self, step: Step, now: Timestamp) {
        match step {
            Step::Start(name) => self.start(&name, now).await,
            Step::Terminate(name) => self.terminate(&name, now),
            Step::Kill(name) => self.kill(&name, now),
        }
    }

    /// Starts a container, or records why it cannot be started yet.
    async fn start(&mut self, name: &str, now: Timestamp) {
        if !self.prepare(now).await {
            return;
        }
        let Some(container) = self.container(name) else {
            return;
        };
        let reference = container.image.clone().unwrap_or_default();
        let Some(image) = self.shared.images.find(&reference) else {
            let note = format!("no image {reference:?} in the lab");
            self.refuse(name, "ErrImagePull", note, now + IMAGE_AGAIN);
            return;
        };
        let addresses = Addresses {
            pod: self
                .sandbox
                .as_ref()
                .map(|sandbox| sandbox.ip.to_string())
                .unwrap_or_default(),
            host: self.shared.network.gateway().to_string(),
        };
        match env::process(
            &self.pod,
            &container,
            &image,
            &self.shared.objects,
            &addresses,
        ) {
            Ok(process) => self.launch(&container, image, process, now),
            // Retried at every change of an object, and periodically.
            Err(why) => self.refuse(
                name,
                "CreateContainerConfigError",
                why.to_string(),
                now + AGAIN,
            ),
        }
    }

    fn launch(&mut self, container: &Container, image: Image, process: Process, now: Timestamp) {
        let (Some(record), Some(sandbox)) = (self.records.get_mut(&container.name), &self.sandbox)
        else {
            return;
        };
        let launch = Launch {
            pod: &self.pod,
            container,
            run: record.runs,
            image,
            process: process.clone(),
            paths: &self.paths,
            volumes: &self.volumes,
            sandbox,
            network: &self.shared.network,
        };
        match launch.spec() {
            Ok(spec) => {
                let run = record.begin();
                let signals = self.run_shim(container, run, spec);
                self.alive.insert(
                    container.name.clone(),
                    Alive {
                        run,
                        process,
                        signals,
                        probes: None,
                    },
                );
            }
            Err(error) => {
                let why = format!("{error:#}");
                self.refuse(&container.name, "CreateContainerError", why, now + AGAIN);
            }
        }
    }

    fn run_shim(&self, container: &Container, run: u32, spec: ShimSpec) -> mpsc::Sender<i32> {
        let (signals, passed) = mpsc::channel(SIGNALS);
        let name = container.name.clone();
        let tag = move |stated| Update {
            container: name.clone(),
            run,
            change: Change::Shim(stated),
        };
        // Not dropped at stop: the worker ends the container and waits for its end.
        self.shared.tasks.spawn_orderly(
            "container",
            container::run(spec, passed, self.updates.0.clone(), tag),
        );
        signals
    }

    /// Records why a container cannot be started. The event is written once for each reason.
    fn refuse(&mut self, name: &str, reason: &'static str, why: String, again: Timestamp) {
        let Some(record) = self.records.get_mut(name) else {
            return;
        };
        let known =
            matches!(&record.state, State::Waiting { message: Some(known), .. } if *known == why);
        // Like the real kubelet: the failure first, and then that it waits.
        let reason = if known && reason == "ErrImagePull" {
            "ImagePullBackOff"
        } else {
            reason
        };
        if !known {
            self.shared
                .events
                .warn(&self.pod, "Failed", format!("container {name}: {why}"));
        }
        record.refuse(reason, Some(why), again);
    }

    /// Prepares the sandbox and the volumes, which all containers need.
    async fn prepare(&mut self, now: Timestamp) -> bool {
        if self.trouble.as_ref().is_some_and(|(_, again)| now < *again) && self.sandbox.is_none() {
            return false;
        }
        if !self.shared.objects.are_ready() {
            return false; // a missing object may only not have been listed yet
        }
        let prepared = match self.open_sandbox().await {
            Ok(()) => {
                let retained = self.retained.borrow().clone();
                self.volumes
                    .refresh(&self.pod, &self.shared.objects, &retained)
            }
            Err(error) => Err(error),
        };
        self.note("FailedMount", prepared, now)
    }

    /// Records an error, and writes an event when it is new.
    fn note(&mut self, reason: &str, result: anyhow::Result<()>, now: Timestamp) -> bool {
        let Err(error) = result else {
            self.trouble = None;
            return true;
        };
        let why = format!("{error:#}");
        // Every Pod waits a moment for its token.
        let usual = matches!(error.downcast_ref(), Some(Missing::Token(_)));
        if !usual && self.trouble.as_ref().is_none_or(|(known, _)| *known != why) {
            self.shared.events.warn(&self.pod, reason, why.clone());
        }
        self.trouble = Some((why, now + AGAIN));
        false
    }

    async fn open_sandbox(&mut self) -> anyhow::Result<()> {
        if self.sandbox.as_mut().is_some_and(Sandbox::is_there) {
            return Ok(());
        }
        self.leave_network().await;
        let network = &self.shared.network;
        let on_machine = self.pod.spec.as_ref().and_then(|spec| spec.host_network) == Some(true);
        let sandbox = if on_machine {
            Sandbox::of_machine(network)
        } else {
            let uid = self.pod.metadata.uid.clone().unwrap_or_default();
            let opened =
                Sandbox::open(network, &self.shared.addresses, &uid, hostname(&self.pod)).await;
            opened.context("make the sandbox of the Pod")?
        };
        self.sandbox = Some(sandbox);
        Ok(())
    }

    /// Returns the address, if there is one.
    pub(super) async fn leave_network(&mut self) {
        if let Some(sandbox) = self.sandbox.take() {
            sandbox.close().await;
        }
    }

    /// Updates the volumes of a running Pod from their objects.
    pub(super) fn keep_volumes(&mut self, now: Timestamp) {
        let idle = self.stop.is_some() || self.over.is_some() || self.alive.is_empty();
        if idle || !self.shared.objects.are_ready() {
            return;
        }
        let retained = self.retained.borrow().clone();
        let kept = self
            .volumes
            .refresh(&self.pod, &self.shared.objects, &retained);
        self.note("FailedMount", kept, now);
    }

    /// Sends a signal. A shim with a full queue has signals to pass on already.
    fn signal(&self, name: &str, signal: i32) {
        if let Some(alive) = self.alive.get(name) {
            let _full_or_ended = alive.signals.try_send(signal);
        }
    }

    fn kill(&mut self, name: &str, now: Timestamp) {
        if let Some(record) = self.records.get_mut(name) {
            record.ending = Some(Ending {
                kill_at: now,
                killed: true,
            });
        }
        self.signal(name, container::KILL);
    }

    /// Asks a container to end: first its `preStop` hook, then a signal.
    pub(super) fn terminate(&mut self, name: &str, now: Timestamp) {
        let spec = self.pod.spec.as_ref();
        let grace = spec
            .and_then(|spec| spec.termination_grace_period_seconds)
            .unwrap_or(GRACE);
        let kill_at = now + SignedDuration::from_secs(grace);
        let kill_at = self.stop.map_or(kill_at, |stop| stop.min(kill_at));
        let process = match self.records.get_mut(name) {
            Some(record) if record.is_alive() && record.ending.is_none() => {
                record.ending = Some(Ending {
                    kill_at,
                    killed: false,
                });
                if let State::Running { process, .. } = record.state {
                    Some(process)
                } else {
                    None
                }
            }
            Some(_) | None => return,
        };
        let Some(container) = self.container(name) else {
            return;
        };
        let Some(alive) = self.alive.get_mut(name) else {
            return;
        };
        alive.probes = None;
        let hook = container
            .lifecycle
            .as_ref()
            .and_then(|lifecycle| lifecycle.pre_stop.as_ref())
            .map(Check::from);
        let (Some(hook), Some(target), Some(sandbox)) = (hook, process, &self.sandbox) else {
            self.signal(name, container::TERM);
            return;
        };
        let (signals, process) = (alive.signals.clone(), alive.process.clone());
        let patient = Patient {
            container,
            ip: sandbox.ip,
            target,
            process,
        };
        let limit = Duration::try_from(kill_at.duration_since(now)).unwrap_or_default();
        self.shared.tasks.spawn("preStop", async move {
            if let Err(error) = hook.ask(limit, &patient).await {
                tracing::debug!(container = patient.container.name, %error, "preStop hook failed");
            }
            let _ended = signals.send(container::TERM).await;
        });
    }

    /// Starts the probes and the `postStart` hook of a running container.
    pub(super) fn attend(&mut self, container: &Container, target: u32) {
        let (Some(alive), Some(sandbox)) = (self.alive.get_mut(&container.name), &self.sandbox)
        else {
            return;
        };
        let token = CancellationToken::new();
        alive.probes = Some(token.clone().drop_guard());
        let patient = Arc::new(Patient {
            container: container.clone(),
            ip: sandbox.ip,
            target,
            process: alive.process.clone(),
        });
        let (run, name, updates) = (alive.run, container.name.clone(), self.updates.0.clone());
        let hook = container
            .lifecycle
            .as_ref()
            .and_then(|lifecycle| lifecycle.post_start.as_ref())
            .map(Check::from);
        let patient_of_hook = Arc::clone(&patient);
        let hook_updates = (name.clone(), updates.clone());
        let probing = async move {
            let tag = move |verdict| Update {
                container: name.clone(),
                run,
                change: Change::Probe(verdict),
            };
            probes::run(patient, updates, tag).await;
        };
        let hooking = async move {
            let Some(hook) = hook else { return };
            let limit = Duration::from_secs(GRACE.unsigned_abs());
            if let Err(error) = hook.ask(limit, &patient_of_hook).await {
                let (container, updates) = hook_updates;
                let _over = updates
                    .send(Update {
                        container,
                        run,
                        change: Change::Hook(format!("{error:#}")),
                    })
                    .await;
            }
        };
        self.shared.tasks.spawn("probes", async move {
            tokio::select! {
                () = token.cancelled() => {}
                ((), ()) = async { tokio::join!(probing, hooking) } => {}
            }
        });
    }
}
