//! The Kubernetes client, with a timeout for a silent API server, and a watch that recovers from errors.

use std::path::PathBuf;
use std::time::Duration;

use ::kube::client::ClientBuilder;
use ::kube::config::{InferConfigError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use ::kube::{Client, Config};
use http::header::{HeaderValue, USER_AGENT};
use tower::layer::layer_fn;
use tower::limit::RateLimitLayer;

use crate::args::KubeArgs;
use crate::lease::fence::AtSend;
use crate::parts::Spawner;

mod history;
mod response_timeout;
mod underway;
mod watch;

pub use history::with_history;
pub use underway::UnderWay;
pub use watch::{Event, Gone, Guarded, Observation, Watch, watch_if_served, watch_trimmed};

/// A TCP and TLS connect that takes longer than this will not succeed.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kubeconfig file is invalid.
    #[error("read kubeconfig {path:?}")]
    ReadKubeconfig {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: Box<KubeconfigError>,
    },
    /// No kubeconfig was given and none was found.
    #[error("find the configuration of the Kubernetes API")]
    Infer(#[source] Box<InferConfigError>),
    /// The settings are invalid.
    #[error("build the Kubernetes client")]
    Build(#[source] Box<::kube::Error>),
}

/// A client for the cluster of the arguments, or for the one that we run in.
///
/// # Errors
/// The kubeconfig or the Pod's `ServiceAccount` is invalid.
pub async fn client(args: &KubeArgs, user_agent: &str) -> Result<Client, Error> {
    build(args, prepared(args, user_agent).await?)
}

/// A client like [`client`], with connections of its own on the runtime of `spawner`.
///
/// # Errors
/// As for [`client`].
pub async fn client_of(
    args: &KubeArgs,
    user_agent: &str,
    spawner: &Spawner,
) -> Result<Client, Error> {
    let config = prepared(args, user_agent).await?;
    spawner.within(|| build(args, config))
}

async fn prepared(args: &KubeArgs, user_agent: &str) -> Result<Config, Error> {
    let mut config = config(args).await?;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    // HTTPS_PROXY is for the connection to the hub; outside of a cluster the client would use it, too.
    config.proxy_url = None;
    if let Ok(value) = HeaderValue::from_str(user_agent) {
        config.headers.push((USER_AGENT, value));
    }
    Ok(config)
}

fn build(args: &KubeArgs, config: Config) -> Result<Client, Error> {
    let client = ClientBuilder::try_from(config).map_err(|error| Error::Build(Box::new(error)))?;
    let client = client.with_layer(&layer_fn(AtSend));
    let client = client.with_layer(&layer_fn(response_timeout::ResponseTimeout));
    Ok(with_history(match pace(args) {
        Some(pace) => client.with_layer(&pace).build(),
        None => client.build(),
    }))
}

/// The rate limit: a burst of requests, then the same burst again after the time that the average rate needs for it.
fn pace(args: &KubeArgs) -> Option<RateLimitLayer> {
    let burst = args.kube_api_burst.max(1);
    let whole = Duration::from_secs(burst.into());
    let time = whole.checked_div(args.kube_api_qps)?;
    Some(RateLimitLayer::new(burst.into(), time))
}

async fn config(args: &KubeArgs) -> Result<Config, Error> {
    let options = KubeConfigOptions {
        context: args.kubecontext.clone(),
        ..Default::default()
    };
    // An empty path is the default of Go's flag in a manifest.
    let file = args.kubeconfig.as_ref();
    let file = file.filter(|path| !path.as_os_str().is_empty());
    let has_context = options.context.as_ref().is_some_and(|it| !it.is_empty());
    let read = match file {
        Some(path) => match Kubeconfig::read_from(path) {
            Ok(file) => Config::from_custom_kubeconfig(file, &options).await,
            Err(error) => Err(error),
        },
        None if has_context => Config::from_kubeconfig(&options).await,
        None => {
            let inferred = Config::infer().await;
            return inferred.map_err(|error| Error::Infer(Box::new(error)));
        }
    };
    read.map_err(|error| Error::ReadKubeconfig {
        path: file.cloned().unwrap_or_else(|| "$KUBECONFIG".into()),
        source: Box::new(error),
    })
}

#[cfg(test)]
mod tests {
    use ::kube::client::Body;
    use http::Request;
    use serde_json::json;
    use tokio::net::TcpListener;
    use tokio::time::{Instant, timeout};
    use tower::{Service as _, ServiceBuilder, ServiceExt as _};

    use super::*;
    use crate::error::Chain;
    use crate::lease::Fence;

    fn args(qps: u32, burst: u32) -> KubeArgs {
        KubeArgs {
            kubeconfig: None,
            kubecontext: None,
            kube_api_qps: qps,
            kube_api_burst: burst,
        }
    }

    /// Accepts every connection and never sends anything.
    async fn silent_api(listener: TcpListener) -> ! {
        let mut retained = vec![];
        loop {
            retained.push(listener.accept().await.unwrap());
        }
    }

    /// A client of the API at this address.
    async fn client_at(listener: &TcpListener) -> Client {
        let directory = tempfile::tempdir().unwrap();
        let kubeconfig = directory.path().join("kubeconfig");
        let config = json!({
            "clusters": [{ "name": "c", "cluster": { "server": format!("http://{}", listener.local_addr().unwrap()) } }],
            "contexts": [{ "name": "x", "context": { "cluster": "c", "user": "" } }],
            "current-context": "x",
        });
        std::fs::write(&kubeconfig, config.to_string()).unwrap();
        let args = KubeArgs {
            kubeconfig: Some(kubeconfig),
            ..args(0, 0)
        };
        client(&args, "test").await.unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn request_to_a_silent_api_server_times_out() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = client_at(&listener).await;
        let asking = async { client.apiserver_version().await.unwrap_err() };
        let asking = timeout(Duration::from_mins(10), asking);
        let error = tokio::select! {
            error = asking => error.expect("a timeout of the request"),
            never = silent_api(listener) => never,
        };
        let stated = Chain(&error).to_string();
        assert!(stated.contains("timed out after 65 seconds"), "{stated}");
    }

    /// The fence of a request gets through all layers of the client to the one that checks it last.
    #[tokio::test(start_paused = true)]
    async fn a_write_behind_a_closed_fence_does_not_leave() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = client_at(&listener).await;
        let mut write = Request::post("/api/v1/namespaces")
            .body(Body::empty())
            .unwrap();
        write.extensions_mut().insert(Fence::closed());
        let error = client.send(write).await.map(drop).unwrap_err();
        let stated = Chain(&error).to_string();
        assert!(stated.contains("does not lead"), "{stated}");
    }

    #[tokio::test(start_paused = true)]
    async fn rate_limit_allows_a_burst_and_bounds_the_average() {
        let layer = pace(&args(100, 50)).unwrap();
        let api = tower::service_fn(|()| std::future::ready(Ok::<_, std::convert::Infallible>(())));
        let mut api = ServiceBuilder::new().layer(layer).service(api);
        let begun = Instant::now();
        let mut at = vec![];
        for _ in 0..500 {
            api.ready().await.unwrap().call(()).await.unwrap();
            at.push(begun.elapsed());
        }
        assert_eq!(at.get(49), Some(&Duration::ZERO));
        let last = at.last().unwrap().as_millis();
        assert!((4000..5500).contains(&last), "{last} ms");
    }

    #[test]
    fn qps_of_zero_disables_the_rate_limit() {
        assert!(pace(&args(0, 300)).is_none());
    }
}
