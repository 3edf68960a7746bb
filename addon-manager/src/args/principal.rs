//! Flags of the principal alone, which are those of the Go principal.

use std::path::PathBuf;

use clap::Args;
use principal::admission::identity::{InvalidMethod, Method};
use runtime::args::boolean;

use super::{Optional, SharedArgs, redis::RedisAloneArgs};

/// Flags of the principal alone.
#[derive(Clone, Debug, Args)]
pub struct PrincipalArgs {
    /// In common with the whole hub program.
    #[command(flatten)]
    pub shared: SharedArgs,
    /// Secret with the serving certificate.
    #[arg(
        long,
        env = "ARGOCD_PRINCIPAL_TLS_SECRET_NAME",
        default_value = "argocd-agent-principal-tls"
    )]
    pub tls_secret_name: String,
    /// File with the serving certificate, instead of the Secret.
    #[arg(long, env = "ARGOCD_PRINCIPAL_TLS_SERVER_CERT_PATH")]
    pub tls_cert: Option<PathBuf>,
    /// File with its key.
    #[arg(long, env = "ARGOCD_PRINCIPAL_TLS_SERVER_KEY_PATH")]
    pub tls_key: Option<PathBuf>,
    /// Secret with the CA of the agents.
    #[arg(
        long,
        env = "ARGOCD_PRINCIPAL_TLS_SERVER_ROOT_CA_SECRET_NAME",
        default_value = "argocd-agent-ca"
    )]
    pub tls_ca_secret_name: String,
    /// File with the CA of the agents, instead of the Secret.
    #[arg(long, env = "ARGOCD_PRINCIPAL_TLS_SERVER_ROOT_CA_PATH")]
    pub root_ca_path: Option<PathBuf>,
    /// Secret with the key under the tokens.
    #[arg(
        long,
        env = "ARGOCD_PRINCIPAL_JWT_SECRET_NAME",
        default_value = "argocd-agent-jwt"
    )]
    pub jwt_secret_name: String,
    /// File with the key under the tokens, instead of the Secret.
    #[arg(long, env = "ARGOCD_PRINCIPAL_JWT_KEY_PATH")]
    pub jwt_key: Option<PathBuf>,
    /// How an agent proves its identity: `mtls:ocm`, `mtls:<pattern over the subject>`,
    /// `mtls:uri:<pattern>`, `userpass:<file>`, or behind a mesh `header:<name>:<pattern>`.
    #[arg(long, env = "ARGOCD_PRINCIPAL_AUTH", value_parser = method, default_value = "")]
    pub auth: Method,
    /// Serve without TLS, behind a mesh that terminates it. Needs `--auth=header:…` or `userpass:…`.
    #[arg(long, env = "ARGOCD_PRINCIPAL_INSECURE_PLAINTEXT", value_parser = boolean,
          num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub insecure_plaintext: bool,
    /// Require a client certificate also if agents authenticate by password; otherwise it is always required.
    #[arg(long, env = "ARGOCD_PRINCIPAL_TLS_CLIENT_CERT_REQUIRE", value_parser = boolean,
          num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub require_client_certs: bool,
    /// The resource proxy, which Argo CD on the hub uses as the API servers of the clusters.
    #[command(flatten)]
    pub resource_proxy: ResourceProxyArgs,
    /// The redis proxy, which Argo CD on the hub uses as its redis.
    #[command(flatten)]
    pub redis: RedisAloneArgs,
    /// Create a cluster Secret for every agent that proves its identity and has none.
    #[arg(long, env = "ARGOCD_PRINCIPAL_ENABLE_SELF_CLUSTER_REGISTRATION", value_parser = boolean,
          num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub enable_self_cluster_registration: bool,
    /// Secret with the client certificate (`tls.crt`, `tls.key`, `ca.crt`) that goes into those cluster Secrets.
    #[arg(
        long,
        env = "ARGOCD_PRINCIPAL_SELF_REGISTRATION_CLIENT_CERT_SECRET",
        default_value = ""
    )]
    pub self_registration_client_cert_secret: Optional<String>,
}

/// Flags of the resource proxy of a principal alone.
#[derive(Clone, Debug, Args)]
pub struct ResourceProxyArgs {
    /// Serve the resource proxy.
    #[arg(long, env = "ARGOCD_PRINCIPAL_ENABLE_RESOURCE_PROXY", value_parser = boolean,
          num_args = 0..=1, require_equals = true, default_value = "true", default_missing_value = "true")]
    pub enable_resource_proxy: bool,
    /// Secret with the serving certificate of the resource proxy.
    #[arg(
        long,
        env = "ARGOCD_PRINCIPAL_RESOURCE_PROXY_SECRET_NAME",
        default_value = "argocd-agent-resource-proxy-tls"
    )]
    pub resource_proxy_secret_name: String,
    /// File with the serving certificate of the resource proxy, instead of the Secret.
    #[arg(long, env = "ARGOCD_PRINCIPAL_RESOURCE_PROXY_TLS_CERT_PATH")]
    pub resource_proxy_cert_path: Option<PathBuf>,
    /// File with its key.
    #[arg(long, env = "ARGOCD_PRINCIPAL_RESOURCE_PROXY_TLS_KEY_PATH")]
    pub resource_proxy_key_path: Option<PathBuf>,
    /// Secret with the CA of the clients of the resource proxy.
    #[arg(
        long,
        env = "ARGOCD_PRINCIPAL_RESOURCE_PROXY_CA_SECRET_NAME",
        default_value = "argocd-agent-ca"
    )]
    pub resource_proxy_ca_secret_name: String,
    /// File with that CA, instead of the Secret.
    #[arg(long, env = "ARGOCD_PRINCIPAL_RESOURCE_PROXY_TLS_CA_PATH")]
    pub resource_proxy_ca_path: Option<PathBuf>,
}

fn method(text: &str) -> Result<Method, InvalidMethod> {
    let given = Some(text).filter(|text| !text.is_empty());
    given.map_or_else(|| Ok(Method::ocm()), Method::from_flag)
}

/// The variables of the Go principal for flags in common.
pub(super) const ENV: [(&str, &str); 1] = [(
    "grpc_max_message_size",
    "ARGOCD_PRINCIPAL_GRPC_MAX_MESSAGE_SIZE",
)];
