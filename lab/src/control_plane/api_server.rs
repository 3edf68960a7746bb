//! One cluster's kube-apiserver: real, with RBAC and an audit log of everything.

use std::{
    fs,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use kube::Client;
use lab_kubelet::{Family, Network, Serving};

use super::Of;
use crate::{
    certs::{Authority, token_keys},
    process::{Process, Program},
    wait,
};

/// The audit policy: logs metadata of each completed request. Bodies would make the log too long to read.
const AUDIT_POLICY: &str = "apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  nonResourceURLs: ['/livez*', '/readyz*', '/healthz*', '/metrics']
- level: Metadata
";

/// Files with the keys of one cluster.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    dir: PathBuf,
    kubelet: Serving,
}

impl Keys {
    /// Writes the keys of a cluster to `dir`.
    pub(crate) fn write(dir: &Path, authority: &Authority, network: &Network) -> Result<Self> {
        fs::create_dir_all(dir).with_context(|| format!("make {}", dir.display()))?;
        let serving = authority.serving(
            "kube-apiserver",
            &[
                "localhost",
                "kubernetes",
                "kubernetes.default",
                "kubernetes.default.svc",
                "kubernetes.default.svc.cluster.local",
            ],
            &[
                IpAddr::V4(Ipv4Addr::LOCALHOST),
                network.first_service(),
                network.gateway(),
            ],
        )?;
        let (token_public, token_private) = token_keys()?;
        let ca = authority.pair();
        // An authority of their own: a client certificate of the cluster must not authenticate as the API server.
        let nodes = Authority::new("authority of nodes")?;
        let kubelet = nodes.serving("kubelet", &[], &[network.gateway()])?;
        let to_kubelet = nodes.client("kube-apiserver-kubelet-client", None)?;
        for (name, text) in [
            ("ca.crt", &ca.cert),
            ("ca.key", &ca.key),
            ("apiserver.crt", &serving.cert),
            ("apiserver.key", &serving.key),
            ("nodes.crt", &nodes.pair().cert),
            ("kubelet-client.crt", &to_kubelet.cert),
            ("kubelet-client.key", &to_kubelet.key),
            ("tokens.pub", &token_public),
            ("tokens.key", &token_private),
        ] {
            let path = dir.join(name);
            fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
        }
        let kubelet = Serving {
            authority: nodes.pair().cert.clone(),
            certificate: kubelet.cert,
            key: kubelet.key,
        };
        let dir = dir.to_owned();
        Ok(Self { dir, kubelet })
    }

    /// The certificates with which the kubelet serves the API server.
    pub(crate) const fn kubelet(&self) -> &Serving {
        &self.kubelet
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }
}

/// A kube-apiserver that can be stopped and started.
#[derive(Debug)]
pub(crate) struct ApiServer {
    process: Process,
}

impl ApiServer {
    /// Starts it; [`ready`](Self::ready) waits for it.
    pub(crate) fn start(
        program: &Path,
        cluster: &str,
        index: u8,
        keys: &Keys,
        network: &Network,
        dir: &Path,
    ) -> Result<Self> {
        let policy = keys.path("audit-policy.yaml");
        fs::write(&policy, AUDIT_POLICY).context("write the audit policy")?;
        let process = Program::new("kube-apiserver", program, dir)
            .flag("etcd-servers", Of::cluster(index).url())
            .flag("etcd-prefix", format!("/{cluster}"))
            // The namespace is ours alone; Pods connect over their bridge.
            .flag("bind-address", all(network.family))
            .flag("secure-port", port(index).to_string())
            // Otherwise detected from the default route, which is missing here.
            .flag("advertise-address", network.gateway().to_string())
            .flag("tls-cert-file", keys.path("apiserver.crt"))
            .flag("tls-private-key-file", keys.path("apiserver.key"))
            .flag("client-ca-file", keys.path("ca.crt"))
            .flag("kubelet-certificate-authority", keys.path("nodes.crt"))
            .flag(
                "kubelet-client-certificate",
                keys.path("kubelet-client.crt"),
            )
            .flag("kubelet-client-key", keys.path("kubelet-client.key"))
            .flag("kubelet-preferred-address-types", "InternalIP")
            .flag("cert-dir", keys.path("generated"))
            .flag("service-account-issuer", "https://kubernetes.default.svc")
            .flag("service-account-key-file", keys.path("tokens.pub"))
            .flag("service-account-signing-key-file", keys.path("tokens.key"))
            .flag(
                "service-cluster-ip-range",
                network.family.prefix(network.services),
            )
            .flag("authorization-mode", "RBAC")
            .flag("allow-privileged", "true")
            // The lab's kubelet leads the Service `kubernetes` here.
            .flag("endpoint-reconciler-type", "none")
            .flag("audit-policy-file", policy)
            .flag("audit-log-path", dir.join("audit.log"))
            // Otherwise a test could read the log before its own request is in it.
            .flag("audit-log-mode", "blocking")
            .flag("audit-log-maxsize", "10000")
            .flag("profiling", "false")
            .start()?;
        Ok(Self { process })
    }

    /// Waits until it serves everything.
    pub(crate) async fn ready(&mut self, client: &Client) -> Result<()> {
        let look = || {
            let ended = self.process.check().err();
            async move {
                if let Some(ended) = ended {
                    // Waiting longer would not bring it back.
                    return Ok(Err(ended));
                }
                let request = http::Request::get("/readyz").body(Vec::new())?;
                Ok(Ok(client.request_text(request).await?))
            }
        };
        let answer = wait::until("the API server is ready", look, |_| true).await??;
        ensure!(answer == "ok", "/readyz says {answer}");
        Ok(())
    }

    pub(crate) async fn stop(&mut self) {
        self.process.stop().await;
    }

    pub(crate) async fn kill(&mut self) {
        self.process.kill().await;
    }

    pub(crate) fn restart(&mut self) -> Result<()> {
        self.process.restart()
    }
}

/// All addresses. The lab's own programs use the loopback of IPv4, which that of IPv6 includes.
const fn all(family: Family) -> &'static str {
    match family {
        Family::V4 => "0.0.0.0",
        Family::V6 => "::",
    }
}

/// The URL of the API for Pods.
pub(crate) fn url_among_pods(network: &Network, index: u8) -> String {
    let address = SocketAddr::new(network.gateway(), port(index));
    format!("https://{address}")
}

/// Where the API server of cluster number `index` listens inside the lab.
pub(crate) const fn port(index: u8) -> u16 {
    6443 + index as u16
}
