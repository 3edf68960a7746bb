//! Repositories behind HTTPS, a user name and a password: git's own smart backend behind an authenticating server.
//!
//! An unknown authority signs the certificate, so that a client needs both the certificate and the
//! password.

use std::{
    fmt,
    net::Ipv4Addr,
    path::PathBuf,
    process::Stdio,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use anyhow::{Context as _, Result};
use axum::{
    Router,
    body::{Body, Bytes},
    extract::{DefaultBodyLimit, Request, State},
    response::{IntoResponse as _, Response},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{HeaderMap, StatusCode, header};
use tokio::{io::AsyncWriteExt as _, net::TcpListener, process::Command};
use tokio_util::task::AbortOnDropHandle;

use super::{HOST, Repository, Server};
use crate::{certs::Authority, tls::Tls};

/// The user that may fetch.
pub const USER: &str = "fetcher";
/// No repository of a test is larger.
const LARGEST: usize = 16 << 20;

/// A server of the repositories of [`Server`] under another address. Dropping it ends it.
pub struct Private {
    repositories: Arc<Repositories>,
    port: u16,
    certificate: String,
    _task: AbortOnDropHandle<()>,
}

impl fmt::Debug for Private {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Private")
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}

struct Repositories {
    git: PathBuf,
    root: PathBuf,
    password: Mutex<String>,
    /// How many requests had the right password.
    opened: Mutex<usize>,
}

impl Server {
    /// Also serves all repositories over HTTPS, to clients with this password.
    pub async fn private(&self, password: &str) -> Result<Private> {
        let authority = Authority::new("unknown-authority")?;
        let pair = authority.serving(HOST, &[HOST], &[])?;
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))
            .await
            .context("listen for private repositories")?;
        let port = listener.local_addr()?.port();
        let repositories = Arc::new(Repositories {
            git: self.git.clone(),
            root: self.dir.clone(),
            password: Mutex::new(password.to_owned()),
            opened: Mutex::default(),
        });
        let tls = Tls::new(listener, &pair)?;
        let router = Router::new()
            .fallback(serve)
            .layer(DefaultBodyLimit::max(LARGEST))
            .with_state(Arc::clone(&repositories));
        let serving = async move {
            // It ends only with its task.
            drop(axum::serve(tls, router).await);
        };
        #[expect(
            clippy::disallowed_methods,
            reason = "ends with the server, which owns it"
        )]
        let task = AbortOnDropHandle::new(tokio::spawn(serving));
        Ok(Private {
            repositories,
            port,
            certificate: authority.pair().cert.clone(),
            _task: task,
        })
    }
}

impl Private {
    /// The address of a repository for Argo CD in a Pod of any cluster.
    pub fn url(&self, repository: &Repository) -> String {
        format!("https://{HOST}:{}/{}.git", self.port, repository.name)
    }

    /// The certificate of the authority, as PEM.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Replaces the password.
    pub fn change_password(&self, password: &str) {
        password.clone_into(&mut lock(&self.repositories.password));
    }

    /// How many requests had the right password.
    pub fn opened(&self) -> usize {
        *lock(&self.repositories.opened)
    }
}

async fn serve(State(repositories): State<Arc<Repositories>>, request: Request) -> Response {
    if !repositories.admits(request.headers()) {
        let challenge = [(header::WWW_AUTHENTICATE, "Basic realm=\"private\"")];
        return (StatusCode::UNAUTHORIZED, challenge).into_response();
    }
    match repositories.fetch(request).await {
        Ok(response) => response,
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error:#}")).into_response(),
    }
}

impl Repositories {
    fn admits(&self, headers: &HeaderMap) -> bool {
        let right = format!("{USER}:{}", *lock(&self.password));
        let right = format!("Basic {}", STANDARD.encode(right));
        let given = headers.get(header::AUTHORIZATION);
        let admitted = given.is_some_and(|given| given.as_bytes() == right.as_bytes());
        *lock(&self.opened) += usize::from(admitted);
        admitted
    }

    /// Runs git's backend as a CGI program.
    async fn fetch(&self, request: Request) -> Result<Response> {
        let (parts, body) = request.into_parts();
        let body = axum::body::to_bytes(body, LARGEST).await?;
        let text = |name: header::HeaderName| {
            let value = parts
                .headers
                .get(name)
                .and_then(|value| value.to_str().ok());
            value.unwrap_or_default().to_owned()
        };
        let mut child = self
            .backend()
            .env("PATH_INFO", parts.uri.path())
            .env("QUERY_STRING", parts.uri.query().unwrap_or_default())
            .env("REQUEST_METHOD", parts.method.as_str())
            .env("CONTENT_TYPE", text(header::CONTENT_TYPE))
            .env("HTTP_CONTENT_ENCODING", text(header::CONTENT_ENCODING))
            .env("CONTENT_LENGTH", body.len().to_string())
            .env(
                "GIT_PROTOCOL",
                text(header::HeaderName::from_static("git-protocol")),
            )
            .spawn()
            .context("run git http-backend")?;
        let mut input = child.stdin.take().context("no input")?;
        let feed = async move { input.write_all(&body).await };
        // If it does not read all input, its response explains why.
        let (_taken, output) = tokio::join!(feed, child.wait_with_output());
        answer(&output?.stdout)
    }

    fn backend(&self) -> Command {
        let mut command = Command::new(&self.git);
        command
            .arg("http-backend")
            .env("GIT_PROJECT_ROOT", &self.root)
            .env("GIT_HTTP_EXPORT_ALL", "1")
            .env("REMOTE_USER", USER)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_SYSTEM", "/dev/null")
            // The repositories belong to the lab's user, under any number in this user namespace.
            .env("GIT_CONFIG_COUNT", "1")
            .env("GIT_CONFIG_KEY_0", "safe.directory")
            .env("GIT_CONFIG_VALUE_0", "*")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        command
    }
}

/// Converts the output of a CGI program into an HTTP response.
fn answer(output: &[u8]) -> Result<Response> {
    let end = output
        .windows(4)
        .position(|window| window == b"\r\n\r\n")
        .context("git http-backend returned no headers")?;
    let (head, body) = output.split_at(end);
    let mut response = Response::new(Body::from(Bytes::copy_from_slice(
        body.get(4..).unwrap_or_default(),
    )));
    for line in std::str::from_utf8(head)?.lines() {
        let (name, value) = line.split_once(':').context("a header without a colon")?;
        let value = value.trim();
        if name.eq_ignore_ascii_case("status") {
            let code = value.split(' ').next().unwrap_or_default();
            *response.status_mut() = code.parse()?;
        } else {
            let name: header::HeaderName = name.parse()?;
            response.headers_mut().insert(name, value.parse()?);
        }
    }
    Ok(response)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn cgi_output_becomes_an_http_response() {
        let stated = b"Status: 404 Not Found\r\nContent-Type: text/plain\r\n\r\nno\r\n\r\nbody";
        let response = answer(stated).unwrap();
        assert_eq!(response.status(), StatusCode::NOT_FOUND);
        assert_eq!(response.headers()["content-type"], "text/plain");
        assert!(answer(b"garbage").is_err());
    }

    #[test]
    fn only_the_right_password_opens() {
        let repositories = Repositories {
            git: Path::new("git").to_owned(),
            root: Path::new("/").to_owned(),
            password: Mutex::new("secret".to_owned()),
            opened: Mutex::default(),
        };
        let headers = |password: &str| {
            let given = STANDARD.encode(format!("{USER}:{password}"));
            let mut headers = HeaderMap::new();
            headers.insert("authorization", format!("Basic {given}").parse().unwrap());
            headers
        };
        assert!(repositories.admits(&headers("secret")));
        assert!(!repositories.admits(&headers("guess")));
        assert!(!repositories.admits(&HeaderMap::new()));
        assert_eq!(*lock(&repositories.opened), 1);
    }
}
