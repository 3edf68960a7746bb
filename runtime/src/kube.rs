//! The Kubernetes client, and a watch that lasts.

use std::path::PathBuf;
use std::time::Duration;

use ::kube::config::{InferConfigError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use ::kube::{Client, Config};
use http::header::{HeaderValue, USER_AGENT};

use crate::args::KubeArgs;

mod watch;

pub use watch::{Event, Gone, Sighting, Watch, watch_if_served, watch_trimmed};

/// A TCP and TLS connect that takes longer than this will not succeed.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kubeconfig file cannot be used.
    #[error("read kubeconfig {path:?}")]
    ReadKubeconfig {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: Box<KubeconfigError>,
    },
    /// No kubeconfig was given and none was found.
    #[error("find out how to reach the Kubernetes API")]
    Infer(#[source] Box<InferConfigError>),
    /// The settings do not make a client.
    #[error("build the Kubernetes client")]
    Build(#[source] Box<::kube::Error>),
}

/// A client for the cluster that the arguments name, or for the one that we run in.
///
/// # Errors
/// The kubeconfig or the pod's `ServiceAccount` cannot be used.
pub async fn client(args: &KubeArgs, user_agent: &str) -> Result<Client, Error> {
    let mut config = config(args).await?;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    // Out of a cluster HTTPS_PROXY would count here too; it is for the way to the hub.
    config.proxy_url = None;
    if let Ok(value) = HeaderValue::from_str(user_agent) {
        config.headers.push((USER_AGENT, value));
    }
    Client::try_from(config).map_err(|error| Error::Build(Box::new(error)))
}

async fn config(args: &KubeArgs) -> Result<Config, Error> {
    let KubeArgs {
        kubeconfig,
        kubecontext,
    } = args;
    let options = KubeConfigOptions {
        context: kubecontext.clone(),
        ..Default::default()
    };
    let unreadable = |path: PathBuf| {
        move |error| Error::ReadKubeconfig {
            path,
            source: Box::new(error),
        }
    };
    match kubeconfig {
        // An empty path is what Go's flag default looks like in a manifest.
        Some(path) if !path.as_os_str().is_empty() => {
            let file = Kubeconfig::read_from(path).map_err(unreadable(path.clone()))?;
            Config::from_custom_kubeconfig(file, &options)
                .await
                .map_err(unreadable(path.clone()))
        }
        _ if kubecontext
            .as_ref()
            .is_some_and(|context| !context.is_empty()) =>
        {
            let path = PathBuf::from("$KUBECONFIG");
            Config::from_kubeconfig(&options)
                .await
                .map_err(unreadable(path))
        }
        _ => Config::infer()
            .await
            .map_err(|error| Error::Infer(Box::new(error))),
    }
}
