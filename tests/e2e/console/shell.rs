//! A shell in a Pod, as Argo CD's UI opens one: a WebSocket to its server with the session of the person in a cookie.

use anyhow::{Context as _, Result, bail, ensure};
use futures::{SinkExt as _, StreamExt as _};
use lab::steps::ui::Server;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::client::TlsStream;
use tokio_tungstenite::{
    WebSocketStream, client_async,
    tungstenite::{Message, client::IntoClientRequest as _, http::HeaderValue},
};

use super::Console;
use crate::stage::{SOON, Stage};

/// An open window. Dropping it closes it.
pub(super) struct Shell {
    socket: WebSocketStream<TlsStream<TcpStream>>,
    /// The output so far.
    shown: String,
}

impl Shell {
    /// Opens a shell in a container of an Application's Pod; `query` names them as Argo CD's UI does.
    pub(super) async fn open(stage: &Stage, console: &Console, query: &str) -> Result<Self> {
        let tls = Server::of(&stage.hub).await?.connect().await?;
        let address = format!("wss://{}/terminal?{query}", console.server);
        let mut request = address.into_client_request()?;
        let cookie = format!("argocd.token={}", console.token()?);
        let cookie = HeaderValue::from_str(&cookie)?;
        request.headers_mut().insert("cookie", cookie);
        let opening = timeout(SOON, client_async(request, tls)).await;
        let (socket, _) = opening.context("no answer")?.context("open a shell")?;
        Ok(Self {
            socket,
            shown: String::new(),
        })
    }

    async fn send(&mut self, operation: Value) -> Result<()> {
        let message = Message::text(operation.to_string());
        self.socket.send(message).await.context("send an operation")
    }

    pub(super) async fn resize(&mut self, cols: u16, rows: u16) -> Result<()> {
        self.send(json!({"operation": "resize", "cols": cols, "rows": rows}))
            .await
    }

    pub(super) async fn types(&mut self, keys: &str) -> Result<()> {
        self.send(json!({"operation": "stdin", "data": keys})).await
    }

    /// The next thing that is shown; none when the window was closed over there.
    async fn next(&mut self) -> Result<Option<String>> {
        loop {
            let message = timeout(SOON, self.socket.next()).await;
            match message.with_context(|| format!("nothing more after {:?}", self.shown))? {
                Some(Ok(Message::Text(text))) => {
                    let message: Value = serde_json::from_str(&text)?;
                    return Ok(Some(
                        message["data"].as_str().unwrap_or_default().to_owned(),
                    ));
                }
                Some(Ok(Message::Close(_)) | Err(_)) | None => return Ok(None),
                Some(Ok(_)) => {}
            }
        }
    }

    /// Waits until this text is shown.
    pub(super) async fn until_it_shows(&mut self, text: &str) -> Result<()> {
        while !self.shown.contains(text) {
            match self.next().await? {
                Some(more) => self.shown.push_str(&more),
                None => bail!("it ended, with no {text:?} in {:?}", self.shown),
            }
        }
        Ok(())
    }

    /// Waits until it is closed over there.
    pub(super) async fn ends(mut self) -> Result<()> {
        while self.next().await?.is_some() {}
        Ok(())
    }
}

impl Console {
    /// The response of Argo CD's server to a GET, as its UI sends it.
    pub(super) async fn gets(&self, stage: &Stage, target: &str) -> Result<Value> {
        let (status, body) = self.asks(stage, "GET", target, "").await?;
        ensure!(status == 200, "{status}: {body}");
        serde_json::from_str(&body).with_context(|| body.clone())
    }

    /// The status and the body of the response of Argo CD's server to a request, as its UI sends it.
    pub(super) async fn asks(
        &self,
        stage: &Stage,
        method: &str,
        target: &str,
        body: &str,
    ) -> Result<(u16, String)> {
        let mut tls = Server::of(&stage.hub).await?.connect().await?;
        let (server, token, length) = (&self.server, self.token()?, body.len());
        // HTTP/1.0, so that the response is not chunked and ends with the connection.
        let request = format!(
            "{method} {target} HTTP/1.0\r\nHost: {server}\r\nCookie: argocd.token={token}\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        let mut answer = Vec::new();
        let asking = async {
            tls.write_all(request.as_bytes()).await?;
            tls.read_to_end(&mut answer).await
        };
        timeout(SOON, asking)
            .await
            .with_context(|| format!("no answer to {method} {target}"))??;
        let answer = String::from_utf8(answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").context("no answer")?;
        let status = head.split(' ').nth(1).context("no status")?;
        Ok((status.parse()?, body.to_owned()))
    }

    /// The session token of the logged-in user, from the configuration of the command line.
    pub(crate) fn token(&self) -> Result<String> {
        let config = std::fs::read_to_string(self.home.path().join("config"))?;
        let config: Value = serde_saphyr::from_str(&config)?;
        let token = config["users"][0]["auth-token"].as_str();
        let token = token.context("the command line is not logged in")?;
        ensure!(!token.is_empty(), "an empty session");
        Ok(token.to_owned())
    }
}
