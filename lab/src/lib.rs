//! The lab: a test bed of real Kubernetes control planes on one machine, without containers.
//!
//! A [`Lab`] is a hub and some spokes: kube-apiserver and kube-controller-manager for each, an etcd for the hub and one for
//! all spokes, and by [`Options`] Pods, Open Cluster Management and Argo CD. Everything runs in namespaces of its own
//! (processes, mounts, network), see [`namespaces`]: when the first process in there ends, for any reason,
//! the kernel ends everything else.
//!
//! ```text
//!   caller's terminal                         inside the namespaces
//!   ┌────────────────────────┐   ┌──────────────────────────────────────────────────────────────┐
//!   │ `lab up`, test runner  │──▶│ init ─▶ Lab ─┬─ etcd                                          │
//!   │ relays 127.0.0.1:random│──▶│              ├─ hub      apiserver, controller-manager, kubelet│
//!   └────────────────────────┘   │              ├─ spoke1   apiserver, controller-manager, kubelet│
//!                                │              └─ git daemon, OCM, fault-injecting balancer      │
//!                                └──────────────────────────────────────────────────────────────┘
//! ```
//!
//! The rules of waiting: no sleeping, [`wait`] for a value, with a bound; a failure prints the awaited value
//! and the last one seen, and [`world`] keeps the rest.

#![expect(
    clippy::indexing_slicing,
    reason = "of JSON, which answers null for absent members; no hostile client connects to the lab"
)]

pub mod argocd;
pub mod audit;
pub mod bench;
pub mod call;
pub mod certs;
pub mod cluster;
pub mod collector;
pub mod connect;
pub mod coverage;
pub mod demo;
pub mod e2e_test;
pub mod edge;
pub mod faults;
pub mod git;
pub mod hello;
pub mod helm;
pub mod kubeconfig;
pub mod metrics;
pub mod mutants;
pub mod namespaces;
pub mod network;
pub mod pages;
pub mod peers;
pub mod process;
pub mod product;
pub mod progress;
pub mod prometheus;
pub mod raw_client;
pub mod redis;
pub mod results;
pub mod steps;
pub mod tools;
pub mod up;
pub mod wait;
pub mod world;

mod apply;
mod bed;
mod control_plane;
mod tls;

pub use bed::{Lab, Ocm, Options, Past};
pub use cluster::Cluster;
pub use lab_kubelet::Family;
pub use tools::Tools;
