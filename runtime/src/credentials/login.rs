//! User and password for password authentication, from a Secret of the Kubernetes API or from files.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::kube::Client;
use k8s_openapi::api::core::v1::Secret;
use tokio::sync::watch;

use super::files::POLL_INTERVAL;
use super::secrets::follow_object;
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

/// Watches one Secret and publishes its login, once there is one.
///
/// A deleted login stays in use until the server rejects it.
pub fn watch(
    client: Client,
    namespace: &str,
    name: &str,
    keys: Keys,
    spawner: &Spawner,
) -> watch::Receiver<Option<Arc<Login>>> {
    let (send, receive) = watch::channel(None);
    let object = format!("Secret/{namespace}/{name}");
    follow_object(
        client,
        (namespace, name),
        "a password",
        spawner,
        move |secret: Secret| {
            let Some(login) = login(&secret, &keys) else {
                return tracing::warn!(%object, key = %keys.password, "a Secret has no password");
            };
            if publish(&send, login) {
                tracing::info!(%object, "reloaded a password");
            }
        },
    );
    receive
}

/// Polls the login in a folder, such as a mounted Secret, and publishes it once there is one.
///
/// A deleted login stays in use until the server rejects it.
pub fn follow_folder(
    folder: PathBuf,
    keys: Keys,
    spawner: &Spawner,
) -> watch::Receiver<Option<Arc<Login>>> {
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
    receive
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
        let mut known = follow_folder(path, KEYS, &parts.spawner());
        std::fs::write(folder.path().join("auth"), "first\n").unwrap();
        let is = |wanted: &'static str| {
            move |login: &Option<Arc<Login>>| login.as_ref().is_some_and(|it| it.password == wanted)
        };
        let bound = POLL_INTERVAL * 5;
        let first = tokio::time::timeout(bound, known.wait_for(is("first")));
        assert_eq!(first.await.unwrap().unwrap().as_ref().unwrap().user, None);
        std::fs::write(folder.path().join("auth_username"), "argo").unwrap();
        std::fs::write(folder.path().join("auth"), "second").unwrap();
        let second = tokio::time::timeout(bound, known.wait_for(is("second")));
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
