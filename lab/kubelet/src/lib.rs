//! The lab's process kubelet: it runs the Pods of a cluster that has no nodes.
//!
//! One [`Kubelet`] plays five parts for one cluster: the scheduler (binds Pods to the only node),
//! the kubelet (runs them, probes them, restarts them, reports them, ends them), kube-proxy (leads
//! each `ClusterIP` to the ready endpoints), cluster DNS, and the load balancer of a cloud.
//! The real kube-apiserver and kube-controller-manager do everything else, so a Deployment behaves
//! as on any cluster.
//!
//! A container is a process of this machine. It gets its own mount namespace with a root made of
//! the machine's `/usr` and `/etc` under an overlay, the files of its [`Image`] and its volumes at
//! their true paths; its own process namespace, so that no process outlives it; and the
//! network namespace of its Pod, with an address on the cluster's bridge.
//!
//! ```text
//!   watch Pods, ConfigMaps, Secrets, Services, EndpointSlices        (kube::Client)
//!        |
//!   scheduler --> pods: one worker a Pod --> sandbox   (re-exec: owns the network namespace)
//!                   |  plan (pure)       --> container (re-exec: shim -> process 1 in its namespaces)
//!                   |                    --> volumes, env, probes
//!                   '--> Pod status
//!   services --> listeners on `ClusterIPs` and balancer addresses --> Pod addresses
//!   dns      --> port 53 of the bridge
//!   server   --> logs and commands for the API server, port 10250 of the bridge
//! ```
//!
//! The kubelet enters namespaces by executing the running program again, so its `main` must begin
//! with [`maybe_become_container`]. The caller gives the kubelet a mount and network namespace of
//! its own (the lab does, for all clusters together): it creates bridges and addresses there, and
//! they disappear with it.
//!
//! The API server asks this node for logs and commands like any other node: `kubectl logs` shows the
//! log files, with all its options, and `kubectl exec` runs commands in containers, with a terminal if
//! requested. `kubectl exec` uses `WebSockets`, as today's clients do; SPDY is refused.
//!
//! Not supported, with an error where a Pod asks for it: gRPC probes, persistent volume claims and
//! other volumes of drivers. Ignored without an error: resource limits, capabilities, affinity
//! and taints, `hostPort`, Services by UDP, ephemeral containers. `kubectl attach` and
//! `kubectl port-forward` are not served.
//!
//! This crate must not know the purpose of the Pods: no product, no Argo CD, no OCM.

mod balancer;
mod command;
mod config;
mod container;
mod dns;
mod env;
mod events;
mod images;
mod inside;
mod kubelet;
mod log;
mod net;
mod node;
mod objects;
mod pods;
mod probes;
mod running;
mod sandbox;
mod scheduler;
mod server;
mod services;
mod tasks;
mod terminal;
mod volumes;
mod watched;

pub use balancer::{Direct, Forward, LoadBalancers, Target};
pub use config::{Config, Family, Network, Serving};
pub use images::{File, Image, Images, Source};
pub use inside::maybe_become_container;
pub use kubelet::Kubelet;
pub use log::printed;
