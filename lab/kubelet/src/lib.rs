//! The lab's process kubelet: what makes Pods run in a cluster that has no nodes.
//!
//! One [`Kubelet`] plays five parts for one cluster: the scheduler (binds Pods to the only node),
//! the kubelet (runs them, probes them, restarts them, reports them, ends them), kube-proxy (leads
//! each `ClusterIP` to the ready endpoints), cluster DNS, and the load balancer of a cloud.
//! Everything else is left to the real kube-apiserver and kube-controller-manager, so a Deployment
//! here goes the way it goes anywhere.
//!
//! A container is a process of this machine. It gets its own mount namespace with a root made of
//! the machine's `/usr` and `/etc` under an overlay, the files of its [`Image`] and its volumes at
//! their true paths; its own process namespace, so that nothing it started outlives it; and the
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
//! Namespaces are entered by calling the running program again, so its `main` must begin with
//! [`maybe_become_container`]. The caller gives the kubelet a mount and network namespace of its
//! own (the lab does, for all clusters together): bridges and addresses are made there and go with
//! it.
//!
//! The API server asks this node for logs and commands as it asks any other: `kubectl logs` shows the
//! log files, with all its options, and `kubectl exec` runs commands in containers, with a terminal if
//! it wants one. That goes over `WebSockets`, as today's clients do it; SPDY is refused.
//!
//! What it does not do, and says so where a Pod asks for it: gRPC probes, persistent volume claims and
//! other volumes of drivers. What it passes over in silence: resource limits, capabilities, affinity
//! and taints, `hostPort`, Services by UDP, ephemeral containers. `kubectl attach` and
//! `kubectl port-forward` are not served.
//!
//! //! It must never know what the Pods are for: no product, no Argo CD, no OCM in this crate.

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
pub use config::{Config, Network, Serving};
pub use images::{File, Image, Images, Source};
pub use inside::maybe_become_container;
pub use kubelet::Kubelet;
pub use log::printed;
