//! The replicas of the hub program: each has a Lease, in which users and other replicas see that it lives and its version.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Client;
use runtime::{
    clock::Clock,
    members::{self, Members, Replica},
    parts::Spawner,
};
use tokio::sync::watch;

use crate::{args::ManagerArgs, keys, metrics};

/// Joins the replicas; none outside of a Pod, where nothing makes a Lease garbage.
pub fn join(
    client: Client,
    args: &ManagerArgs,
    identity: String,
    spawner: &Spawner,
) -> Option<watch::Receiver<Members>> {
    let (name, uid) = args.pod()?;
    let replica = Replica {
        namespace: args.own_namespace.clone(),
        name: name.to_owned(),
        identity,
        label: (keys::REPLICA_OF, keys::MANAGER),
        owner: OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            name: name.to_owned(),
            uid: uid.to_owned(),
            ..OwnerReference::default()
        },
        annotations: BTreeMap::from([(keys::VERSION.to_owned(), metrics::version())]),
    };
    Some(members::join(client, replica, Clock::system(), spawner))
}
