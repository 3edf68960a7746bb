//! Which request may see which facts. Pure.
//!
//! Argo CD's proxy authenticates the user, and authorises exactly the Application that its header names: whether the user
//! may `get` it and may invoke the extension. It does not read the path. So each path must belong to the Application of
//! that header, and only argocd-server knows the token. The fleet has no Application of its own: a guard Application
//! in a project of administrators stands for it.

use argocd::name::{is_dns_label, is_name};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use ocm::name::ClusterName;

use super::token::Token;
use crate::keys;

/// The header with the secret that argocd-server and this program share.
pub const TOKEN_HEADER: HeaderName = HeaderName::from_static("argocd-agent-token");
/// The header with the Application that Argo CD has authorised, as `NAMESPACE:NAME`.
pub const APPLICATION_HEADER: HeaderName = HeaderName::from_static("argocd-application-name");

/// What a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// All clusters.
    Fleet,
    /// One cluster.
    Cluster(ClusterName),
    /// The path of one Application.
    Path {
        /// Its namespace on the hub.
        namespace: String,
        /// Its name.
        name: String,
    },
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Another method than GET.
    Method,
    /// A header with a meaning here occurs more than once.
    Duplicate,
    /// The token is unknown to this replica, or has not been read yet.
    NoToken,
    /// Another token than that of the Secret, or none.
    Token,
    /// The API has no parameters.
    Parameters,
    /// No such path.
    Unknown,
    /// The path is not of the Application that Argo CD has authorised.
    Application,
}

impl Refusal {
    /// The status, the error and the next step of its response.
    pub const fn answer(self) -> (StatusCode, &'static str, &'static str) {
        match self {
            Self::Method => (
                StatusCode::METHOD_NOT_ALLOWED,
                "this API is read-only",
                "use GET",
            ),
            Self::Duplicate => (
                StatusCode::BAD_REQUEST,
                "a header that decides about access occurs more than once",
                "send each header once",
            ),
            Self::NoToken => (
                StatusCode::SERVICE_UNAVAILABLE,
                "the hub program has no token that argocd-server could send",
                "wait some seconds; if this stays, look for the Secret argocd-agent-addon-ui in the log of the hub program",
            ),
            Self::Token => (
                StatusCode::UNAUTHORIZED,
                "the token is missing or is not the one in the Secret argocd-agent-addon-ui",
                "open this page in Argo CD; if it is, argocd-server has read an older Secret: restart argocd-server, or run \
                argocd-agentctl hub setup",
            ),
            Self::Parameters => (
                StatusCode::BAD_REQUEST,
                "this API has no parameters",
                "request the path without a query",
            ),
            Self::Unknown => (
                StatusCode::NOT_FOUND,
                "there is no such path in this API",
                "update the extension: its version and that of the hub program must match",
            ),
            Self::Application => (
                StatusCode::FORBIDDEN,
                "Argo CD has not authorised this request for what it asks",
                "ask an administrator for the right to get the Application; for the fleet, the Application argocd-agent-fleet",
            ),
        }
    }
}

/// The route of a request, if it may be answered. `token` is that of the Secret; `argocd` is the namespace of Argo CD.
///
/// # Errors
/// The first check that fails.
pub fn check(
    request: (&Method, &Uri, &HeaderMap),
    token: Option<&Token>,
    argocd: &str,
) -> Result<Route, Refusal> {
    let (method, uri, headers) = request;
    if method != Method::GET {
        return Err(Refusal::Method);
    }
    let sent = single(headers, &TOKEN_HEADER)?;
    let token = token.ok_or(Refusal::NoToken)?;
    if !sent.is_some_and(|sent| token.is(sent.as_bytes())) {
        return Err(Refusal::Token);
    }
    let authorised = single(headers, &APPLICATION_HEADER)?;
    if uri.query().is_some() {
        return Err(Refusal::Parameters);
    }
    let route = route(uri.path()).ok_or(Refusal::Unknown)?;
    let needed = route.application(argocd);
    if authorised.is_some_and(|it| it.as_bytes() == needed.as_bytes()) {
        Ok(route)
    } else {
        Err(Refusal::Application)
    }
}

/// The value of a header that occurs once at most.
fn single<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> Result<Option<&'a HeaderValue>, Refusal> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (_, Some(_)) => Err(Refusal::Duplicate),
        (value, None) => Ok(value),
    }
}

/// The route of a path as it was sent. Names have no character that needs an encoding, so an encoded path is none.
fn route(path: &str) -> Option<Route> {
    let mut parts = path.strip_prefix("/api/v1/")?.split('/');
    let route = match parts.next()? {
        "fleet" => Route::Fleet,
        "clusters" => Route::Cluster(ClusterName::new(parts.next()?).ok()?),
        "applications" => {
            let (namespace, name) = (parts.next()?, parts.next()?);
            let is_path = is_dns_label(namespace) && is_name(name) && parts.next()? == "path";
            is_path.then(|| Route::Path {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            })?
        }
        _ => return None,
    };
    parts.next().is_none().then_some(route)
}

impl Route {
    /// The Application that Argo CD must have authorised, as its header names it.
    fn application(&self, argocd: &str) -> String {
        match self {
            Self::Fleet | Self::Cluster(_) => format!("{argocd}:{}", keys::FLEET_GUARD),
            Self::Path { namespace, name } => format!("{namespace}:{name}"),
        }
    }
}

#[cfg(test)]
mod tests;
