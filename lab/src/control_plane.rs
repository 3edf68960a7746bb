//! The programs of the control planes: an etcd for the hub and one for all spokes, an API server and a controller manager for each cluster.

mod api_server;
mod controller_manager;
mod etcd;

pub(crate) use api_server::{ApiServer, Keys, port, url_among_pods};
pub(crate) use controller_manager::program as controller_manager;
pub(crate) use etcd::{Etcd, Of};
