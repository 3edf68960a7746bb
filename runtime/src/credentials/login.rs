//! Who we are where a password is asked for, from a Secret of the Kubernetes API.

use std::fmt;
use std::sync::Arc;

use ::kube::{Api, Client};
use k8s_openapi::api::core::v1::Secret;
use tokio::sync::watch;

use crate::kube::{Event, Watch, watch_trimmed};
use crate::parts::Spawner;

/// A password, and the user whose it is if that is said.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// The user.
    pub user: Option<String>,
    /// The password.
    pub password: String,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

/// The keys of a Secret that hold a login.
#[derive(Clone, Copy, Debug)]
pub struct Keys {
    /// Of the user.
    pub user: &'static str,
    /// Of the password.
    pub password: &'static str,
}

/// Watches one Secret and publishes the login in it, once there is one.
///
/// One that goes away stays in use: who relies on it is told by those who do not take it any more.
pub fn watch(
    client: Client,
    namespace: &str,
    name: &str,
    keys: Keys,
    spawner: &Spawner,
) -> watch::Receiver<Option<Arc<Login>>> {
    let (send, receive) = watch::channel(None);
    let watched = Watch::<Secret>::new(Api::namespaced(client, namespace))
        .fields(&format!("metadata.name={name}"));
    let object = format!("Secret/{namespace}/{name}");
    let token = spawner.token().clone();
    spawner.spawn(format!("login {object}"), async move {
        let mut there = false;
        watch_trimmed(watched, token, |event| match event {
            Event::Applied { object: secret, .. } => {
                there = true;
                let Some(login) = login(&secret, keys).map(Arc::new) else {
                    return tracing::warn!(%object, key = keys.password, "a Secret has no password");
                };
                let is_new = send.send_if_modified(|known| {
                    let is_new = known.as_ref() != Some(&login);
                    *known = Some(login);
                    is_new
                });
                if is_new {
                    tracing::info!(%object, "took over a password");
                }
            }
            Event::Deleted(_) => {
                there = false;
                tracing::warn!(%object, "a Secret with a password was deleted; keeping the password");
            }
            Event::Synced if !there => {
                tracing::warn!(%object, "waiting for a Secret with a password");
            }
            Event::Synced => {}
        })
        .await;
    });
    receive
}

fn login(secret: &Secret, keys: Keys) -> Option<Login> {
    let text = |key: &str| {
        let value = secret.data.as_ref()?.get(key)?;
        // As Argo CD reads it.
        let text = str::from_utf8(&value.0).ok()?.trim();
        (!text.is_empty()).then(|| text.to_owned())
    };
    Some(Login {
        user: text(keys.user),
        password: text(keys.password)?,
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;

    use super::*;

    const KEYS: Keys = Keys {
        user: "auth_username",
        password: "auth",
    };

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
        let only = login(&secret(&[("auth", "secret\n")]), KEYS).unwrap();
        assert_eq!((only.user.as_deref(), &*only.password), (None, "secret"));
        let both = login(
            &secret(&[("auth", "secret"), ("auth_username", "argo")]),
            KEYS,
        )
        .unwrap();
        assert_eq!(both.user.as_deref(), Some("argo"));
        assert!(!format!("{both:?}").contains("secret"));
        for nothing in [&[][..], &[("auth", " ")], &[("auth_username", "argo")]] {
            assert_eq!(login(&secret(nothing), KEYS), None);
        }
    }
}
