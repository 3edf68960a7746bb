//! One client: reads its commands in sequence, and answers each before the next.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow,
    sync::Arc,
    time::Duration,
};

use live::{
    cache_key::{CacheKey, Item},
    resp::Value,
};
use runtime::{credentials::login::Login, error::Chain};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadHalf, WriteHalf},
    sync::mpsc,
    time::{Instant, sleep_until, timeout},
};

use super::{
    command::{self, Claim, Command, Version},
    error::{Ended, UpstreamError},
    follow::{Channel, Followed, Notice},
    page,
    reader::{RawCommand, Reader, Unreadable},
    remote::Remote,
    shared::Shared,
    upstream::Upstream,
    value,
    writer::Writer,
};
use crate::{
    admission::peer::Network, domain::ObjectOwner, transport::listener::handshakes::Handshake,
};

mod channels;
mod password;

/// Unauthenticated connections are closed after this time.
const LOGIN: Duration = Duration::from_secs(10);
/// Idle connections are closed after this time; clients keep unused connections for less.
const IDLE: Duration = Duration::from_hours(1);
/// The longest pause within a command.
const PAUSE: Duration = Duration::from_secs(30);

const WRONG_PASSWORDS: u32 = 3;

const WRONG_PASSWORD: &str = "WRONGPASS invalid username-password pair or user is disabled.";
const NO_PASSWORD: &str = "ERR the password of the hub's redis is not known yet; try again";
const NO_AUTH: &str = "NOAUTH Authentication required.";
const SUBSCRIBED_ONLY: &str =
    "ERR only SUBSCRIBE, UNSUBSCRIBE, PING and QUIT are allowed in this context";
const OF_A_CLUSTER: &str = "NOPERM this Application is a cluster's, and so is what is known of it";
const NOT_REACHED: &str = "ERR the hub's redis does not answer";

/// What happens next.
enum Next {
    RawCommand(Option<RawCommand>),
    Notified(Option<Notice>),
    UpstreamReady(Result<(), UpstreamError>),
    TimedOut,
    Stop,
}

/// A connection.
struct Client<S: AsyncWrite> {
    shared: Arc<Shared>,
    writer: Writer<WriteHalf<S>>,
    upstream: Option<Upstream>,
    /// The login that it authenticated with.
    login: Option<Arc<Login>>,
    /// Its place among the unauthenticated connections.
    unauthenticated: Option<Handshake<Network>>,
    wrong_passwords: u32,
    /// Its subscriptions: at clusters, and at the hub's redis.
    follows: BTreeMap<Channel, Followed>,
    local: BTreeSet<Channel>,
    notify: mpsc::Sender<Notice>,
}

/// Serves one client until either end closes the connection.
pub(super) async fn serve<S>(
    shared: Arc<Shared>,
    stream: S,
    unauthenticated: Handshake<Network>,
) -> Result<(), Ended>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let stop = shared.live.spawner.token().clone();
    let (read, write) = tokio::io::split(stream);
    let (notify, mut notices) = mpsc::channel(16);
    let mut reader = Reader::new(read);
    let mut client = Client {
        shared,
        writer: Writer::new(write),
        upstream: None,
        login: None,
        unauthenticated: Some(unauthenticated),
        wrong_passwords: 0,
        follows: BTreeMap::new(),
        local: BTreeSet::new(),
        notify,
    };
    let mut deadline = Instant::now() + LOGIN;
    loop {
        // All branches are cancel-safe.
        let next = tokio::select! {
            biased;
            () = stop.cancelled() => Next::Stop,
            raw = reader.command() => Next::RawCommand(client.report_unreadable(raw).await?),
            notice = notices.recv() => Next::Notified(notice),
            ready = upstream_ready(client.upstream.as_mut()) => Next::UpstreamReady(ready),
            () = sleep_until(deadline) => Next::TimedOut,
        };
        match next {
            Next::Stop | Next::RawCommand(None) | Next::Notified(None) => return Ok(()),
            Next::TimedOut => return Err(Ended::TimedOut),
            Next::RawCommand(Some(raw)) => {
                let goes = client.answer(&raw, &mut reader).await?;
                client.writer.flush().await?;
                if goes.is_break() {
                    return Ok(());
                }
                if client.login.is_some() {
                    deadline = Instant::now() + IDLE;
                }
            }
            Next::Notified(Some(notice)) => client.notified(notice).await?,
            Next::UpstreamReady(ready) => {
                ready?;
                if let Some(upstream) = &mut client.upstream {
                    upstream.relay(&mut client.writer).await?;
                    client.writer.flush().await?;
                }
            }
        }
    }
}

async fn upstream_ready(upstream: Option<&mut Upstream>) -> Result<(), UpstreamError> {
    match upstream {
        Some(upstream) => upstream.readable().await,
        None => std::future::pending().await,
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    /// Sends the client the error of an invalid command.
    async fn report_unreadable(
        &mut self,
        raw: Result<Option<RawCommand>, Unreadable>,
    ) -> Result<Option<RawCommand>, Ended> {
        if let Err(why @ (Unreadable::Malformed(_) | Unreadable::NoCommand)) = &raw {
            self.writer.error(&format!("ERR {why}")).await?;
            self.writer.flush().await?;
        }
        Ok(raw?)
    }

    async fn answer(
        &mut self,
        raw: &RawCommand,
        reader: &mut Reader<ReadHalf<S>>,
    ) -> Result<ControlFlow<()>, Ended> {
        let read = command::read(&raw.words);
        let refused = match &read {
            Ok(command) => self.refusal(command).map(ToOwned::to_owned),
            // Unauthenticated clients learn nothing about commands.
            Err(_) if self.login.is_none() => Some(NO_AUTH.to_owned()),
            Err(why) => Some(why.to_string()),
        };
        if let Some(refused) = &refused {
            self.writer.error(refused).await?;
        }
        match read {
            Ok(command) if refused.is_none() => self.execute(command, raw, reader).await,
            // The rest would be parsed as the next command.
            _ if !raw.is_whole => Err(Ended::TooLong),
            _ => Ok(ControlFlow::Continue(())),
        }
    }

    /// The error of a command that must not be executed.
    fn refusal(&self, command: &Command<'_>) -> Option<&'static str> {
        let allowed_before_login = matches!(
            command,
            Command::Hello(..) | Command::Auth(_) | Command::Quit
        );
        let allowed_while_subscribed = matches!(
            command,
            Command::Subscribe(_) | Command::Unsubscribe(_) | Command::Ping(_) | Command::Quit
        );
        if self.login.is_none() && !allowed_before_login {
            Some(NO_AUTH)
        } else if self.writer.version == Version::Two
            && self.has_subscriptions()
            && !allowed_while_subscribed
        {
            // RESP2 cannot distinguish replies from messages.
            Some(SUBSCRIBED_ONLY)
        } else if let Command::Set(key) = command {
            let whose = self.whose(key).map(|(_, whose)| whose);
            matches!(whose, Some(ObjectOwner::Cluster(_))).then_some(OF_A_CLUSTER)
        } else {
            None
        }
    }

    async fn execute(
        &mut self,
        command: Command<'_>,
        raw: &RawCommand,
        reader: &mut Reader<ReadHalf<S>>,
    ) -> Result<ControlFlow<()>, Ended> {
        let can_be_long = matches!(command, Command::Set(_) | Command::Other);
        if !raw.is_whole && !can_be_long {
            return Err(Ended::TooLong);
        }
        match command {
            Command::Hello(version, claim) => self.hello(version, claim).await?,
            Command::Auth(claim) => {
                if self.authenticate(claim).await? {
                    self.writer.value(&Value::ok()).await?;
                }
            }
            Command::Ping(text) => self.ping(text).await?,
            Command::Introduction => self.writer.value(&Value::ok()).await?,
            Command::Quit => {
                self.writer.value(&Value::ok()).await?;
                return Ok(ControlFlow::Break(()));
            }
            Command::Get(key) => match self.whose(key) {
                Some((_, ObjectOwner::NoOne)) => self.writer.null().await?,
                Some((key, ObjectOwner::Cluster(there))) => {
                    if key.item == Item::ResourcesTree {
                        self.shared.event_refresher.schedule(&there);
                    }
                    let remote = Remote::new(there, &key);
                    value::carry(&self.shared, &remote, &mut self.writer).await?;
                }
                Some((_, ObjectOwner::Hub)) => self.forward(raw, reader).await?,
                None => match page::value(&self.shared, key) {
                    Some(value) => {
                        self.shared.live.metrics.redis_requests.count("page");
                        self.writer.value(&Value::bytes(value)).await?;
                    }
                    None => self.forward(raw, reader).await?,
                },
            },
            Command::Set(_) | Command::Other => self.forward(raw, reader).await?,
            Command::Subscribe(channels) => self.subscribe(&channels).await?,
            Command::Unsubscribe(channels) => self.unsubscribe(&channels).await?,
        }
        Ok(ControlFlow::Continue(()))
    }

    async fn hello(
        &mut self,
        version: Option<Version>,
        claim: Option<Claim<'_>>,
    ) -> Result<(), Ended> {
        if let Some(claim) = claim
            && !self.authenticate(claim).await?
        {
            return Ok(());
        }
        if self.login.is_none() {
            return Ok(self.writer.error(NO_AUTH).await?);
        }
        let before = self.writer.version;
        let version = version.unwrap_or(before);
        if version != before && self.has_subscriptions() {
            let error = "ERR the version of a connection with subscriptions stays";
            return Ok(self.writer.error(error).await?);
        }
        if version != before {
            // The next command reconnects with the other version.
            self.upstream = None;
        }
        self.writer.version = version;
        Ok(self.writer.hello().await?)
    }

    /// Whether the credentials are right; if not, this has sent the error.
    async fn authenticate(&mut self, claim: Claim<'_>) -> Result<bool, Ended> {
        let Some(known) = self.shared.server.login() else {
            self.shared.server.refused();
            self.writer.error(NO_PASSWORD).await?;
            return Ok(false);
        };
        if password::accepts(&known, claim) {
            self.login = Some(known);
            self.unauthenticated = None;
            return Ok(true);
        }
        // The client may know a newer password than this program.
        self.shared.server.refused();
        self.wrong_passwords = self.wrong_passwords.saturating_add(1);
        self.writer.error(WRONG_PASSWORD).await?;
        if self.wrong_passwords >= WRONG_PASSWORDS {
            self.writer.flush().await?;
            return Err(Ended::WrongPassword);
        }
        Ok(false)
    }

    /// The owner of the Application of a key, if the key is about one.
    fn whose(&self, key: &[u8]) -> Option<(CacheKey, ObjectOwner)> {
        let key = CacheKey::parse(key)?;
        let applications = &self.shared.live.applications;
        let whose = applications.owner(key.namespace.as_deref(), &key.name);
        Some((key, whose))
    }

    /// Has the hub's redis answer a command.
    async fn forward(
        &mut self,
        raw: &RawCommand,
        reader: &mut Reader<ReadHalf<S>>,
    ) -> Result<(), Ended> {
        let metrics = self.shared.live.metrics.clone();
        metrics.redis_requests.count("local");
        let (upstream, writer) = match self.reach_upstream().await {
            Ok(reached) => reached,
            Err(why) => {
                metrics.redis_requests.count("local_failed");
                tracing::warn!(error = %Chain(&why), "the hub's redis does not answer");
                return if raw.is_whole {
                    Ok(self.writer.error(NOT_REACHED).await?)
                } else {
                    Err(why.into())
                };
            }
        };
        upstream.write(&raw.bytes).await?;
        let mut is_whole = raw.is_whole;
        while !is_whole {
            let mut piece = vec![];
            let reading = timeout(PAUSE, reader.more(&mut piece));
            is_whole = reading.await.map_err(|_late| Ended::TimedOut)??;
            upstream.write(&piece).await?;
        }
        upstream.answer(writer).await
    }

    /// Connects to the hub's redis when it is needed; also returns where its replies go.
    async fn reach_upstream(
        &mut self,
    ) -> Result<(&mut Upstream, &mut Writer<WriteHalf<S>>), UpstreamError> {
        let upstream = if let Some(upstream) = self.upstream.take() {
            upstream
        } else {
            let login = self.login.as_ref();
            let login = login.ok_or(UpstreamError::NotAuthenticated)?;
            Upstream::connect(&self.shared, login, self.writer.version).await?
        };
        Ok((self.upstream.insert(upstream), &mut self.writer))
    }

    /// Sends a command to the hub's redis; its reply is relayed when it arrives.
    async fn send_upstream(&mut self, command: &[u8]) -> Result<(), UpstreamError> {
        let (upstream, _) = self.reach_upstream().await?;
        upstream.write(command).await
    }
}
