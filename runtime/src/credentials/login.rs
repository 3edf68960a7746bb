//! User and password for password authentication, from a Secret of the Kubernetes API or from files.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ::kube::{Api, Client};
use k8s_openapi::api::core::v1::Secret;
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};

use super::files::POLL_INTERVAL;
use crate::error::Chain;
use crate::parts::Spawner;

/// A configured password. Cannot be printed.
#[derive(Clone, PartialEq, Eq, derive_more::Debug, derive_more::From)]
#[debug("Password")]
pub struct Password(String);

/// A password and an optional user.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
pub struct Login {
    /// The user.
    pub user: Option<String>,
    /// The password.
    #[debug(skip)]
    pub password: String,
}

impl Login {
    /// A login without a user; none if the password is empty, as with an unset variable.
    pub fn of(password: Password) -> Option<Self> {
        let Password(password) = password;
        (!password.is_empty()).then_some(Self {
            user: None,
            password,
        })
    }
}

/// The keys of a login in a Secret, or its files in a folder.
#[derive(Clone, Debug)]
pub struct Keys {
    /// The key of the user.
    pub user: Cow<'static, str>,
    /// The key of the password.
    pub password: Cow<'static, str>,
}

impl Keys {
    /// Fixed keys.
    pub const fn of(user: &'static str, password: &'static str) -> Self {
        Self {
            user: Cow::Borrowed(user),
            password: Cow::Borrowed(password),
        }
    }
}

/// The current login, and a way to have it read again.
#[derive(Clone, Debug)]
pub struct LoginFeed {
    now: watch::Receiver<Option<Arc<Login>>>,
    again: Arc<Notify>,
}

impl LoginFeed {
    /// A login that stays the same; without one there is none, now and later.
    pub fn fixed(login: Option<Login>) -> Self {
        watch::channel(login.map(Arc::new)).1.into()
    }

    /// The login, once there is one.
    pub fn current(&self) -> Option<Arc<Login>> {
        self.now.borrow().clone()
    }

    /// Reports that a server refused the login, or that there is none: its source is read again soon.
    pub fn refused(&self) {
        self.again.notify_one();
    }
}

impl From<watch::Receiver<Option<Arc<Login>>>> for LoginFeed {
    fn from(now: watch::Receiver<Option<Arc<Login>>>) -> Self {
        let again = Arc::default();
        Self { now, again }
    }
}

/// The interval of reads of a Secret with a login.
const SETTLED: Duration = Duration::from_mins(5);
/// The interval while it has none.
const UNSETTLED: Duration = Duration::from_secs(30);
/// The least pause between two reads, however often servers refuse the login.
const AFTER_REFUSAL: Duration = Duration::from_secs(1);

/// Reads one Secret from time to time, and after a refusal, and publishes its login once there is one. That needs no more
/// than `get` on this Secret.
///
/// A deleted login stays in use until the server rejects it.
pub fn poll(
    client: Client,
    namespace: &str,
    name: &str,
    keys: Keys,
    spawner: &Spawner,
) -> LoginFeed {
    let (send, now) = watch::channel(None);
    let feed = LoginFeed::from(now);
    let again = Arc::clone(&feed.again);
    let mut poller = Poller {
        secrets: Api::namespaced(client, namespace),
        name: name.to_owned(),
        object: format!("Secret/{namespace}/{name}"),
        keys,
        send,
        complaint: None,
    };
    let token = spawner.token().clone();
    spawner.spawn(format!("login of {}", poller.object), async move {
        let polling = async {
            loop {
                let is_known = poller.read().await;
                sleep(AFTER_REFUSAL).await;
                let pause = if is_known { SETTLED } else { UNSETTLED };
                let _refused_or_over = timeout(pause, again.notified()).await;
            }
        };
        token.run_until_cancelled(polling).await;
        token.cancelled().await;
    });
    feed
}

struct Poller {
    secrets: Api<Secret>,
    name: String,
    /// The Secret, for logs.
    object: String,
    keys: Keys,
    send: watch::Sender<Option<Arc<Login>>>,
    /// The cause that was logged last.
    complaint: Option<String>,
}

impl Poller {
    /// Whether the Secret has a login.
    async fn read(&mut self) -> bool {
        let found = match self.secrets.get_opt(&self.name).await {
            Ok(Some(secret)) => login(&secret, &self.keys)
                .ok_or_else(|| format!("it has no key {}", self.keys.password)),
            Ok(None) => Err("it does not exist".to_owned()),
            Err(error) => Err(Chain(&error).to_string()),
        };
        match found {
            Ok(login) => {
                self.complaint = None;
                if publish(&self.send, login) {
                    tracing::info!(object = self.object, "reloaded a password");
                }
                true
            }
            Err(why) => {
                if self.complaint.as_ref() != Some(&why) {
                    tracing::warn!(object = self.object, why, "no password can be read");
                    self.complaint = Some(why);
                }
                false
            }
        }
    }
}

/// Polls the login in a folder, such as a mounted Secret, and publishes it once there is one.
///
/// A deleted login stays in use until the server rejects it.
pub fn follow_folder(folder: PathBuf, keys: Keys, spawner: &Spawner) -> LoginFeed {
    let (send, receive) = watch::channel(None);
    let token = spawner.token().clone();
    spawner.spawn("login of a folder", async move {
        let mut complaint = None;
        let mut ticks = tokio::time::interval(POLL_INTERVAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while token.run_until_cancelled(ticks.tick()).await.is_some() {
            let read = read(&folder, &keys).await.map_err(|why| why.to_string());
            let found = read.and_then(|it| it.ok_or_else(|| "no password found in it".to_owned()));
            match found {
                Ok(login) => {
                    complaint = None;
                    publish(&send, login);
                }
                // Log the error once, not at each poll.
                Err(why) if complaint.as_ref() != Some(&why) => {
                    tracing::warn!(?folder, why, "no password can be read");
                    complaint = Some(why);
                }
                Err(_) => {}
            }
        }
    });
    receive.into()
}

/// Whether it is another login than the published one.
fn publish(send: &watch::Sender<Option<Arc<Login>>>, login: Login) -> bool {
    send.send_if_modified(|known| {
        let is_new = known.as_deref() != Some(&login);
        *known = Some(Arc::new(login));
        is_new
    })
}

async fn read(folder: &Path, keys: &Keys) -> io::Result<Option<Login>> {
    let password = tokio::fs::read(folder.join(&*keys.password)).await?;
    let user = match tokio::fs::read(folder.join(&*keys.user)).await {
        Err(why) if why.kind() == io::ErrorKind::NotFound => Vec::new(),
        read => read?,
    };
    Ok(text(&password).map(|password| Login {
        user: text(&user),
        password,
    }))
}

fn login(secret: &Secret, keys: &Keys) -> Option<Login> {
    let text = |key: &str| text(&secret.data.as_ref()?.get(key)?.0);
    Some(Login {
        user: text(&keys.user),
        password: text(&keys.password)?,
    })
}

/// Decodes a value as Argo CD does.
fn text(value: &[u8]) -> Option<String> {
    let text = str::from_utf8(value).ok()?.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::parts::Parts;

    const KEYS: Keys = Keys::of("auth_username", "auth");

    fn secret(data: &[(&str, &str)]) -> Secret {
        let data = data.iter();
        let data = data.map(|(key, value)| ((*key).to_owned(), ByteString((*value).into())));
        Secret {
            data: Some(data.collect()),
            ..Secret::default()
        }
    }

    #[test]
    fn a_login_is_a_password_and_perhaps_a_user_and_never_printed() {
        let only = login(&secret(&[("auth", "secret\n")]), &KEYS).unwrap();
        assert_eq!((only.user.as_deref(), &*only.password), (None, "secret"));
        let both = login(
            &secret(&[("auth", "secret"), ("auth_username", "argo")]),
            &KEYS,
        )
        .unwrap();
        assert_eq!(both.user.as_deref(), Some("argo"));
        assert!(!format!("{both:?}").contains("secret"));
        for nothing in [&[][..], &[("auth", " ")], &[("auth_username", "argo")]] {
            assert_eq!(login(&secret(nothing), &KEYS), None);
        }
    }

    #[test]
    fn a_password_that_was_given_is_not_printed_and_an_empty_one_is_none() {
        let given = Password::from("secret".to_owned());
        assert!(!format!("{given:?}").contains("secret"));
        assert_eq!(
            Login::of(given).map(|login| login.password).as_deref(),
            Some("secret")
        );
        assert_eq!(Login::of(String::new().into()), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_login_in_a_folder_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let parts = Parts::new(CancellationToken::new());
        let path = folder.path().to_owned();
        let mut known = follow_folder(path, KEYS, &parts.spawner()).now;
        std::fs::write(folder.path().join("auth"), "first\n").unwrap();
        let is = |wanted: &'static str| {
            move |login: &Option<Arc<Login>>| login.as_ref().is_some_and(|it| it.password == wanted)
        };
        let bound = POLL_INTERVAL * 5;
        let first = timeout(bound, known.wait_for(is("first")));
        assert_eq!(first.await.unwrap().unwrap().as_ref().unwrap().user, None);
        std::fs::write(folder.path().join("auth_username"), "argo").unwrap();
        std::fs::write(folder.path().join("auth"), "second").unwrap();
        let second = timeout(bound, known.wait_for(is("second")));
        let user = second
            .await
            .unwrap()
            .unwrap()
            .as_ref()
            .unwrap()
            .user
            .clone();
        assert_eq!(user.as_deref(), Some("argo"));
        // The known login stays after the files are deleted.
        std::fs::remove_file(folder.path().join("auth")).unwrap();
        assert!(read(folder.path(), &KEYS).await.is_err());
        assert!(known.borrow().is_some());
    }
}
