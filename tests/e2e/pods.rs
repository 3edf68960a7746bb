//! Pods of the lab's kubelet, in which everything else in the lab runs.

pub(crate) mod asked;

use std::{fs, sync::Arc};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ContainerStatus, Pod, Secret, Service},
};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use lab::{Cluster, Lab, wait};
use lab_kubelet::{Image, printed};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::traces::Traces;

/// A shell that runs its first argument.
pub(crate) const SHELL: &str = "lab.local/shell:1";
/// A server that answers PING with PONG.
const SERVER: &str = "lab.local/redis:1";

pub(crate) async fn a_service_is_reached_under_every_name(lab: Arc<Lab>) -> Result<()> {
    let place = Place::new(&lab, 1, "names").await?;
    place.serve("ClusterIP").await?;
    let names = [
        "server",
        "server.names",
        "server.names.svc",
        "server.names.svc.cluster.local",
    ];
    for name in names {
        let output = place
            .run(&format!("ask-{}", name.len()), &ask(name))
            .await?;
        ensure!(output.trim() == "PONG", "{name} answered {output}");
    }
    place.leave().await
}

pub(crate) async fn a_load_balancer_leads_to_pods(lab: Arc<Lab>) -> Result<()> {
    let place = Place::new(&lab, 1, "balanced").await?;
    place.serve("LoadBalancer").await?;
    let services: Api<Service> = place.api();
    let address = |service: &Service| {
        let status = service.status.as_ref()?.load_balancer.as_ref()?;
        status.ingress.as_ref()?.first()?.ip.clone()
    };
    let found = wait::object(&services, "server", "gets its address", |service| {
        address(service).is_some()
    })
    .await?;
    let address = address(&found).context("an address")?;
    ensure!(pong(&address).await? == "+PONG\r\n");
    place.leave().await
}

pub(crate) async fn a_service_of_another_cluster_is_out_of_reach(lab: Arc<Lab>) -> Result<()> {
    let (here, there) = (
        Place::new(&lab, 0, "apart").await?,
        Place::new(&lab, 1, "apart").await?,
    );
    here.serve("ClusterIP").await?;
    let service = here.api::<Service>().get("server").await?;
    let address = service
        .spec
        .and_then(|spec| spec.cluster_ip)
        .context("an address")?;
    ensure!(here.run("neighbour", &ask(&address)).await?.trim() == "PONG");
    let output = there.run("stranger", &ask(&address)).await?;
    ensure!(!output.contains("PONG"), "{output}");
    here.leave().await?;
    there.leave().await
}

pub(crate) async fn a_container_matches_its_pod_spec(lab: Arc<Lab>) -> Result<()> {
    let place = Place::new(&lab, 1, "inside").await?;
    // A user namespace of one user has no other.
    let all_users = fs::read_to_string("/proc/self/uid_map")?.contains("4294967295");
    let user = if all_users { "1000" } else { "0" };
    let script = "set -e
        test $(id -u) = $EXPECTED_USER
        ! touch /usr/x 2>&-
        ! touch /x 2>&-
        touch /data/x
        test -s /var/run/secrets/kubernetes.io/serviceaccount/token
        test $(cat /var/run/secrets/kubernetes.io/serviceaccount/namespace) = inside
        test $NAME = content
        test $KUBERNETES_SERVICE_PORT = 443
        test $(hostname) = content
        ! ls /work /home/* 2>&-
        echo all passed";
    let pod = json!({
        "containers": [{
            "name": "c", "image": SHELL, "args": [script],
            "env": [
                { "name": "NAME", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } },
                { "name": "EXPECTED_USER", "value": user },
            ],
            "securityContext": { "readOnlyRootFilesystem": true, "runAsUser": 1000 },
            "volumeMounts": [{ "name": "data", "mountPath": "/data" }],
        }],
        "volumes": [{ "name": "data", "emptyDir": {} }],
        "restartPolicy": "Never",
    });
    place.create("content", pod).await?;
    let output = place.end_of("content").await?;
    ensure!(output.trim() == "all passed", "{output}");
    place.leave().await
}

pub(crate) async fn a_volume_follows_its_secret(lab: Arc<Lab>) -> Result<()> {
    let place = Place::new(&lab, 1, "secrets").await?;
    let secrets: Api<Secret> = place.api();
    let secret =
        |word: &str| json!({ "metadata": { "name": "s" }, "stringData": { "word": word } });
    secrets
        .create(
            &PostParams::default(),
            &serde_json::from_value(secret("first"))?,
        )
        .await?;
    let script = "cat /secret/word; echo; until grep -q second /secret/word; do sleep 0.05; done; cat /secret/word";
    let pod = json!({
        "containers": [{
            "name": "c", "image": SHELL, "args": [script],
            "volumeMounts": [{ "name": "secret", "mountPath": "/secret" }],
        }],
        "volumes": [{ "name": "secret", "secret": { "secretName": "s" } }],
        "restartPolicy": "Never",
    });
    place.create("reader", pod).await?;
    let log = place.log("reader");
    let read = || async { Ok(printed(&log)?) };
    wait::until("the first word is read", read, |text| {
        text.starts_with("first")
    })
    .await?;
    secrets
        .patch(
            "s",
            &PatchParams::default(),
            &Patch::Merge(secret("second")),
        )
        .await?;
    let output = place.end_of("reader").await?;
    ensure!(output == "first\nsecond", "{output}");
    place.leave().await
}

pub(crate) async fn a_crashed_container_restarts_and_reports_its_exit_code(
    lab: Arc<Lab>,
) -> Result<()> {
    let place = Place::new(&lab, 1, "crashes").await?;
    place
        .create(
            "crash",
            json!({ "containers": [container("echo oh; exit 3")] }),
        )
        .await?;
    let status = place
        .until("crash", "was begun twice again", |status| {
            status.restart_count >= 2
        })
        .await?;
    let last = status
        .last_state
        .and_then(|state| state.terminated)
        .context("a last end")?;
    ensure!(last.exit_code == 3, "{last:?}");
    place.leave().await
}

pub(crate) async fn a_container_that_fails_its_liveness_probe_is_replaced(
    lab: Arc<Lab>,
) -> Result<()> {
    let place = Place::new(&lab, 1, "liveness").await?;
    // Only its second run is healthy. Process 1 ignores SIGTERM, so it gets SIGKILL.
    let script = "test -e /data/again && touch /tmp/well; touch /data/again; exec sleep infinity";
    let mut container = container(script);
    container["livenessProbe"] =
        json!({ "exec": { "command": ["test", "-e", "/tmp/well"] }, "failureThreshold": 1 });
    container["volumeMounts"] = json!([{ "name": "data", "mountPath": "/data" }]);
    let pod = json!({
        "containers": [container],
        "volumes": [{ "name": "data", "emptyDir": {} }],
        "terminationGracePeriodSeconds": 1,
    });
    place.create("ill", pod).await?;
    let again = |status: &ContainerStatus| status.ready && status.restart_count == 1;
    place.until("ill", "is ready again", again).await?;
    place.leave().await
}

pub(crate) async fn a_pod_without_its_image_backs_off_until_the_pull_succeeds(
    lab: Arc<Lab>,
) -> Result<()> {
    const LATE: &str = "lab.local/late";
    let place = Place::new(&lab, 1, "late").await?;
    let mut container = container("exec sleep infinity");
    container["image"] = json!(LATE);
    place
        .create("late", json!({ "containers": [container] }))
        .await?;
    let waits = |status: &ContainerStatus| {
        let waiting = status
            .state
            .as_ref()
            .and_then(|state| state.waiting.as_ref());
        waiting.and_then(|waiting| waiting.reason.as_deref()) == Some("ImagePullBackOff")
    };
    place.until("late", "waits for its image", waits).await?;
    lab.images().insert(LATE, shell());
    place
        .until("late", "is ready", |status| status.ready)
        .await?;
    place.leave().await
}

pub(crate) async fn a_pod_lives_on_while_the_api_is_away(lab: Arc<Lab>) -> Result<()> {
    let place = Place::new(&lab, 1, "away").await?;
    let script = "echo began; until test -e /data/end; do sleep 0.05; done; echo ended";
    let mut container = container(script);
    container["volumeMounts"] = json!([{ "name": "data", "mountPath": "/data" }]);
    let shared = tempfile::tempdir()?;
    let volume = json!({ "name": "data", "hostPath": { "path": shared.path() } });
    let pod = json!({ "containers": [container], "volumes": [volume], "restartPolicy": "Never" });
    place.create("steady", pod).await?;
    place
        .until("steady", "is ready", |status| status.ready)
        .await?;
    place.cluster.kill_api().await;
    fs::write(shared.path().join("end"), "")?;
    let log = place.log("steady");
    let read = || async { Ok(printed(&log)?) };
    wait::until("it ends while the API is down", read, |text| {
        text.contains("ended")
    })
    .await?;
    place.cluster.start_api().await?;
    let output = place.end_of("steady").await?;
    ensure!(output == "began\nended\n", "{output}");
    place.leave().await
}

pub(crate) async fn a_deleted_pod_gets_sigterm_and_leaves_nothing(lab: Arc<Lab>) -> Result<()> {
    let before = Traces::now()?;
    let place = Place::new(&lab, 1, "goodbye").await?;
    // It leaves a child behind, which must not outlive it.
    let script = "trap 'echo bye; exit 0' TERM; sleep infinity & echo hi; wait; wait";
    place
        .create("polite", json!({ "containers": [container(script)] }))
        .await?;
    place
        .until("polite", "is ready", |status| status.ready)
        .await?;
    let log = place.log("polite");
    let read = || async { Ok(printed(&log)?) };
    wait::until("it listens", read, |text| text == "hi\n").await?;
    ensure!(
        Traces::now()? != before,
        "a Pod leaves traces while it runs"
    );
    let pods: Api<Pod> = place.api();
    pods.delete("polite", &DeleteParams::default()).await?;
    wait::gone(&pods, "polite").await?;
    ensure!(printed(&log)? == "hi\nbye\n");
    before.are_all_there_is().await?;
    place.leave().await
}

/// A namespace of one test on one cluster.
struct Place {
    cluster: Cluster,
    namespace: &'static str,
}

impl Place {
    async fn new(lab: &Lab, index: usize, namespace: &'static str) -> Result<Self> {
        lab.images().insert(SHELL, shell());
        let server = &lab.tools().redis_server;
        lab.images().insert(
            SERVER,
            Image::of_program("/usr/local/bin/redis-server", server),
        );
        let cluster = lab.clusters().get(index).context("a cluster")?.clone();
        let yaml = format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: {namespace}}}}}");
        cluster.apply(&yaml).await?;
        Ok(Self { cluster, namespace })
    }

    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.cluster.client(), self.namespace)
    }

    /// Starts the deletion of everything, without waiting for it.
    async fn leave(&self) -> Result<()> {
        let namespaces: Api<k8s_openapi::api::core::v1::Namespace> =
            Api::all(self.cluster.client());
        namespaces
            .delete(self.namespace, &DeleteParams::default())
            .await?;
        Ok(())
    }

    async fn create(&self, name: &str, mut spec: Value) -> Result<()> {
        // Tests end sooner.
        if spec["terminationGracePeriodSeconds"].is_null() {
            spec["terminationGracePeriodSeconds"] = json!(5);
        }
        let pod = json!({ "metadata": { "name": name }, "spec": spec });
        let pods: Api<Pod> = self.api();
        // The controller manager makes the account that Pods run as.
        let make = || async {
            Ok(pods
                .create(
                    &PostParams::default(),
                    &serde_json::from_value(pod.clone())?,
                )
                .await?)
        };
        wait::until("the Pod is admitted", make, |_| true)
            .await
            .map(drop)
    }

    /// Runs a script in a Pod of its own to its end, and returns what it printed.
    async fn run(&self, name: &str, script: &str) -> Result<String> {
        let spec = json!({ "containers": [container(script)], "restartPolicy": "Never" });
        self.create(name, spec).await?;
        self.end_of(name).await
    }

    async fn end_of(&self, name: &str) -> Result<String> {
        let over = |pod: &Pod| {
            let phase = pod
                .status
                .as_ref()
                .and_then(|status| status.phase.as_deref());
            matches!(phase, Some("Succeeded" | "Failed"))
        };
        wait::object(&self.api::<Pod>(), name, "is over", over).await?;
        printed(&self.log(name)).context("read the log")
    }

    /// The file with what the first run of the Pod's container `c` printed.
    fn log(&self, pod: &str) -> std::path::PathBuf {
        self.cluster
            .dir()
            .join("pods")
            .join(self.namespace)
            .join(pod)
            .join("c.0.log")
    }

    /// Waits until the only container of a Pod fits.
    async fn until(
        &self,
        pod: &str,
        what: &str,
        fits: impl Fn(&ContainerStatus) -> bool,
    ) -> Result<ContainerStatus> {
        let of = |pod: &Pod| {
            let status = pod.status.as_ref()?;
            status.container_statuses.as_ref()?.first().cloned()
        };
        let pods: Api<Pod> = self.api();
        let pod = wait::object(&pods, pod, what, |pod| of(pod).as_ref().is_some_and(&fits)).await?;
        of(&pod).context("a container")
    }

    /// Starts two servers behind a Service, and waits until they are available.
    async fn serve(&self, kind: &str) -> Result<()> {
        let objects = json!({ "apiVersion": "v1", "kind": "Service",
            "metadata": { "name": "server", "namespace": self.namespace },
            "spec": { "type": kind, "selector": { "app": "server" }, "ports": [{ "port": 6379 }] },
        });
        self.cluster.apply(&objects.to_string()).await?;
        let deployment = json!({ "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "name": "server", "namespace": self.namespace },
            "spec": {
                "replicas": 2,
                "selector": { "matchLabels": { "app": "server" } },
                "template": {
                    "metadata": { "labels": { "app": "server" } },
                    "spec": { "containers": [{
                        "name": "c", "image": SERVER,
                        "args": ["--protected-mode", "no", "--save", "", "--dir", "/tmp"],
                        "readinessProbe": { "tcpSocket": { "port": 6379 } },
                    }] },
                },
            },
        });
        self.cluster.apply(&deployment.to_string()).await?;
        let available = |deployment: &Deployment| {
            let status = deployment.status.as_ref();
            status.and_then(|status| status.available_replicas) == Some(2)
        };
        let deployments: Api<Deployment> = self.api();
        wait::object(&deployments, "server", "is available", available)
            .await
            .map(drop)
    }
}

pub(crate) fn shell() -> Image {
    Image {
        entrypoint: ["/bin/sh", "-c"].map(str::to_owned).into(),
        ..Image::default()
    }
}

fn container(script: &str) -> Value {
    json!({ "name": "c", "image": SHELL, "args": [script] })
}

/// Asks a server for a PONG, once, by a tool that comes with it.
fn ask(host: &str) -> String {
    format!("exec redis-cli -h {host} ping")
}

async fn pong(address: &str) -> Result<String> {
    let mut stream = TcpStream::connect((address, 6379)).await?;
    stream.write_all(b"PING\r\n").await?;
    let mut answer = [0; 7];
    stream.read_exact(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
