//! Tokens of service accounts for a Pod: asked for by `TokenRequest`, bound to the Pod, renewed in time.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use anyhow::Context;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{
    authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec},
    core::v1::{Pod, ServiceAccount, ServiceAccountTokenProjection},
};
use kube::{
    Api, Client, ResourceExt,
    api::{ObjectMeta, PostParams},
};
use tokio::sync::watch;

/// A token that a projected volume requests.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Wanted {
    /// Empty for the audience of the API server itself.
    pub(crate) audience: String,
    pub(crate) seconds: i64,
}

impl From<&ServiceAccountTokenProjection> for Wanted {
    fn from(projection: &ServiceAccountTokenProjection) -> Self {
        Self {
            audience: projection.audience.clone().unwrap_or_default(),
            seconds: projection.expiration_seconds.unwrap_or(3600), // the default of the API
        }
    }
}

/// A token, hidden from debug output.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Token(String);

impl Token {
    #[cfg(test)]
    pub(crate) const fn new(token: String) -> Self {
        Self(token)
    }

    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// The current tokens.
pub(crate) type Stored = BTreeMap<Wanted, Token>;

/// The longest use of a token, as in the real kubelet, even if it is valid for longer.
const MAX_AGE: Duration = Duration::from_hours(24);

/// When to renew a token: after four fifths of its life.
fn renewal(issued: Timestamp, expires: Timestamp) -> Timestamp {
    let life = Duration::try_from(expires.duration_since(issued)).unwrap_or_default();
    let age = (life * 4 / 5).min(MAX_AGE);
    issued + SignedDuration::try_from(age).unwrap_or_default()
}

/// The tokens that a Pod requests.
fn wanted(pod: &Pod) -> Vec<Wanted> {
    let volumes = pod
        .spec
        .iter()
        .flat_map(|spec| spec.volumes.iter().flatten());
    let sources = volumes
        .filter_map(|volume| volume.projected.as_ref())
        .flat_map(|all| all.sources.iter().flatten());
    let tokens = sources.filter_map(|source| source.service_account_token.as_ref());
    let mut wanted: Vec<Wanted> = tokens.map(Wanted::from).collect();
    wanted.sort();
    wanted.dedup();
    wanted
}

/// Keeps the tokens of a Pod in `retained` until all receivers are gone.
pub(crate) async fn keep(client: Client, pod: Arc<Pod>, retained: watch::Sender<Stored>) {
    let wanted = wanted(&pod);
    let account = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.service_account_name.clone());
    let account = account.unwrap_or_else(|| "default".to_owned());
    let api: Api<ServiceAccount> = Api::namespaced(client, &pod.namespace().unwrap_or_default());
    let mut due: BTreeMap<Wanted, Timestamp> = wanted
        .into_iter()
        .map(|wanted| (wanted, Timestamp::MIN))
        .collect();
    let renew = async {
        while let Some((wanted, at)) = due.iter().min_by_key(|(_, at)| **at) {
            let (wanted, at) = (wanted.clone(), *at);
            let pause = at.duration_since(Timestamp::now());
            tokio::time::sleep(Duration::try_from(pause).unwrap_or_default()).await;
            let next = match request(&api, &account, &pod, &wanted).await {
                Ok((token, renew_at)) => {
                    retained.send_modify(|retained| drop(retained.insert(wanted.clone(), token)));
                    renew_at
                }
                Err(error) => {
                    // The account may not exist yet, or the API is unavailable. The old token stays valid
                    // for a fifth of its life.
                    tracing::debug!(pod = pod.name_any(), account, %error, "no token yet");
                    Timestamp::now() + SignedDuration::from_millis(500)
                }
            };
            due.insert(wanted, next);
        }
    };
    tokio::select! {
        () = renew => {}
        () = retained.closed() => {}
    }
}

async fn request(
    api: &Api<ServiceAccount>,
    account: &str,
    pod: &Pod,
    wanted: &Wanted,
) -> anyhow::Result<(Token, Timestamp)> {
    let audiences = if wanted.audience.is_empty() {
        vec![]
    } else {
        vec![wanted.audience.clone()]
    };
    let request = TokenRequest {
        metadata: ObjectMeta::default(),
        spec: Some(TokenRequestSpec {
            audiences: Some(audiences),
            attestations: None,
            bound_object_ref: Some(BoundObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Pod".to_owned()),
                name: pod.metadata.name.clone(),
                uid: pod.metadata.uid.clone(),
            }),
            expiration_seconds: Some(wanted.seconds),
        }),
        status: None,
    };
    let asked = Timestamp::now();
    let answer = api
        .create_token_request(account, &PostParams::default(), &request)
        .await?;
    let status = answer.status.unwrap_or_default();
    let (token, expires) = status
        .token
        .zip(status.expiration_timestamp)
        .context("an answer without a token")?;
    Ok((Token(token), renewal(asked, expires.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_renewed_before_it_expires_and_at_least_daily() {
        let issued: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let after = |hours| issued + SignedDuration::from_hours(hours);
        assert_eq!(renewal(issued, after(10)), after(8));
        assert_eq!(renewal(issued, after(24 * 365)), after(24));
    }
}
