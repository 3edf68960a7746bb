//! The Secret with the token: every replica follows it, and the leader keeps it usable.
//!
//! Argo CD reads a Secret for its extensions only with its label, and takes its value over when it starts or when the
//! settings of its extensions change.

use std::{collections::BTreeMap, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use k8s_openapi::{
    ByteString, api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use ocm::sdk::View;
use runtime::{
    error::Chain,
    kube::{Event, Watch, watch_trimmed},
    parts::Spawner,
};
use serde_json::json;
use tokio::{sync::watch, time::sleep};

use super::token::Token;
use crate::{
    api::{ApiError, failed},
    keys,
};

/// Argo CD reads Secrets with this label only.
const PART_OF: (&str, &str) = ("app.kubernetes.io/part-of", "argocd");
/// The label on Secrets that we created.
const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", keys::MANAGER);
/// The pause before a failed write is retried, and before the facts for a decision are looked at again.
const RETRY: Duration = Duration::from_secs(5);

/// The Secret as this replica knows it.
#[derive(Clone, Debug, Default)]
pub enum Stored {
    /// It has not been read yet.
    #[default]
    Unknown,
    /// There is none.
    Absent,
    /// There is one.
    Found {
        /// Its token, if that is usable.
        token: Option<Token>,
        /// Whether Argo CD reads it.
        labelled: bool,
        /// Its resourceVersion.
        version: String,
    },
}

impl Stored {
    /// The token that argocd-server sends.
    pub const fn token(&self) -> Option<&Token> {
        match self {
            Self::Found { token, .. } => token.as_ref(),
            Self::Unknown | Self::Absent => None,
        }
    }

    fn of(secret: &Secret) -> Self {
        let (label, value) = PART_OF;
        let labels = secret.metadata.labels.as_ref();
        let token = secret
            .data
            .as_ref()
            .and_then(|data| data.get(keys::UI_TOKEN));
        Self::Found {
            token: token.and_then(|token| Token::read(&token.0)),
            labelled: labels
                .and_then(|labels| labels.get(label))
                .is_some_and(|it| it == value),
            version: secret.metadata.resource_version.clone().unwrap_or_default(),
        }
    }
}

/// What the leader does about the Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing until the Secret changes.
    Leave,
    /// Nothing yet: it is unknown whether the add-on is being uninstalled.
    Wait,
    /// Creates it.
    Create,
    /// Corrects it as it was in this version.
    Repair {
        /// Its resourceVersion.
        version: String,
        /// Whether it needs another token, too.
        needs_token: bool,
    },
}

/// Decides. `offered`: whether there is a `ClusterManagementAddOn`, if that is known. An uninstallation deletes it before the
/// Secret, and the Secret must not come back.
pub fn decide(stored: &Stored, offered: Option<bool>) -> Decision {
    match stored {
        Stored::Absent if offered == Some(true) => Decision::Create,
        Stored::Absent => Decision::Wait,
        Stored::Unknown
        | Stored::Found {
            token: Some(_),
            labelled: true,
            ..
        } => Decision::Leave,
        Stored::Found { token, version, .. } => Decision::Repair {
            version: version.clone(),
            needs_token: token.is_none(),
        },
    }
}

/// Follows the Secret in Argo CD's namespace.
pub fn follow(client: Client, argocd: &str, spawner: &Spawner) -> watch::Receiver<Stored> {
    let (send, receive) = watch::channel(Stored::Unknown);
    let watched = Watch::<Secret>::new(Api::namespaced(client, argocd))
        .fields(&format!("metadata.name={}", keys::UI_SECRET));
    let token = spawner.token().clone();
    let following = watch_trimmed(watched, token, move |event| match event {
        Event::Applied { object, .. } => {
            send.send_replace(Stored::of(&object));
        }
        Event::Deleted(_) => {
            send.send_replace(Stored::Absent);
        }
        Event::Synced => {
            send.send_if_modified(|stored| {
                let is_first = matches!(stored, Stored::Unknown);
                if is_first {
                    *stored = Stored::Absent;
                }
                is_first
            });
        }
        Event::Rewound => {}
    });
    spawner.spawn("ui token", following);
    receive
}

/// Why the Secret could not be written.
#[derive(Debug, thiserror::Error)]
enum Error {
    /// The system has no random bytes.
    #[error("make a random token")]
    Random(#[source] aws_lc_rs::error::Unspecified),
    /// The API refused it, or was not there.
    #[error(transparent)]
    Api(#[from] ApiError),
}

/// Keeps the Secret usable. The caller drops it when another replica leads.
pub async fn keep(
    client: Client,
    argocd: String,
    mut stored: watch::Receiver<Stored>,
    view: watch::Receiver<Option<View>>,
) {
    let secrets = Api::<Secret>::namespaced(client, &argocd);
    let mut healthy = true;
    loop {
        let offered = {
            let view = view.borrow();
            let view = view.as_ref().filter(|view| view.is_synced());
            view.map(|view| view.offer().is_some())
        };
        let decision = decide(&stored.borrow_and_update(), offered);
        let done = carry_out(&secrets, &argocd, &decision).await;
        let failed = done.is_err();
        if let Err(error) = done
            && healthy
        {
            tracing::warn!(
                namespace = argocd, name = keys::UI_SECRET, error = %Chain(&error),
                "cannot write the Secret of the UI; retrying. If that does not help, delete it, and a new one is created"
            );
        }
        healthy = !failed;
        let again = failed || decision == Decision::Wait;
        tokio::select! {
            changed = stored.changed() => {
                if changed.is_err() {
                    // The process stops, and the caller drops this.
                    return std::future::pending().await;
                }
            }
            () = sleep(RETRY), if again => {}
        }
    }
}

async fn carry_out(secrets: &Api<Secret>, argocd: &str, decision: &Decision) -> Result<(), Error> {
    match decision {
        Decision::Leave | Decision::Wait => return Ok(()),
        Decision::Create => {
            let secret = secret(argocd, &Token::generate().map_err(Error::Random)?);
            let created = secrets.create(&PostParams::default(), &secret).await;
            created.map_err(failed("create Secret", keys::UI_SECRET))?;
            tracing::info!(
                namespace = argocd,
                name = keys::UI_SECRET,
                "created the Secret of the UI"
            );
        }
        Decision::Repair {
            version,
            needs_token,
        } => {
            let (label, value) = PART_OF;
            let mut patch = json!({
                "metadata": { "resourceVersion": version, "labels": { label: value } },
            });
            if *needs_token {
                let token = Token::generate().map_err(Error::Random)?;
                let data = json!({ keys::UI_TOKEN: STANDARD.encode(token.expose()) });
                if let Some(fields) = patch.as_object_mut() {
                    fields.insert("data".to_owned(), data);
                }
            }
            let params = PatchParams::default();
            let patched = secrets
                .patch(keys::UI_SECRET, &params, &Patch::Merge(patch))
                .await;
            patched.map_err(failed("correct Secret", keys::UI_SECRET))?;
            tracing::info!(
                namespace = argocd,
                name = keys::UI_SECRET,
                new_token = needs_token,
                "corrected the Secret of the UI"
            );
        }
    }
    Ok(())
}

/// A new Secret with this token.
fn secret(argocd: &str, token: &Token) -> Secret {
    let labels = [PART_OF, MANAGED_BY].map(|(key, value)| (key.to_owned(), value.to_owned()));
    let data = (
        keys::UI_TOKEN.to_owned(),
        ByteString(token.expose().as_bytes().to_vec()),
    );
    Secret {
        metadata: ObjectMeta {
            name: Some(keys::UI_SECRET.to_owned()),
            namespace: Some(argocd.to_owned()),
            labels: Some(labels.into()),
            ..ObjectMeta::default()
        },
        type_: Some("Opaque".to_owned()),
        data: Some(BTreeMap::from([data])),
        ..Secret::default()
    }
}

#[cfg(test)]
mod tests;
