//! From a kubeconfig to a client, through the forward proxy where one is set.

use std::{path::Path, time::Duration};

use http::Uri;
use hyper::rt::{Read, Write};
use hyper_util::{
    client::{
        legacy::{
            Client as Http,
            connect::{
                Connection, HttpConnector,
                proxy::{SocksV5, Tunnel},
            },
        },
        proxy::matcher::Matcher,
    },
    rt::TokioExecutor,
};
use kube::{
    Client, Config,
    client::{Body, ConfigExt as _},
    config::{KubeConfigOptions, Kubeconfig},
};
use tower::{BoxError, Service, ServiceBuilder};

use super::chain;

/// Connection timeout: a user waits, and an API server that takes longer will not answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The kubeconfig, as kubectl finds it.
pub(super) async fn config(
    kubeconfig: Option<&Path>,
    context: Option<&str>,
) -> Result<Config, String> {
    let options = KubeConfigOptions {
        context: context.map(str::to_owned),
        ..KubeConfigOptions::default()
    };
    let file = match (kubeconfig, context) {
        (Some(path), _) => Kubeconfig::read_from(path),
        (None, Some(_)) => Kubeconfig::read(),
        (None, None) => return Config::infer().await.map_err(chain),
    };
    let config = Config::from_custom_kubeconfig(file.map_err(chain)?, &options).await;
    config.map_err(chain)
}

/// What is reached without a proxy, as `NO_PROXY` has it.
pub(super) fn exceptions() -> String {
    let variables = ["NO_PROXY", "no_proxy"].into_iter();
    let mut values = variables.filter_map(|name| std::env::var(name).ok());
    values.find(|value| !value.is_empty()).unwrap_or_default()
}

/// The next step after a failed connection.
pub(super) fn by_way_of(proxy: Option<&str>) -> String {
    match proxy {
        Some(proxy) => {
            format!(
                "; the connection uses the proxy {proxy} (proxy-url of the kubeconfig, or HTTPS_PROXY)"
            )
        }
        None => "; check that its API is reachable from this machine, or choose another context"
            .to_owned(),
    }
}

/// The client, and its proxy without credentials. The proxy is that of the
/// kubeconfig, else that of the environment.
pub(super) fn client(mut config: Config, except: &str) -> Result<(Client, Option<String>), String> {
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    let proxy = config.proxy_url.take().map(|proxy| proxy.to_string());
    let matcher = proxy.map(|proxy| Matcher::builder().all(proxy).no(except).build());
    let Some(route) = matcher.and_then(|it| it.intercept(&config.cluster_url)) else {
        let client = Client::try_from(config).map_err(chain)?;
        return Ok((client, None));
    };
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
    let uri = route.uri().clone();
    let client = match uri.scheme_str() {
        Some("http") => {
            let mut tunnel = Tunnel::new(uri.clone(), tcp);
            if let Some(credentials) = route.basic_auth() {
                tunnel = tunnel.with_auth(credentials.clone());
            }
            over(&config, tunnel)?
        }
        Some("socks5" | "socks5h") => {
            let mut socks = SocksV5::new(uri.clone(), tcp);
            if let Some((user, password)) = route.raw_auth() {
                socks = socks.with_auth(user.to_owned(), password.to_owned());
            }
            over(&config, socks)?
        }
        Some(_) | None => {
            return Err(format!(
                "unsupported proxy {}: use http:// or socks5://",
                shown(&uri)
            ));
        }
    };
    Ok((client, Some(shown(&uri))))
}

fn shown(proxy: &Uri) -> String {
    let host = proxy.host().unwrap_or_default();
    let port = proxy.port_u16();
    port.map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// As the library puts clients together, over connections of this kind.
fn over<C>(config: &Config, connector: C) -> Result<Client, String>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Connection + Read + Write + Send + Unpin + 'static,
    C::Future: Send + 'static,
    C::Error: Into<BoxError> + Send + Sync + std::error::Error + 'static,
{
    let tls = config.rustls_https_connector_with_connector(connector);
    let http = Http::builder(TokioExecutor::new()).build::<_, Body>(tls.map_err(chain)?);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer().map_err(chain)?)
        .layer(config.extra_headers_layer().map_err(chain)?)
        .map_err(BoxError::from)
        .service(http);
    Ok(Client::new(service, config.default_namespace.clone()))
}

#[cfg(test)]
mod tests;
