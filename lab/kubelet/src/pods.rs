//! The Pods of the node: one worker each, from the moment they are bound until they are gone.

mod launch;
mod plan;
mod record;
mod report;
mod status;
mod worker;

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use k8s_openapi::api::core::v1::Pod;
use kube::{Client, ResourceExt};
use tokio::sync::watch;

use crate::{
    Images, Network, events::Events, net::Addresses, objects::Objects, running::Running,
    tasks::Tasks, watched::Watched,
};

/// The state that all workers share.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) client: Client,
    /// The name of the node.
    pub(crate) node: String,
    pub(crate) network: Network,
    pub(crate) addresses: Addresses,
    pub(crate) running: Running,
    pub(crate) images: Images,
    pub(crate) objects: Objects,
    pub(crate) events: Events,
    pub(crate) state: PathBuf,
    pub(crate) logs: PathBuf,
    pub(crate) tasks: Tasks,
}

/// Gives every Pod of the node a worker, and notifies the workers about changes of their Pods,
/// until the kubelet stops.
pub(crate) async fn run(shared: Shared, mut pods: Watched<Pod>) {
    // The newest version of each Pod, by UID; none when it is gone.
    let mut workers: BTreeMap<String, watch::Sender<Option<Arc<Pod>>>> = BTreeMap::new();
    loop {
        pods.changed().await;
        let on_node = |pod: &Arc<Pod>| {
            pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some(&shared.node)
        };
        let mut here: BTreeMap<String, Arc<Pod>> = pods
            .all()
            .into_iter()
            .filter(on_node)
            .map(|pod| (pod.uid().unwrap_or_default(), pod))
            .collect();
        workers.retain(|uid, worker| {
            let newest = here.remove(uid);
            let stays = newest.is_some();
            worker.send_if_modified(|known| {
                let updates = known.as_ref().map(|pod| pod.resource_version())
                    != newest.as_ref().map(|pod| pod.resource_version());
                *known = newest;
                updates
            });
            stays
        });
        for (uid, pod) in here {
            let (worker, newest) = watch::channel(Some(Arc::clone(&pod)));
            let run = worker::Worker::new(shared.clone(), pod, newest).run();
            shared.tasks.spawn_orderly("pod", run);
            workers.insert(uid, worker);
        }
    }
}
